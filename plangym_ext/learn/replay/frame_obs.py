"""FrameObs: frame-stack observations in a ring buffer, each frame stored once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import Array
from plangym_ext.core.compiling.jit import kernel, kernel_inline
from plangym_ext.learn.replay.kept_rows import KeptRows
from plangym_ext.learn.replay.step_form import Part

Ndarray = npt.NDArray[Any]
Places = npt.NDArray[np.int64]


@final
class FrameObs:
    """Observations of B envs as stacks of F frames `[F, ...]`, oldest first, in M slots.

    Of a stack that continues the one of the step before, the newest frame is kept. Any other
    stack, such as the first one of an episode, is kept whole beside the ring. So what is taken
    is what was written, whatever an env fills its stacks with.

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
        self._written = bool(state["written"])


@kernel
def mark_continued(stacks: Any, continues: Any) -> None:
    """Write which stacks are those of the step before without its oldest frame, and a new one.

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
