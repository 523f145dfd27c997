"""Small training runs that several tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plangym_ext.run.settings.compose import compose

#: A run of well under a second, with evaluations and checkpoints in between.
SMALL: dict[str, Any] = {
    "rounds": 6,
    "checkpoint_every": 2,
    "collector": {"num_envs": 4, "moves": 12},
    "algorithm": {"batch_size": 16, "learning_starts": 16, "updates_per_round": 3},
    "evaluation": {"every": 3, "episodes": 2, "stop_at": None},
    # Two that wait for each other on a busy machine take many times as long for small networks.
    "threads": 1,
}


def small(*sources: Any, preset: str = "cartpole") -> Any:
    """Return the settings of a small run, with what differs."""
    return compose([preset, SMALL, *sources])


def weights(network: Any) -> bytes:
    """Return all weights, as bytes."""
    return b"".join(tensor.numpy().tobytes() for tensor in network.state_dict().values())


def log(folder: Path) -> tuple[bytes, bytes]:
    """Return what a run has written that no clock has a part in."""
    return (folder / "progress.csv").read_bytes(), (folder / "progress.jsonl").read_bytes()
