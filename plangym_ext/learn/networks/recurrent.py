"""Recurrent layers (LSTM, GRU) whose carry is reset at episode starts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from plangym_ext.learn.torch_extra import nn, torch

_LAYERS = {"lstm": nn.LSTM, "gru": nn.GRU}
#: Names of the parts of a carry, each `[B, H]`.
PARTS = {"lstm": ("h", "c"), "gru": ("h",)}


class Recurrent(nn.Module):
    """One LSTM or GRU layer.

    Args:
        kind: "lstm" or "gru".
        width: features per step that come in.
        size: features per step that go out, H.
    """

    def __init__(self, kind: str, width: int, size: int) -> None:
        super().__init__()
        self.parts, self.size = PARTS[kind], size
        self.layer = _LAYERS[kind](width, size, dtype=torch.float32)

    def initial_carry(self, num_rows: int) -> dict[str, torch.Tensor]:
        """Return zeros `[B, H]` by name, on the CPU."""
        return {name: torch.zeros(num_rows, self.size, dtype=torch.float32) for name in self.parts}

    def forward(
        self, x: torch.Tensor, carry: Mapping[str, torch.Tensor], first: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Go through T steps.

        Args:
            x: `[T, B, width]`.
            carry: before the first of them; not changed.
            first: `[T, B]` bool, where the carry is reset before the step.

        Returns:
            `[T, B, H]`, and the carry after the last step.
        """
        parts = tuple(carry[name] for name in self.parts)
        outs = []
        # Torch's layer cannot reset a row in the middle of a sequence: it is called for each piece
        # between two beginnings.
        for start, end in pairwise(_cuts(first)):
            # Only the rows that begin; the others go on. A new tensor: the caller's carry is not
            # changed.
            parts = tuple(part.masked_fill(first[start][:, None], 0.0) for part in parts)
            out, parts = self._segment(x[start:end], parts)
            outs.append(out)
        whole = outs[0] if len(outs) == 1 else torch.cat(outs)
        return whole, dict(zip(self.parts, parts, strict=True))

    def _segment(
        self, x: torch.Tensor, parts: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """Go through steps in which no episode begins: one call of torch's layer."""
        layered = tuple(part[None] for part in parts)
        out, after = self.layer(x, layered if len(layered) > 1 else layered[0])
        after = after if isinstance(after, tuple) else (after,)
        return out, tuple(part[0] for part in after)


def _cuts(first: torch.Tensor) -> list[int]:
    """Return the steps at which some row begins an episode, between 0 and T."""
    steps = len(first)
    if steps == 1:
        return [0, 1]
    begins: Any = first.any(dim=1).tolist()
    return [0, *(t for t in range(1, steps) if begins[t]), steps]
