"""One run of Stable-Baselines3, in a process of its own: settings on standard input.

The interpreter needs stable_baselines3 alone, and plangym_ext where the env is one of its own.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.atari_wrappers import AtariWrapper
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize
from stable_baselines3.dqn import dqn

from agent_runs.curve import Curve
from agent_runs.gpu import gpu_of

_ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


class _Watch(BaseCallback):
    def __init__(self, curve: Curve) -> None:
        super().__init__()
        self.curve = curve

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.curve.add(self.num_timesteps, 1, float(info["episode"]["r"]))
        return True


def main() -> None:
    """Train with the envs that its own function makes, then play the best actions."""
    request = json.load(sys.stdin)
    settings = request["settings"]
    torch.set_num_threads(settings["threads"])
    began = time.perf_counter()
    curve = Curve(settings["steps"])
    model = model_of(settings)
    model.learn(settings["steps"], callback=None if settings["bare"] else _Watch(curve))
    seconds = time.perf_counter() - began
    found = {
        "steps": model.num_timesteps,
        "seconds": seconds,
        "training": curve.last_tenth(),
        "evaluation": played(model, settings, request["episodes"], request["seed"]),
        "curve": curve.points(),
        "versions": {**versions(), **gpu_of(settings["device"])},
    }
    write(request["out"], found)


def model_of(
    settings: dict[str, Any], library: Any = stable_baselines3, activations: Any = _ACTIVATIONS
) -> Any:
    """Return an algorithm of a library, with envs, that has learned nothing yet."""
    if settings["env"].startswith("plangym_ext/"):
        __import__("plangym_ext.envs")
    envs = made(settings)
    if settings["normalize"]:
        envs = VecNormalize(envs, **settings["normalize"])
    if settings["algorithm"] == "DQN" and settings["squared"]:
        # Its one loss is Huber's; CleanRL's is the squared error.
        dqn.F = SimpleNamespace(smooth_l1_loss=half_squared_loss)
    return getattr(library, settings["algorithm"])(
        "CnnPolicy" if settings["atari"] else "MlpPolicy",
        envs,
        seed=settings["seed"],
        device=settings["device"],
        policy_kwargs=policy(settings["policy"], activations),
        **keywords(settings["keywords"], envs),
    )


def write(out: str, found: dict[str, Any]) -> None:
    """Write results as a whole, or not at all."""
    partial = Path(out).with_suffix(".part")
    partial.write_text(json.dumps(found, indent=2))
    partial.replace(out)


def made(settings: dict[str, Any]) -> Any:
    """Return the envs; where speed counts, without what is only to be looked at."""
    make = functools.partial(gym.make, settings["env"], **settings["env_kwargs"])
    if settings["atari"]:
        # Inside of the wrappers: an episode is a whole game there, and its rewards are the game's.
        inner = make if settings["bare"] else lambda: Monitor(make())
        return screens(lambda: AtariWrapper(inner()), settings["num_envs"])
    if settings["bare"]:
        return DummyVecEnv([make] * settings["num_envs"])
    return make_vec_env(
        settings["env"],
        settings["num_envs"],
        seed=settings["seed"],
        env_kwargs=settings["env_kwargs"],
    )


def screens(make: Callable[[], gym.Env], num_envs: int) -> VecFrameStack:
    """Return envs of an Atari game, which show the last four frames."""
    gym.register_envs(importlib.import_module("ale_py"))
    return VecFrameStack(DummyVecEnv([make] * num_envs), 4)


def policy(settings: dict[str, Any], activations: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of the network."""
    rest = {name: value for name, value in settings.items() if name != "activation"}
    return {**rest, "activation_fn": activations[settings["activation"]]}


def keywords(settings: dict[str, Any], envs: Any) -> dict[str, Any]:
    """Return the keywords of the algorithm."""
    found = {name: number(value) for name, value in settings.items()}
    if "action_noise" in found:
        # In units in which the bounds are -1 and 1, there as here.
        deviation = np.full(envs.action_space.shape, found["action_noise"])
        found["action_noise"] = NormalActionNoise(np.zeros_like(deviation), deviation)
    return found


def half_squared_loss(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return half the mean squared error."""
    return 0.5 * torch.nn.functional.mse_loss(found, wanted)


def number(value: Any) -> Any:
    """Return a setting, or a schedule for a line from a start to an end."""
    if not isinstance(value, list):
        return value
    start, end = value
    return lambda left: end + left * (start - end)


def played(model: Any, settings: dict[str, Any], episodes: int, seed: int) -> list[float]:
    """Return what episodes come to, each from a seed of its own."""
    if settings["atari"]:
        return played_games(model, settings, episodes, seed)
    found = []
    normalizer = model.get_vec_normalize_env()
    env = gym.make(settings["env"], **settings["env_kwargs"])
    for i in range(episodes):
        obs, _ = env.reset(seed=seed + i)
        total, over = 0.0, False
        while not over:
            seen = obs if normalizer is None else normalizer.normalize_obs(obs)
            action, _ = model.predict(seen, deterministic=True)
            obs, reward, terminated, truncated, _ = env.step(np.asarray(action)[()])
            total, over = total + float(reward), terminated or truncated
        found.append(total)
    env.close()
    return found


def played_games(model: Any, settings: dict[str, Any], episodes: int, seed: int) -> list[float]:
    """Return the scores of whole games."""
    make = functools.partial(gym.make, settings["env"], **settings["env_kwargs"])
    wrapped = {"terminal_on_life_loss": False, "clip_reward": False}
    envs = screens(lambda: Monitor(AtariWrapper(make(), **wrapped)), 1)
    found = []
    for i in range(episodes):
        envs.seed(seed + i)
        obs, over = envs.reset(), [False]
        while not over[0]:
            action, _ = model.predict(obs, deterministic=True)
            obs, _, over, infos = envs.step(action)
        found.append(float(infos[0]["episode"]["r"]))
    envs.close()
    return found


def versions(*more: str) -> dict[str, str]:
    """Return the versions of what results depend on, and of packages besides."""
    names = ("stable_baselines3", "torch", "numpy", "gymnasium", *more)
    return {name: importlib.metadata.version(name) for name in names}


if __name__ == "__main__":
    main()
