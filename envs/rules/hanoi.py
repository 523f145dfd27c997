"""Hanoi env: the towers of Hanoi, disks moved from peg to peg, never onto a smaller one."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.core.options import Range
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv


class Hanoi(NamedTuple):
    """The env's arguments."""

    disks: int
    pegs: int
    reward: float
    invalid_reward: float


class HanoiEnv(RulesEnv):
    """A tower of `disks` on the first of `pegs` pegs, to be moved to the last.

    Action `source * (pegs - 1) + k` moves the top disk of a peg to the k-th of the other pegs. A
    move without a disk or onto a smaller one changes nothing, and pays `invalid_reward`. The move
    that completes the tower on the last peg pays `reward` and ends the episode; all others pay 0.
    With three pegs the shortest solution has `2**disks - 1` moves. Nothing is random.

    The info `action_mask` says which moves are legal.

    The observation is `[disks, pegs]` float32, fresh: the peg of each disk, one-hot, the smallest
    first.

    Args:
        disks: 1 to 20.
        pegs: 3 to 10.
        reward: of the solution.
        invalid_reward: of a move that changes nothing.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: E. Lucas 1883, "La tour d'Hanoi".
    """

    def __init__(
        self,
        disks: Annotated[int, Range(1, 20)] = 4,
        pegs: Annotated[int, Range(3, 10)] = 3,
        *,
        reward: float = 1.0,
        invalid_reward: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        moves = pegs * (pegs - 1)
        state, info = np.dtype(("u1", (disks,))), np.dtype([("action_mask", "i1", (moves,))])
        params = Hanoi(int(disks), int(pegs), float(reward), float(invalid_reward))
        kernel = Kernel(state, step, reset, observe, params, info, check, describe)
        obs = spaces.Box(0.0, 1.0, (disks, pegs), np.float32)
        super().__init__(kernel, obs, spaces.Discrete(moves), render_mode=render_mode)

    def text(self) -> str:
        """Return a line for each peg: its disks, the largest first."""
        pegs = [
            np.flatnonzero(self.state == peg)[::-1] + 1 for peg in range(self.kernel.params.pegs)
        ]
        return "\n".join("|" + "".join(f" {disk}" for disk in disks) for disks in pegs)


@compiled
def _target(params: Any, action: int) -> int:
    """Return the peg that an action moves a disk to."""
    source, k = action // (params.pegs - 1), action % (params.pegs - 1)
    return k if k < source else k + 1


@compiled
def _moved(state: Any, params: Any, action: int) -> int:
    """Return the disk that an action may move, -1 if there is none."""
    source, target = action // (params.pegs - 1), _target(params, action)
    # The smallest disk on either peg is its top.
    for disk in range(params.disks):
        if state[disk] == source:
            return disk
        if state[disk] == target:
            return -1
    return -1


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Move a disk."""
    disk, reward = _moved(state, params, action), params.invalid_reward
    if disk >= 0:
        state[disk], reward = _target(params, action), 0.0
    solved = True
    for peg in state:
        solved = solved and peg == params.pegs - 1
    describe(state, params, info)
    return params.reward if solved and disk >= 0 else reward, solved, False


def reset(state: Any, params: Any) -> None:
    """Put all disks on the first peg."""
    state[:] = 0


@compiled
def describe(state: Any, params: Any, info: Any) -> None:
    """Write which moves are legal."""
    for action in range(info["action_mask"].size):
        info["action_mask"][action] = _moved(state, params, action) >= 0


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the pegs, one-hot."""
    obs[:] = 0.0
    for disk in range(params.disks):
        obs[disk, state[disk]] = 1.0


def check(state: Any, params: Any) -> bool:
    """Return whether there are such pegs."""
    return bool(np.max(state) < params.pegs)
