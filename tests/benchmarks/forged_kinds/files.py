"""Files of states, sets of states, explorations, trees and settings."""

from __future__ import annotations

import io
import json
import os
import random
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import plangym_ext
from forged_kinds.outcome import WHOLE, Watch, outcome
from plangym_ext.core.files.state_set import StateSet
from plangym_ext.errors import InvalidOption, StateError
from plangym_ext.explore import GoExplore
from plangym_ext.planners import MCTS, read_tree, write_tree
from plangym_ext.run.settings.compose import compose

TARGETS = ("states", "set", "archive", "particles", "tree", "settings")
_DTYPES = ("f4", "f8", "i1", "i4", "i8", "u1", "u8", "?", "c16", "U3", "S5")
_VALUES = (
    None,
    True,
    0,
    1,
    -1,
    2**70,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    [],
    {},
    [1],
    "MT19937",
)
_SETTINGS = """rounds: 3
env:
  id: CartPole-v1
  kwargs: {a: [1, 2, {b: 3}], c: &c [1, 2], d: *c}
algorithm:
  learning_rate: 3e-4
agent: {hidden: [8, 4]}
"""
_BITS = "[]{}&*!|>:,-\n \t'\"%@`#?~=<.0123456789eaxol_"


class Files:
    """Mutants of files of one kind.

    Args:
        kind: one of `TARGETS`.
    """

    refusals = (StateError, InvalidOption)

    def __init__(self, kind: str) -> None:
        self._kind, self._watch = kind, Watch()
        self._folder = Path(tempfile.mkdtemp(prefix="forged-"))
        self.env = plangym_ext.make("Taxi-v4", backend="serial")
        self._path = self._folder / ("base.yaml" if kind == "settings" else "base.npz")
        self._write()
        self._data = self._path.read_bytes()
        self._arrays = {} if kind == "settings" else dict(np.load(self._path))
        for number in range(20):
            self.use(number)

    def close(self) -> None:
        """Close the env, and remove the files."""
        self.env.close()
        for path in self._folder.iterdir():
            path.unlink()
        self._folder.rmdir()

    def _write(self) -> None:
        env, state = self.env, self.env.reset(seed=1)[0]
        if self._kind == "settings":
            self._path.write_text(_SETTINGS)
            return
        if self._kind == "tree":
            write_tree(self._path, MCTS(30, return_tree=True).plan(env, state, rng=0).tree)
            return
        out = env.step_batch(np.array([0, 1, 1, 0]), np.stack([state] * 4))
        if self._kind == "states":
            plangym_ext.save_states(self._path, out.states, env)
        elif self._kind == "set":
            made = StateSet(out.states, out.obs, np.ones((4, 6), bool), np.arange(4.0))
            made.save(self._path, env)
        else:
            kind: Any = self._kind
            explorer = GoExplore(env, "obs", kind=kind, rows=4, horizon=5, seed=1)
            explorer.run(60)
            explorer.save(self._path)

    def use(self, number: int) -> str:
        """Write a mutant, read it and use what it holds; return what came of it."""
        rng = random.Random(number)
        path = self._folder / f"mutant-{os.getpid()}{self._path.suffix}"
        path.write_bytes(self._mutant(rng))
        self._watch.seen.clear()
        self._watch.on = True
        refusals = (*self.refusals, ValueError) if self._kind == "tree" else self.refusals
        found = outcome(lambda: self._read(path), refusals)
        self._watch.on = False
        return f"code: {sorted(self._watch.seen)[0]}" if self._watch.seen else found

    def _read(self, path: Path) -> str:
        if self._kind == "states":
            rows = plangym_ext.load_states(path, self.env)
            assert rows.dtype == np.uint8
            assert rows.ndim == 2
        elif self._kind == "set":
            found = StateSet.load(path, self.env)
            assert found.legal is None or found.legal.shape == (len(found), 6)
            assert found.legal is None or found.legal.dtype == np.bool_
            assert found.to_go is None or found.to_go.dtype == np.float64
        elif self._kind == "tree":
            read_tree(path)
        elif self._kind == "settings":
            compose([path])
        else:
            explorer = GoExplore.load(path, self.env)
            for cell in range(0, len(explorer.archive), 5):
                explorer.archive.trajectory(cell)
            if explorer.num_rows * explorer.horizon <= 4000:
                explorer.run(explorer.steps_taken + 40)
        return "accepted"

    def _mutant(self, rng: random.Random) -> bytes:
        if self._kind == "settings":
            return _text(rng, self._data.decode()).encode()
        if rng.random() < 0.3:
            return _bytes(rng, self._data)
        arrays = {name: array.copy() for name, array in self._arrays.items()}
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            _change(rng, arrays)
            if not arrays:
                break
        out = io.BytesIO()
        methods = (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
            zipfile.ZIP_DEFLATED,
            zipfile.ZIP_BZIP2,
        )
        with zipfile.ZipFile(out, "w", rng.choice(methods)) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w") as part:
                    np.lib.format.write_array(part, array, allow_pickle=False)
        return out.getvalue()


def _bytes(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(changed))
        if rng.random() < 0.6:
            changed[at] ^= 1 << rng.randrange(8)
        else:
            changed[at : at + rng.randrange(9)] = rng.randbytes(rng.randrange(9))
    return bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.1 else changed)


def _text(rng: random.Random, text: str) -> str:
    for _ in range(rng.choice((1, 1, 2, 4, 9))):
        at = rng.randrange(len(text) + 1)
        piece = rng.choice(
            (
                *(rng.choice(_BITS), rng.choice(_BITS) * rng.choice((2, 70, 3000)), ""),
                *("*c", "&c ", "<<: *c", "!!python/name:os.system ", "010", "1:30", "2020-01-02"),
                *("trust: true\n", "  trust: true\n", "\0", "é", "- " * 100),
                text[rng.randrange(len(text)) :][: rng.randrange(40)],
            )
        )
        text = text[:at] + piece + text[at + rng.randrange(4) :] or "a"
    return text


def _json(rng: random.Random, text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError:  # an earlier change has put something else there
        return text + "{"
    if not isinstance(found, dict) or not found:
        return text
    holder = found
    key = rng.choice(list(holder))
    while isinstance(holder[key], dict) and holder[key] and rng.random() < 0.7:
        holder = holder[key]
        key = rng.choice(list(holder))
    if rng.random() < 0.15:
        del holder[key]
    else:
        holder[key] = rng.choice((*_VALUES, *WHOLE))
    return json.dumps(found)


def _change(rng: random.Random, arrays: dict[str, np.ndarray]) -> None:
    name = rng.choice(list(arrays))
    array, kind = arrays[name], rng.randrange(11)
    if array.dtype.kind == "U" and kind < 8:
        arrays[name] = np.array(_json(rng, str(array)))
    elif kind == 0 and array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(rng.choice(_DTYPES))
    elif kind == 1:
        arrays[name] = array[:-1] if array.ndim else array[None]
    elif kind == 2 and array.ndim:
        arrays[name] = np.concatenate([array, array[:1]])
    elif kind == 3:
        arrays[name] = array[None] if rng.random() < 0.5 else array.T
    elif kind == 4:
        del arrays[name]
    elif kind == 5:
        other = rng.choice(list(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    elif kind == 6:
        arrays[name] = np.zeros((0, *array.shape[1:]), array.dtype)
    elif array.size and array.dtype.kind in "biuf":
        flat = array.reshape(-1).copy()
        values = (np.nan, np.inf, -1e308, 1e308) if array.dtype.kind == "f" else WHOLE
        with np.errstate(all="ignore"):
            value = np.array([rng.choice(values)]).astype(array.dtype)[0]
        if kind == 10:
            flat[:] = value
        else:
            flat[rng.randrange(len(flat))] = value
        arrays[name] = flat.reshape(array.shape)
