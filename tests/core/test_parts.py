"""Parts of kernels are compiled once, within what calls them, and alone where Python calls."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numba.core import event
from numba.core.errors import NumbaError
from numba.core.runtime import _nrt_python, rtsys

from plangym_ext.core.compiling import jit
from plangym_ext.core.compiling.jit import (
    HAS_PARTS,
    allocating_kernel,
    allocating_part,
    kernel,
    kernel_inline,
    kernel_part,
)

pytestmark = pytest.mark.slow
of_this_numba = pytest.mark.skipif(not HAS_PARTS, reason="parts are for another version of numba")


@pytest.fixture(autouse=True)
def _nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))


def compiled(recorder):
    """How often each function was compiled, by its name."""
    names = [e.data["dispatcher"].py_func.__name__ for _, e in recorder.buffer if e.is_start]
    return {name: names.count(name) for name in names}


@of_this_numba
def test_a_part_is_compiled_once_for_indices_of_all_kinds():
    @kernel_part
    def item(values, i):
        return values[i]

    @kernel
    def total(values, places):
        found = item(values, 0)
        for i in range(len(places)):
            found += item(values, i) + 100 * item(values, places[i])
        return found

    values, places = np.array([1.0, 2.0, 4.0]), np.array([2, 0], np.int32)
    with event.install_recorder("numba:compile") as recorder:
        # 1 + (1 + 400) + (2 + 100)
        assert total(values, places) == 504.0
    assert compiled(recorder) == {"total": 1, "item": 1}


def test_parts_of_parts_and_their_exceptions_reach_the_kernel():
    @kernel_inline
    def inner(x):
        if x < 0:
            raise ValueError("below zero")
        return x + 1

    @kernel_part
    def outer(x):
        return 10 * inner(x)

    @kernel
    def whole(x):
        return outer(x) + inner(x)

    assert whole(2) == 33
    with pytest.raises(ValueError, match="below zero"):
        whole(-1)


def test_under_another_numba_parts_are_kernels(monkeypatch):
    monkeypatch.setattr(jit, "HAS_PARTS", False)
    assert jit.part_options() == {}

    @kernel_part
    def below(x):
        return x - 1

    @kernel
    def whole(x):
        return below(x) * 2

    assert type(below) is type(whole)
    assert (whole(3), below(1.5)) == (4, 0.5)


@of_this_numba
@pytest.mark.parametrize("decorator", [kernel_part, kernel_inline])
def test_from_python_a_part_is_a_kernel_of_its_own(decorator, tmp_path):
    @decorator
    def twice(x):
        return x + x

    @kernel
    def four_times(x):
        return twice(twice(x))

    assert four_times(3) == 12
    with event.install_recorder("numba:compile") as recorder:
        assert twice(3) == 6
        assert twice(1.5) == 3.0
        assert twice(4) == 8
    # Of each type once, at its first call.
    assert compiled(recorder) == {"twice": 2}
    # The kernel, and what Python has called.
    assert len(list(tmp_path.glob("*.nbc"))) == 3


def test_a_kernel_that_makes_arrays_is_refused():
    @allocating_kernel
    def twos(size):
        return np.full(size, 2.0)

    @kernel
    def two(size):
        return np.full(size, 2.0)[0]

    # What numba has compiled for others must not do here.
    np.testing.assert_array_equal(twos(3), [2.0, 2.0, 2.0])
    with pytest.raises(NumbaError):
        two(3)


def test_a_kernel_that_returns_a_view_is_refused():
    @allocating_kernel
    def rest(values):
        return values[1:]

    @kernel
    def others(values):
        return values[1:]

    np.testing.assert_array_equal(rest(np.arange(3.0)), [1.0, 2.0])
    with pytest.raises(NumbaError):
        others(np.arange(3.0))


def test_what_an_allocating_part_makes_is_freed():
    @allocating_part
    def spread(values):
        ordered = values.copy()
        ordered.sort()
        return ordered[-1] - ordered[0]

    @kernel
    def most(rows):
        found = 0.0
        for row in range(len(rows)):
            found = max(found, spread(rows[row]))
        return found

    rows = np.array([[1.0, 5.0, 2.0], [9.0, 2.0, 4.0]])
    assert most(rows) == 7.0
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    assert most(rows) == 7.0
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0


def test_the_arrays_of_a_kernel_are_those_of_its_caller():
    @kernel
    def double(values):
        for i in range(len(values)):
            values[i] *= 2.0
        return values

    values = np.arange(3.0)
    assert double(values) is values
    assert sys.getrefcount(values) == 2
    np.testing.assert_array_equal(values, [0.0, 2.0, 4.0])
