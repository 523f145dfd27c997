"""Returns that are to be reached soon: our presets, and what rl-zoo3 has tuned for the peer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_runs.tasks import Task
from plangym_ext.run.settings.config import RunConfig

#: Seed of the first episode of an evaluation.
FIRST_SEED = 1_000_000


@dataclass(frozen=True)
class Bound:
    """A return of an evaluation, and who is to reach it.

    Args:
        preset: of ours.
        steps: after which a run is over, whatever it has reached.
        reached: mean return of an evaluation.
        every: steps from one evaluation to the next.
        episodes: of an evaluation, in which the best actions are played.
        peer: settings for `sb3_run.py`, but for seed, steps and threads.
        aim: our seconds over those of the peer, at most.
        changed: settings of ours that differ from the preset's, which is made for the best return
            at the end, and not for the soonest.
        note: what they are, for the page.
    """

    preset: str
    steps: int
    reached: float
    every: int
    episodes: int
    peer: Mapping[str, Any]
    aim: float
    changed: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    def config(self, seed: int) -> RunConfig:
        """Return the settings of one run of ours."""
        return Task(self.preset, self.steps, self.changed).config(seed)

    def peer_settings(self, seed: int) -> dict[str, Any]:
        """Return those of one run of the peer."""
        rest = {"env_kwargs": {}, "squared": False, "atari": False, "bare": True, "threads": 1}
        return {**rest, **self.peer, "steps": self.steps, "seed": seed}


#: rl-zoo3's `hyperparams/ppo.yml`; what it does not name is Stable-Baselines3's default.
_ZOO_CARTPOLE = {
    "algorithm": "PPO",
    "env": "CartPole-v1",
    "num_envs": 8,
    "normalize": None,
    "keywords": {
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": [0.001, 0.0],
        "clip_range": [0.2, 0.0],
    },
    "policy": {"activation": "tanh"},
}
_ZOO_HALFCHEETAH = {
    "algorithm": "PPO",
    "env": "HalfCheetah-v5",
    "num_envs": 1,
    "normalize": {"norm_obs": True, "norm_reward": True, "gamma": 0.98},
    "keywords": {
        "batch_size": 64,
        "n_steps": 512,
        "gamma": 0.98,
        "learning_rate": 2.0633e-05,
        "ent_coef": 0.000401762,
        "clip_range": 0.1,
        "n_epochs": 20,
        "gae_lambda": 0.92,
        "max_grad_norm": 0.8,
        "vf_coef": 0.58096,
    },
    "policy": {
        "activation": "relu",
        "log_std_init": -2,
        "ortho_init": False,
        "net_arch": {"pi": [256, 256], "vf": [256, 256]},
    },
}
#: More envs and fewer updates of a step, found with seeds 10 to 14.
_SOON = {
    "collector": {"num_envs": 32, "moves": 32},
    "algorithm": {"epochs": 10, "learning_rate": {"start": 2e-3, "end": 0.0, "over": 4000}},
}
BOUNDS: Mapping[str, Bound] = {
    "CartPole, 475": Bound(
        "ppo_cartpole",
        102_400,
        475.0,
        5_120,
        20,
        _ZOO_CARTPOLE,
        0.2,
        _SOON,
        "ours is `ppo_cartpole` with 32 envs, 10 epochs and a learning rate from 0.002 on",
    ),
    "HalfCheetah, 3,000": Bound(
        "ppo_halfcheetah",
        999_424,
        3000.0,
        20_480,
        5,
        _ZOO_HALFCHEETAH,
        0.35,
        note="ours is the preset `ppo_halfcheetah`",
    ),
}
