"""Action masks on logits and Q values: illegal actions get no probability."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Without weight after softmax, and finite: 0 * -inf is no number.
FORBIDDEN = -1e9


def masked(values: Any, legal: Any) -> Any:
    """Return logits or Q values, those of forbidden actions so low that none is played.

    Args:
        values: array or tensor `[..., A]`.
        legal: bool `[..., A]` of the same kind, which actions may be played; None: all. A row
            that allows nothing is not played from: it is treated as one that allows all.

    Returns:
        `[..., A]` of the dtype of `values`: fresh, or `values` itself if all are legal.
    """
    if legal is None:
        return values
    if isinstance(values, np.ndarray):
        allowed = legal | ~legal.any(axis=-1, keepdims=True)
        return np.where(allowed, values, values.dtype.type(FORBIDDEN))
    return values.masked_fill(~legal & legal.any(dim=-1, keepdim=True), FORBIDDEN)
