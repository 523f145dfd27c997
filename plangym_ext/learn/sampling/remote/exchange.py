"""Exchange of weights and fragments between a `WorkerSampler` and its actors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.arrays.closing import Closing
from plangym_ext.errors import WrongKind
from plangym_ext.learn.sampling.tree import array_bytes
from plangym_ext.workers.workplace import ServiceWorker, Workplace

Ndarray = npt.NDArray[Any]
#: Arrays `[B, ...]`; all others are `[T, B, ...]`.
_OF_ROWS = frozenset({"carry", "next_carry", "version"})
_ENDINGS = ("terminated", "truncated")
#: Written, and to be read, only where an episode ended: the rest of it does not travel.
_AT_ENDS = "final_obs"


class SentColumns:
    """The memory of some rows over a fragment, array by array, as views.

    Args:
        tree: of `build_sample_tree`.
        rows: columns of it; None for all.
    """

    def __init__(self, tree: ArrayDict, rows: range | None = None) -> None:
        self._rows = slice(None) if rows is None else slice(rows.start, rows.stop)
        self._everywhere: list[Ndarray] = []
        self._at_ends: list[Ndarray] = []
        for path, leaf in tree.leaves():
            name = path.partition(".")[0]
            found = self._at_ends if name == _AT_ENDS else self._everywhere
            found.append(self._view(leaf, over_time=name not in _OF_ROWS))
        self._endings = [self._view(tree[name], over_time=True) for name in _ENDINGS]

    def _view(self, leaf: Any, *, over_time: bool) -> Ndarray:
        # Row T of what has one is in the padding.
        rows = leaf[0 : leaf.shape[0] + min(1, leaf.padding)] if over_time else leaf
        found: Ndarray = rows.to_ndarray(copy=False)
        return found[:, self._rows] if over_time else found[self._rows]

    def _ended(self) -> Ndarray:
        """Return `[T, b]` bool, which steps ended an episode."""
        terminated, truncated = self._endings
        found: Ndarray = terminated | truncated
        return found

    def taken(self) -> list[Ndarray]:
        """Return the fragment as fresh arrays."""
        ended = self._ended()
        return [
            *(np.array(view, order="C") for view in self._everywhere),
            *(view[ended] for view in self._at_ends),
        ]

    def write(self, arrays: list[Ndarray]) -> None:
        """Write a result of `taken` into as many rows of an equal tree."""
        count = len(self._everywhere)
        for view, array in zip(self._everywhere, arrays[:count], strict=True):
            view[...] = array
        ended = self._ended()  # as has just been written
        for view, array in zip(self._at_ends, arrays[count:], strict=True):
            view[ended] = array


# Bytes of a cache line, at which every array begins.
_LINE = 64


class _Field(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int


class SharedWeights(Closing):
    """One block of shared memory for what `Agent.state_dict` returns; a pickle refers to it.

    Args:
        state: arrays and numbers by name: what the block is laid out for.

    Raises:
        WrongKind: the state holds something else.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._fields: dict[str, _Field] = {}
        start = 0
        for name, value in state.items():
            array = np.asarray(value)
            if array.dtype.kind not in "biuf":
                raise WrongKind(
                    f"WorkerSampler: the agent's state_dict must hold arrays of numbers by name, "
                    f"which travel in shared memory; {name!r} is a {type(value).__name__}."
                )
            self._fields[name] = _Field(array.shape, array.dtype, start)
            start += -(-array.nbytes // _LINE) * _LINE
        self._memory = Array((max(1, start),), np.uint8, storage="shared")

    def _views(self) -> dict[str, npt.NDArray[Any]]:
        memory = self._memory.to_ndarray(copy=False)
        return {
            name: np.ndarray(field.shape, field.dtype, memory.data, field.start)
            for name, field in self._fields.items()
        }

    @property
    def nbytes(self) -> int:
        """Bytes of the block."""
        return array_bytes(self._memory)

    def write(self, state: Mapping[str, Any]) -> None:
        """Write weights to the block, with the names, shapes and dtypes of its layout."""
        # Without a lock: workers copy it as a fragment begins, samplers write between fragments.
        for name, view in self._views().items():
            view[...] = state[name]

    def read(self) -> dict[str, npt.NDArray[Any]]:
        """Return the weights by name, fresh."""
        return {name: view.copy() for name, view in self._views().items()}

    def close(self) -> None:
        self._memory.close()


Weights = Mapping[str, Any]


class Exchange(Closing):
    """Abstract; transfer of weights and fragments between a sampler and its actors.

    Attributes:
        play: name of the call by which a worker plays a fragment.
    """

    play: str

    @abstractmethod
    def open(self, worker: ServiceWorker, index: int) -> None:
        """Add a new worker."""

    @abstractmethod
    def give(self, weights: Weights) -> tuple[Any, ...]:
        """Publish the weights of the next fragment; return further arguments of its call.

        No fragment is being played.
        """

    @abstractmethod
    def given(self) -> dict[str, npt.NDArray[Any]]:
        """Return the weights of the fragment by name, fresh."""

    @abstractmethod
    def take(self, index: int, answer: Sequence[Any]) -> None:
        """Write a worker's fragment into the tree.

        Args:
            index: of the worker.
            answer: what its call returned besides episodes and states.
        """

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the stored weights."""


class SharedExchange(Exchange):
    """Exchange through shared memory, which workers read and write."""

    play = "collect"

    def __init__(self, tree: ArrayDict, weights: Weights, progress: Sequence[Array]) -> None:
        self._tree, self._progress = tree, progress
        self._weights = SharedWeights(weights)

    def open(self, worker: ServiceWorker, index: int) -> None:
        # Waited for: the worker maps the memory through this process's descriptors, which must
        # still be open then.
        worker.call("open", self._tree, self._weights, self._progress[index])()

    def give(self, weights: Weights) -> tuple[Any, ...]:
        self._weights.write(weights)
        return ()

    def given(self) -> dict[str, npt.NDArray[Any]]:
        return self._weights.read()

    def take(self, index: int, answer: Sequence[Any]) -> None:
        """Do nothing: the worker has written into the tree."""

    @property
    def nbytes(self) -> int:
        return self._weights.nbytes

    def close(self) -> None:
        """Release the memory of the weights; the tree stays valid."""
        self._weights.close()


class SentExchange(Exchange):
    """Exchange by messages with workers on any machine: weights are sent, columns come back."""

    play = "send"

    def __init__(self, tree: ArrayDict, ranges: Sequence[range], workplace: Workplace) -> None:
        self._columns = [SentColumns(tree, rows) for rows in ranges]
        self._num_steps, self._masks = tree["reward"].shape[0], "action_mask" in tree
        self._workplace = workplace
        self._weights: dict[str, npt.NDArray[Any]] = {}
        self._placed: Any = None

    def open(self, worker: ServiceWorker, index: int) -> None:  # noqa: ARG002
        worker.call("open_own", self._num_steps, self._masks)()

    def give(self, weights: Weights) -> tuple[Any, ...]:
        """Place weights, unless they are those of the fragment before; see `Exchange`."""
        if not _equal(weights, self._weights):
            # A copy: the agent's tensors change in place with the next update, and the next
            # comparison would find them equal to themselves.
            self._weights = {name: np.array(value) for name, value in weights.items()}
            self._placed = self._workplace.placed(self._weights)
        return (self._placed,)

    def given(self) -> dict[str, npt.NDArray[Any]]:
        return {name: value.copy() for name, value in self._weights.items()}

    def take(self, index: int, answer: Sequence[Any]) -> None:
        self._columns[index].write(answer[0])

    @property
    def nbytes(self) -> int:
        return sum(value.nbytes for value in self._weights.values())

    def close(self) -> None:
        """Forget the weights."""
        self._placed = None


def _equal(weights: Weights, others: Weights) -> bool:
    """Return whether the bytes are the same; NaN equals itself."""
    if weights.keys() != others.keys():
        return False
    return all(_bytes(value) == _bytes(others[name]) for name, value in weights.items())


def _bytes(value: Any) -> tuple[tuple[int, ...], bytes]:
    array = np.asarray(value)
    # Bytes and not `==`, by which NaN differs from itself and -0.0 equals 0.0.
    return array.shape, array.tobytes()
