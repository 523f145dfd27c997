"""Random-number source on torch's generators."""

from __future__ import annotations

from typing import Any

from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.learn.torch_extra import torch


class TorchNoise:
    """Random numbers as tensors, for `rsample`.

    Args:
        shape: of the rows, such as `params.shape[:-1]`.
        generator: that draws them, on its own device; None: torch's own of the device where they
            are needed. An algorithm that learns from replay keeps its state in checkpoints.
        device: where they are needed.
    """

    @checking_arguments
    def __init__(self, shape: tuple[int, ...], generator: Any = None, device: Any = "cpu") -> None:
        drawn_on = device if generator is None else generator.device
        self._shape, self._more = tuple(shape), {"generator": generator, "device": drawn_on}
        self._device = device

    def uniform(self, k: int = 1) -> Any:
        """Return `[*shape, k]` float64 in [0, 1)."""
        return torch.rand(*self._shape, k, dtype=torch.float64, **self._more).to(self._device)

    def normal(self, k: int = 1) -> Any:
        """Return `[*shape, k]` float32."""
        return torch.randn(*self._shape, k, dtype=torch.float32, **self._more).to(self._device)
