"""Stacks of dense layers whose outputs are normalised before their rectifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plangym_ext.learn.torch_extra import functional, torch


def normalised_layers(
    x: Any,
    weights: Sequence[Any],
    biases: Sequence[Any],
    scales: Sequence[Any],
    offsets: Sequence[Any],
    *,
    precision: str,
) -> Any:
    """Return what E stacks of dense layers make of the same rows.

    All layers but the last are normalised over their outputs, scaled, and rectified.

    Args:
        x: `[N, F]` float32.
        weights: of each layer, `[E, out, in]` float32.
        biases: of each layer, `[E, out]`.
        scales: of each layer but the last, `[E, out]`.
        offsets: likewise.
        precision: "float32" or "bfloat16", of what is multiplied; the rest is float32.

    Returns:
        `[E, N, out]` float32, fresh.

    Source: Ba et al. 2016, "Layer normalization".
    """
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    rows = x.expand(len(weights[0]), *x.shape)
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        product = torch.bmm(rows.to(dtype), weight.to(dtype).transpose(1, 2)).float()
        rows = product + bias[:, None]
        if i < len(scales):
            normal = functional.layer_norm(rows, rows.shape[-1:])
            rows = torch.addcmul(offsets[i][:, None], normal, scales[i][:, None]).relu()
    return rows
