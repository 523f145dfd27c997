"""Checkpoints with right seals, from which a run goes on for a round."""

from __future__ import annotations

import copy
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from forged_kinds.outcome import WHOLE, Watch, outcome
from plangym_ext.errors import PlangymExtError
from plangym_ext.learn import tensor_file
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.checkpoints import Checkpoints
from plangym_ext.run.training.runner import Runner

_SMALL = {"collector": {"num_envs": 2, "moves": 8}}
TARGETS: dict[str, dict[str, Any]] = {
    "ppo_cartpole": _SMALL,
    "dqn_cartpole": _SMALL,
    # Whose replay has arrays that are kept beside the checkpoint.
    "r2d1_cartpole_no_velocity": {"collector": {"num_envs": 2}},
    "narrow_path": {"collector": {"num_envs": 2}, "env": {"kwargs": {"n": 5}}},
    "muzero_cartpole": {**_SMALL, "planner": {"num_simulations": 4}},
}
_NOT_CHANGED = ("format", "config", "versions", "spaces")
_REAL = (float("nan"), float("inf"), -1e30, 1e30, -1.0, 0.0)
_DTYPES = (np.float32, np.int8, np.float64, np.int64, np.uint8, bool)


class CheckpointFiles:
    """Mutants of the checkpoints of one preset.

    Args:
        preset: one of `TARGETS`.
    """

    refusals = (PlangymExtError,)

    def __init__(self, preset: str) -> None:
        torch.set_num_threads(1)
        self._preset, self._watch = preset, Watch()
        self._folder = Path(tempfile.mkdtemp(prefix="forged-"))
        with Runner(self._settings(2), self._folder / "base") as runner:
            runner.run()
        latest = Checkpoints(self._folder / "base").latest()
        assert latest is not None
        self._content = tensor_file.load(latest)
        self._leaves = [
            path for path in _paths(self._content, ()) if path and path[0] not in _NOT_CHANGED
        ]

    def close(self) -> None:
        """Remove the files."""
        shutil.rmtree(self._folder)

    def _settings(self, rounds: int) -> Any:
        more = {"rounds": rounds, "checkpoint_every": 1, "threads": 1, "evaluation": {"every": 0}}
        return compose([self._preset, TARGETS[self._preset], more])

    def use(self, number: int) -> str:
        """Write a mutant and resume from it; return what came of it."""
        content = copy.deepcopy(self._content)
        rng = random.Random(number)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            _change(rng, content, rng.choice(self._leaves))
        folder = self._folder / f"run-{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._folder / "base", folder)
        for old in Checkpoints(folder).paths():
            old.unlink()
        tensor_file.save(Checkpoints(folder).path(2), content)
        return outcome(lambda: self._resume(folder), self.refusals)

    def _resume(self, folder: Path) -> str:
        with Runner(self._settings(3), folder, resume=True) as runner:
            runner.run()
        return "accepted"


def _paths(value: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, one in value.items():
            found += _paths(one, (*path, key))
    elif isinstance(value, list):
        for i, one in enumerate(value[:50]):
            found += _paths(one, (*path, i))
    return found


def _change(rng: random.Random, content: Any, path: tuple[Any, ...]) -> None:
    holder = content
    try:
        for key in path[:-1]:
            holder = holder[key]
        value = holder[path[-1]]
    except (KeyError, IndexError, TypeError):  # an earlier change has taken it away
        return
    if isinstance(value, np.ndarray | torch.Tensor) and rng.random() < 0.85:
        holder[path[-1]] = _array(rng, value)
    elif isinstance(value, bool):
        holder[path[-1]] = not value
    elif isinstance(value, int) and rng.random() < 0.8:
        holder[path[-1]] = rng.choice(WHOLE)
    elif isinstance(value, float) and rng.random() < 0.8:
        holder[path[-1]] = rng.choice(_REAL)
    elif isinstance(value, list) and value and rng.random() < 0.6:
        holder[path[-1]] = rng.choice((value[:-1], value + value[:1], value[::-1], []))
    elif rng.random() < 0.2 and isinstance(holder, dict):
        del holder[path[-1]]
    else:
        others = (None, 0, -1, 2**62, "x", [], {}, 1.5, np.zeros(3), {"__numpy__": torch.zeros(3)})
        holder[path[-1]] = rng.choice(others)


def _array(rng: random.Random, value: Any) -> Any:
    array = np.array(value.numpy() if isinstance(value, torch.Tensor) else value, copy=True)
    kind = rng.randrange(7)
    if kind <= 2 and array.size:
        flat = array.reshape(-1)
        values = WHOLE if array.dtype.kind in "iub" else _REAL
        for _ in range(rng.choice((1, 1, 3, min(array.size, 1000)))):
            with np.errstate(all="ignore"):
                new = np.array([rng.choice(values)]).astype(array.dtype)[0]
            flat[rng.randrange(array.size)] = new
        array = flat.reshape(array.shape)
    elif kind == 3:
        array = array[..., :-1] if array.ndim else array[None]
    elif kind == 4 and array.ndim:
        array = np.concatenate([array, array])
    elif kind == 5:
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(_DTYPES))
    else:
        array = array.reshape(-1) if array.ndim > 1 else array[None]
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array) if isinstance(value, torch.Tensor) else array
