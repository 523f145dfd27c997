"""Random numbers of torch's generators."""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.torch_extra import torch


class TorchNoise:
    """Random numbers as tensors, for `rsample`.

    Args:
        shape: of the rows, such as `params.shape[:-1]`.
        generator: None: torch's own.
        device: where they are made; that of the generator.
    """

    def __init__(self, shape: tuple[int, ...], generator: Any = None, device: Any = "cpu") -> None:
        self._shape, self._more = tuple(shape), {"generator": generator, "device": device}

    def uniform(self, k: int = 1) -> Any:
        """Return `[*shape, k]` float64 in [0, 1)."""
        return torch.rand(*self._shape, k, dtype=torch.float64, **self._more)

    def normal(self, k: int = 1) -> Any:
        """Return `[*shape, k]` float32."""
        return torch.randn(*self._shape, k, **self._more)
