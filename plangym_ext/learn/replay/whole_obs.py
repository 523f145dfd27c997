"""Observations in a ring, one for every slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import Array

Ndarray = npt.NDArray[Any]


@final
class WholeObs:
    """What B envs showed, in a ring of M slots.

    Args:
        parts: shape and dtype of every leaf of an observation.
        slots: M.
        envs: B.
        storage: of the memory; see `Array`.
    """

    def __init__(
        self,
        parts: Sequence[tuple[tuple[int, ...], Any]],
        slots: int,
        envs: int,
        storage: Literal["local", "shared"],
    ) -> None:
        self._arrays = [
            Array((slots, envs), dtype, feature_shape=shape, storage=storage)
            for shape, dtype in parts
        ]
        self._rings = [array.to_ndarray(copy=False) for array in self._arrays]
        self._rows = [ring.reshape(slots * envs, *ring.shape[2:]) for ring in self._rings]

    def write(self, slots: npt.NDArray[np.int64], obs: Sequence[Ndarray]) -> None:
        """Copy leaves `[N, B, ...]` into slots `[N]`."""
        for ring, leaf in zip(self._rings, obs, strict=True):
            ring[slots] = leaf

    def take(self, places: npt.NDArray[np.int64]) -> list[Ndarray]:
        """Return copies of leaves `[N, ...]`; places `[N]` are slot * B + env."""
        return [rows.take(places, axis=0) for rows in self._rows]

    def state_dict(self, slots: int) -> dict[str, Any]:
        """Return views of the first slots."""
        return {str(number): ring[:slots] for number, ring in enumerate(self._rings)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        for number, ring in enumerate(self._rings):
            saved = state[str(number)]
            ring[: len(saved)] = saved
