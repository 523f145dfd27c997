"""Tree-search kernels between two model calls: backup of a wave, selection; SearchSettings.

With a few dozen rows a kernel runs for a microsecond or two, and handing it the arrays
of a search takes as long. So all that is done between two calls is one call of compiled
code, whose argument types are looked up once per search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import allocating_kernel, kernel, kernel_part
from plangym_ext.planners.lockstep.costs import tally, tally_steps
from plangym_ext.planners.trees.gumbel import Halving
from plangym_ext.planners.trees.selection import Selection, select_wave
from plangym_ext.planners.trees.tree import PENDING, Array, NewNodes, Tree, backup, expand


class Tallies(NamedTuple):
    """Counters of a search for each of B trees."""

    done: npt.NDArray[np.int64]  # [B] simulations that are backed up
    in_flight: npt.NDArray[np.int64]  # [B] simulations selected, and not yet backed up
    full: npt.NDArray[np.bool_]  # [B] whether there is no room
    counts: npt.NDArray[np.int64]  # [4, B] model steps, expansions, evaluator rows, restores
    left: npt.NDArray[np.int64]  # [B] leaves that the next wave may have


class Limits(NamedTuple):
    """Limits of a selection."""

    num_simulations: int
    max_model_steps: int  # -1: no limit
    cost: int  # most steps that one simulation takes


class SearchData(NamedTuple):
    """Inputs and outputs common to all waves of a plan."""

    tree: Tree
    selection: Selection
    halving: Halving | None  # None: the rule is not GUMBEL
    tallies: Tallies
    limits: Limits
    discount: float
    first_action: int  # of the action space; the tree counts from 0


class Wave(NamedTuple):
    """Arrays for R leaves: the L selected ones, and the M new nodes among them."""

    rows: npt.NDArray[np.int32]  # [R] tree of each of the L, ascending
    leaves: npt.NDArray[np.int32]  # [R] their nodes
    new_rows: npt.NDArray[np.int32]  # [R] tree of each of the M
    new_leaves: npt.NDArray[np.int32]  # [R] their nodes
    parents: npt.NDArray[np.int32]  # [R] nodes to step from
    actions: npt.NDArray[np.int64]  # [R] to play there


class WaveResult(NamedTuple):
    """A wave whose new nodes have been stepped into and rated."""

    wave: Wave
    sizes: tuple[int, int]  # L and M
    new: NewNodes  # the M


def new_wave(room: int) -> Wave:
    """Return room for R leaves."""
    return Wave._make([*np.empty((5, room), np.int32), np.empty(room, np.int64)])


def no_result(num_actions: int) -> WaveResult:
    """Return the empty result before the first wave."""
    index, flags = np.zeros(0, np.int32), np.zeros(0, np.bool_)
    prior, legal = np.zeros((0, num_actions), np.float32), np.zeros((0, num_actions), np.bool_)
    new = NewNodes(index, index, flags, flags, np.zeros(0), np.zeros(0), prior, legal, flags)
    return WaveResult(new_wave(0), (0, 0), new)


@kernel
def write_and_select(
    data: SearchData, wave_size: int, result: WaveResult, wave: Wave
) -> tuple[int, int]:
    """Write and back up one wave; select the next.

    Args:
        data: the trees, which are written, and what they are searched with.
        wave_size: most leaves per tree of the next wave.
        result: of the wave to write.
        wave: written; room for `wave_size` leaves of every tree.

    Returns:
        L, how many leaves were selected, and M, how many of them are new.
    """
    tree, tallies = data.tree, data.tallies
    write(tree, tallies, data.discount, result)
    allow(tallies, data.limits, wave_size)
    size = select_wave(tree, tallies.left, data.selection, data.halving, wave.rows, wave.leaves)
    tally(tallies.in_flight, wave.rows[:size], 1)
    num_new = 0
    for i in range(size):
        b, leaf = wave.rows[i], wave.leaves[i]
        # Ended nodes that were chosen again are known: the model is not asked about them.
        if tree.kind[b, leaf] == PENDING:
            wave.new_rows[num_new], wave.new_leaves[num_new] = b, leaf
            wave.parents[num_new] = tree.parent[b, leaf]
            wave.actions[num_new] = data.first_action + tree.action[b, leaf]
            num_new += 1
    return size, num_new


@kernel_part
def write(tree: Tree, tallies: Tallies, discount: float, result: WaveResult) -> None:
    """Write the results of a wave's new nodes, and back up all its leaves."""
    size, _ = result.sizes
    rows = result.wave.rows[:size]
    expand(tree, result.new, discount)
    tally_steps(tallies.counts, result.new.rows)
    backup(tree, rows, result.wave.leaves[:size])
    tally(tallies.done, rows, 1)
    tally(tallies.in_flight, rows, -1)
    for b in range(len(tallies.full)):
        tallies.full[b] = tree.size[b] == tree.parent.shape[1]


@kernel_part
def allow(tallies: Tallies, limits: Limits, wave_size: int) -> None:
    """Write the number of leaves that each tree may have in a wave."""
    left = tallies.left
    for b in range(len(left)):
        unbegun = limits.num_simulations - tallies.done[b] - tallies.in_flight[b]
        left[b] = min(wave_size, unbegun)
        if limits.max_model_steps >= 0:
            # Each simulation in flight may still cost as much as any can.
            most = (limits.max_model_steps - tallies.counts[0, b]) // limits.cost
            left[b] = min(left[b], most - tallies.in_flight[b])


@allocating_kernel
def edges(
    parent: Array, action: Array, rows: Array, nodes: Array, first_action: int
) -> tuple[Array, Array]:
    """Return the parents `[L]` int32 of L nodes, and the actions `[L]` int64 that lead to them.

    Args:
        parent: `[B, N]` int32 of the trees.
        action: `[B, N]` int32 of the trees.
        rows: `[L]` int, the tree of each node.
        nodes: `[L]` int, its index there.
        first_action: the action with index 0.
    """
    parents = np.empty(len(rows), np.int32)
    actions = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        parents[i] = parent[rows[i], nodes[i]]
        actions[i] = first_action + action[rows[i], nodes[i]]
    return parents, actions


def for_types_of(function: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a kernel, compiled for the types of `arguments`, that looks up no type again.

    All later arguments must have these types and memory layouts: nothing checks them.
    """
    if not hasattr(function, "get_overload"):
        plain: Callable[..., Any] = function  # NUMBA_DISABLE_JIT is set
        return plain
    typeof: Callable[[Any], Any] = numba.typeof
    types = tuple(typeof(argument) for argument in arguments)
    function.compile(types)
    typed: Callable[..., Any] = function.get_overload(types)
    return typed


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Parameters of a search; see `TreeSearch` for their meaning."""

    num_simulations: int  # UNBOUNDED if only steps or time bound it
    max_model_steps: int | None
    wave_size: int
    capacity: int
    discount: float
    selection: Selection
    num_considered: int = 1
    gumbel_scale: float = 1.0
    root_noise: float = 0.0
    dirichlet_alpha: float = 1.0
    temperature: float = 0.0
    choice: str = "visits"  # what the played action has most of; see `BanditSearch`
    return_tree: bool = False
    stores_states: bool = True
    keep_tree: bool = False
    slots: bool = False
    waves_in_flight: int = 1
    compiled: bool = True  # have compiled code step, where the env offers its rules
