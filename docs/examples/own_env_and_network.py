"""An env and a network of one's own, a callback, and a run that is resumed.

`ROUNDS=2` in the environment makes it a short trial.
"""

import os
import tempfile

import gymnasium
import numpy as np
import torch

from plangym_ext.learn import NetworkOutput
from plangym_ext.learn.distributions.make import distribution_of
from plangym_ext.run import Callback, Runner, compose


class Thermostat(gymnasium.Env):
    """Keep a room at 20 degrees; heating works with a delay."""

    observation_space = gymnasium.spaces.Box(-40.0, 60.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)  # less, as it is, more heating

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room, self.heating = float(self.np_random.uniform(5.0, 30.0)), 0.0
        return self._obs(), {}

    def step(self, action):
        self.heating = float(np.clip(self.heating + int(action) - 1, 0.0, 5.0))
        self.room += 0.5 * self.heating - 0.1 * (self.room - 5.0)
        return self._obs(), -abs(self.room - 20.0) / 10.0, False, False, {}

    def _obs(self):
        return np.array([self.room, self.heating], np.float32)


class TwoTowers(torch.nn.Module):
    """Policy and value without a common layer."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.distribution = distribution_of(action_space)
        self.value_scale = 10.0
        self.policy = self._tower(observation_space.shape[0], int(action_space.n))
        self.value = self._tower(observation_space.shape[0], 1)

    def _tower(self, inputs, outputs):
        return torch.nn.Sequential(
            torch.nn.Linear(inputs, 32), torch.nn.Tanh(), torch.nn.Linear(32, outputs)
        )

    def forward(self, obs):
        x = obs.float() / 10.0
        return NetworkOutput(self.policy(x), self.value_scale * self.value(x)[:, 0], None)


class Best(Callback):
    """Remembers the best evaluation."""

    mean = -np.inf

    def on_evaluation(self, runner, episodes):
        self.mean = max(self.mean, float(np.mean([episode.return_ for episode in episodes])))


def make_env():
    # Any gymnasium env: how its state is captured is found out, and proved, by the run.
    return Thermostat()


rounds = int(os.environ.get("ROUNDS", "30"))
settings = {
    "env": {"id": "Thermostat", "max_steps": 30},
    "planner": {"name": "mcts", "num_simulations": 24, "discount": 0.95, "temperature": 1.0},
    "algorithm": {
        "name": "alphazero",
        "discount": 0.95,
        "batch_size": 64,
        "learning_starts": 64,
    },
    "collector": {"num_envs": 8, "moves": 30},
    "evaluation": {"every": 5, "episodes": 5},
    "checkpoint_every": 1,
    "rounds": rounds,
}
folder, best = tempfile.mkdtemp(), Best()
own = {"make_env": make_env, "make_network": TwoTowers, "callbacks": [best]}
with Runner(compose([settings]), folder, **own) as runner:
    runner.run()
print(f"best mean return {best.mean:.2f}")

# More rounds, from the last checkpoint on; what a killed run does as well.
with Runner(compose([settings, {"rounds": rounds + 1}]), folder, resume=True, **own) as runner:
    print(f"going on after round {runner.round}")
    runner.run()
