"""State capture of any MuJoCo model and data objects that an env holds.

Of data a state holds MuJoCo's integration state and its whole buffer: quantities that a task
reads before it simulates lag the positions by one substep, and no function brings them back.
Contacts and the rows of constraints are those of the positions, by the first half of a step.
Of a model it holds what differs from what the constructor made, its options among it.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

import mujoco
import numpy as np

from plangym_ext.errors import DamagedState, IncompleteState
from plangym_ext.states import plain
from plangym_ext.states.simulators import SimulatorMemory

_INTEGRATION = int(mujoco.mjtState.mjSTATE_INTEGRATION)
#: Which quantities of the last step are there; computed when they are asked for.
_FLAGS = ("flg_energypos", "flg_energyvel", "flg_subtreevel", "flg_rnepost")
# Shapes, colours and names: large, and nothing that a task changes.
_ASSETS = ("bvh_", "mesh_", "name_", "names", "oct_", "paths", "skin_", "tex_", "text_")
_ALIGN = 64  # MuJoCo's alignment of arrays within a model


class ModelArrays:
    """The numbers of an `MjModel`, and their differences from the loaded model.

    The arrays lie side by side in one block of memory, which is compared at once; one
    by one they would cost more than a small model's step.
    """

    def __init__(self, model: Any) -> None:
        self.model = model  # keeps the memory alive
        self._now = [_words(start, stop) for start, stop in _regions(model)]
        self._loaded = [words.copy() for words in self._now]

    @property
    def loaded(self) -> list[np.ndarray]:
        """The words of each region as they were loaded."""
        return self._loaded

    def move(self, model: Any) -> bool:
        """Look at another model from now on; return False, and do not, if its sizes differ."""
        now = [_words(start, stop) for start, stop in _regions(model)]
        if list(map(len, now)) != list(map(len, self._loaded)):
            return False
        self.model, self._now = model, now
        return True

    def changes(self) -> bytes:
        """Return the differences from the loaded model: for each region indices and words."""
        parts = []
        for now, loaded in zip(self._now, self._loaded, strict=True):
            where = np.flatnonzero(now != loaded).astype(np.uint32)
            parts += [np.uint32(len(where)).tobytes(), where.tobytes(), now[where].tobytes()]
        return b"".join(parts)

    def apply(self, changes: bytes) -> None:
        """Make the model the loaded one with these changes."""
        at = 0
        for now, loaded in zip(self._now, self._loaded, strict=True):
            count = int.from_bytes(changes[at : at + 4], "little")
            # Four bytes for the count; for each change four of the index and eight of the word.
            if at + 4 + 12 * count > len(changes):
                raise DamagedState("mujoco: the changes of the model are cut off")
            where = np.frombuffer(changes, np.uint32, count, at + 4)
            words = np.frombuffer(changes, np.uint8, 8 * count, at + 4 + 4 * count)
            at += 4 + 12 * count
            if count and where.max() >= len(now):
                raise DamagedState("mujoco: a change lies outside of the model")
            now[:] = loaded
            # A copy is aligned to eight bytes; where it lies in the row need not be.
            now[where] = words.copy().view(np.uint64)

    def digest(self) -> str:
        """Return a digest of the model as loaded."""
        found = hashlib.blake2b(self.model.names, digest_size=16)
        for words in self._loaded:
            found.update(words.tobytes())
        return found.hexdigest()


def _regions(model: Any) -> list[tuple[int, int]]:
    """Return addresses of the runs of neighbouring arrays, assets left out."""
    spans = []
    for name in dir(model):
        value = None if name.startswith(("_", *_ASSETS)) else getattr(model, name)
        if isinstance(value, np.ndarray) and value.size:
            # A copy would have an address of its own, which is gone in a moment.
            assert not value.flags.owndata
            assert value.flags.c_contiguous
            start = value.__array_interface__["data"][0]
            spans.append((start, start + value.nbytes))
    # The last array may end inside a word; what follows it is padding of the block.
    runs: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        stop += -stop % 8
        if runs and start - runs[-1][1] < _ALIGN:
            runs[-1] = (runs[-1][0], max(stop, runs[-1][1]))
        else:
            runs.append((start, stop))
    return runs


def _words(start: int, stop: int) -> np.ndarray:
    memory = (ctypes.c_ubyte * (stop - start)).from_address(start)
    return np.frombuffer(memoryview(memory), np.uint64)


def _weights(num_words: int) -> np.ndarray:
    """Return odd weights `[num_words]` uint64: splitmix64 (Steele, Lea & Flood 2014)."""
    z = np.arange(1, num_words + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)


class _Words:
    """A hash of those words of a block of memory that a state does not write."""

    def __init__(self, words: np.ndarray) -> None:
        self._terms = words * _weights(len(words))
        self._total = int(self._terms.sum(dtype=np.uint64))
        #: The same words are written by most states.
        self._last: tuple[bytes, int] = b"", self._total

    @property
    def size(self) -> int:
        return len(self._terms)

    def rest(self, where: np.ndarray) -> int:
        """Return the hash.

        Args:
            where: indices of the words that are written.
        """
        key = where.tobytes()
        last, found = self._last
        if key != last:
            found = (self._total - int(self._terms[where].sum(dtype=np.uint64))) % (1 << 64)
            self._last = key, found
        return found


def _fields(struct: Any) -> tuple[tuple[np.ndarray, ...], tuple[str, ...]]:
    """Return a struct's arrays, which are views of it, and the names of its numbers."""
    found = {name: getattr(struct, name) for name in dir(struct) if not name.startswith("_")}
    arrays = tuple(value for value in found.values() if isinstance(value, np.ndarray))
    # Of a copy, what is read later would not be what is there then.
    assert not any(array.flags.owndata for array in arrays)
    return arrays, tuple(name for name, value in found.items() if isinstance(value, int | float))


class _Options:
    """The numbers of a model's options, which lie beside its block of arrays."""

    def __init__(self, model: Any) -> None:
        self._structs = [(struct, *_fields(struct)) for struct in (model.opt, model.stat)]

    def values(self) -> list[Any]:
        """Return all numbers, arrays as their bytes, in order."""
        found: list[Any] = []
        for struct, arrays, numbers in self._structs:
            found += [array.tobytes() for array in arrays]
            found += [getattr(struct, name) for name in numbers]
        return found

    def set(self, wanted: list[Any]) -> None:
        """Set the numbers to what `values` returned."""
        left = iter(wanted)
        for struct, arrays, numbers in self._structs:
            for now in arrays:
                now[...] = np.frombuffer(next(left), now.dtype).reshape(now.shape)
            for name in numbers:
                value = next(left)
                if getattr(struct, name) != value:
                    setattr(struct, name, value)


class ModelMemory(SimulatorMemory):
    """An `MjModel`: its numbers that differ from the constructor's."""

    def __init__(self, simulator: Any, others: list[Any]) -> None:
        self._words = ModelArrays(simulator)
        self._hashes = [_Words(words) for words in self._words.loaded]
        self._options = _Options(simulator)
        self._first = self._options.values()
        digest = hashlib.blake2b(repr(self._first).encode(), digest_size=8).digest()
        self._first_hash = int.from_bytes(digest, "little")
        self._arrays: dict[str, Any] = {}

    def read(self) -> bytes:
        """Return the words that differ, and the options if one does."""
        options = self._options.values()
        words = self._words.changes()
        if options == self._first and not any(words):
            return b""
        encoded = b"" if options == self._first else plain.encode(options, "mujoco.MjModel")
        return len(words).to_bytes(4, "little") + words + encoded

    def _parts(self, data: bytes) -> tuple[bytes, bytes]:
        if not data:
            return bytes(4 * len(self._hashes)), b""
        stop = 4 + int.from_bytes(data[:4], "little")
        return data[4:stop], data[stop:]

    def write(self, data: bytes) -> None:
        """Make the model the constructor's, with the words and options that differ."""
        words, options = self._parts(data)
        self._words.apply(words)
        wanted = plain.decode(options) if options else self._first
        if wanted != self._options.values():
            self._options.set(wanted)

    def rest(self, data: bytes) -> int:
        """Return a hash of the words that do not differ, and of the options if none does."""
        words, options = self._parts(data)
        rest, at = 0, 0
        for hashes in self._hashes:
            count = int.from_bytes(words[at : at + 4], "little")
            if at + 4 + 12 * count > len(words):
                raise DamagedState("mujoco: the changes of the model are cut off")
            where = np.frombuffer(words, np.uint32, count, at + 4)
            if count and where.max() >= hashes.size:
                raise DamagedState("mujoco: a change lies outside of the model")
            rest ^= hashes.rest(where)
            at += 4 + 12 * count
        return rest if options else rest ^ self._first_hash

    def arrays(self) -> dict[str, Any]:
        """Return the model's arrays."""
        if not self._arrays:
            self._arrays = _arrays(self._words.model)
        return self._arrays

    def move(self, simulator: Any) -> bool:
        """Capture another model of the same sizes."""
        if simulator.names != self._words.model.names or not self._words.move(simulator):
            return False
        self._options = _Options(simulator)
        self._arrays = {}
        return True

    def identity(self) -> Any:
        """Return MuJoCo's version and a digest of the model."""
        names = hashlib.blake2b(self._words.model.names, digest_size=16).hexdigest()
        sizes = {
            name: getattr(self._words.model, name)
            for name in ("nq", "nv", "nu", "na", "nbody", "ngeom", "nsite", "nmesh", "neq")
        }
        return {"mujoco": mujoco.__version__, "names": names, "sizes": sizes}


def _arrays(struct: Any) -> dict[str, Any]:
    found = {}
    for name in dir(struct):
        value = None if name.startswith("_") else getattr(struct, name)
        if isinstance(value, np.ndarray) and not value.flags.owndata:
            found[name] = value
    return found


class DataMemory(SimulatorMemory):
    """An `MjData`: its integration state, and the words of its buffer that were changed."""

    rank = 1

    def __init__(self, simulator: Any, others: list[Any]) -> None:
        self._others = others
        model = self._model_of(simulator)
        if model.opt.enableflags & getattr(mujoco.mjtEnableBit, "mjENBL_SLEEP", 0):
            raise IncompleteState(
                "mujoco: a model that lets bodies sleep, which MuJoCo's state vector leaves out. "
                "Clear the sleep flag, or use state='replay'."
            )
        self._bind(simulator)
        self._first = self._words.copy()
        self._hash = _Words(self._first)

    def _bind(self, data: Any) -> None:
        self._data, self._model = data, self._model_of(data)
        self._vector = np.zeros(mujoco.mj_stateSize(self._model, _INTEGRATION))
        self._flags = [name for name in _FLAGS if hasattr(data, name)]
        self._arrays: dict[str, Any] = {}
        self._words = _buffer(data, self._model)
        self._last: tuple[bytes, tuple[int, np.ndarray]] = b"", (0, np.zeros(0, bool))

    def _model_of(self, data: Any) -> Any:
        """Return the model that data were made for; before MuJoCo 3 they do not say it."""
        found = getattr(data, "model", None)
        if found is not None:
            return found
        sizes = len(data.qpos), len(data.qvel), len(data.ctrl), len(data.xpos), len(data.geom_xpos)
        for other in self._others:
            if isinstance(other, mujoco.MjModel) and sizes == (
                *(other.nq, other.nv, other.nu, other.nbody, other.ngeom),
            ):
                return other
        raise IncompleteState("mujoco: the env holds data and not the model that they are for")

    def _masked(self, changed: np.ndarray) -> bytes:
        return np.packbits(changed).tobytes() + self._words[changed].tobytes()

    def read(self) -> bytes:
        """Return the whole of it."""
        data = self._data
        mujoco.mj_getState(self._model, data, self._vector, _INTEGRATION)
        flags = bytes(int(getattr(data, name)) for name in self._flags)
        changed = self._words != self._first
        return b"".join(
            (self._vector.tobytes(), flags, data.energy.tobytes(), self._masked(changed))
        )

    def _changed(self, data: bytes) -> tuple[int, np.ndarray]:
        """Return where the words begin, and which they are."""
        # A restore asks twice: for the hash of the rest, and to write them.
        last, found = self._last
        if last is data:
            return found
        head = self._vector.nbytes + len(self._flags) + self._data.energy.nbytes
        stop = head + -(-len(self._words) // 8)
        bits = np.frombuffer(data[head:stop], np.uint8)
        changed = np.unpackbits(bits)[: len(self._words)].astype(bool)
        if len(changed) != len(self._words) or len(data) != stop + 8 * int(changed.sum()):
            raise DamagedState("mujoco: the state of the data is cut off")
        self._last = data, (stop, changed)
        return stop, changed

    def write(self, data: bytes) -> None:
        """Set the whole of it; what lies in its arena is computed from that."""
        at, changed = self._changed(data)
        live, size = self._data, self._vector.nbytes
        self._vector[:] = np.frombuffer(data[:size])
        mujoco.mj_setState(self._model, live, self._vector, _INTEGRATION)
        mujoco.mj_step1(self._model, live)
        # Once more: a control callback of the user's may have run.
        mujoco.mj_setState(self._model, live, self._vector, _INTEGRATION)
        np.copyto(self._words, self._first)
        self._words[changed] = np.frombuffer(data[at:], np.uint64)
        for i, name in enumerate(self._flags):
            setattr(live, name, bool(data[size + i]))
        at = size + len(self._flags)
        live.energy[:] = np.frombuffer(data[at : at + live.energy.nbytes])

    def rest(self, data: bytes) -> int:
        """Return a hash of the words that were not changed."""
        _, changed = self._changed(data)
        return self._hash.rest(changed)

    def arrays(self) -> dict[str, Any]:
        """Return the data's arrays, contacts and constraints among them."""
        if not self._arrays:
            self._arrays = _arrays(self._data)
        return self._arrays

    def move(self, simulator: Any) -> bool:
        """Capture other data of a model of the same sizes."""
        if len(_buffer(simulator, self._model_of(simulator))) != len(self._words):
            return False
        self._bind(simulator)
        return True


def _buffer(data: Any, model: Any) -> np.ndarray:
    """Return the words of a data's buffer, a view; of plugins' data the pointers are left out."""
    if not model.nq or model.nplugin:
        return np.zeros(0, np.uint64)
    # The first of its arrays; the last may end inside a word.
    start = data.qpos.__array_interface__["data"][0]
    return _words(start, start + data.nbuffer // 8 * 8)
