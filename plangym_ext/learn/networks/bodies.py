"""The layers between an encoded observation and the heads."""

from __future__ import annotations

import math

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.networks.config import NetworkConfig
from plangym_ext.learn.torch_extra import nn, torch

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "silu": nn.SiLU}
# Images with longer sides are shrunk on the way; boards keep a cell per cell.
_BOARD_SIDE = 16


def make_body(shape: tuple[int, ...], config: NetworkConfig) -> tuple[nn.Module, int]:
    """Return the layers for inputs of `shape`, and how many features they put out."""
    kind = config.kind
    if kind == "auto":
        kind = "mlp" if len(shape) == 1 else "conv"
    if kind == "mlp":
        return _dense(math.prod(shape), config.hidden or (64, 64), config)
    if len(shape) != 3:
        raise InvalidOption(
            f"make_network: kind {kind!r} needs images, [H, W], [H, W, C] or [C, H, W]; the "
            f"observations are vectors of {shape[0]} numbers. Use kind 'mlp'."
        )
    convolutions = _convolutions if kind == "conv" else _residual
    body = convolutions(shape, config)
    with torch.no_grad():
        features = body(torch.zeros(1, *shape)).numel()
    dense, width = _dense(features, config.hidden or (128,), config)
    return nn.Sequential(body, dense), width


def _dense(width: int, hidden: tuple[int, ...], config: NetworkConfig) -> tuple[nn.Module, int]:
    layers: list[nn.Module] = [nn.Flatten()]
    for size in hidden:
        layers += [nn.Linear(width, size), _ACTIVATIONS[config.activation]()]
        width = size
    return nn.Sequential(*layers), width


def _convolutions(shape: tuple[int, ...], config: NetworkConfig) -> nn.Module:
    """Return convolutions: 3 x 3 over boards; over large images the strides of Mnih et al. 2015."""
    board = max(shape[1:]) <= _BOARD_SIDE
    channels = config.channels or ((32, 32, 32) if board else (32, 64, 64))
    layers: list[nn.Module] = []
    before = shape[0]
    for i, after in enumerate(channels):
        if board or i > 1:
            layer = nn.Conv2d(before, after, 3, padding=1)
        else:
            kernel, stride = ((8, 4), (4, 2))[i]
            layer = nn.Conv2d(before, after, kernel, stride, padding=stride // 2)
        layers += [layer, _ACTIVATIONS[config.activation]()]
        before = after
    return nn.Sequential(*layers)


def _residual(shape: tuple[int, ...], config: NetworkConfig) -> nn.Module:
    """Return the stages of residual blocks; large images are halved before each stage.

    Source: the deep network of Espeholt et al. 2018 (IMPALA).
    """
    board = max(shape[1:]) <= _BOARD_SIDE
    layers: list[nn.Module] = []
    before = shape[0]
    for after in config.channels or (32, 32):
        layers.append(nn.Conv2d(before, after, 3, padding=1))
        if not board:
            layers.append(nn.MaxPool2d(3, stride=2, padding=1))
        layers += [ResidualBlock(after, config.activation) for _ in range(config.blocks)]
        before = after
    return nn.Sequential(*layers, _ACTIVATIONS[config.activation]())


class ResidualBlock(nn.Module):
    """x plus two convolutions of it; nothing that depends on the other rows."""

    def __init__(self, channels: int, activation: str) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.activation = _ACTIVATIONS[activation]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply to `[B, C, H, W]`."""
        return x + self.second(self.activation(self.first(self.activation(x))))
