"""Between two calls of the model: what a wave has come to is written, the next is selected.

With a few dozen rows a kernel runs for a microsecond or two, and handing it the arrays
of a search takes as long. So all kernels of a wave are one call of compiled code, whose
argument types are looked at once per search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from plangym_ext.planners.borrowed import borrowed
from plangym_ext.planners.gumbel import Halving
from plangym_ext.planners.selection import Selection, select_wave
from plangym_ext.planners.tree import Array, Tree, backup, expand
from plangym_ext.planners.waves import edges, pending, tally, tally_steps


class Tallies(NamedTuple):
    """What a search counts for each of B trees."""

    done: npt.NDArray[np.int64]  # [B] simulations
    flying: npt.NDArray[np.int64]  # [B] simulations in flight
    full: npt.NDArray[np.bool_]  # [B] whether there is no room
    counts: npt.NDArray[np.int64]  # [4, B] model steps, expansions, evaluator rows, restores


class Limits(NamedTuple):
    """How much may be selected."""

    num_simulations: int
    max_model_steps: int  # -1: no limit
    cost: int  # most steps that one simulation takes


class Landed(NamedTuple):
    """What a wave of L leaves has come to, M of them new and K of these rated."""

    rows: npt.NDArray[np.int32]  # [L] tree of each leaf, ascending
    leaves: npt.NDArray[np.int32]  # [L] its node
    new_rows: npt.NDArray[np.int32]  # [M] tree of those that the model was asked about
    new_leaves: npt.NDArray[np.int32]  # [M] their nodes
    ends: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]  # [M] terminated, truncated
    reward: npt.NDArray[np.float64]  # [M]
    value: npt.NDArray[np.float64]  # [K]
    prior: npt.NDArray[np.float32]  # [K, A]; [0, A]: uniform
    legal: npt.NDArray[np.bool_]  # [M, A]; [0, A]: everything


def nothing_landed(num_actions: int) -> Landed:
    """Return what there is to write before the first wave."""
    none, flags = np.zeros(0, np.int32), np.zeros(0, np.bool_)
    empty = (0, num_actions)
    numbers = np.zeros(0), np.zeros(0), np.zeros(empty, np.float32)
    return Landed(none, none, none, none, (flags, flags), *numbers, np.zeros(empty, np.bool_))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def allowances(tallies: Tallies, limits: Limits, wave_size: int) -> Array:
    """Return how many leaves of a wave each tree may have, `[B]`."""
    left = np.empty(len(tallies.done), np.int64)
    for b in range(len(left)):
        unbegun = limits.num_simulations - tallies.done[b] - tallies.flying[b]
        left[b] = min(wave_size, unbegun)
        if limits.max_model_steps >= 0:
            # What is in flight may cost as much as it can.
            most = (limits.max_model_steps - tallies.counts[0, b]) // limits.cost
            left[b] = min(left[b], most - tallies.flying[b])
    return left


@numba.njit(cache=True, nogil=True, error_model="numpy")
def turn(
    tree: Tree,
    selection: Selection,
    halving: Halving,
    discount: float,
    first_action: int,
    tallies: Tallies,
    limits: Limits,
    wave_size: int,
    landed: Landed,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Write and back up what has landed; select the next wave, and return it.

    Args:
        tree: the trees.
        selection: the rule.
        halving: the schedule at the roots; only GUMBEL looks at it.
        discount: gamma.
        first_action: the action with index 0.
        tallies: counted up.
        limits: of the plans.
        wave_size: how many leaves each tree may have at most.
        landed: see there.

    Returns:
        Of the L leaves that were selected, fresh arrays of int32: the tree of each `[L]`,
        ascending, and its node `[L]`. Of the M that the model is to be asked about: the
        same `[M]` and `[M]`, the nodes to step from `[M]`, and the actions `[M]` int64.
    """
    tree, halving, tallies = borrowed(tree), borrowed(halving), borrowed(tallies)
    reward, value, prior, legal = landed.reward, landed.value, landed.prior, landed.legal
    new_rows, new_leaves = landed.new_rows, landed.new_leaves
    expand(tree, new_rows, new_leaves, landed.ends, reward, discount, value, prior, legal)
    tally_steps(tallies.counts, new_rows)
    backup(tree, landed.rows, landed.leaves)
    tally(tallies.done, landed.rows, 1)
    tally(tallies.flying, landed.rows, -1)
    for b in range(len(tallies.full)):
        tallies.full[b] = tree.size[b] == tree.parent.shape[1]
    left = allowances(tallies, limits, wave_size)
    room = 0
    for b in range(len(left)):
        room += max(0, left[b])
    rows, leaves = np.empty(room, np.int32), np.empty(room, np.int32)
    count = select_wave(tree, left, selection, halving, rows, leaves)
    rows, leaves = rows[:count], leaves[:count]
    tally(tallies.flying, rows, 1)
    # Ended nodes that were chosen again have no need of the model.
    new_rows, new_leaves = pending(tree.kind, rows, leaves)
    parents, actions = edges(tree.parent, tree.action, new_rows, new_leaves, first_action)
    return rows, leaves, new_rows, new_leaves, parents, actions


def for_types_of(kernel: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a kernel, compiled for the types of `arguments`, that looks at no type again.

    Whoever calls it sees to it that types and memory layouts are these.
    """
    if not hasattr(kernel, "get_overload"):
        return kernel  # type: ignore[no-any-return] # numba is told to compile nothing
    types = tuple(numba.typeof(argument) for argument in arguments)
    kernel.compile(types)
    typed: Callable[..., Any] = kernel.get_overload(types)
    return typed
