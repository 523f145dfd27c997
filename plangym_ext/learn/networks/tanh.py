"""Fast tanh layer for float32 on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.learn.torch_extra import nn, torch


class Tanh(nn.Tanh):
    """The layer `torch.nn.Tanh`, for float32 on the CPU by numpy.

    numpy works on whole vectors of the processor: its tanh of `[64, 64]` takes 3 us where torch's
    takes 10 us, and is off by 1.4 units in the last place at most. Learning and acting use the
    same one, so that a learner finds the likelihoods of what was played to the bit.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply to `[N, ...]`."""
        if x.device.type != "cpu" or x.dtype != torch.float32 or _is_written_down():
            return torch.tanh(x)
        if not torch.is_grad_enabled():
            return torch.from_numpy(np.tanh(x.detach().numpy()))
        apply: Callable[[torch.Tensor], torch.Tensor] = _NumpyTanh.apply
        return apply(x)


def _is_written_down() -> bool:
    """Return whether torch writes down what is computed: it sees nothing of what numpy does."""
    jit: Any = torch.jit
    return bool(jit.is_tracing()) or torch.compiler.is_exporting()


class _NumpyTanh(torch.autograd.Function):
    """tanh of float32 on the CPU, with the gradient that torch's has."""

    @staticmethod
    def forward(x: Any) -> Any:
        return torch.from_numpy(np.tanh(x.detach().numpy()))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG004 - torch's names
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (found,) = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(grads[0], found)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:  # noqa: ARG004 - torch's names
        apply: Callable[[Any], Any] = _NumpyTanh.apply
        return apply(x), in_dims[0]
