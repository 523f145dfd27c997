"""NetworkConfig: layers and heads of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from plangym_ext.core.options import CheckedOptions, Count, OneOf, Positive
from plangym_ext.errors import InvalidOption

KINDS = ("auto", "mlp", "conv", "residual", "nature", "impala")
ACTIVATIONS = ("relu", "tanh", "gelu", "silu")
HEADS = ("policy", "value", "q")
CHANNELS = ("auto", "first", "last")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(CheckedOptions):
    """Configuration of a network's layers and heads; None selects the default of the kind.

    Args:
        kind: "mlp", "conv", "residual", or "auto": an mlp for vectors, conv for images.
            "nature" has the convolutions of DQN without padding, "impala" the residual
            stages of IMPALA.
        hidden: widths of the dense layers; None: (64, 64) for an mlp, (512,) for nature,
            (256,) for impala, (128,) after other convolutions.
        channels: of each convolution, or of each residual stage; None: (32, 32, 32)
            for boards, (32, 64, 64) for large images, (32, 32) for residual, (16, 32, 32)
            for impala.
        blocks: residual blocks per stage.
        activation: "relu", "tanh", "gelu" or "silu".
        layer_norm: whether dense layers are normalised before their activation.
        heads: any of "policy", "value" and "q".
        value_scale: values and Q values are this times what the layers put out: about
            the size of a typical return, so that targets are near 1.
        image_channels: which axis of an image counts channels: "first", "last", or
            "auto": the one that differs from the other two, or else the shorter one.
    """

    kind: Annotated[str, OneOf(KINDS)] = "auto"
    hidden: tuple[Count, ...] | None = None
    channels: tuple[Count, ...] | None = None
    blocks: Count = 2
    activation: Annotated[str, OneOf(ACTIVATIONS)] = "relu"
    layer_norm: bool = False
    heads: tuple[Annotated[str, OneOf(HEADS)], ...] = ("policy", "value")
    value_scale: Positive = 1.0
    image_channels: Annotated[str, OneOf(CHANNELS)] = "auto"

    def __post_init__(self) -> None:
        """Check what can be checked without spaces."""
        super().__post_init__()
        if not self.heads or len(set(self.heads)) < len(self.heads):
            raise InvalidOption(
                f"NetworkConfig: heads must name each head once, at least one; got {self.heads}."
            )
        if self.kind == "nature" and len(self.channels or (32, 64, 64)) != 3:
            raise InvalidOption(
                f"NetworkConfig: kind 'nature' has three convolutions; got channels "
                f"{self.channels}. Name three, or use kind 'conv'."
            )
