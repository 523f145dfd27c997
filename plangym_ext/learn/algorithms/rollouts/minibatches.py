"""Random minibatches of a fragment, and normalised advantages of the rows of all learners."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.parallel.group import LearnerGroup
from plangym_ext.learn.returns import normalized
from plangym_ext.learn.torch_extra import torch
from plangym_ext.learn.transforms.moments import moments_of


def minibatches(rows: Any, batch_size: int, *, by_step: bool) -> Iterator[Any]:
    """Yield all rows once, in an order that is drawn; sizes differ by one row at most.

    Args:
        rows: `Rows` of N single steps, or what `Gradients.batch` made of them; or else of T steps
            of B envs.
        batch_size: most steps of a minibatch; a column is never cut.
        by_step: whether they are single steps.
    """
    yield from _steps(rows, batch_size) if by_step else _columns(rows, batch_size)


def _steps(rows: Any, batch_size: int) -> Iterator[Any]:
    count = len(rows.target)
    # Shuffled once, so that a minibatch is a view.
    shuffled = rows.take(torch.randperm(count))
    parts = -(-count // batch_size)
    for i in range(parts):
        yield shuffled.part(i * count // parts, (i + 1) * count // parts)


def _columns(rows: Any, batch_size: int) -> Iterator[Any]:
    steps, count = rows.target.shape
    parts = -(-count // max(1, batch_size // steps))
    # Drawn on the CPU, so that the order is the same wherever the network is.
    order = torch.randperm(count).to(rows.target.device)
    for index in torch.tensor_split(order, parts):
        yield rows.columns(index)


def check_minibatch(algorithm: Any) -> None:
    """Refuse a recurrent network that is to learn from single steps.

    Raises:
        InvalidOption: it is to.
    """
    if algorithm.config.minibatch == "step" and algorithm.network.initial_carry(1) is not None:
        raise InvalidOption(
            f"{type(algorithm).__name__}: a recurrent network needs minibatch='env', whole "
            f"sequences; got 'step'. Set {type(algorithm.config).__name__}(minibatch='env')."
        )


#: As of `normalized`.
_EPSILON = 1e-6


def standardized(parts: Sequence[Any], group: LearnerGroup) -> list[Any]:
    """Return parts with advantages of mean 0 and deviation 1 over the same part of all learners.

    One exchange serves all of the parts, so that it costs little beside those of the gradients.

    Args:
        parts: `Rows` of single steps or of sequences, or what `Gradients.batch` made of some.
        group: the learners.
    """
    if group.size == 1:
        return [_with(part, normalized(part.advantage, _valid(part))) for part in parts]
    # Moments of the rows of all learners: each divides its own by the same numbers.
    found = group.merged([moments_of(*_arrays(part)) for part in parts])
    return [
        _with(
            part,
            (part.advantage - float(moments.mean))
            / (math.sqrt(float(moments.variance)) + _EPSILON),
        )
        # As of `normalized`: a single row stays as it is.
        if moments.num_rows > 1
        else part
        for part, moments in zip(parts, found, strict=True)
    ]


def _with(part: Any, advantage: Any) -> Any:
    return part._replace(advantage=advantage)


def _valid(part: Any) -> Any:
    return getattr(part, "valid", None)


def _arrays(part: Any) -> tuple[Any, Any]:
    """Return advantages and which of them count as `[T, B]` arrays."""
    advantage, valid = part.advantage, _valid(part)
    if not isinstance(advantage, np.ndarray):
        advantage = advantage.cpu().numpy()
        valid = None if valid is None else valid.cpu().numpy()
    # `[N, 1]` of single steps: moments are taken of `[T, B]`.
    valid = None if valid is None else valid.reshape(len(valid), -1)
    return advantage.reshape(len(advantage), -1), valid
