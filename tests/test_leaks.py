"""The leak check can fail: each kind of leak is named, and harmless ones are not."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import leaks
import pytest

pytest_plugins = ["pytester"]

TESTS = Path(leaks.__file__).parent


def test_nothing_is_reported_when_nothing_is_left():
    before = leaks.snapshot()
    with open(__file__) as file:
        file.read(1)
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert leaks.leaked(before) == []


def test_a_running_child_is_reported():
    before = leaks.snapshot()
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert leaks.leaked(before, grace=0) == [f"child process {child.pid}: sleep"]
    finally:
        child.kill()
        child.wait()


def test_a_zombie_is_reported_until_it_is_reaped():
    before = leaks.snapshot()
    child = subprocess.Popen(["true"])
    assert leaks.wait_until(lambda: not leaks.is_running(child.pid))
    assert leaks.leaked(before, grace=0) == [f"child process {child.pid}: true"]
    child.wait()
    assert leaks.leaked(before) == []


def test_an_open_descriptor_is_reported():
    before = leaks.snapshot()
    read, write = os.pipe()
    try:
        inode = os.fstat(read).st_ino
        assert leaks.leaked(before, grace=0) == [
            f"file descriptor {read}: pipe:[{inode}]",
            f"file descriptor {write}: pipe:[{inode}]",
        ]
    finally:
        os.close(read)
        os.close(write)


def test_a_null_device_that_stays_open_is_harmless():
    before = leaks.snapshot()
    fd = os.open(os.devnull, os.O_RDONLY)
    try:
        assert leaks.leaked(before, grace=0) == []
    finally:
        os.close(fd)


def test_a_memory_file_is_reported_open_and_when_only_its_mapping_is_left():
    before = leaks.snapshot()
    fd = os.memfd_create("leaky")
    os.ftruncate(fd, 4096)
    assert leaks.leaked(before, grace=0) == [f"file descriptor {fd}: /memfd:leaky (deleted)"]
    mapping = mmap.mmap(fd, 4096)
    inode = os.fstat(fd).st_ino
    os.close(fd)
    lines = leaks.leaked(before, grace=0)
    # Before Python 3.13 the mapping also keeps a duplicate of the descriptor.
    assert lines[-1] == f"mapped memory file /memfd:leaky (deleted) (inode {inode})"
    mapping.close()
    assert leaks.leaked(before) == []


def test_a_named_segment_is_reported():
    before = leaks.snapshot()
    path = f"/dev/shm/plangym_test_{os.getpid()}"
    with open(path, "w"):
        pass
    try:
        assert leaks.leaked(before, grace=0) == [f"shared memory segment {path}"]
    finally:
        os.unlink(path)


def test_segments_of_other_programs_are_not_reported():
    # Of a program that runs, and of one that writes no number.
    stranger = os.getppid()
    before = leaks.snapshot()
    paths = [f"/dev/shm/plangym_{stranger}_0a1b", f"/dev/shm/a_program_of_its_own_{os.getpid()}x"]
    try:
        for path in paths:
            Path(path).touch()
        assert leaks.leaked(before, grace=0) == []
    finally:
        for path in paths:
            os.unlink(path)


def test_a_segment_of_a_child_that_was_killed_is_reported():
    before = leaks.snapshot()
    with subprocess.Popen(["true"]) as child:
        pass
    path = f"/dev/shm/plangym_{child.pid}_0a1b"
    Path(path).touch()
    try:
        assert leaks.leaked(before, grace=0) == [f"shared memory segment {path}"]
    finally:
        os.unlink(path)


def test_a_segment_with_any_name_is_reported_while_it_is_open_or_mapped():
    before = leaks.snapshot()
    path = Path("/dev/shm/no_number")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, 4096)
    line = f"shared memory segment {path}"
    try:
        assert line in leaks.leaked(before, grace=0)
        mapping = mmap.mmap(descriptor, 4096)
        os.close(descriptor)
        assert line in leaks.leaked(before, grace=0)
        mapping.close()
        assert leaks.leaked(before, grace=0) == []
    finally:
        path.unlink()


MAKES_A_SEMAPHORE = """
import multiprocessing, sys
lock = multiprocessing.get_context("spawn").Lock()
print(lock._semlock.name, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_foreign_semaphore_is_not_reported():
    # A child's own would be: what lies between makes it a stranger.
    before = leaks.snapshot()
    starts_it = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    with subprocess.Popen(
        [sys.executable, "-c", starts_it, MAKES_A_SEMAPHORE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as between:
        name = between.stdout.readline().strip().lstrip("/")
        assert os.path.exists(f"/dev/shm/sem.{name}")
        assert not [line for line in leaks.leaked(before, grace=0) if name in line]


@pytest.mark.slow
def test_the_fixture_fails_a_leaky_test_and_passes_the_next(pytester):
    # In a process of its own, so that what the inner test leaves ends with it.
    pytester.makeconftest((TESTS / "conftest.py").read_text())
    pytester.makepyprojecttoml(f"[tool.pytest.ini_options]\npythonpath = [{str(TESTS)!r}]")
    pytester.makepyfile(
        """
        import os

        def test_leaks_a_pipe():
            os.pipe()

        def test_is_clean():
            pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:xdist", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*left behind:*", "*file descriptor *: pipe:*"])
