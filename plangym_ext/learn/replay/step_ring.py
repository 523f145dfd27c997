"""StepRing: ring buffer of the newest steps of B envs, each observation stored once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.errors import InvalidSamples
from plangym_ext.learn.replay.base import Capacity, steps_within
from plangym_ext.learn.replay.frame_obs import (
    FrameObs,
    KeptRows,
    Part,
    StepForm,
    WholeObs,
    leaves_of,
)
from plangym_ext.learn.replay.sequence_kernel import SequenceArrays, StepArrays

Ndarray = npt.NDArray[Any]
Places = npt.NDArray[np.int64]

#: Of a step, beside observation and action: reward, four flags and a serial.
_STEP_BYTES = 4 + 4 + 8


class RingOptions(NamedTuple):
    """Storage options of a step ring."""

    storage: Literal["local", "shared"] = "local"
    frames: bool = False  # whether each frame of a stack is kept once
    clip_reward: float | None = None  # largest absolute reward
    besides: int = 0  # bytes of a step that are kept elsewhere, and count in the capacity


@final
class StepRing:
    """The newest L steps of B envs, filled from the trees of a sampler.

    Step k of every env lies in slot k % M, beside the observation that it answers to. The slot
    at the cursor has the observation that follows the newest step. M is L + 1, and more where
    older frames are read. The place of a step is slot * B + env; it keeps it until it is
    overwritten.

    Args:
        form: of the steps.
        capacity: steps of all envs, or bytes; observations of endings, and which actions could
            be played, come on top.
        where: begins the messages.
        options: of the memory.

    Attributes:
        length, slots, envs: L, M and B.
        count: steps of each env that were ever added.
        num_valid: steps that are there and were played.
        steps: what n-step returns are made of.
    """

    def __init__(
        self, form: StepForm, capacity: Capacity, where: str, options: RingOptions
    ) -> None:
        self.form, self._where, self._options = form, where, options
        self.envs = form.envs
        obs, action = form.parts("obs"), form.parts("action")
        kinds = [_kind(part, options) for part in obs]
        if options.frames and FrameObs not in kinds:
            raise InvalidSamples(
                f"{where}: with frames=True some observation must be a stack of images, "
                f"[frames, height, width]; they are {form.obs}. Leave it at False."
            )
        step_bytes = _STEP_BYTES + options.besides + sum(map(WholeObs.step_bytes, action))
        step_bytes += sum(kind.step_bytes(part) for kind, part in zip(kinds, obs, strict=True))
        self.length = steps_within(capacity, step_bytes) // self.envs
        if not self.length:
            raise InvalidSamples(
                f"{where}: capacity must hold a step of {self.envs} envs, {step_bytes} bytes "
                f"each; got {capacity!r}. Raise it."
            )
        stacks = [part[0][0] for kind, part in zip(kinds, obs, strict=True) if kind is FrameObs]
        # One more for the observation after the newest step; the oldest stack reads frames from
        # before its own step.
        self.slots = self.length + max(stacks, default=1)
        self.count = self.num_valid = 0
        try:
            self._take_memory(kinds, obs, action)
        except MemoryError as error:
            raise InvalidSamples(
                f"{where}: there is no memory for {self.length:,} steps of {self.envs} envs: "
                f"{error}. Ask for a smaller capacity."
            ) from None
        self._finals = KeptRows(obs)
        #: Which actions could be played; None until a fragment tells.
        self._legal: WholeObs | None = None
        self.steps = StepArrays(self._reward, self._terminated, self._final)

    def _take_memory(self, kinds: list[Any], obs: list[Part], action: list[Part]) -> None:
        memory = self.slots, self.envs, self._options.storage
        self._obs = [kind(part, *memory) for kind, part in zip(kinds, obs, strict=True)]
        self._actions = [self._ring(shape, dtype) for shape, dtype in action]
        self._reward = self._ring((), np.float32)
        flags = (self._ring((), bool) for _ in range(4))
        self._terminated, self._truncated, self._valid, self._first = flags
        self._final = self._ring((), np.int64)
        # A serial of `_finals`, which begins at 0; -1 for steps that ended nothing.
        self._final.fill(-1)

    def _ring(self, shape: tuple[int, ...], dtype: Any) -> Ndarray:
        slots = (self.slots, self.envs)
        array = Array(slots, dtype, feature_shape=shape, storage=self._options.storage)
        return array.to_ndarray(copy=False)

    @property
    def cursor(self) -> int:
        """Slot of the next step."""
        return self.count % self.slots

    @property
    def num_steps(self) -> int:
        """Steps of each env that are there."""
        return min(self.count, self.length)

    # Adding ---------------------------------------------------------------------

    def add(self, tree: ArrayDict) -> tuple[Places, npt.NDArray[np.bool_]]:
        """Copy a fragment in; the oldest steps make room.

        Returns:
            Places `[N]` that changed, and which of them have steps to be drawn; of a place that
            comes twice the last one counts.

        Raises:
            InvalidSamples: it differs from the first one by name, shape or dtype. Nothing has
                been added.
        """
        self._check(tree)
        num = tree["reward"].shape[0]
        # T + 1: the last row is the observation that the next fragment begins with.
        slots = (self.count + np.arange(num + 1)) % self.slots
        first = _array(tree["first"], num).copy()
        if self.count:
            first[0] |= ~self._continued(tree)
            self._end_abandoned(first[0])
        # Before anything is written: it reads the flags of the steps that make room.
        left = self._drop(num)
        for store, leaf in zip(self._obs, leaves_of(tree["obs"]), strict=True):
            store.write(slots, _array(leaf))
        self._write_legal(slots, tree)
        written = slots[:num]
        for ring, leaf in zip(self._actions, leaves_of(tree["action"]), strict=True):
            ring[written] = _array(leaf, num)
        self._reward[written] = self._rewards(_array(tree["reward"], num))
        self._terminated[written] = terminated = _array(tree["terminated"], num)
        self._truncated[written] = truncated = _array(tree["truncated"], num)
        self._valid[written] = valid = _array(tree["valid"], num)
        self._first[written] = first
        # Flags of rows that were not stepped say nothing.
        ended = (terminated | truncated) & valid
        if ended.any():
            t, b = np.nonzero(ended)
            rows = [_array(leaf, num)[t, b] for leaf in leaves_of(tree["final_obs"])]
            self._final[written[t], b] = self._finals.add(rows)
        self.count += num
        self.num_valid += int(np.count_nonzero(valid))
        # In this order: a slot that was freed and written again is to have its new flag, which
        # comes last.
        changed = np.concatenate([left, written])
        places = changed[:, None] * self.envs + np.arange(self.envs)
        return places.ravel(), self._valid[changed].ravel()

    def _write_legal(self, slots: Places, tree: ArrayDict) -> None:
        """Write what could be played; everything, where a fragment does not tell."""
        told = "action_mask" in tree
        if told and self._legal is None:
            self._legal = self._new_legal(tree["action_mask"].shape[2])
        if self._legal is not None:
            self._legal.write(slots, _array(tree["action_mask"]) if told else np.array(True))

    def _new_legal(self, num_actions: int) -> WholeObs:
        """Return room for masks, where every action may be played."""
        part: Part = (num_actions,), np.dtype(bool)
        found = WholeObs(part, self.slots, self.envs, self._options.storage)
        found.write(np.arange(self.slots), np.array(True))
        return found

    def _rewards(self, reward: Ndarray) -> Ndarray:
        limit = self._options.clip_reward
        return reward if limit is None else np.clip(reward, -limit, limit)

    def _drop(self, num: int) -> Places:
        """Forget the steps that are too old once `num` are added; return their slots."""
        oldest = self.count - self.num_steps
        left = np.arange(oldest, max(oldest, self.count + num - self.length)) % self.slots
        self.num_valid -= int(np.count_nonzero(self._valid[left]))
        self._valid[left] = False
        # Serials grow with the steps, so all up to the greatest that is dropped are too old.
        self._finals.drop_before(int(self._final[left].max(initial=-1)) + 1)
        self._final[left] = -1
        return left

    def _continued(self, tree: ArrayDict) -> npt.NDArray[np.bool_]:
        """Return `[B]` bool, whether a fragment begins with what followed the newest step.

        It does not if another fragment was left out, or if several samplers take turns.
        """
        places = self.cursor * self.envs + np.arange(self.envs)
        found = np.ones(self.envs, np.bool_)
        for store, leaf in zip(self._obs, leaves_of(tree["obs"]), strict=True):
            found &= _alike(store.take(places), _array(leaf, 1)[0])
        return found

    def _end_abandoned(self, first: npt.NDArray[np.bool_]) -> None:
        """Truncate episodes that did not end, where another begins all the same.

        That is so after new envs replaced envs without saved states.
        """
        newest = (self.count - 1) % self.slots
        rows = np.flatnonzero(first & self._valid[newest] & (self._final[newest] < 0))
        if len(rows):
            self._truncated[newest, rows] = True
            # The slot at the cursor has what followed the newest step; the new fragment is about to
            # write over it.
            last = self.cursor * self.envs + rows
            serials = self._finals.add([store.take(last) for store in self._obs])
            self._final[newest, rows] = serials

    def _check(self, tree: ArrayDict) -> None:
        given, num = StepForm.of(tree), tree["reward"].shape[0]
        if given != self.form:
            raise InvalidSamples(
                f"{self._where}: a fragment must have the form of the first, {self.form}; got "
                f"{given}. Begin a new replay."
            )
        if num > self.length:
            raise InvalidSamples(
                f"{self._where}: capacity must hold a fragment, {num} steps of {self.envs} envs; "
                f"there is room for {self.length} of each. Raise it, or collect shorter fragments."
            )
        if self._legal is not None and "action_mask" in tree:
            here, count = self._legal.width, tree["action_mask"].shape[2]
            if here != count:
                raise InvalidSamples(
                    f"{self._where}: masks must be of {here} actions, as those before; got "
                    f"{count}. Begin a new replay."
                )

    @property
    def flags(self) -> SequenceArrays:
        """Arrays for the sequence kernel."""
        return SequenceArrays(self._reward, self._terminated, self._final, self._valid, self._first)

    # Reading --------------------------------------------------------------------

    def place_of(self, index: npt.NDArray[np.int64]) -> Places:
        """Return the places of steps `[N]`, counted from the oldest: step * B + env."""
        oldest = self.count - self.num_steps
        slot = (oldest + index // self.envs) % self.slots
        return slot * self.envs + index % self.envs

    def valid_at(self, places: Places) -> npt.NDArray[np.bool_]:
        """Return `[N]` bool, which steps were played."""
        return self._valid.reshape(-1)[places]

    def obs_at(self, places: Places) -> Any:
        """Return copies of observations `[N, ...]`, nested as in the tree."""
        return self.form.join("obs", [store.take(places) for store in self._obs])

    def action_at(self, places: Places) -> Any:
        """Return copies of actions `[N, ...]`, nested as in the tree."""
        found = [ring.reshape(-1, *ring.shape[2:]).take(places, axis=0) for ring in self._actions]
        return self.form.join("action", found)

    def obs_after(self, places: Places, finals: Places) -> Any:
        """Return copies `[N, ...]` of observations, or of last ones where a serial is >= 0."""
        found = [store.take(places) for store in self._obs]
        rows = np.flatnonzero(finals >= 0)
        if len(rows):
            for leaf, last in zip(found, self._finals.take(finals[rows]), strict=True):
                leaf[rows] = last
        return self.form.join("obs", found)

    def legal_after(self, places: Places, finals: Places) -> npt.NDArray[np.bool_] | None:
        """Return a copy `[N, A]` of the legal actions at `obs_after`; None if all are legal.

        After the last step of an episode it is everything, as nothing was to be played there.
        """
        if self._legal is None:
            return None
        found = self._legal.take(places)
        found[finals >= 0] = True
        return found

    # Saving ---------------------------------------------------------------------

    def _rings(self) -> dict[str, Ndarray]:
        """Return what is saved of every slot, by name."""
        return {
            "reward": self._reward,
            "terminated": self._terminated,
            "truncated": self._truncated,
            "valid": self._valid,
            "first": self._first,
            "final": self._final,
            **{f"action.{number}": ring for number, ring in enumerate(self._actions)},
        }

    def state_dict(self) -> dict[str, Any]:
        """Return views of all stored steps, by slot; they are valid until the next `add`."""
        # With the slot at the cursor, whose observation belongs to the newest step.
        used = min(self.count + 1, self.slots)
        return {
            "count": self.count,
            "rings": {name: ring[:used] for name, ring in self._rings().items()},
            "obs": {str(i): store.state_dict(used) for i, store in enumerate(self._obs)},
            "finals": self._finals.state_dict(),
            **({} if self._legal is None else {"legal": self._legal.state_dict(used)}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the content by a saved one.

        Raises:
            InvalidSamples: it is not what `state_dict` returns of such a ring.
        """
        saved, self.count = state["rings"], int(state["count"])
        used = min(self.count + 1, self.slots)
        for name, ring in self._rings().items():
            rows = np.asarray(saved[name])
            if rows.shape != (used, *ring.shape[1:]) or rows.dtype != ring.dtype:
                raise InvalidSamples(
                    f"{self._where}: {name} that was saved must be {(used, *ring.shape[1:])} "
                    f"{ring.dtype}; got {rows.shape} {rows.dtype}."
                )
            ring[:used] = rows
        for i, store in enumerate(self._obs):
            store.load_state_dict(state["obs"][str(i)])
        self._finals.load_state_dict(state["finals"])
        if int(self._final.max(initial=-1)) >= self._finals.added:
            raise InvalidSamples(f"{self._where}: of some ends the observation was not saved.")
        self._legal = None
        if "legal" in state:
            self._legal = self._new_legal(state["legal"]["ring"].shape[2])
            self._legal.load_state_dict(state["legal"])
        # Counted again: it follows from the flags, and cannot disagree with them.
        self.num_valid = int(np.count_nonzero(self._valid[: len(saved["valid"])]))


def _array(leaf: Array, steps: int | None = None) -> Ndarray:
    """Return `[steps, B, ...]` of an array, a view; None: one more than T, from the padding."""
    return leaf[0 : leaf.shape[0] + 1 if steps is None else steps].to_ndarray(copy=False)


def _alike(these: Ndarray, those: Ndarray) -> npt.NDArray[np.bool_]:
    """Return `[B]` bool, which rows of two arrays `[B, ...]` are the same, byte by byte."""
    # Bytes: NaN is like itself.
    rows = [
        np.ascontiguousarray(one).reshape(len(one), -1).view(np.uint8) for one in (these, those)
    ]
    same: npt.NDArray[np.bool_] = (rows[0] == rows[1]).all(axis=1)
    return same


def _kind(part: Part, options: RingOptions) -> type[WholeObs | FrameObs]:
    """Return how a leaf of the observations is kept."""
    is_stack = len(part[0]) >= 3 and part[0][0] > 1
    return FrameObs if options.frames and is_stack else WholeObs
