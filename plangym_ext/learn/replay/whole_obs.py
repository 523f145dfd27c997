"""WholeObs: observations in a ring buffer, one complete observation per slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import Array
from plangym_ext.learn.replay.step_form import Part

Ndarray = npt.NDArray[Any]
Places = npt.NDArray[np.int64]


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
        """Return the bytes that one takes."""
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
