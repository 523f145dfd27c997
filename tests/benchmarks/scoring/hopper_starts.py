"""States of a hopper that stands and hops: where a planner has been that knows what standing is.

From most starts of `hopper-hop` no sequence of actions that is tried earns anything, and an agent
that plays at random hardly ever does: it learns from states that it would not come to by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext import StateSet
from plangym_ext.planners import ICEM
from plangym_ext.planners.evaluators import from_value
from scoring.cells import Say

SEEDS = (1, 2, 3, 4, 5, 6)
#: Decisions that are planned of an episode, and those before its end that are left.
MOVES, LEFT = 140, 20
#: After so many decisions without a reward of 1 an episode is given up.
_PATIENCE = 46
#: An episode is used that has earned so much, from so long before its first reward on, but for its
#: last states.
_ENOUGH, _BEFORE, _LAST = 10.0, 12, 8
_NEIGHBOURS = 3
OPTIONS: dict[str, Any] = {
    "num_simulations": 224,
    "horizon": 20,
    "num_knots": 6,
    "spline": "cubic",
    "iterations": 4,
    "init_std": 0.8,
    "noise_beta": 0.5,
    "num_elites": 16,
    "discount": 1.0,
}


def standing(obs: np.ndarray) -> np.ndarray:
    """What an end is worth, `[n]`: the torso far above the foot, and upright.

    Args:
        obs: `[n, 15]`; its second to sixth numbers are the angles of torso, waist, hip, knee and
            ankle.
    """
    torso, waist, hip, knee = obs[:, 1:5].T
    # Along the chain of links, whose lengths are those of the model.
    height = 0.125 * np.cos(torso)
    for length, angle in (
        (0.2, torso + waist),
        (0.33, torso + waist + hip),
        (0.32, torso + waist + hip + knee),
    ):
        height = height + length * np.cos(angle)
    upright = (1 + np.cos(obs[:, 1])) / 2
    return 6.0 * (np.clip((height + 0.4) / 1.1, 0.0, 1.0) * (0.5 + 0.5 * upright))


def gathered(env: Any, say: Say) -> StateSet:
    """Plan in some episodes, and return states that they came through, and some beside them.

    Planning begins late in an episode, so that those which begin in the states are short: one that
    has fallen earns nothing until its end.
    """
    planner = ICEM(evaluator=from_value(standing), **OPTIONS)
    visited = [_visited(env, planner, seed, say) for seed in SEEDS]
    states = np.concatenate([found for found in visited if len(found)])
    rng = np.random.default_rng(0)
    # A step further, by chance: a state is kept with what is observed in it.
    states = np.repeat(states, _NEIGHBOURS, axis=0)
    actions = rng.uniform(-0.5, 0.5, (len(states), *env.action_space.shape)).astype(np.float32)
    out = env.step_batch(actions, states=states)
    goes_on = ~(out.terminateds | out.truncateds)
    return StateSet(out.states[goes_on], out.obs[goes_on])


def _visited(env: Any, planner: ICEM, seed: int, say: Say) -> np.ndarray:
    """Return the states `[n, S]` of an episode from shortly before its first reward on."""
    state, obs, _ = env.reset(seed=seed)
    planner.reset()
    idle = np.zeros(env.action_space.shape, np.float32)
    for _ in range(500 - MOVES - LEFT):
        state, obs, *_ = env.step(idle, state=state)
    rng = np.random.default_rng(seed)
    states, rewards = [], []
    for move in range(MOVES):
        plan = planner.plan(env, state, rng=rng, obs=obs)
        states.append(state.copy())
        state, obs, reward, *_ = env.step(plan.action, state=state)
        rewards.append(float(reward))
        say(f"episode {seed}: move {move + 1} of {MOVES}, {sum(rewards):.1f}")
        if move + 1 == _PATIENCE and sum(rewards) < 1.0:
            break
    if sum(rewards) < _ENOUGH:
        return np.zeros((0, 0), np.uint8)
    first = int(np.flatnonzero(np.array(rewards) > 0.0)[0])
    return np.stack(states)[max(0, first - _BEFORE) : -_LAST]
