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

from plangym_ext.core.jit import kernel
from plangym_ext.planners.lockstep.waves import tally, tally_steps
from plangym_ext.planners.trees.borrowed import borrowed
from plangym_ext.planners.trees.gumbel import Halving
from plangym_ext.planners.trees.selection import Selection, select_wave
from plangym_ext.planners.trees.tree import PENDING, Array, Tree, backup, expand


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


class Wave(NamedTuple):
    """Room for a wave of at most R leaves: L that were selected, M that the model is asked for."""

    rows: npt.NDArray[np.int32]  # [R] tree of each of the L, ascending
    leaves: npt.NDArray[np.int32]  # [R] their nodes
    new_rows: npt.NDArray[np.int32]  # [R] tree of each of the M
    new_leaves: npt.NDArray[np.int32]  # [R] their nodes
    parents: npt.NDArray[np.int32]  # [R] nodes to step from
    actions: npt.NDArray[np.int64]  # [R] to play there


class Landed(NamedTuple):
    """What a wave has come to."""

    wave: Wave
    sizes: tuple[int, int]  # L and M
    ends: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]  # [M] terminated, truncated
    reward: npt.NDArray[np.float64]  # [M]
    value: npt.NDArray[np.float64]  # [K] of those that were not terminated
    prior: npt.NDArray[np.float32]  # [K, A]; [0, A]: uniform
    legal: npt.NDArray[np.bool_]  # [M, A]; [0, A]: everything


def new_wave(room: int) -> Wave:
    """Return room for R leaves."""
    return Wave._make([*np.empty((5, room), np.int32), np.empty(room, np.int64)])


def nothing_landed(num_actions: int) -> Landed:
    """Return what there is to write before the first wave."""
    flags, empty = np.zeros(0, np.bool_), (0, num_actions)
    numbers = np.zeros(0), np.zeros(0), np.zeros(empty, np.float32)
    return Landed(new_wave(0), (0, 0), (flags, flags), *numbers, np.zeros(empty, np.bool_))


@kernel
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


@kernel
def write(tree: Tree, tallies: Tallies, discount: float, landed: Landed) -> None:
    """Write what is known about the new nodes of a wave, and back it up."""
    wave, (size, num_new) = landed.wave, landed.sizes
    rows, new_rows = wave.rows[:size], wave.new_rows[:num_new]
    reward, value, prior, legal = landed.reward, landed.value, landed.prior, landed.legal
    new = new_rows, wave.new_leaves[:num_new]
    expand(tree, new[0], new[1], landed.ends, reward, discount, value, prior, legal)
    tally_steps(tallies.counts, new_rows)
    backup(tree, rows, wave.leaves[:size])
    tally(tallies.done, rows, 1)
    tally(tallies.flying, rows, -1)
    for b in range(len(tallies.full)):
        tallies.full[b] = tree.size[b] == tree.parent.shape[1]


@kernel
def turn(
    tree: Tree,
    selection: Selection,
    halving: Halving | None,
    discount: float,
    first_action: int,
    tallies: Tallies,
    limits: Limits,
    wave_size: int,
    landed: Landed,
    wave: Wave,
) -> tuple[int, int]:
    """Write and back up what has landed; select the next wave.

    Args:
        tree: the trees.
        selection: the rule.
        halving: the schedule at the roots, if the rule is GUMBEL.
        discount: gamma.
        first_action: the action with index 0.
        tallies: counted up.
        limits: of the plans.
        wave_size: how many leaves each tree may have at most.
        landed: see there.
        wave: written; room for `wave_size` leaves of every tree.

    Returns:
        L, how many leaves were selected, and M, how many of them are new.
    """
    tree, halving, tallies = borrowed(tree), borrowed(halving), borrowed(tallies)
    landed, wave = borrowed(landed), borrowed(wave)
    write(tree, tallies, discount, landed)
    left = allowances(tallies, limits, wave_size)
    size = select_wave(tree, left, selection, halving, wave.rows, wave.leaves)
    tally(tallies.flying, wave.rows[:size], 1)
    num_new = 0
    for i in range(size):
        b, leaf = wave.rows[i], wave.leaves[i]
        # Ended nodes that were chosen again have no need of the model.
        if tree.kind[b, leaf] == PENDING:
            wave.new_rows[num_new], wave.new_leaves[num_new] = b, leaf
            wave.parents[num_new] = tree.parent[b, leaf]
            wave.actions[num_new] = first_action + tree.action[b, leaf]
            num_new += 1
    return size, num_new


def for_types_of(kernel: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a kernel, compiled for the types of `arguments`, that looks at no type again.

    Whoever calls it sees to it that types and memory layouts are these.
    """
    if not hasattr(kernel, "get_overload"):
        plain: Callable[..., Any] = kernel  # numba is told to compile nothing
        return plain
    typeof: Callable[[Any], Any] = numba.typeof
    types = tuple(typeof(argument) for argument in arguments)
    kernel.compile(types)
    typed: Callable[..., Any] = kernel.get_overload(types)
    return typed
