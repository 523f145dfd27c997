"""NoisyLinear: dense layers with noisy weights, for exploration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

from plangym_ext.learn.torch_extra import functional, nn, torch

#: Deviation of a weight at first, times the root of the inputs.
_FIRST_DEVIATION = 0.5


@final
class NoisyLinear(nn.Module):
    """A dense layer with weights μ + σ ε; ε is the product of a factor per input and per output.

    The factors are buffers: they are saved with the weights, and travel with them. They stay as
    they are until `reset_noise`; at first they are 0. Within `row_noise` each row has its own.

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
        #: `[N, width]` and `[N, outputs]` of the N rows of the next pass, in place of the buffers.
        self.row_factors: tuple[Any, Any] | None = None
        bound, deviation = 1 / math.sqrt(width), _FIRST_DEVIATION / math.sqrt(width)
        self.weight = nn.Parameter(
            torch.empty(outputs, width, dtype=torch.float32).uniform_(-bound, bound)
        )
        self.bias = nn.Parameter(torch.empty(outputs, dtype=torch.float32).uniform_(-bound, bound))
        self.weight_deviation = nn.Parameter(
            torch.full((outputs, width), deviation, dtype=torch.float32)
        )
        self.bias_deviation = nn.Parameter(torch.full((outputs,), deviation, dtype=torch.float32))
        self.register_buffer("factor_in", torch.zeros(width, dtype=torch.float32))
        self.register_buffer("factor_out", torch.zeros(outputs, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `[N, outputs]`."""
        if not self.noisy:
            return functional.linear(x, self.weight, self.bias)
        if self.row_factors is not None:
            # x (mu + sigma e_in e_out) = x mu + ((x e_in) sigma) e_out: no weights for each row.
            of_in, of_out = self.row_factors
            mean = functional.linear(x, self.weight, self.bias)
            deviation = functional.linear(x * of_in, self.weight_deviation, self.bias_deviation)
            return torch.addcmul(mean, deviation, of_out)
        # p + q random numbers in place of p q.
        noise = torch.outer(self.factor_out, self.factor_in)
        weight = torch.addcmul(self.weight, self.weight_deviation, noise)
        bias = torch.addcmul(self.bias, self.bias_deviation, self.factor_out)
        return functional.linear(x, weight, bias)

    def reset_noise(self) -> None:
        """Redraw the noise factors, from torch's generator of their device."""
        for factor in (self.factor_in, self.factor_out):
            factor.copy_(_factors(torch.randn_like(factor)))


def reset_noise(network: nn.Module) -> None:
    """Redraw the noise of all noisy layers, from torch's generator."""
    for layer in _noisy_layers(network):
        layer.reset_noise()


@contextmanager
def row_noise(network: nn.Module, drawn: torch.Tensor) -> Iterator[None]:
    """Use separate noise for each row of the forward passes in a block.

    Args:
        network: with noisy layers.
        drawn: `[N, num_factors(network)]` normal numbers; rows of zeros have no noise.
    """
    left = _factors(drawn)
    layers = [*_noisy_layers(network)]
    try:
        for layer in layers:
            outputs, width = layer.weight.shape
            of_in, of_out, left = left.tensor_split((width, width + outputs), dim=1)
            layer.row_factors = of_in, of_out
        yield
    finally:
        for layer in layers:
            layer.row_factors = None


def num_factors(network: nn.Module) -> int:
    """Return the number of noise factors of all layers; 0 without noisy layers."""
    return sum(sum(layer.weight.shape) for layer in _noisy_layers(network))


def use_noise(network: nn.Module, used: bool) -> None:
    """Turn the noise of all noisy layers on or off."""
    for layer in _noisy_layers(network):
        layer.noisy = used


def has_noise(network: nn.Module) -> bool:
    """Return whether there are noisy layers."""
    return num_factors(network) > 0


def _factors(drawn: torch.Tensor) -> torch.Tensor:
    """Return sgn(x) sqrt(|x|) of normal numbers: products of two of them have variance near 1."""
    return drawn.sign() * drawn.abs().sqrt()


def _noisy_layers(network: nn.Module) -> Iterator[NoisyLinear]:
    return (module for module in network.modules() if isinstance(module, NoisyLinear))
