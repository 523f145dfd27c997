"""Storage of replayed observations: frame stacks, whole observations, rare rows, step forms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.core.compiling.jit import kernel, kernel_inline
from plangym_ext.errors import InvalidSamples


@final
class WholeObs:
    """Observations of B envs in a ring of M slots.

    Args:
        part: shape and dtype of one.
        slots: M.
        envs: B.
        storage: of the memory; see `Array`.
    """

    def __init__(
        self, part: Part, slots: int, envs: int, storage: Literal["local", "shared"]
    ) -> None:
        shape, dtype = part
        array = Array((slots, envs), dtype, feature_shape=shape, storage=storage)
        self._ring = array.to_ndarray(copy=False)
        # The same memory by place: slot * B + env.
        self._rows = self._ring.reshape(slots * envs, *shape)

    @property
    def width(self) -> int:
        """Numbers on the last axis of one."""
        return int(self._ring.shape[-1])

    @staticmethod
    def step_bytes(part: Part) -> int:
        """Return the bytes of one observation."""
        return int(np.prod(part[0], dtype=np.int64)) * np.dtype(part[1]).itemsize

    def write(self, slots: Places, obs: Ndarray) -> None:
        """Copy `[N, B, ...]` into slots `[N]`, the first of which is written again."""
        self._ring[slots] = obs

    def take(self, places: Places) -> Ndarray:
        """Return copies `[N, ...]`; places `[N]` are slot * B + env."""
        return self._rows.take(places, axis=0)

    def state_dict(self, slots: int) -> dict[str, Any]:
        """Return views of the first slots."""
        return {"ring": self._ring[:slots]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._ring[: len(state["ring"])] = state["ring"]


Ndarray = npt.NDArray[Any]
Places = npt.NDArray[np.int64]


@final
class FrameObs:
    """Observations of B envs as stacks of F frames `[F, ...]`, oldest first, in M slots.

    Of a stack that continues the one of the step before, the newest frame is kept. Any other
    stack, such as the first one of an episode, is kept whole beside the ring. So `take` returns
    what was written, with any filling of the stacks by the env.

    Args:
        part: shape and dtype of a stack.
        slots: M; the F - 1 slots before the oldest step are read too.
        envs: B.
        storage: of the ring; see `Array`.
    """

    def __init__(
        self, part: Part, slots: int, envs: int, storage: Literal["local", "shared"]
    ) -> None:
        (self._stack, *frame), self._dtype = part
        self._shape = tuple(part[0])
        size = int(np.prod(frame, dtype=np.int64)) * np.dtype(self._dtype).itemsize
        ring = Array((slots, envs), np.uint8, feature_shape=(size,), storage=storage)
        self._frames = ring.to_ndarray(copy=False)
        #: Serial of the stack that is kept whole; -1: only its newest frame is kept.
        self._serials = np.full((slots, envs), -1, np.int64)
        self._whole = KeptRows([((self._stack, size), np.uint8)])
        self._written = False

    @staticmethod
    def step_bytes(part: Part) -> int:
        """Return the bytes that one takes, if it continues the one before."""
        shape, dtype = part
        # A frame, and the 8 bytes of its serial number.
        return int(np.prod(shape[1:], dtype=np.int64)) * np.dtype(dtype).itemsize + 8

    def write(self, slots: Places, obs: Ndarray) -> None:
        """Copy `[N, B, F, ...]` into slots `[N]`, the first of which is written again."""
        stacks = self._bytes(obs)
        count, envs = stacks.shape[:2]
        continues = np.empty((count, envs), np.bool_)
        first = slots[0] * envs + np.arange(envs)
        if self._written:
            # It is the last one of the call before, unless an episode was begun since.
            continues[0] = (self._taken(first) == stacks[0]).all(axis=(1, 2))
        else:
            continues[0] = False
        mark_continued(stacks, continues)
        # The slots that are overwritten held the oldest steps: whole stacks up to theirs may go.
        self._whole.drop_before(int(self._serials[slots[1:]].max(initial=-1)) + 1)
        self._serials[slots[1:]] = -1
        # Of every stack, whole ones too: the stacks after it read this frame from here.
        self._frames[slots] = stacks[:, :, -1]
        n, b = np.nonzero(~continues)
        if len(n):
            self._serials[slots[n], b] = self._whole.add([stacks[n, b]])
        self._written = True

    def _bytes(self, obs: Ndarray) -> npt.NDArray[np.uint8]:
        """Return `[N, B, F, bytes of a frame]`."""
        # Bytes: one kernel compares frames of any dtype, and NaN is like itself.
        flat = np.ascontiguousarray(obs).reshape(*obs.shape[:2], self._stack, -1)
        return flat.view(np.uint8)

    def take(self, places: Places) -> Ndarray:
        """Return copies `[N, F, ...]`; places `[N]` are slot * B + env."""
        return self._taken(places).view(self._dtype).reshape(len(places), *self._shape)

    def _taken(self, places: Places) -> npt.NDArray[np.uint8]:
        stacks = np.empty((len(places), self._stack, self._frames.shape[2]), np.uint8)
        (whole,) = self._whole.arrays
        write_stacks(self._frames, self._serials, whole, places, stacks)
        return stacks

    def state_dict(self, slots: int) -> dict[str, Any]:
        """Return views of the first slots, and the whole stacks."""
        return {
            "frames": self._frames[:slots],
            "serials": self._serials[:slots],
            "whole": self._whole.state_dict(),
            "written": self._written,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._frames[: len(state["frames"])] = state["frames"]
        self._serials[: len(state["serials"])] = state["serials"]
        self._whole.load_state_dict(state["whole"])
        if int(self._serials.max(initial=-1)) >= self._whole.added:
            raise InvalidSamples("of some steps the stack of frames was not saved.")
        self._written = bool(state["written"])


@kernel
def mark_continued(stacks: Any, continues: Any) -> None:
    """Mark stacks that are the previous step's without its oldest frame plus a new frame.

    Args:
        stacks: `[N, B, F, S]` uint8.
        continues: `[N, B]` bool, written from row 1 on.
    """
    count, envs, stack, size = stacks.shape
    for n in range(1, count):
        for b in range(envs):
            same = True
            for f in range(stack - 1):
                differing = np.uint8(0)
                for i in range(size):  # without a way out, so that it becomes vector instructions
                    differing |= stacks[n, b, f, i] ^ stacks[n - 1, b, f + 1, i]
                if differing != 0:
                    same = False
                    break
            continues[n, b] = same


@kernel_inline
def _copy(source: Any, target: Any) -> None:
    for i in range(len(source)):  # which takes a fifth of the time of an assignment
        target[i] = source[i]


@kernel
def write_stacks(frames: Any, serials: Any, whole: Any, places: Any, stacks: Any) -> None:
    """Write the stacks of some places.

    Args:
        frames: `[M, B, S]` uint8, the newest frame of each.
        serials: `[M, B]` int64, of stacks that are kept whole; -1: it continues the one before.
        whole: `[W, F, S]` uint8, stack `serial` in row serial % W.
        places: `[N]` int64, slot * B + env.
        stacks: `[N, F, S]` uint8, written.
    """
    slots, envs = serials.shape
    for n in range(len(places)):
        slot, env = places[n] // envs, places[n] % envs
        row, older = -1, 0
        # From the newest frame back, until a stack that is kept whole has all that is older.
        for f in range(stacks.shape[1] - 1, -1, -1):
            if row >= 0:
                older -= 1
                _copy(whole[row, older], stacks[n, f])
                continue
            _copy(frames[slot, env], stacks[n, f])
            if serials[slot, env] >= 0:
                row, older = serials[slot, env] % len(whole), stacks.shape[1] - 1
            else:
                slot = slot - 1 if slot > 0 else slots - 1


Serials = npt.NDArray[np.int64]


@final
class KeptRows:
    """Rows by serial number, in the order in which they came; the oldest are dropped first.

    Args:
        parts: shape and dtype of every array of a row.
    """

    def __init__(self, parts: Sequence[tuple[tuple[int, ...], Any]]) -> None:
        self._parts = [(tuple(shape), np.dtype(dtype)) for shape, dtype in parts]
        self._arrays = [np.zeros((1, *shape), dtype) for shape, dtype in self._parts]
        self._dropped = self._added = 0

    @property
    def added(self) -> int:
        """Rows that were ever added: all serial numbers are below it."""
        return self._added

    @property
    def arrays(self) -> list[npt.NDArray[Any]]:
        """The memory: row `serial` of W is in row serial % W, until something is added."""
        return self._arrays

    def __len__(self) -> int:
        return self._added - self._dropped

    def add(self, rows: Sequence[npt.NDArray[Any]]) -> Serials:
        """Copy N rows in, arrays `[N, ...]`; return their serial numbers `[N]`."""
        serials = self._added + np.arange(len(rows[0]))
        needed = len(self) + len(serials)
        if needed > len(self._arrays[0]):
            self._grow(needed)
        for array, new in zip(self._arrays, rows, strict=True):
            # Serials never repeat and memory does: the oldest that is there is less than W before
            # the newest.
            array[serials % len(array)] = new
        self._added += len(serials)
        return serials

    def drop_before(self, serial: int) -> None:
        """Drop all rows with smaller serial numbers."""
        self._dropped = max(self._dropped, serial)

    def take(self, serials: Serials) -> list[npt.NDArray[Any]]:
        """Return copies of rows that are there, arrays `[N, ...]`."""
        return [array[serials % len(array)] for array in self._arrays]

    def _grow(self, needed: int) -> None:
        """Make room for twice as many as are needed."""
        kept = np.arange(self._dropped, self._added)
        rows = self.take(kept)
        # Twice as many, so that a growing number of rows is copied a few times only.
        self._arrays = [np.zeros((2 * needed, *shape), dtype) for shape, dtype in self._parts]
        for array, old in zip(self._arrays, rows, strict=True):
            array[kept % len(array)] = old

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the rows, and how many came before them."""
        rows = self.take(np.arange(self._dropped, self._added))
        return {"rows": dict(enumerate(rows)), "dropped": self._dropped}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the content by a saved one.

        Raises:
            InvalidSamples: its rows have other shapes, types or numbers.
        """
        rows = [np.asarray(state["rows"][number]) for number in range(len(self._parts))]
        dropped, forms = int(state["dropped"]), [(row.shape[1:], row.dtype) for row in rows]
        if not 0 <= dropped < 1 << 62 or forms != self._parts or len({*map(len, rows)}) > 1:
            raise InvalidSamples(
                f"the rows that were saved must be {self._parts}, of one number, and come after "
                f"none or more; got {forms} after {dropped}."
            )
        self._dropped = self._added = dropped
        self.add(rows)


Part = tuple[tuple[int, ...], Any]


@final
@dataclass(frozen=True)
class StepForm:
    """Names, shapes and dtypes of observations, actions and carries, and the number of envs.

    Args:
        envs: B.
        obs, action, carry: nested by name as in a sample tree; leaves are `[shape, dtype]`,
            lists, so that it can be saved as text. The carry is None where there is none.
    """

    envs: int
    obs: Any
    action: Any
    carry: Any = None

    @classmethod
    def of(cls, tree: ArrayDict) -> Self:
        """Return that of a sampler's tree."""
        carry = _described(tree["carry"], 1) if "carry" in tree else None
        obs, action = _described(tree["obs"], 2), _described(tree["action"], 2)
        return cls(tree["reward"].shape[1], obs, action, carry)

    def parts(self, name: str) -> list[Part]:
        """Return shape and dtype of every leaf of "obs", "action" or "carry"."""
        return [(tuple(shape), np.dtype(dtype)) for shape, dtype in leaves(getattr(self, name))]

    def join(self, name: str, parts: list[Any]) -> Any:
        """Return the leaves of "obs", "action" or "carry", nested as in the tree."""
        form = getattr(self, name)
        # A single array: what describes it is no mapping.
        if isinstance(form, list):
            return parts[0]
        remaining = iter(parts)
        return mapped(lambda _: next(remaining), form)

    def to_text(self) -> str:
        """Return it as text, for `from_text`."""
        return json.dumps([self.envs, self.obs, self.action, self.carry])

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the form from its saved text."""
        return cls(*json.loads(text))


def leaves_of(value: Any) -> list[Any]:
    """Return the arrays of a part of a sample tree, in order."""
    return [leaf for _, leaf in value.leaves()] if isinstance(value, ArrayDict) else [value]


def _described(value: Any, axes: int) -> Any:
    """Return shape and dtype of every leaf, without so many leading axes."""
    if isinstance(value, ArrayDict):
        return value.apply(_described, axes)
    # A list and a text, as JSON returns them: forms are compared with those that were saved.
    return [list(value.shape[axes:]), str(value.dtype)]
