"""Dense layers whose weights are noisy, so that what they say explores by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, final

from plangym_ext.learn.torch_extra import functional, nn, torch

#: Deviation of a weight at first, times the root of the inputs.
_FIRST_DEVIATION = 0.5


@final
class NoisyLinear(nn.Module):
    """A dense layer with weights μ + σ ε; ε is the product of a factor per input and per output.

    The factors are buffers: they are saved with the weights, and travel with them. They stay as
    they are until `reset_noise`; at first they are 0.

    Args:
        width: inputs.
        outputs: outputs.

    Attributes:
        noisy: whether the noise is used; else the weights are μ.

    Source: Fortunato et al. 2018, "Noisy networks for exploration", section 3, factorised.
    """

    factor_in: Any
    factor_out: Any

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.noisy = True
        bound, deviation = 1 / math.sqrt(width), _FIRST_DEVIATION / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(outputs, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_deviation = nn.Parameter(torch.full((outputs, width), deviation))
        self.bias_deviation = nn.Parameter(torch.full((outputs,), deviation))
        self.register_buffer("factor_in", torch.zeros(width))
        self.register_buffer("factor_out", torch.zeros(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `[N, outputs]`."""
        if not self.noisy:
            return functional.linear(x, self.weight, self.bias)
        # p + q random numbers in place of p q.
        noise = torch.outer(self.factor_out, self.factor_in)
        weight = torch.addcmul(self.weight, self.weight_deviation, noise)
        bias = torch.addcmul(self.bias, self.bias_deviation, self.factor_out)
        return functional.linear(x, weight, bias)

    def reset_noise(self) -> None:
        """Draw the factors anew, from torch's generator of the device that they are on."""
        for factor in (self.factor_in, self.factor_out):
            drawn = torch.randn_like(factor)
            # f(x) = sgn(x) sqrt(|x|), so that products of two factors have variance near 1.
            factor.copy_(drawn.sign() * drawn.abs().sqrt())


def reset_noise(network: nn.Module) -> None:
    """Draw the noise of all noisy layers anew, from torch's generator."""
    for layer in _noisy_layers(network):
        layer.reset_noise()


def use_noise(network: nn.Module, used: bool) -> None:
    """Have all noisy layers use their noise, or not."""
    for layer in _noisy_layers(network):
        layer.noisy = used


def has_noise(network: nn.Module) -> bool:
    """Return whether there are noisy layers."""
    return any(True for _ in _noisy_layers(network))


def _noisy_layers(network: nn.Module) -> Iterator[NoisyLinear]:
    return (module for module in network.modules() if isinstance(module, NoisyLinear))
