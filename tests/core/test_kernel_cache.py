"""What is compiled is found again by what it was made of, wherever and whenever that is."""

from __future__ import annotations

import hashlib
import os
import sys
import time
import types

import numpy as np
import pytest
from numba.core import event

from plangym_ext.core.compiling.kernel_cache import hash_function

NAME = "module_with_kernels"
SOURCE = """
from typing import NamedTuple
from plangym_ext.core.compiling.jit import kernel, kernel_inline

class Pair(NamedTuple):
    {fields[0]}: float
    {fields[1]}: float

@kernel_inline
def part(x):
    return x / {divisor}

@kernel
def difference(pair):
    return part(pair.a) - part(pair.b)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Import the module anew and call its kernel; the result, and whether it was compiled."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def run(fields="ab", divisor=2):
        module = types.ModuleType(NAME)
        monkeypatch.setitem(sys.modules, NAME, module)
        exec(SOURCE.format(fields=fields, divisor=divisor), vars(module))
        with event.install_recorder("numba:compile") as recorder:
            result = module.difference(module.Pair(6.0, 2.0))
        return result, bool(recorder.buffer)

    return run


@pytest.mark.slow
def test_a_kernel_is_compiled_once_for_all_that_it_is_made_of(run):
    assert run() == (2.0, True)
    assert run() == (2.0, False)
    # What is inlined has changed: 6 / 4 - 2 / 4.
    assert run(divisor=4) == (1.0, True)
    # A field is in another place: 2 / 2 - 6 / 2.
    assert run(fields="ba") == (-2.0, True)
    # The first one is still there.
    assert run() == (2.0, False)


def test_what_nothing_has_read_for_long_is_removed_when_something_is_added(run, tmp_path):
    run()
    first = next(tmp_path.glob("*-difference-*.nbc"))
    old = time.time() - 61 * 24 * 3600
    other, theirs = tmp_path / "unfinished-of-a-process-that-died", tmp_path / "notes.txt"
    for path in (other, theirs):
        path.touch()
        os.utime(path, (old, old))
    os.utime(first, (old, old))
    assert run() == (2.0, False)  # it is read, and so in use
    run(divisor=4)
    assert first.exists()
    assert theirs.exists()
    assert not other.exists()
    os.utime(first, (old, old))
    run(divisor=8)
    assert not first.exists()
    assert len(list(tmp_path.glob("*-difference-*.nbc"))) == 2
    assert run() == (2.0, True)


def test_a_damaged_function_is_passed_over_and_made_again(run, tmp_path):
    """Machine code of which a bit is wrong would run; of a pickle anything could come."""
    run()
    (path,) = tmp_path.glob("*-difference-*.nbc")
    whole = path.read_bytes()
    for place in (0, 30, 60, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        for content in (bytes(damaged), whole[:place]):
            path.write_bytes(content)
            assert run() == (2.0, True)
            assert run() == (2.0, False)
    assert all(one.suffix == ".nbc" for one in tmp_path.iterdir())


def test_what_other_users_may_have_written_is_passed_over(run, tmp_path):
    run()
    (path,) = tmp_path.glob("*-difference-*.nbc")
    path.chmod(0o666)
    assert run() == (2.0, True)
    if os.getuid() == 0:
        os.chown(path, 12345, 12345)
        assert run() == (2.0, True)


def test_what_a_process_that_was_killed_has_begun_is_removed(run, tmp_path):
    left = tmp_path / f".difference-{'0' * 32}.nbc.partial"
    left.touch()
    os.utime(left, (1, 1))
    run()
    assert not left.exists()


def test_without_a_folder_to_keep_it_a_kernel_is_compiled(run, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))
    (tmp_path / "file").write_text("no folder")
    assert run() == (2.0, True)


def test_constants_of_other_modules_and_of_inner_functions_count(monkeypatch):
    other = types.ModuleType("other_module")
    monkeypatch.setitem(sys.modules, "other_module", other)

    def digest(**constants):
        vars(other).update(constants)
        names = {"OFFSET": constants["OFFSET"]}
        exec(
            "import other_module as o\ndef f(x): return sum([y * o.SCALE + OFFSET for y in x])",
            names,
        )
        found = hashlib.blake2b()
        hash_function(names["f"], found, set())
        return found.hexdigest()

    first = digest(SCALE=2.0, OFFSET=1)
    assert digest(SCALE=2.0, OFFSET=1) == first
    assert digest(SCALE=3.0, OFFSET=1) != first
    assert digest(SCALE=2.0, OFFSET=2) != first


@pytest.mark.parametrize("place", ["global", "default"])
def test_every_number_of_a_long_array_within_a_tuple_counts(place):
    def digest(table):
        names = {"TABLES": (1, table)}
        given = "TABLES" if place == "default" else "None"
        exec(f"def f(x, known={given}): return TABLES[1][x]", names)
        found = hashlib.blake2b()
        hash_function(names["f"], found, set())
        return found.hexdigest()

    table = np.zeros(5_000)
    other = table.copy()
    other[2_500] = 1.0
    assert repr((1, table)) == repr((1, other))
    assert digest(table) == digest(table.copy())
    assert digest(table) != digest(other)
