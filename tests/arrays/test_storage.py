"""Blocks of shared memory inside one process; `test_processes` crosses borders."""

import gc
import os
import pickle

import numpy as np
import pytest

from plangym_ext.arrays import SharedBlock, storage
from plangym_ext.errors import ArrayClosed, StorageError

pytestmark = pytest.mark.skipif(not storage.ANONYMOUS, reason="needs memfd and /proc")


def descriptors():
    """Descriptors of this process that belong to blocks, mappings included."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:  # the listing's own
            continue
    return sum("plangym_" in link for link in links)


@pytest.fixture(params=["anonymous", "named"])
def named(request, monkeypatch):
    """Run on both kinds of segment; named ones are for systems without memfd."""
    monkeypatch.setattr(storage, "ANONYMOUS", request.param == "anonymous")
    return request.param == "named"


def names():
    ours = f"plangym_{os.getpid()}_"  # processes beside this one run tests too
    return [name for name in os.listdir("/dev/shm") if name.startswith(ours)]


def test_a_block_is_zeros_and_arrays_share_it(named):
    block = SharedBlock.create(64)
    assert block.nbytes == 64
    a, b = block.ndarray((4,), "i8"), block.ndarray((2, 2), "i8", offset=32)
    assert not a.any()
    a[:] = 7
    b[:] = 5
    np.testing.assert_array_equal(block.ndarray((8,), "i8"), [7] * 4 + [5] * 4)
    block.close()


def test_nothing_is_left_when_the_last_array_is_gone(named):
    gc.collect()
    before = descriptors()
    block = SharedBlock.create(4096)
    data = block.ndarray((512,), "i8")
    assert len(names()) == named
    del block
    assert not names()
    data[:] = 3  # the mapping lives as long as the array
    assert data.sum() == 1536
    del data
    assert descriptors() == before


def test_close_is_idempotent_and_leaves_arrays_valid(named):
    block = SharedBlock.create(16)
    data = block.ndarray((2,), "i8")
    block.close()
    block.close()
    data[:] = 3
    assert data.tolist() == [3, 3]
    assert (block.closed, block.fd, repr(block)) == (True, -1, "SharedBlock(nbytes=16, closed)")
    assert not names()
    for use in (lambda: block.ndarray((2,), "i8"), lambda: pickle.dumps(block)):
        with pytest.raises(ArrayClosed, match="closed block of 16 bytes"):
            use()


def test_unpickling_here_gives_the_same_mapping(named):
    block = SharedBlock.create(16)
    before = descriptors()
    assert pickle.loads(pickle.dumps(block)) is block
    assert descriptors() == before
    assert len(pickle.dumps(block)) < 150
    pickled = pickle.dumps(block)
    block.close()
    with pytest.raises(StorageError, match=r"16 bytes.*must (live|keep it open)"):
        pickle.loads(pickled)


def test_a_reused_descriptor_is_not_mistaken_for_the_block():
    block = SharedBlock.create(16)
    pickled, fd = pickle.dumps(block), block.fd
    block.close()
    read, write = os.pipe()
    other = SharedBlock.create(16)
    try:
        taken = os.dup2(other.fd, fd) if fd not in (read, write, other.fd) else fd
        with pytest.raises(StorageError, match=f"descriptor {fd} of process {os.getpid()}"):
            pickle.loads(pickled)
        if taken not in (read, write, other.fd):
            os.close(taken)
    finally:
        os.close(read)
        os.close(write)


def test_attach_owns_the_descriptor():
    block = SharedBlock.create(16)
    other = SharedBlock.attach(os.dup(block.fd), 16)
    other.ndarray((2,), "i8")[:] = 4
    assert block.ndarray((2,), "i8").tolist() == [4, 4]
    fd = other.fd
    other.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert not block.closed


def test_attach_refuses_what_is_no_block():
    with pytest.raises(StorageError, match=r"descriptor 9999 must be open.*pass_fds"):
        SharedBlock.attach(9999, 16)
    block = SharedBlock.create(16)
    before = descriptors()
    with pytest.raises(StorageError, match="must hold at least 17 bytes; it holds 16"):
        SharedBlock.attach(os.dup(block.fd), 17)
    assert descriptors() == before


@pytest.mark.parametrize(
    ("nbytes", "error", "message"),
    [
        (0, ValueError, "at least 1; got 0"),
        (-5, ValueError, "at least 1; got -5"),
        (1.5, TypeError, "must be an int; got 1.5"),
        (True, TypeError, "must be an int; got True"),
        (1 << 62, StorageError, f"could not reserve {1 << 62} bytes"),
        (1 << 70, StorageError, f"could not reserve {1 << 70} bytes"),
    ],
)
def test_impossible_sizes_are_refused(named, nbytes, error, message):
    before = descriptors()
    with pytest.raises(error, match=message):
        SharedBlock.create(nbytes)
    assert descriptors() == before
    assert not names()


def test_the_limit_on_open_files_is_reported(monkeypatch):
    def no_more(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", no_more)
    with pytest.raises(StorageError, match=r"Too many open files.*raise the limit"):
        SharedBlock.create(16)


def test_arrays_must_fit_in_the_block():
    block = SharedBlock.create(16)
    for shape, offset in [((3,), 0), ((2,), 8), ((1,), -8)]:
        with pytest.raises(ValueError, match=r"must lie within 0\.\.16 bytes"):
            block.ndarray(shape, "i8", offset)
