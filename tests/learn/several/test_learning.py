"""Several agents learn to meet, each by its own observations, with every kind of critic."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces

from plangym_ext.envs import AgentsEnv
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner

pytestmark = pytest.mark.slow


class Meeting:
    """Two walkers on a line, who are paid for being near; one leaves two steps earlier."""

    metadata: ClassVar = {"render_modes": []}
    possible_agents = ("left", "right")

    def observation_space(self, agent):
        return spaces.Box(-1.0, 1.0, (2,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def _seen(self):
        here = np.array(self.at, np.float32) / 9
        return {name: here if name == "left" else here[::-1] for name in self.agents}

    def reset(self, seed=None, options=None):
        self.agents, self.time, self.at = ["left", "right"], 0, [-4, 4]
        return self._seen(), {}

    def step(self, actions):
        for name, action in actions.items():
            i = self.possible_agents.index(name)
            self.at[i] = int(np.clip(self.at[i] + action - 1, -9, 9))
        self.time += 1
        there, seen = list(self.agents), self._seen()
        near = -abs(self.at[0] - self.at[1]) / 8
        ended = {name: self.time == (8 if name == "left" else 10) for name in there}
        self.agents = [name for name in there if not ended[name]]
        return seen, dict.fromkeys(there, near), ended, dict.fromkeys(there, False), {}

    def close(self):
        pass


#: Both walk towards each other: 6, 4, 2, 0 and stay, in eighths of the line.
BEST = -2 * (6 + 4 + 2) / 8
SETTINGS: dict[str, Any] = {
    "env": {"max_steps": 10},
    "agent": {"name": "agents", "hidden": [32]},
    "algorithm": {"batch_size": 320, "epochs": 4, "learning_rate": 0.01, "discount": 0.95},
    "collector": {"num_envs": 16, "moves": 10},
    "rounds": 40,
    "evaluation": {"every": 40, "episodes": 1},
}


@pytest.mark.parametrize(
    "agent",
    [{}, {"critic": "central"}, {"groups": [0, 1]}, {"critic": "central", "groups": [0, 1]}],
    ids=["shared", "mappo", "independent", "mappo of two policies"],
)
def test_agents_learn_to_meet(tmp_path, agent):
    config = compose(["ppo_cartpole", SETTINGS, {"agent": agent}])
    with Runner(config, tmp_path, make_env=lambda **_: AgentsEnv(Meeting())) as runner:
        runner.run()
    last = json.loads((tmp_path / "progress.jsonl").read_text().splitlines()[-1])
    assert last["eval/return"] > BEST - 0.6
    # Each agent's return is in the log, and the return is their sum.
    assert last["agent_reward.0"] + last["agent_reward.1"] == pytest.approx(last["return"])
