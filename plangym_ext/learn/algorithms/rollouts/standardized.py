"""Advantage normalisation over the rows of all learners."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.learn.parallel.group import LearnerGroup
from plangym_ext.learn.returns import normalized
from plangym_ext.learn.transforms.moments import moments_of

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
