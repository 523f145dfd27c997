"""Runs whose network is on a GPU: they are repeated, and go on, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
from gpus import NO_GPU
from training_runs import log

from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

pytestmark = [pytest.mark.slow, NO_GPU]

_LEARNED = {"agent": {"hidden": [16]}, "collector": {"num_envs": 4, "moves": 12}}
_REPLAY = {
    **_LEARNED,
    "algorithm": {"learning_starts": 20, "batch_size": 16, "capacity": 300},
}
_SCREENS = {
    "env": {"id": "ALE/Breakout-v5", "n_workers": 0, "max_steps": 30},
    "agent": {"hidden": [32]},
    "collector": {"num_envs": 2, "moves": 12},
}
_SCREENS_REPLAY = {**_SCREENS, "algorithm": _REPLAY["algorithm"]}
_PLANNED = {
    "collector": {"num_envs": 4, "moves": 12},
    "algorithm": {"learning_starts": 16, "updates_per_round": 3},
}
CASES: dict[str, dict[str, Any]] = {
    "ppo_cartpole": {**_LEARNED, "algorithm": {"epochs": 2, "batch_size": 16}},
    "a2c_cartpole": _LEARNED,
    "pqn_cartpole": {**_LEARNED, "algorithm": {"epochs": 2, "batch_size": 16}},
    "ppo_atari": {**_SCREENS, "algorithm": {"epochs": 2, "batch_size": 8}},
    "recurrent_ppo_cartpole_no_velocity": {"collector": {"num_envs": 4, "moves": 12}},
    "dqn_cartpole": _REPLAY,
    "dqn_atari": _SCREENS_REPLAY,
    "rainbow_atari": _SCREENS_REPLAY,
    "r2d1_cartpole_no_velocity": {
        "collector": {"num_envs": 4, "moves": 12},
        "algorithm": {**_REPLAY["algorithm"], "batch_size": 4, "burn_in": 2, "length": 4},
    },
    "sac_pendulum": _REPLAY,
    "td3_pendulum": _REPLAY,
    "ddpg_pendulum": _REPLAY,
    "cartpole": _PLANNED,
}


class Fails(Callback):
    """Raises in the middle of a round."""

    def on_episodes(self, runner, records):
        if runner.round == 3:
            raise RuntimeError("in the middle of a round")


def on_gpu(preset: str) -> Any:
    often = {"rounds": 6, "checkpoint_every": 2, "evaluation": {"every": 3, "episodes": 2}}
    return compose([preset, CASES[preset], often, {"device": "cuda"}])


def weights(runner: Runner) -> bytes:
    parts = runner.network.state_dict().values()
    assert {part.device.type for part in parts} == {"cuda"}
    return b"".join(part.cpu().numpy().tobytes() for part in parts)


@pytest.mark.parametrize("preset", CASES)
def test_a_run_on_a_gpu_that_was_stopped_ends_like_one_that_was_not(preset, tmp_path):
    with Runner(on_gpu(preset), tmp_path / "whole") as whole:
        before = weights(whole)
        whole.run()
    assert weights(whole) != before
    with (
        Runner(on_gpu(preset), tmp_path / "stopped", callbacks=[Fails()]) as runner,
        pytest.raises(RuntimeError, match="in the middle"),
    ):
        runner.run()
    with Runner(on_gpu(preset), tmp_path / "stopped", resume=True) as runner:
        runner.run()
    assert weights(runner) == weights(whole)
    assert log(tmp_path / "stopped") == log(tmp_path / "whole")
    with Trained(tmp_path / "whole") as trained:
        assert len(trained.play(1)) == 1
