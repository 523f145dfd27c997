"""Detection of changes in the arrays of a MuJoCo model, by comparing and hashing their memory."""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

import numpy as np

from plangym_ext.errors import DamagedState

# Shapes, colours and names: large, and nothing that a task changes.
_ASSETS = ("bvh_", "mesh_", "name_", "names", "oct_", "paths", "skin_", "tex_", "text_")
_ALIGN = 64  # MuJoCo's alignment of arrays within a model
_memcmp: Any = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)


class ModelArrays:
    """The numbers of an `MjModel`, and how they differ from what was loaded.

    The arrays lie side by side in one block of memory, which is compared at once; one
    by one they would cost more than a small model's step.
    """

    def __init__(self, model: Any) -> None:
        self.model = model  # keeps the memory alive
        self._now: list[Any] = [words_at(start, stop) for start, stop in _regions(model)]
        self._loaded = [words.copy() for words in self._now]
        #: All words as they were compared last, and what differed.
        self._last: tuple[list[bytes], bytes] = [], b""
        self._look()

    def _look(self) -> None:
        self._places = [(one.__array_interface__["data"][0], one.nbytes) for one in self._now]

    def _is_as_last(self) -> bool:
        """Return whether the words are those that were compared last; nothing is copied."""
        return bool(self._last[0]) and not any(
            _memcmp(place, words, size)
            for (place, size), words in zip(self._places, self._last[0], strict=True)
        )

    @property
    def loaded(self) -> list[np.ndarray]:
        """The words of each region as they were loaded."""
        return self._loaded

    def move(self, model: Any) -> bool:
        """Look at another model from now on; return False, and do not, if its sizes differ."""
        now = [words_at(start, stop) for start, stop in _regions(model)]
        if list(map(len, now)) != list(map(len, self._loaded)):
            return False
        self.model, self._now = model, now
        self._look()
        return True

    def changes(self) -> bytes:
        """Return what differs from the loaded model: for each region indices and words."""
        if self._is_as_last():  # mostly it is what it was a step ago
            return self._last[1]
        parts = []
        for now, loaded in zip(self._now, self._loaded, strict=True):
            where = np.flatnonzero(now != loaded).astype(np.uint32)
            parts += [np.uint32(len(where)).tobytes(), where.tobytes(), now[where].tobytes()]
        self._last = [now.tobytes() for now in self._now], b"".join(parts)
        return self._last[1]

    def apply(self, changes: bytes) -> None:
        """Make the model the loaded one with these changes."""
        if changes == self._last[1] and self._is_as_last():
            return
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


def words_at(start: int, stop: int) -> np.ndarray:
    """Return the memory between two addresses as uint64 words, a view."""
    memory = (ctypes.c_ubyte * (stop - start)).from_address(start)
    return np.frombuffer(memoryview(memory), np.uint64)


def _weights(num_words: int) -> np.ndarray:
    """Return odd weights `[num_words]` uint64: splitmix64 (Steele, Lea & Flood 2014)."""
    z = np.arange(1, num_words + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)


class Rest:
    """A hash of those words of a block of memory that a state does not write.

    Args:
        words: `[N]`, or `[N, W]` of which whole rows are written.
    """

    def __init__(self, words: np.ndarray) -> None:
        terms = words * _weights(words.size).reshape(words.shape)
        self._terms = terms.reshape(len(words), words.size // max(1, len(words))).sum(
            axis=1, dtype=np.uint64
        )
        self._total = int(self._terms.sum(dtype=np.uint64))

    @property
    def size(self) -> int:
        """How many indices there are."""
        return len(self._terms)

    def rest(self, where: np.ndarray) -> int:
        """Return the hash."""
        return (self._total - int(self._terms[where].sum(dtype=np.uint64))) % (1 << 64)
