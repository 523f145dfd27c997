"""The library's own envs by their ids, on both backends."""

from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import UnknownName

ENVS = [
    ("plangym_ext/Sokoban-v0", {"dim": (6, 6), "num_boxes": 1}),
    ("plangym_ext/NarrowPath-v0", {"n": 4}),
    ("plangym_ext/ChainMDP-v0", {"n": 5, "p": 0.7}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), ENVS)
def test_own_envs_restore_exactly_and_batch_in_workers(name, options):
    with plangym_ext.make(name, **options) as env:
        report = plangym_ext.check_env(env, num_steps=60)
        assert report.exact, report
        assert report.layers[-1][1] == "own"
        with plangym_ext.make(name, n_workers=2, **options) as workers:
            state, *_ = env.reset(seed=3)
            actions = np.arange(12).reshape(4, 3) % env.action_space.n
            here = env.rollout_batch(actions, np.stack([state] * 4))
            there = workers.rollout_batch(actions, np.stack([state] * 4))
    assert here.states.tobytes() == there.states.tobytes()
    assert here.rewards.tobytes() == there.rewards.tobytes()


def test_a_misspelt_id_is_told_the_right_one():
    with pytest.raises(UnknownName, match="plangym_ext/Sokoban-v0"):
        plangym_ext.make("plangym_ext/Sokobann-v0")
