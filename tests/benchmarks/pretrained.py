"""Train presets, and write the agents that reach what their presets reach into the package.

    python tests/benchmarks/pretrained.py --out runs/pretrained

A run goes on where it was stopped. Of each the weights of the best evaluation are taken, the
network alone and in float16, and measured anew; an agent that falls short is left out and told.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from plangym_ext.learn import tensor_file
from plangym_ext.run.commands.train import reached
from plangym_ext.run.files import write_json
from plangym_ext.run.pretrained import CARDS, FOLDER, cards
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.checkpoints import BEST, read_checkpoint
from plangym_ext.run.training.trained import Trained

#: Least mean return of presets that have no measured one, and end at none.
LEAST = {
    "crossq_pendulum": -200.0,
    "expert_pendulum": -200.0,
    "icem_pendulum": -200.0,
    "muzero_cartpole": 475.0,
    "r2d1_cartpole_no_velocity": 475.0,
    "sokoban_6x6": 10.0,
    "tqc_pendulum": -200.0,
}
PRESETS = (
    *("narrow_path", "cartpole", "ppo_cartpole", "a2c_cartpole", "pqn_cartpole", "dqn_cartpole"),
    *("expert_cartpole", "muzero_cartpole", "recurrent_ppo_cartpole_no_velocity"),
    *("r2d1_cartpole_no_velocity", "sac_pendulum", "td3_pendulum", "ddpg_pendulum"),
    *("crossq_pendulum", "tqc_pendulum", "expert_pendulum", "icem_pendulum"),
    *("recurrent_ppo_pendulum_no_velocity", "ppo_lunarlander", "dqn_lunarlander", "sokoban_6x6"),
)
EPISODES = 20
#: Apart from those of evaluations while it learned, by which it was chosen.
SEED = 2_000_000


def least(name: str) -> float:
    """Return the mean return that an agent must have."""
    found, stop = reached().get(name), compose([name]).evaluation.stop_at
    if found is not None:
        return found.low
    return LEAST[name] if stop is None else stop


def narrowed(path: Path) -> dict[str, Any]:
    """Return what plays of a checkpoint, with weights in float16."""
    saved = read_checkpoint(path, replay=False)
    network = {
        name: one.half() if one.dtype is torch.float32 else one
        for name, one in saved["trainer"]["network"].items()
    }
    trainer = {**saved["trainer"], "network": network}
    trainer.pop("modules", None)
    return {**saved, "trainer": trainer, "narrow": True}


def measured(path: Path) -> list[float]:
    """Return the returns of an agent."""
    with Trained(path, seed=SEED) as trained:
        return [round(episode.return_, 4) for episode in trained.play(EPISODES)]


def ship(name: str, run: Path) -> str:
    """Write an agent and its card, if it is good enough; return what is told of it."""
    content = narrowed(run / BEST)
    path = FOLDER / f"{name}.pt"
    tensor_file.save(path, content)
    returns, bound = measured(path), least(name)
    mean = sum(returns) / len(returns)
    if mean < bound:
        path.unlink()
        return f"{name}: left out, its return {mean:g} is below {bound:g}"
    card = {"env": content["config"]["env"]["id"], "return": round(mean, 4), "least": bound}
    card |= {"steps": content["steps"], "seed": SEED, "returns": returns}
    write_json(CARDS, dict(sorted({**cards(), name: card}.items())))
    return f"{name}: return {mean:g}, {path.stat().st_size:,} bytes"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/pretrained"))
    parser.add_argument("--only", nargs="+", default=PRESETS, choices=PRESETS)
    parser.add_argument("--no-train", action="store_true", help="take the runs as they are")
    options = parser.parse_args()
    for name in options.only:
        run = options.out / name
        command = ["train", name, "--out", str(run), "--resume", "--quiet"]
        if not options.no_train:
            subprocess.run([sys.executable, "-P", "-m", "plangym_ext", *command], check=True)
        if (run / BEST).exists():
            print(ship(name, run), flush=True)
        else:
            print(f"{name}: no run", flush=True)
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
