from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.planners.lockstep.node_states import gathered, scatter
from plangym_ext.planners.lockstep.wave_kernels import (
    Limits,
    SearchData,
    Tallies,
    WaveResult,
    allow,
    edges,
    for_types_of,
    new_wave,
    no_result,
    write_and_select,
)
from plangym_ext.planners.trees.selection import PUCT, Selection
from plangym_ext.planners.trees.tree import OPEN, PENDING, ROOT, new_tree


def both(kernel):
    return pytest.mark.parametrize("run", [kernel, kernel.py_func], ids=["jit", "python"])


def tallies(batch, **counted):
    zeros = {"done": np.zeros(batch, np.int64), "in_flight": np.zeros(batch, np.int64)}
    rest = {"full": np.zeros(batch, np.bool_), "counts": np.zeros((4, batch), np.int64)}
    return Tallies(**{**zeros, **rest, **counted}, left=np.zeros(batch, np.int64))


@both(allow)
def test_a_tree_may_have_what_no_limit_forbids(run):
    steps = np.zeros((4, 4), np.int64)
    steps[0] = [0, 0, 0, 7]
    counted = tallies(
        4, done=np.array([0, 9, 5, 0]), in_flight=np.array([0, 0, 4, 1]), counts=steps
    )
    # A wave of 4; 10 simulations; 12 steps, 2 per simulation, (12 - 7) // 2 - 1 = 1.
    run(counted, Limits(10, 12, 2), 4)
    np.testing.assert_array_equal(counted.left, [4, 1, 1, 1])
    run(counted, Limits(10, -1, 2), 4)
    np.testing.assert_array_equal(counted.left, [4, 1, 1, 4])


def data_of(tree, counted, first_action=5):
    rule = Selection(PUCT, 1.5, 0, 0.0, 0.0, 0.0)
    return SearchData(tree, rule, None, counted, Limits(8, -1, 1), 0.9, first_action)


@both(write_and_select)
def test_a_wave_is_selected_and_written_when_it_is_finished(run):
    tree, counted, wave = new_tree(2, 4, 2), tallies(2), new_wave(4)
    data = data_of(tree, counted)
    assert run(data, 2, no_result(2), wave) == (4, 4)
    np.testing.assert_array_equal(wave.rows, [0, 0, 1, 1])
    np.testing.assert_array_equal(wave.new_leaves, [1, 2, 1, 2])
    np.testing.assert_array_equal(wave.parents, [ROOT] * 4)
    np.testing.assert_array_equal(wave.actions, [5, 6, 5, 6])
    np.testing.assert_array_equal(counted.in_flight, [2, 2])
    assert (tree.kind[:, 1:3] == PENDING).all()

    new = no_result(2).new._replace(
        rows=wave.new_rows,
        nodes=wave.new_leaves,
        terminated=np.array([False, True, False, False]),
        truncated=np.zeros(4, np.bool_),
        reward=np.array([1.0, 2.0, 3.0, 4.0]),
        value=np.array([10.0, 20.0, 30.0]),
    )
    size, _ = run(data, 0, WaveResult(wave, (4, 4), new), new_wave(4))
    assert size == 0
    # Tree 0: 1 + 0.9 * 10, and 2 of the ended one; tree 1: 3 + 0.9 * 20, 4 + 0.9 * 30.
    np.testing.assert_allclose(tree.q[:, 1:3], [[10, 2], [21, 31]])
    np.testing.assert_array_equal(tree.kind[1, 1:3], OPEN)
    np.testing.assert_array_equal(counted.done, [2, 2])
    np.testing.assert_array_equal(counted.in_flight, [0, 0])
    np.testing.assert_array_equal(counted.counts, [[2, 2], [2, 2], [0, 0], [2, 2]])
    np.testing.assert_array_equal(counted.full, [False, False])


def test_a_kernel_that_looks_up_no_types_does_the_same():
    found = []
    for direct in (False, True):
        tree, wave = new_tree(2, 4, 2), new_wave(4)
        arguments = (data_of(tree, tallies(2)), 2, no_result(2), wave)
        run = for_types_of(write_and_select, arguments) if direct else write_and_select
        found.append((run(*arguments), wave.leaves.tolist(), tree.size.tolist()))
    assert found[0] == found[1]
    # Where numba compiles nothing there is nothing to choose.
    assert for_types_of(write_and_select.py_func, ()) is write_and_select.py_func


@both(edges)
def test_edges_are_actions_of_the_space(run):
    parent, action = np.array([[-1, 0, 1]], np.int32), np.array([[-1, 1, 0]], np.int32)
    parents, actions = run(parent, action, np.zeros(2, np.int32), np.array([2, 1], np.int32), 5)
    np.testing.assert_array_equal(parents, [1, 0])
    np.testing.assert_array_equal(actions, [5, 6])
    assert actions.dtype == np.int64


def test_states_are_copied_to_and_from_their_nodes():
    rows = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    trees, nodes = np.array([1, 0], np.int32), np.array([2, 1], np.int32)
    for gather, write in ((gathered, scatter), (gathered.py_func, scatter.py_func)):
        found = gather(rows, trees, nodes)
        np.testing.assert_array_equal(found, rows[trees, nodes])
        other = np.zeros_like(rows)
        write(other, trees, nodes, found)
        np.testing.assert_array_equal(other[trees, nodes], found)
        assert np.count_nonzero(other) == np.count_nonzero(found)
