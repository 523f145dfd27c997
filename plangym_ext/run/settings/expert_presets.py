"""Settings of runs in which a planner teaches an agent, by name."""

from __future__ import annotations

from collections.abc import Mapping

from plangym_ext.run.settings.agent_presets import APART, agent_on_cartpole
from plangym_ext.run.settings.preset import Preset

EXPERT_PRESETS: Mapping[str, Preset] = {
    "expert_cartpole": Preset(
        "a planner teaches a network to balance a pole",
        agent_on_cartpole(
            {
                "name": "expert",
                "learning_starts": 128,
                "guided": False,
                # By updates, 16 a round: after some eight rounds the student plays alone.
                "teacher_share": {"start": 1.0, "end": 0.0, "over": 128},
            },
            teacher={"name": "shooting", "max_model_steps": 200},
            collector={"num_envs": 8, "moves": 32},
            evaluation={"every": 4, "episodes": 20, "stop_at": 495.0},
            rounds=40,
            checkpoint_every=10,
        ),
    ),
    "expert_pendulum": Preset(
        "a planner teaches a network to swing up a pendulum",
        {
            "env": {"id": "Pendulum-v1", "max_steps": 200},
            "agent": {**APART, "normalize_obs": True, "initial_log_std": -1.0},
            "algorithm": {
                "name": "expert",
                "guided": False,
                # By updates, 16 a round: after some forty rounds the student plays alone.
                "teacher_share": {"start": 1.0, "end": 0.0, "over": 640},
            },
            "teacher": {"name": "icem", "num_simulations": 64, "horizon": 20},
            "collector": {"num_envs": 8, "moves": 50},
            "evaluation": {"every": 10, "episodes": 20},
            "rounds": 60,
            "checkpoint_every": 10,
        },
    ),
}
