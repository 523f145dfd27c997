"""Layers over images: attention among their cells, and a recurrent layer of convolutions."""

from __future__ import annotations

import math
from typing import Any, final

from plangym_ext.learn.torch_extra import functional, nn, torch

_HEADS = 4


@final
class CellAttention(nn.Module):
    """Self-attention among the cells of images `[B, C, H, W]`, added to its input.

    Source: Zambaldi et al. 2019, "Deep reinforcement learning with relational inductive biases".
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self._heads = math.gcd(channels, _HEADS)
        self.asked = nn.Conv2d(channels, 3 * channels, 1, dtype=torch.float32)
        self.joined = nn.Conv2d(channels, channels, 1, dtype=torch.float32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `[B, C, H, W]`."""
        # `[B, heads, cells, C / heads]` of queries, keys and values.
        parts = self.asked(x).flatten(2).unflatten(1, (3, self._heads, -1)).transpose(3, 4)
        found = functional.scaled_dot_product_attention(*parts.unbind(1))
        return x + self.joined(found.transpose(2, 3).reshape(x.shape))


@final
class ConvGRU(nn.Module):
    """A GRU whose products are 3 x 3 convolutions, called as torch's own.

    Args:
        shape: `(C, H, W)` of what comes in and of what is carried; both are flattened.

    Source: Ballas et al. 2016, "Delving deeper into convolutional networks for learning video
    representations".
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self._shape, channels = shape, shape[0]
        self.gates = nn.Conv2d(2 * channels, 2 * channels, 3, padding=1, dtype=torch.float32)
        self.new = nn.Conv2d(2 * channels, channels, 3, padding=1, dtype=torch.float32)

    def forward(self, x: Any, carry: Any) -> tuple[Any, Any]:
        """Return `[T, B, F]` and the carry `[1, B, F]` after `[T, B, F]`, F = C H W."""
        kept, outs = carry[0].unflatten(1, self._shape), []
        for step in x.unflatten(2, self._shape):
            reset, update = torch.sigmoid(self.gates(torch.cat([step, kept], 1))).chunk(2, 1)
            new = torch.tanh(self.new(torch.cat([step, reset * kept], 1)))
            kept = new + update * (kept - new)
            outs.append(kept)
        return torch.stack(outs).flatten(2), kept.flatten(1)[None]
