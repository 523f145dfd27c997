"""Updates of Stable-Baselines3: run by the Python that has it."""

from __future__ import annotations

import functools
import importlib

import torch
from table.contest import Runner
from table.tasks import Task

from updating.sizes import A2C_STEPS, BATCH, EPOCHS, PPO_STEPS


def _updates(task: Task, rows: int, *, from_states: bool, name: str) -> Runner:
    """`train` on one buffer, again and again; advantages are worked out before."""
    del from_states
    torch.set_num_threads(1)
    sb3 = importlib.import_module("stable_baselines3")
    envs = importlib.import_module("stable_baselines3.common.vec_env")
    venv = envs.DummyVecEnv([task.make] * rows)
    steps = A2C_STEPS if name == "A2C" else PPO_STEPS
    options = {} if name == "A2C" else {"batch_size": BATCH, "n_epochs": EPOCHS}
    model = getattr(sb3, name)("MlpPolicy", venv, n_steps=steps, device="cpu", **options)
    _, callback = model._setup_learn(10**9)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, steps)
    count = 1 if name == "A2C" else EPOCHS * rows * steps // BATCH
    return Runner(model.train, count, venv.close, warm_up=2)


ppo = functools.partial(_updates, name="PPO")
a2c = functools.partial(_updates, name="A2C")
