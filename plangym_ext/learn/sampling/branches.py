"""Branch rollouts: returns of an agent after given first actions from stored states."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.masks import mask_width
from plangym_ext.core.slot_stepper import SlotStepper
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.sampling.noise import RowNoise
from plangym_ext.planners.masks import action_masks, has_masks

Ndarray = npt.NDArray[Any]


class Branches(NamedTuple):
    """The results of N branches of at most H steps; arrays belong to the caller."""

    reward: npt.NDArray[np.float32]  # [H, N] of the env; 0 once a branch has ended
    length: npt.NDArray[np.int64]  # [N] steps that were taken
    rest: npt.NDArray[np.float32]  # [N] the critic's value of where it was cut; 0 if terminated

    def of(self, rows: Ndarray) -> Branches:
        """Return some branches, which may repeat; `rows` are `[n]` int."""
        return Branches(self.reward[:, rows], self.length[rows], self.rest[rows])


def play_branches(
    env: SlotStepper, agent: Agent, states: Ndarray, actions: Any, noise: RowNoise, horizon: int
) -> Branches:
    """Play N branches side by side: a given first action from a state, then the agent's.

    All branches that go on are one batch of the env, from slot to slot, and one call of the
    agent. One that terminates, or that the env truncates, is stepped no further. What the env
    itself draws is the same in all branches from one state, as its generator is a part of it.

    Args:
        env: that the states belong to.
        agent: carries nothing, and has values; acts in its mode.
        states: `[N, S]` uint8, of episodes that go on.
        actions: `[N, *act]`, nested as the space: what each branch begins with.
        noise: of N rows, at the step before the first one that the agent chooses.
        horizon: H, steps after which a branch is cut and worth what the critic says.
    """
    count = len(states)
    reward = np.zeros((horizon, count), np.float32)
    length, rest = np.zeros(count, np.int64), np.zeros(count, np.float32)
    slots = env.states.allocate(count)
    try:
        env.states[slots] = states
        going, steps = np.arange(count), noise.steps
        for h in range(horizon):
            # From a slot into itself: the states before are not needed any more.
            found = env.step_slots(actions, slots[going], slots[going])
            reward[h, going], length[going] = found.rewards, h + 1
            shown = _shown(env, found, actions)
            over = found.terminateds | found.truncateds | (h + 1 == horizon)
            cut = np.flatnonzero(over & ~found.terminateds)
            if len(cut):
                # Also where the env truncated; what terminated is worth nothing more.
                rest[going[cut]] = agent.value(some_inputs(shown, cut), None)
            on = np.flatnonzero(~over)
            if not len(on):
                break
            going, drawn = going[on], noise.of(going[on])
            # Each branch at its own step h, however many of the others have ended.
            drawn.move_to(steps[going] + np.uint64(h + 1))
            shown = some_inputs(shown, on)._replace(noise=drawn)
            actions = agent.step(shown, None).action
    finally:
        env.states.free(slots)
    return Branches(reward, length, rest)


def some_inputs(inputs: Inputs, rows: Ndarray) -> Inputs:
    """Return the inputs of some rows, without random numbers; `rows` are `[n]` int."""
    shown = (None if part is None else rows_of(part, rows) for part in inputs._replace(noise=None))
    return Inputs(*shown)


def _shown(env: SlotStepper, found: Any, actions: Any) -> Inputs:
    """Return what the agent is shown after a step of some branches."""
    ended, legal = found.terminateds | found.truncateds, None
    width = mask_width(env.action_space)
    if width is not None and has_masks(found.infos):
        legal = action_masks(found.infos, ended, width)
    reward = found.rewards.astype(np.float32)
    return Inputs(found.obs, actions, reward, np.zeros(len(ended), np.bool_), legal=legal)
