"""PPO of Stable-Baselines3 from the making of its envs to their closing."""

from __future__ import annotations

import functools
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import SubprocVecEnv

import plangym_ext
from plangym_ext.vectorization.adapters.stable_baselines3 import StableBaselines3VecEnv
from table.contest import Runner
from table.tasks import Task

#: Env steps of one training; a multiple of 32 steps of 64 rows.
NUM_STEPS = 16_384


def _our_envs(task: Task, rows: int) -> Any:
    del task
    return StableBaselines3VecEnv(
        plangym_ext.make_vec("CartPole-v1", rows, n_workers=2, autoreset_mode="same_step")
    )


def _their_envs(task: Task, rows: int) -> Any:
    return SubprocVecEnv([task.make] * rows, start_method="fork")


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


ours = functools.partial(build, envs=_our_envs)
theirs = functools.partial(build, envs=_their_envs)
