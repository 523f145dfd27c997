"""A fragment by hand, as samplers return it: 4 steps of 3 envs, and its advantages."""

from __future__ import annotations

import numpy as np

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.learn.sampling.collected import Collected, episode_rows
from plangym_ext.planners.plans import Budget

T, B = 4, 3
OBS = np.arange(15.0).reshape(5, 3) / 10
FINAL = np.full((T, B), 7.0)
REWARD = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 1, 2.0]])
ACTION = np.array([[0, 1, 0], [1, 0, 1], [0, 0, 1], [1, 1, 0]])
#: The first env terminates in step 1, the second is truncated there, the third goes on.
TERMINATED = np.arange(T)[:, None] == [1, -1, -1]
TRUNCATED = np.arange(T)[:, None] == [-1, 1, -1]


def array(values, dtype, padding=0):
    """Return an `Array`, the last row of which may be padding."""
    values = np.asarray(values, dtype)
    shape = (len(values) - padding, values.shape[1])
    made = Array(shape, dtype, feature_shape=values.shape[2:], padding=padding)
    made[0 : len(values)] = values
    return made


def fragment(info, *, valid=None, truncated=TRUNCATED, reward=REWARD):
    """Return what a sampler would; `info` are arrays `[T, B, ...]` that the agent told."""
    first = np.zeros((T + 1, B), bool)
    first[0], first[2, :2] = True, True
    valid = np.ones((T, B), bool) if valid is None else valid
    tree = ArrayDict(
        {
            "obs": array(OBS[..., None], np.float32, 1),
            "action": array(ACTION, np.int64),
            "reward": array(reward, np.float32),
            "terminated": array(TERMINATED, bool),
            "truncated": array(truncated, bool),
            "final_obs": array(FINAL[..., None], np.float32),
            "first": array(first, bool, 1),
            "prev_action": array(np.zeros((T + 1, B)), np.int64, 1),
            "prev_reward": array(np.zeros((T + 1, B)), np.float32, 1),
            "valid": array(valid, bool),
            "agent_info": {name: array(rows, np.float32) for name, rows in info.items()},
        }
    )
    return Collected(tree, episode_rows([], [], []), Budget(model_steps=int(valid.sum())), 0)


def advantages(lam, gamma, valid=None, value=OBS, final=FINAL, ratio=None):
    """Return them row by row, from the definition: a second implementation.

    Args:
        lam: of the errors that follow.
        gamma: discount.
        valid: `[T, B]` bool.
        value: `[T + 1, B]`.
        final: `[T, B]`, values of final observations.
        ratio: `[T, B]`, what errors and those that follow are multiplied with.
    """
    found = np.zeros((T, B))
    for b in range(B):
        running = 0.0
        for t in reversed(range(T)):
            if valid is not None and not valid[t, b]:
                continue
            ended = TERMINATED[t, b] or TRUNCATED[t, b]
            after = value[t + 1, b]
            if ended:
                after = 0.0 if TERMINATED[t, b] else final[t, b]
            weight = 1.0 if ratio is None else ratio[t, b]
            delta = weight * (REWARD[t, b] + gamma * after - value[t, b])
            running = delta + (0.0 if ended else gamma * lam * weight * running)
            found[t, b] = running
    return found
