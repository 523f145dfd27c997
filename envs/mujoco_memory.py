"""State capture of any MuJoCo model and data objects that an env holds.

Of data a state holds MuJoCo's integration state and its whole buffer: quantities that a task
reads before it simulates lag the positions by one substep, and no function brings them back.
Contacts are those of the positions. So are the rows of constraints where the quantities do not lag,
as after `mj_step1`; where they lag there are none, until the next step makes them.
Of a model it holds what differs from what the constructor made, its options among it. Left out
are assets of the model, and `bvh_active` of data: it serves pictures of collisions alone.
"""

from __future__ import annotations

import hashlib
import operator
from typing import Any

import mujoco
import numpy as np

from plangym_ext.envs.mujoco_arrays import ModelArrays, Rest, words_at
from plangym_ext.errors import DamagedState, IncompleteState
from plangym_ext.states import plain
from plangym_ext.states.in_place.kinds import hashed
from plangym_ext.states.simulators import SimulatorMemory

_INTEGRATION = int(mujoco.mjtState.mjSTATE_INTEGRATION)
#: Which quantities of the last step are there; computed when they are asked for.
_FLAGS = ("flg_energypos", "flg_energyvel", "flg_subtreevel", "flg_rnepost")
#: Words of a data's buffer that are written together: as many as make a word of their truths.
_BLOCK = 8
_UNIT = np.dtype((np.void, 8 * _BLOCK))
#: Callbacks that a step calls.
_CALLBACKS = ("control", "passive", "sensor", "contactfilter", "act_dyn", "act_gain", "act_bias")
#: Steps after which it is seen which blocks change, and room for more.
_MOVES, _GROWTH = 8, 1.1
#: Patterns of changed blocks that are remembered: rows of a batch have several.
_MOST_KNOWN = 128


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
        #: Each with its arrays, the names of its numbers, and what gets these.
        self._structs = [
            (struct, arrays, names, operator.attrgetter(*names))
            for struct in (model.opt, model.stat)
            for arrays, names in [_fields(struct)]
        ]

    def values(self) -> list[Any]:
        """Return all numbers, arrays as their bytes, in order."""
        found: list[Any] = []
        for struct, arrays, _, numbers in self._structs:
            found += map(np.ndarray.tobytes, arrays)
            found += numbers(struct)
        return found

    def set(self, wanted: list[Any]) -> None:
        """Set the numbers to what `values` returned."""
        left = iter(wanted)
        for struct, arrays, numbers, _ in self._structs:
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
        self._hashes = [Rest(words) for words in self._words.loaded]
        self._options = _Options(simulator)
        self._first = self._options.values()
        self._first_hash = hashed(*self._first)
        self._arrays: dict[str, Any] = {}
        #: What was read or asked for last: most states write the same words.
        self._last: tuple[bytes, int] | None = None

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

    def write(self, data: memoryview) -> None:
        """Make the model the constructor's, with the words and options that differ."""
        words, options = self._parts(bytes(data))
        self._words.apply(words)
        wanted = plain.decode(options) if options else self._first
        if wanted != self._options.values():
            self._options.set(wanted)

    def rest(self, data: bytes | memoryview) -> int:
        """Return a hash of the words that do not differ, and of the options if none does."""
        data = bytes(data)
        if self._last is None or self._last[0] != data:
            self._last = data, self._rest(data)
        return self._last[1]

    def _rest(self, data: bytes) -> int:
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
                "Clear the sleep flag, or use capture='replay'."
            )
        self._bind(simulator)
        self._first = self._blocks.copy()
        self._first_units = self._first.view(_UNIT).ravel()
        self._hash = Rest(self._first)
        self.most = self._room()
        #: By which blocks were changed, a bit each: their indices, and the hash of the rest.
        self._known: dict[bytes, tuple[np.ndarray, int]] = {}

    def _bind(self, data: Any) -> None:
        self._data, self._model = data, self._model_of(data)
        self._vector = np.zeros(mujoco.mj_stateSize(self._model, _INTEGRATION))
        self._flags = [name for name in _FLAGS if hasattr(data, name)]
        self._arrays: dict[str, Any] = {}
        words = _buffer(data, self._model)
        whole = len(words) // _BLOCK * _BLOCK
        #: What a state holds of the buffer: blocks that changed, and what follows the last one.
        self._blocks, self._tail = words[:whole].reshape(-1, _BLOCK), words[whole:]
        #: The blocks as single items, which are taken and put in a third of the time.
        self._units = self._blocks.view(_UNIT).ravel()
        self._drawn = _units_of(data.bvh_active, words)
        self._positions = _units_of(data.xpos, words)

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
        raise IncompleteState("mujoco: the env holds an MjData, but not its MjModel")

    def read(self) -> bytes:
        """Return the whole of it."""
        data = self._data
        mujoco.mj_getState(self._model, data, self._vector, _INTEGRATION)
        flags = bytes(int(getattr(data, name)) for name in self._flags)
        # A byte for each word says whether it differs, and eight of them make a word.
        changed = (self._blocks != self._first).view(np.uint64).ravel() != 0
        changed[self._drawn] = False
        bits = np.packbits(changed).tobytes()
        blocks = self._units[self._where(bits)[0]]
        parts: list[Any] = [self._vector, flags, data.energy, bits, blocks, self._tail]
        return b"".join(parts)

    def _where(self, bits: bytes) -> tuple[np.ndarray, int]:
        """Return the indices of the blocks that are changed, and the hash of the others."""
        found = self._known.get(bits)
        if found is None:
            changed = np.unpackbits(np.frombuffer(bits, np.uint8))
            where = np.flatnonzero(changed[: len(self._blocks)])
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[bits] = where, self._hash.rest(where)
        return found

    def _changed(self, data: bytes | memoryview) -> tuple[int, np.ndarray, int]:
        """Return where the words begin, of which blocks they are, and the hash of the others."""
        head = self._vector.nbytes + len(self._flags) + self._data.energy.nbytes
        stop = head + -(-len(self._blocks) // 8)
        bits = bytes(data[head:stop])
        if len(bits) != stop - head:
            raise DamagedState("mujoco: the state of the data is cut off")
        where, rest = self._where(bits)
        if len(data) != stop + _UNIT.itemsize * len(where) + self._tail.nbytes:
            raise DamagedState("mujoco: the state of the data is cut off")
        return stop, where, rest

    def write(self, data: memoryview) -> None:
        """Set the whole of it; what lies in its arena is computed from that."""
        at, where, _ = self._changed(data)
        live, size = self._data, self._vector.nbytes
        self._vector[:] = np.frombuffer(data, np.float64, len(self._vector))
        units = np.frombuffer(data, _UNIT, len(where), at)
        mujoco.mj_setState(self._model, live, self._vector, _INTEGRATION)
        mujoco.mj_kinematics(self._model, live)
        if self._lags(where, units):
            mujoco.mj_collision(self._model, live)
        else:
            mujoco.mj_step1(self._model, live)
            # Once more: a control callback of the user's may have run.
            mujoco.mj_setState(self._model, live, self._vector, _INTEGRATION)
        np.copyto(self._blocks, self._first)
        self._units[where] = units
        self._tail[:] = np.frombuffer(data[at + where.size * _UNIT.itemsize :], np.uint64)
        for i, name in enumerate(self._flags):
            setattr(live, name, bool(data[size + i]))
        at = size + len(self._flags)
        live.energy[:] = np.frombuffer(data[at : at + live.energy.nbytes])

    def _lags(self, where: np.ndarray, units: np.ndarray) -> bool:
        """Return whether bodies are elsewhere in a state than its positions say."""
        place = self._positions
        wanted = self._first_units[place].copy()
        first, stop = np.searchsorted(where, (place.start, place.stop))
        wanted[where[first:stop] - place.start] = units[first:stop]
        return wanted.tobytes() != self._units[place].tobytes()

    def _room(self) -> int:
        """Return the bytes of a state when everything moves that gravity and controls move."""
        data = self._data
        mujoco.mj_getState(self._model, data, self._vector, _INTEGRATION)
        changed = np.ones(len(self._units), np.bool_)
        # A callback of the user's may count its calls.
        if not any(map(_callback, _CALLBACKS)):
            moved = mujoco.MjData(self._model)
            mujoco.mj_setState(self._model, moved, self._vector, _INTEGRATION)
            for _ in range(_MOVES):
                mujoco.mj_step(self._model, moved)
            mujoco.mj_rnePostConstraint(self._model, moved)
            words = _buffer(moved, self._model)[: self._blocks.size].reshape(-1, _BLOCK)
            changed = (words != self._first).any(axis=1) | (self._blocks != self._first).any(axis=1)
        changed[self._drawn] = False
        blocks = int(changed.sum()) * _UNIT.itemsize
        return 256 + self._vector.nbytes + len(self._units) // 8 + int(_GROWTH * blocks)

    def rest(self, data: bytes | memoryview) -> int:
        """Return a hash of the blocks that were not changed."""
        return self._changed(data)[2]

    def arrays(self) -> dict[str, Any]:
        """Return the data's arrays, contacts and constraints among them."""
        if not self._arrays:
            self._arrays = _arrays(self._data)
        return self._arrays

    def move(self, simulator: Any) -> bool:
        """Capture other data of a model of the same sizes."""
        size = self._blocks.size + len(self._tail)
        if len(_buffer(simulator, self._model_of(simulator))) != size:
            return False
        self._bind(simulator)
        return True


def _units_of(array: np.ndarray, words: np.ndarray) -> slice:
    """Return the blocks that hold nothing but an array of a data's buffer."""
    if not array.size or not words.size:
        return slice(0, 0)
    start = array.__array_interface__["data"][0] - words.__array_interface__["data"][0]
    first, stop = -(-start // _UNIT.itemsize), (start + array.nbytes) // _UNIT.itemsize
    return slice(first, max(first, stop))


def _callback(name: str) -> Any:
    get = getattr(mujoco, f"get_mjcb_{name}", None)
    return get and get()


def _buffer(data: Any, model: Any) -> np.ndarray:
    """Return the words of a data's buffer, a view; of plugins' data the pointers are left out."""
    if not model.nq or model.nplugin:
        return np.zeros(0, np.uint64)
    # The first of its arrays; the last may end inside a word.
    start = data.qpos.__array_interface__["data"][0]
    return words_at(start, start + data.nbuffer // 8 * 8)
