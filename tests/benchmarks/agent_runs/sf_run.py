"""One run of Sample Factory's PPO, for its speed alone: settings on standard input.

It needs a Python of its own: it asks for versions of gymnasium and numpy that no other contestant
runs on. A minibatch has to hold whole rollouts there; it would else learn nothing.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner

_WORKERS = 2


class _Watch(AlgoObserver):
    """Reads the clock at the first update and at the last one."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def on_training_step(self, runner: Any, training_iteration_since_resume: int) -> None:
        del training_iteration_since_resume
        steps = sum(runner.env_steps.values())
        if not self.seen or steps > self.seen[-1][1]:
            self.seen.append((time.perf_counter(), steps))


def main() -> None:
    """Train in its own processes, and write how fast it was from the first update on."""
    request = json.load(sys.stdin)
    settings = request["settings"]
    register_env(settings["env"], make)
    with tempfile.TemporaryDirectory() as folder:
        typed = arguments(settings, folder)
        parser, _ = parse_sf_args(typed)
        _, runner = make_runner(parse_full_cfg(parser, typed))
        watch = _Watch()
        runner.register_observer(watch)
        runner.init()
        runner.run()
    (began, first), (ended, last) = watch.seen[0], watch.seen[-1]
    names = ("sample-factory", "torch", "numpy", "gymnasium")
    found = {
        "steps": last - first,
        "seconds": ended - began,
        "training": None,
        "evaluation": [],
        "curve": [],
        "versions": {name: version(name) for name in names},
    }
    Path(request["out"]).write_text(json.dumps(found, indent=2))


def make(name: str, config: Any, env_config: Any, render_mode: str | None = None) -> Any:
    """Return an env."""
    del config, env_config, render_mode
    return gymnasium.make(name)


def arguments(settings: dict[str, Any], folder: str) -> list[str]:
    """Return what is typed for it, of the settings of `sb3_settings.py`."""
    keywords, policy = settings["keywords"], settings["policy"]
    rows = settings["num_envs"] * keywords["n_steps"]
    given = {
        "algo": "APPO",
        "env": settings["env"],
        "experiment": "speed",
        "train_dir": folder,
        "device": "cpu",
        "seed": settings["seed"],
        "num_workers": _WORKERS,
        # Each worker's envs in halves, as it is meant to be used.
        "worker_num_splits": 2,
        "num_envs_per_worker": settings["num_envs"] // _WORKERS,
        "rollout": keywords["n_steps"],
        # It would else drop what was played by a policy of four rounds ago.
        "max_policy_lag": 1_000_000,
        "batch_size": keywords["batch_size"],
        "num_batches_per_epoch": rows // keywords["batch_size"],
        "num_epochs": keywords["n_epochs"],
        "learning_rate": keywords["learning_rate"],
        "gamma": keywords["gamma"],
        "gae_lambda": keywords["gae_lambda"],
        "max_grad_norm": keywords["max_grad_norm"],
        "value_loss_coeff": keywords["vf_coef"],
        "exploration_loss_coeff": keywords["ent_coef"],
        "ppo_clip_ratio": keywords["clip_range"],
        "train_for_env_steps": settings["steps"],
        "use_rnn": False,
        "normalize_input": False,
        "normalize_returns": False,
        "actor_critic_share_weights": False,
        "encoder_mlp_layers": policy["net_arch"]["pi"],
        "nonlinearity": policy["activation"],
    }
    typed = []
    for name, value in given.items():
        values = value if isinstance(value, list) else [value]
        typed += [f"--{name}", *map(str, values)]
    return typed


if __name__ == "__main__":
    main()
