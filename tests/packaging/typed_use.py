"""A script as users write it; `tox -e types` checks its types against the installed wheel."""
# ruff: noqa: RUF059 - unpacked as users write it

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import plangym_ext
from plangym_ext.core.results import StateTransitions, Transitions
from plangym_ext.planners import MCTS, play


def main() -> None:
    """Step from states and without, and play a planner."""
    with plangym_ext.make("CartPole-v1") as env:
        state, obs, info = env.reset(seed=0)
        state, obs, reward, terminated, truncated, info = env.step(0, state)
        assert_type(terminated, bool)
        obs, reward, terminated, truncated, info = env.step(0)
        obs, info = env.reset(return_state=False)

        actions, states = np.zeros(8, np.int64), np.stack([state] * 8)
        assert_type(env.step_batch(actions, states), StateTransitions)
        assert_type(env.step_batch(actions), Transitions)
        assert_type(env.step_batch_async(actions, states).wait(), StateTransitions)
        states, batch, rewards, terminateds, truncateds, infos = env.step_batch(actions, states)
        numbers: np.ndarray[Any, Any] = rewards
        print(numbers.sum(), play(env, MCTS(), seed=0, max_steps=10).return_)


if __name__ == "__main__":
    main()
