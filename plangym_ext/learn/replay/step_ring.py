"""The newest steps of B envs, with every observation once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.errors import InvalidSamples
from plangym_ext.learn.replay.capacity import Capacity, steps_within
from plangym_ext.learn.replay.kept_rows import KeptRows
from plangym_ext.learn.replay.n_step_kernel import StepArrays
from plangym_ext.learn.replay.step_form import StepForm, leaves_of
from plangym_ext.learn.replay.whole_obs import WholeObs

Ndarray = npt.NDArray[Any]
Places = npt.NDArray[np.int64]

#: Of a step, beside observation and action: reward, two flags, serial and `valid`.
_STEP_BYTES = 4 + 1 + 1 + 8 + 1


@final
class StepRing:
    """The newest L steps of B envs, filled from the trees of a sampler.

    Step k of every env lies in slot k % M, M = L + 1, beside the observation that it answers
    to. The slot that is left, at the cursor, has the observation that follows the newest step.
    The place of a step is slot * B + env; it keeps it until it is overwritten.

    Args:
        form: of the steps.
        capacity: steps of all envs, or bytes; observations of endings come on top.
        where: begins the messages.
        storage: "local", or "shared" with other processes.

    Attributes:
        length, envs: L and B.
        count: steps of each env that were ever added.
        num_valid: steps that are there and were played.
        steps: what n-step returns are made of.
    """

    def __init__(
        self,
        form: StepForm,
        capacity: Capacity,
        where: str,
        storage: Literal["local", "shared"] = "local",
    ) -> None:
        self.form, self._where, self._storage = form, where, storage
        self.envs = form.envs
        obs, action = form.parts("obs"), form.parts("action")
        step_bytes = _STEP_BYTES + sum(_num_bytes(*part) for part in (*obs, *action))
        self.length = steps_within(capacity, step_bytes) // self.envs
        if not self.length:
            raise InvalidSamples(
                f"{where}: capacity must hold a step of {self.envs} envs, {step_bytes} bytes "
                f"each; got {capacity!r}. Raise it."
            )
        slots = self.length + 1
        self.count = self.num_valid = 0
        self._obs = WholeObs(obs, slots, self.envs, storage)
        self._actions = [self._ring(shape, dtype) for shape, dtype in action]
        self._reward = self._ring((), np.float32)
        self._terminated, self._truncated, self._valid = (self._ring((), bool) for _ in range(3))
        self._final = self._ring((), np.int64)
        self._final.fill(-1)
        self._finals = KeptRows(obs)
        self.steps = StepArrays(self._reward, self._terminated, self._final)

    def _ring(self, shape: tuple[int, ...], dtype: Any) -> Ndarray:
        slots = (self.length + 1, self.envs)
        array = Array(slots, dtype, feature_shape=shape, storage=self._storage)
        return array.to_ndarray(copy=False)

    @property
    def cursor(self) -> int:
        """Slot of the next step."""
        return self.count % (self.length + 1)

    @property
    def num_steps(self) -> int:
        """Steps of each env that are there."""
        return min(self.count, self.length)

    # Adding ---------------------------------------------------------------------

    def add(self, tree: ArrayDict) -> tuple[Places, npt.NDArray[np.bool_]]:
        """Copy a fragment in; the oldest steps make room.

        Returns:
            Places `[N]` that changed, and which of them have steps to be drawn: those of
            the fragment, and the one that the cursor has moved to.

        Raises:
            InvalidSamples: it differs from the first one by name, shape or dtype. Nothing has
                been added.
        """
        self._check(tree)
        num = tree["reward"].shape[0]
        slots = (self.count + np.arange(num + 1)) % (self.length + 1)
        first = _array(tree["first"], 1)[0]
        if self.count:
            self._end_abandoned(first)
        self._drop(slots)
        self._obs.write(slots, [_array(leaf) for leaf in leaves_of(tree["obs"])])
        written = slots[:num]
        for ring, leaf in zip(self._actions, leaves_of(tree["action"]), strict=True):
            ring[written] = _array(leaf, num)
        self._reward[written] = _array(tree["reward"], num)
        self._terminated[written] = terminated = _array(tree["terminated"], num)
        self._truncated[written] = truncated = _array(tree["truncated"], num)
        self._valid[written] = valid = _array(tree["valid"], num)
        ended = (terminated | truncated) & valid
        if ended.any():
            t, b = np.nonzero(ended)
            rows = [_array(leaf, num)[t, b] for leaf in leaves_of(tree["final_obs"])]
            self._final[written[t], b] = self._finals.add(rows)
        self.count += num
        self.num_valid += int(np.count_nonzero(valid))
        places = slots[:, None] * self.envs + np.arange(self.envs)
        return places.ravel(), self._valid[slots].ravel()

    def _drop(self, slots: Places) -> None:
        """Forget the steps of slots that are written to, the cursor's new one included."""
        self.num_valid -= int(np.count_nonzero(self._valid[slots]))
        self._valid[slots] = False
        self._finals.drop_before(int(self._final[slots].max()) + 1)
        self._final[slots] = -1

    def _end_abandoned(self, first: npt.NDArray[np.bool_]) -> None:
        """Truncate episodes that did not end, where another begins all the same.

        So it is after envs were made anew whose states could not be kept.
        """
        newest = (self.count - 1) % (self.length + 1)
        rows = np.flatnonzero(first & self._valid[newest] & (self._final[newest] < 0))
        if len(rows):
            self._truncated[newest, rows] = True
            last = self._obs.take(self.cursor * self.envs + rows)
            self._final[newest, rows] = self._finals.add(last)

    def _check(self, tree: ArrayDict) -> None:
        given, num = StepForm.of(tree), tree["reward"].shape[0]
        if given != self.form:
            raise InvalidSamples(
                f"{self._where}: a fragment must look as the first one did, {self.form}; got "
                f"{given}. Begin a new replay."
            )
        if num > self.length:
            raise InvalidSamples(
                f"{self._where}: capacity must hold a fragment, {num} steps of {self.envs} envs; "
                f"there is room for {self.length} of each. Raise it, or collect shorter fragments."
            )

    # Reading --------------------------------------------------------------------

    def place_of(self, index: npt.NDArray[np.int64]) -> Places:
        """Return the places of steps `[N]`, counted from the oldest: step * B + env."""
        oldest = self.count - self.num_steps
        slot = (oldest + index // self.envs) % (self.length + 1)
        return slot * self.envs + index % self.envs

    def valid_at(self, places: Places) -> npt.NDArray[np.bool_]:
        """Return `[N]` bool, which steps were played."""
        return self._valid.reshape(-1)[places]

    def obs_at(self, places: Places) -> Any:
        """Return copies of observations `[N, ...]`, nested as in the tree."""
        return self.form.join("obs", self._obs.take(places))

    def action_at(self, places: Places) -> Any:
        """Return copies of actions `[N, ...]`, nested as in the tree."""
        found = [ring.reshape(-1, *ring.shape[2:]).take(places, axis=0) for ring in self._actions]
        return self.form.join("action", found)

    def obs_after(self, places: Places, finals: Places) -> Any:
        """Return copies `[N, ...]` of observations, or of last ones where a serial is >= 0."""
        found = self._obs.take(places)
        rows = np.flatnonzero(finals >= 0)
        if len(rows):
            for leaf, last in zip(found, self._finals.take(finals[rows]), strict=True):
                leaf[rows] = last
        return self.form.join("obs", found)

    # Saving ---------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return views of what there is, by slot; they hold until the next `add`."""
        used = min(self.count + 1, self.length + 1)
        rings = {
            "reward": self._reward,
            "terminated": self._terminated,
            "truncated": self._truncated,
            "valid": self._valid,
            "final": self._final,
            **{f"action.{number}": ring for number, ring in enumerate(self._actions)},
        }
        return {
            "count": self.count,
            "rings": {name: ring[:used] for name, ring in rings.items()},
            "obs": self._obs.state_dict(used),
            "finals": self._finals.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become what was saved."""
        saved = state["rings"]
        for name in ("reward", "terminated", "truncated", "valid", "final"):
            ring = getattr(self, f"_{name}")
            ring[: len(saved[name])] = saved[name]
        for number, ring in enumerate(self._actions):
            rows = saved[f"action.{number}"]
            ring[: len(rows)] = rows
        self._obs.load_state_dict(state["obs"])
        self._finals.load_state_dict(state["finals"])
        self.count = int(state["count"])
        self.num_valid = int(np.count_nonzero(self._valid[: len(saved["valid"])]))


def _array(leaf: Array, steps: int | None = None) -> Ndarray:
    """Return `[steps, B, ...]` of an array, a view; None: one more than T, from the padding."""
    return leaf[0 : leaf.shape[0] + 1 if steps is None else steps].to_ndarray(copy=False)


def _num_bytes(shape: tuple[int, ...], dtype: Any) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
