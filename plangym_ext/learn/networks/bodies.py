"""Network bodies: dense, convolutional and residual layers, and a fast tanh layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np

from plangym_ext.core.inherited_options import load_own_class
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.networks.config import NetworkConfig
from plangym_ext.learn.networks.dense_product import dense_layers_product
from plangym_ext.learn.networks.image_layers import CellAttention
from plangym_ext.learn.torch_extra import functional, nn, torch


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


ACTIVATION_LAYERS = {"relu": nn.ReLU, "tanh": Tanh, "gelu": nn.GELU, "silu": nn.SiLU}
# Images with longer sides are shrunk on the way; boards keep a cell per cell.
_BOARD_SIDE = 16
# Smaller images leave nothing for the last of the three convolutions.
_NATURE_SIDE = 36
# Widths of the dense layers where the config names none.
_HIDDEN = {
    "mlp": (64, 64),
    "conv": (128,),
    "residual": (128,),
    "nature": (512,),
    "impala": (256,),
    "attention": (128,),
}


def make_body(shape: tuple[int, ...], config: NetworkConfig) -> tuple[nn.Module, int]:
    """Return the layers for inputs of `shape`, and the number of output features."""
    kind = kind_of(shape, config)
    hidden = hidden_of(kind, config)
    if kind == "mlp":
        layers, width = dense_layers(math.prod(shape), hidden, config)
        return nn.Sequential(nn.Flatten(), *layers), width
    body, features = image_layers(shape, kind, config)
    layers, width = dense_layers(features, hidden, config)
    return nn.Sequential(body, nn.Sequential(nn.Flatten(), *layers)), width


def kind_of(shape: tuple[int, ...], config: NetworkConfig) -> str:
    """Return the kind that "auto" selects for inputs of `shape`."""
    if config.kind != "auto":
        return config.kind
    return "mlp" if len(shape) == 1 else "conv"


def hidden_of(kind: str, config: NetworkConfig) -> tuple[int, ...]:
    """Return the widths of the dense layers after layers of a kind."""
    return _HIDDEN.get(kind, ()) if config.hidden is None else config.hidden


class DenseLayers(nn.Sequential):
    """Dense layers and their activations, one after the other.

    Attributes:
        precision: of the products in training mode, if `dense_layers_product` is to make them;
            None: as torch makes them.
    """

    precision: str | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply to `[N, F]`."""
        if self.precision is None or not self.training:
            plain: Any = super()
            result: torch.Tensor = plain.forward(x)
            return result
        layers = [layer for layer in self if isinstance(layer, nn.Linear)]
        # A stack of one.
        weights, biases = (
            [getattr(layer, n)[None] for layer in layers] for n in ("weight", "bias")
        )
        product = dense_layers_product(
            x, weights, biases, precision=self.precision, rectify_last=True
        )
        return product[0]

    def use(self, precision: str) -> None:
        """Use `dense_layers_product` if it supports the layers."""
        plain = all(type(layer) in (nn.Linear, nn.ReLU) for layer in self)
        # Normalisation between the layers, another activation, or a layer of the user's that
        # derives from one of these, is torch's business.
        self.precision = precision if plain and len(self) else None


def dense_layers(
    width: int, hidden: tuple[int, ...], config: NetworkConfig
) -> tuple[list[nn.Module], int]:
    """Return dense layers over vectors, and the number of output features."""
    layers: list[nn.Module] = []
    for size in hidden:
        layers.append(nn.Linear(width, size, dtype=torch.float32))
        if config.layer_norm:
            layers.append(nn.LayerNorm(size, dtype=torch.float32))
        layers.append(ACTIVATION_LAYERS[config.activation]())
        width = size
    return layers, width


def image_layers(shape: tuple[int, ...], kind: str, config: NetworkConfig) -> tuple[nn.Module, int]:
    """Return the layers over an image, without a flattening, and their number of outputs.

    Layers of the user's own may be over vectors, too.

    Raises:
        InvalidOption: `shape` is that of vectors, or smaller than the kernels.
    """
    if ":" in kind:
        own = load_own_class(kind, "network: kind", nn.Module)
        return _with_width(own(shape, config), shape)
    if len(shape) != 3:
        raise InvalidOption(
            f"make_network: kind {kind!r} needs images, [H, W], [H, W, C] or [C, H, W]; the "
            f"observations are vectors of {shape[0]} numbers. Use kind 'mlp'."
        )
    if kind == "nature" and min(shape[1:]) < _NATURE_SIDE:
        raise InvalidOption(
            f"make_network: kind 'nature' needs images of {_NATURE_SIDE} by {_NATURE_SIDE} pixels "
            f"at least; got {shape[1]} by {shape[2]}. Use kind 'conv'."
        )
    makers = {"conv": _convolutions, "nature": _nature, "attention": _attention}
    return _with_width(makers.get(kind, _residual)(shape, config), shape)


def _with_width(body: nn.Module, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """Return layers, and how many numbers they put out for a row of `shape`."""
    with torch.no_grad():
        # Asked of the layers themselves: strides and padding round in ways that a formula would
        # repeat.
        return body, body(torch.zeros(1, *shape, dtype=torch.float32)).numel()


def _nature(shape: tuple[int, ...], config: NetworkConfig) -> nn.Module:
    """Return the three convolutions of Mnih et al. 2015, without padding."""
    layers: list[nn.Module] = []
    before = shape[0]
    channels = config.channels or (32, 64, 64)
    for after, kernel, stride in zip(channels, (8, 4, 3), (4, 2, 1), strict=True):
        layers += [
            nn.Conv2d(before, after, kernel, stride, dtype=torch.float32),
            ACTIVATION_LAYERS[config.activation](),
        ]
        before = after
    return nn.Sequential(*layers)


def _convolutions(shape: tuple[int, ...], config: NetworkConfig) -> nn.Sequential:
    """Return convolutions: 3 x 3 over boards; over large images the strides of Mnih et al. 2015."""
    board = max(shape[1:]) <= _BOARD_SIDE
    channels = config.channels or ((32, 32, 32) if board else (32, 64, 64))
    layers: list[nn.Module] = []
    before = shape[0]
    for i, after in enumerate(channels):
        if board or i > 1:
            layer = nn.Conv2d(before, after, 3, padding=1, dtype=torch.float32)
        else:
            # Padded, so that an image shrinks by its stride exactly where that divides it.
            kernel, stride = ((8, 4), (4, 2))[i]
            layer = nn.Conv2d(
                before, after, kernel, stride, padding=stride // 2, dtype=torch.float32
            )
        layers += [layer, ACTIVATION_LAYERS[config.activation]()]
        before = after
    return nn.Sequential(*layers)


def _attention(shape: tuple[int, ...], config: NetworkConfig) -> nn.Module:
    """Return convolutions, and attention among the cells that they put out."""
    layers = _convolutions(shape, config)
    last: Any = layers[-2]
    return nn.Sequential(layers, CellAttention(last.out_channels))


def _residual(shape: tuple[int, ...], config: NetworkConfig) -> nn.Module:
    """Return the stages of residual blocks; large images are halved before each stage.

    Source: the deep network of Espeholt et al. 2018 (IMPALA), whose numbers of channels and
    features are those of kind "impala".
    """
    board = max(shape[1:]) <= _BOARD_SIDE
    layers: list[nn.Module] = []
    before = shape[0]
    for after in config.channels or ((16, 32, 32) if config.kind == "impala" else (32, 32)):
        layers.append(nn.Conv2d(before, after, 3, padding=1, dtype=torch.float32))
        if not board:
            layers.append(nn.MaxPool2d(3, stride=2, padding=1))
        layers += [ResidualBlock(after, config.activation) for _ in range(config.blocks)]
        before = after
    # A block ends with a sum: the activation after the last one is here.
    return nn.Sequential(*layers, ACTIVATION_LAYERS[config.activation]())


class ResidualBlock(nn.Module):
    """x plus two convolutions of it; nothing that depends on the other rows."""

    def __init__(self, channels: int, activation: str) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, dtype=torch.float32)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, dtype=torch.float32)
        self.activation = ACTIVATION_LAYERS[activation]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply to `[B, C, H, W]`."""
        return x + self.second(self.activation(self.first(self.activation(x))))


# NoisyLinear: dense layers with noisy weights, for exploration ----------------


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
