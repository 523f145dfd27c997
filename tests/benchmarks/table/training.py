"""PPO of Stable-Baselines3 from the making of its envs to their closing."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv

import plangym_ext
from plangym_ext.vector.adapters.stable_baselines3 import StableBaselines3VecEnv
from table.contest import Runner
from table.tasks import Task

#: Env steps of one training; a multiple of 32 steps of 64 rows.
NUM_STEPS = 16_384


class NoEnvs(VecEnv):
    """Costs nothing: what is left of a training is Stable-Baselines3's own."""

    def __init__(self, env: gymnasium.Env[Any, Any], rows: int) -> None:
        super().__init__(rows, env.observation_space, env.action_space)
        self._obs = np.zeros((rows, *env.observation_space.shape), np.float32)

    def reset(self) -> Any:
        """Zeros."""
        return self._obs

    def step_async(self, actions: np.ndarray) -> None:
        """Nothing."""

    def step_wait(self) -> Any:
        """Zeros; nothing ends."""
        num = self.num_envs
        return self._obs, np.ones(num, np.float32), np.zeros(num, bool), [{} for _ in range(num)]

    def close(self) -> None:
        """Nothing."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """None of each."""
        del attr_name, indices
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Nothing."""

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        """Nothing."""

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """They are not."""
        del wrapper_class, indices
        return [False] * self.num_envs


def _our_envs(task: Task, rows: int, **options: Any) -> Any:
    del task
    return StableBaselines3VecEnv(
        plangym_ext.make_vec("CartPole-v1", rows, autoreset_mode="same_step", **options)
    )


def _their_envs(task: Task, rows: int) -> Any:
    return SubprocVecEnv([task.make] * rows, start_method="fork")


def _no_envs(task: Task, rows: int) -> Any:
    return NoEnvs(task.make(), rows)


def build(task: Task, rows: int, *, envs: Any, from_states: bool) -> Runner:
    """A whole training is one step; the settings are those of rl-zoo3 for CartPole."""
    del from_states

    def train() -> None:
        made = envs(task, rows)
        model = PPO(
            "MlpPolicy",
            made,
            n_steps=32,
            batch_size=256,
            n_epochs=20,
            gae_lambda=0.8,
            gamma=0.98,
            seed=0,
            device="cpu",
        )
        model.learn(NUM_STEPS)
        made.close()

    return Runner(train, NUM_STEPS, lambda: None, warm_up=1)


process = functools.partial(build, envs=functools.partial(_our_envs, n_workers=2))
best = functools.partial(build, envs=_our_envs)
theirs = functools.partial(build, envs=_their_envs)
none = functools.partial(build, envs=_no_envs)
