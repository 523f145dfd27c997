"""What is compiled is found again by what it was made of, wherever and whenever that is."""

from __future__ import annotations

import hashlib
import os
import sys
import time
import types

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
