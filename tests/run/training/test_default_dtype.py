"""`torch.set_default_dtype` of the user's script changes nothing that is learned."""

from __future__ import annotations

import pytest
import torch
from training_runs import weights

from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner

RUNS = {
    "ppo": ["ppo_cartpole", {"algorithm": {"epochs": 2, "batch_size": 16}}],
    "recurrent": [
        "recurrent_ppo_cartpole_no_velocity",
        {"algorithm": {"epochs": 1, "batch_size": 24}},
    ],
    "images": ["ppo_cartpole", {"env": {"id": "plangym_ext/NarrowPath-v0", "kwargs": {"n": 9}}}],
    "rainbow": [
        "dqn_cartpole",
        {
            "agent": {"dueling": True, "noisy": True, "returns": "atoms"},
            "algorithm": {"name": "c51", "learning_starts": 16, "batch_size": 8},
        },
    ],
    "sac": ["sac_pendulum", {"algorithm": {"learning_starts": 16, "batch_size": 8}}],
    "td3": ["td3_pendulum", {"algorithm": {"learning_starts": 16, "batch_size": 8}}],
    "planner": ["cartpole", {"algorithm": {"learning_starts": 8, "batch_size": 8}}],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_learned_weights_are_the_same(name, tmp_path):
    less = {"rounds": 3, "collector": {"num_envs": 4, "moves": 12}, "evaluation": {"every": 0}}
    found = []
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            config = compose([*RUNS[name], less])
            with Runner(config, tmp_path / str(dtype)) as runner:
                before = weights(runner.network)
                runner.run()
                assert weights(runner.network) != before
                found.append(weights(runner.network))
        finally:
            torch.set_default_dtype(torch.float32)
    assert found[0] == found[1]
