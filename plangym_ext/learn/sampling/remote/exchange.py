"""Exchange of weights and fragments between a `WorkerSampler` and its actors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.arrays.closing import Closing
from plangym_ext.learn.sampling.remote.sent_columns import SentColumns, SharedWeights
from plangym_ext.workers.workplace import ServiceWorker, Workplace

Weights = Mapping[str, Any]


class Exchange(Closing):
    """Abstract; how weights and fragments travel.

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
    """Everything is in shared memory, which workers read and write.

    Args:
        tree: of the sampler, shared.
        weights: such as will be given.
        progress: of each worker, shared.
    """

    play = "collect"

    def __init__(self, tree: ArrayDict, weights: Weights, progress: Sequence[Array]) -> None:
        self._tree, self._progress = tree, progress
        self._weights = SharedWeights(weights)

    def open(self, worker: ServiceWorker, index: int) -> None:
        """See `Exchange`."""
        # Waited for: the worker maps the memory through this process's descriptors, which must
        # still be open then.
        worker.call("open", self._tree, self._weights, self._progress[index])()

    def give(self, weights: Weights) -> tuple[Any, ...]:
        """See `Exchange`."""
        self._weights.write(weights)
        return ()

    def given(self) -> dict[str, npt.NDArray[Any]]:
        """See `Exchange`."""
        return self._weights.read()

    def take(self, index: int, answer: Sequence[Any]) -> None:
        """Do nothing: it was written there."""

    @property
    def nbytes(self) -> int:
        """See `Exchange`."""
        return self._weights.nbytes

    def close(self) -> None:
        """Release the memory of the weights; the tree stays valid."""
        self._weights.close()


class SentExchange(Exchange):
    """Workers are anywhere: weights are placed where all can get them, and columns come back.

    Args:
        tree: of the sampler.
        ranges: rows of each worker.
        workplace: where the workers run.
    """

    play = "send"

    def __init__(self, tree: ArrayDict, ranges: Sequence[range], workplace: Workplace) -> None:
        self._columns = [SentColumns(tree, rows) for rows in ranges]
        self._num_steps, self._masks = tree["reward"].shape[0], "action_mask" in tree
        self._workplace = workplace
        self._weights: dict[str, npt.NDArray[Any]] = {}
        self._placed: Any = None

    def open(self, worker: ServiceWorker, index: int) -> None:  # noqa: ARG002
        """See `Exchange`."""
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
        """See `Exchange`."""
        return {name: value.copy() for name, value in self._weights.items()}

    def take(self, index: int, answer: Sequence[Any]) -> None:
        """See `Exchange`."""
        self._columns[index].write(answer[0])

    @property
    def nbytes(self) -> int:
        """See `Exchange`."""
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
