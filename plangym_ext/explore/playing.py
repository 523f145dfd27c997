"""Replay of a trajectory from the reset: verification and demonstration states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.files.state_set import StateSet
from plangym_ext.core.masks import MASK, checked_mask
from plangym_ext.core.numbers import at_least, check_kind
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.errors import InvalidAnswer, InvalidOption
from plangym_ext.explore.go_explore import GoExplore
from plangym_ext.states.envelope import stacked_rows, state_content


class Stepped(NamedTuple):
    """A step of a replayed trajectory."""

    state: npt.NDArray[np.uint8]  # [S]
    obs: Any
    reward: float
    ended: bool
    info: dict[str, Any]


def steps_again(env: PlanEnv, seed: int, actions: npt.NDArray[Any]) -> Iterator[Stepped]:
    """Reset an env and yield its steps by given actions; it may be rendered between steps.

    Args:
        env: is moved.
        seed: of the reset.
        actions: `[T, *act]`.
    """
    env.reset(seed=seed)
    for action in actions:
        out: Any = env.step(action, return_state=True)
        state, obs, reward, terminated, truncated, info = out
        yield Stepped(state, obs, float(reward), terminated or truncated, info)


def verify(explorer: GoExplore, cell: int) -> None:
    """Play a trajectory from a reset and compare its end with the archive, bit for bit.

    Raises:
        InvalidAnswer: the state at the end, what was earned or the cell is another.
    """
    check_kind("verify", explorer, GoExplore, "a GoExplore")
    archive = explorer.archive
    actions = archive.trajectory(cell)
    state, obs, info = explorer.env.reset(seed=explorer.seed)
    score, ended = 0.0, False
    for step in steps_again(explorer.env, explorer.seed, actions):
        state, obs, info, ended = step.state, step.obs, step.info, step.ended
        score += step.reward
    found = {
        "its length": (len(actions), int(archive.steps[cell])),
        # However wide they are: the env may have widened its rows since.
        "the state": (state_content(state), state_content(archive.states[cell])),
        # Added in the order of play, as the archive has added them: equal to the last bit.
        "the score": (score, float(archive.scores[cell])),
        "its ending": (ended, bool(archive.ended[cell])),
        "the cell": (explorer.cells_of(obs, info).tolist(), archive.cells[cell].tolist()),
    }
    for name, (played, told) in found.items():
        if played != told:
            both = "" if isinstance(played, bytes) else f": {played!r}, not {told!r}"
            raise InvalidAnswer(
                f"verify: {name} of the trajectory to cell {cell} differs in a replay from "
                f"reset(seed={explorer.seed}){both}. The env does not depend on seed and states "
                f"alone; see check_env."
            )


def demonstration(explorer: GoExplore, cell: int | None = None, *, every: int = 1) -> StateSet:
    """Return the states along a trajectory in order, for `BackwardStarts`.

    Args:
        explorer: whose env is reset and stepped.
        cell: number of the cell; None: the best.
        every: steps from one state to the next; the last one is as near to the end as any.

    Returns:
        The state before the first step and the state after each step, except one that ends the
        episode; `to_go` is what the trajectory earned from there on.

    Raises:
        InvalidOption: the trajectory has no steps.
    """
    check_kind("demonstration", explorer, GoExplore, "a GoExplore")
    every = at_least("demonstration: every", every, 1)
    archive, env = explorer.archive, explorer.env
    actions = archive.trajectory(archive.best if cell is None else cell)
    if not len(actions):
        raise InvalidOption(
            "demonstration: the trajectory has no steps: episodes begin in this cell. Explore "
            "longer, or name another cell, if the rewards are costs."
        )
    state, obs, info = env.reset(seed=explorer.seed)
    steps = list(steps_again(env, explorer.seed, actions))
    reached = [Stepped(state, obs, 0.0, False, info), *steps]
    total = sum(step.reward for step in steps)
    # earned[i] includes the reward of the step that led to i: what is left is to go from there.
    earned = np.cumsum([step.reward for step in reached])
    # Counted from the end, so that the last one is always among them.
    lived = [i for i, step in enumerate(reached) if not step.ended][::-1][::every][::-1]
    space = env.action_space
    masks = [checked_mask(reached[i].info.get(MASK), space, "demonstration") for i in lived]
    return StateSet(
        stacked_rows([reached[i].state for i in lived]),
        SpaceLayout(env.observation_space, objects=True).stack([reached[i].obs for i in lived]),
        None if masks[0] is None else np.array(masks, np.bool_),
        total - earned[lived],
    )
