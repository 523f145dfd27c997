"""Replay: the interface of replay buffers, their batches and their capacity."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.numbers import at_least
from plangym_ext.errors import InvalidOption, InvalidSamples

#: Nested rows: numpy arrays `[N, ...]` by name.
Samples = Mapping[str, Any]


class Batch(NamedTuple):
    """Rows drawn from a replay; fresh arrays that belong to the caller."""

    samples: dict[str, Any]  # [batch, ...] by name, nested as they were added
    indices: npt.NDArray[Any]  # [batch] int64, for `update_priorities`
    weights: npt.NDArray[Any]  # [batch] float32, importance weights; 1 if drawn uniformly


def check_saved(kind: str, capacity: Any, state: Mapping[str, Any]) -> None:
    """Refuse the saved state of another kind of replay, or of another capacity.

    Raises:
        InvalidSamples: it is.
    """
    for key, own in (("kind", kind), ("capacity", capacity)):
        if state.get(key) != own:
            raise InvalidSamples(
                f"{kind}.load_state_dict: {key} must be {own!r}; got {state.get(key)!r}. Make the "
                f"replay as it was when it was saved."
            )


def saved_generator(kind: str, text: str) -> np.random.Generator:
    """Return a new generator in the state that was saved as a text.

    Raises:
        InvalidSamples: the text is no such state.
    """
    generator = np.random.default_rng(0)
    try:
        generator.bit_generator.state = json.loads(text)
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidSamples(
            f"{kind}.load_state_dict: rng must be the state of a generator of numpy's as a text of "
            f"JSON; got {text!r:.60}."
        ) from error
    return generator


class Replay(ABC):
    """Abstract base of replay buffers: stores the newest rows and samples batches.

    The first `add` decides on names, shapes and dtypes. The same calls with the same seed
    give the same batches; what was saved goes on bit for bit.

    Args:
        capacity: rows, at least 1. Memory is taken as rows come.
        seed: of the sampling.

    Raises:
        InvalidOption: the capacity is not a positive integer.
    """

    def __init__(self, capacity: int, *, seed: int) -> None:
        self.capacity = at_least(f"{self._name}: capacity", capacity, 1)
        self._rng = np.random.default_rng(seed)

    @property
    def _name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def add(self, samples: Samples) -> None:
        """Copy N rows in, in order of age; the oldest rows are overwritten.

        Args:
            samples: arrays `[N, ...]` by name, nested as you like, all with the same N.

        Raises:
            InvalidSamples: names, shapes or dtypes are not those of the first call, or the
                arrays differ in length. Nothing has been added.
        """

    @abstractmethod
    def sample(self, batch_size: int) -> Batch:
        """Draw `batch_size` rows, with replacement; fresh arrays, see `Batch`.

        Raises:
            ReplayEmpty: there are no rows.
        """

    def update_priorities(self, indices: npt.ArrayLike, priorities: npt.ArrayLike) -> None:  # noqa: B027
        """Set the priorities of rows; buffers without priorities do nothing.

        Args:
            indices: `[N]` int64 of a `Batch`.
            priorities: `[N]` float64, such as `PlanLearning.errors`.
        """

    @abstractmethod
    def all(self) -> dict[str, Any]:
        """Return copies of all rows `[len, ...]` by name, the oldest first.

        Raises:
            ReplayEmpty: there are no rows.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Return the rows that are there."""

    def state_dict(self) -> dict[str, Any]:
        """Return the complete content: nested dicts of numpy arrays, ints, floats and strings.

        The arrays are copies.
        """
        # Text: its numbers have 128 bits.
        rng = json.dumps(self._rng.bit_generator.state)
        return {"kind": self._name, "capacity": self.capacity, "rng": rng, **self._contents()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the content by a saved one.

        Raises:
            InvalidSamples: the state is of another kind of replay, of another capacity, or
                incomplete. Nothing has changed.
        """
        check_saved(self._name, self.capacity, state)
        try:
            rng = saved_generator(self._name, state["rng"])
            self._restore(state)
        except KeyError as error:
            raise InvalidSamples(
                f"{self._name}.load_state_dict: the state must have {error}; got {sorted(state)}."
            ) from error
        self._rng = rng

    @abstractmethod
    def _contents(self) -> dict[str, Any]:
        """Return the part of `state_dict` that this kind of replay has."""

    @abstractmethod
    def _restore(self, state: Mapping[str, Any]) -> None:
        """Become what `_contents` returned, or raise and stay as it is."""


#: Steps of all envs, or a text such as "2GB".
Capacity = int | str

_UNITS = {
    "": 1,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "KI": 2**10,
    "MI": 2**20,
    "GI": 2**30,
    "TI": 2**40,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B\s*", re.IGNORECASE)


def checked_capacity(where: str, capacity: Any) -> Capacity:
    """Return the capacity as it is.

    Args:
        where: begins the message.
        capacity: steps, at least 1; or bytes with a unit: "500MB", "2GB", "1.5GiB".

    Raises:
        InvalidOption: it is neither.
    """
    if isinstance(capacity, float) and capacity.is_integer():
        capacity = int(capacity)  # 1e6 is a float to Python
    if not isinstance(capacity, str):
        return at_least(where, capacity, 1)
    if not _SIZE.fullmatch(capacity):
        raise InvalidOption(
            f"{where} must be steps, or bytes such as '500MB', '2GB' or '1.5GiB'; got {capacity!r}."
        )
    return capacity


def steps_within(capacity: Capacity, step_bytes: int) -> int:
    """Return the number of steps of a given size that fit a checked capacity."""
    if not isinstance(capacity, str):
        return int(capacity)
    found = _SIZE.fullmatch(capacity)
    assert found is not None
    number, unit = found.groups()
    # Rounded down: the replay stays below what it may take.
    return int(float(number) * _UNITS[(unit or "").upper()]) // step_bytes
