"""Small training runs that several tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner

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


def assert_resumes(folder: Path, config: Any, cut: Any, **parts: Any) -> Runner:
    """Check that a run that was cut and resumed equals one that was not; return that one, closed.

    Args:
        folder: for both.
        config: of the whole run.
        cut: the same with fewer rounds.
        parts: further arguments of `Runner`.
    """
    with Runner(config, folder / "whole", **parts) as whole:
        whole.run()
    with Runner(cut, folder / "broken", **parts) as runner:
        runner.run()
    with Runner(config, folder / "broken", resume=True, **parts) as runner:
        assert runner.round == cut.rounds
        runner.run()
    assert weights(runner.network) == weights(whole.network)
    assert log(folder / "broken") == log(folder / "whole")
    return whole
