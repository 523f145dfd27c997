"""highway-env: the contract through snapshots of roads and cars."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from contract.env_contract import EnvContract

import plangym_ext

pytest.importorskip("highway_env", reason="highway-env is not installed: pip install '.[highway]'")

pytestmark = pytest.mark.slow


@pytest.mark.episodes_take_long
class TestParking(EnvContract):
    """One car and a goal: the fastest of them, and with a nested observation."""

    name = "parking-v0"
    # A third of the usual frames a step, for speed.
    options: ClassVar = {
        "max_episode_steps": 62,
        "config": {"simulation_frequency": 5, "policy_frequency": 5},
    }
    seeds = (0, 1, 2)
    # A reset's info holds an action that is sampled from the action space, which is the
    # caller's and no part of the env.
    infos_of_resets = False


@pytest.mark.parametrize(
    ("name", "config", "num_steps"),
    [
        ("highway-fast-v0", {"vehicles_count": 6}, 10),
        ("merge-v1", {}, 6),
        ("racetrack-v1", {}, 8),
        ("roundabout-v1", {"policy_frequency": 3}, 6),
    ],
)
def test_round_trip_is_exact_without_a_pickle(name, config, num_steps):
    with plangym_ext.make(name, config=config, check=False) as env:
        report = plangym_ext.check_env(env, num_steps=num_steps)
        assert report.exact, report
        assert [method for _, method, _ in report.layers] == ["objects"]


def test_pictures_leave_no_trace_in_the_state():
    config = {"vehicles_count": 4}
    with plangym_ext.make(
        "highway-fast-v0", config=config, render_mode="rgb_array", check=False
    ) as env:
        state, *_ = env.reset(seed=0)
        assert env.render().dtype == np.uint8
        assert env.get_state().tobytes() == state.tobytes()
        after = env.step(1, state)
        env.render()
        again = env.step(1, state)
        np.testing.assert_array_equal(again.obs, after.obs)
        assert again.state.tobytes() == after.state.tobytes()
