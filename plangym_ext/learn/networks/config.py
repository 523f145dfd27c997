"""NetworkConfig: layers and heads of a network."""

from __future__ import annotations

import math
from dataclasses import dataclass

from plangym_ext.core.inherited_options import InheritedOptions
from plangym_ext.errors import InvalidOption, suggestion
from plangym_ext.learn.field_kinds import take_kinds

KINDS = ("auto", "mlp", "conv", "residual", "nature", "impala")
ACTIVATIONS = ("relu", "tanh", "gelu", "silu")
HEADS = ("policy", "value", "q")
CHANNELS = ("auto", "first", "last")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(InheritedOptions):
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

    kind: str = "auto"
    hidden: tuple[int, ...] | None = None
    channels: tuple[int, ...] | None = None
    blocks: int = 2
    activation: str = "relu"
    layer_norm: bool = False
    heads: tuple[str, ...] = ("policy", "value")
    value_scale: float = 1.0
    image_channels: str = "auto"

    def __post_init__(self) -> None:
        """Check what can be checked without spaces."""
        take_kinds(self)
        for name, value, known in (
            ("kind", self.kind, KINDS),
            ("activation", self.activation, ACTIVATIONS),
            ("image_channels", self.image_channels, CHANNELS),
            *(("heads", head, HEADS) for head in self.heads),
        ):
            if value not in known:
                raise InvalidOption(
                    f"NetworkConfig: {name} must be one of {', '.join(known)}; "
                    f"got {value!r}{suggestion(str(value), known)}."
                )
        if not self.heads or len(set(self.heads)) < len(self.heads):
            raise InvalidOption(
                f"NetworkConfig: heads must name each head once, at least one; got {self.heads}."
            )
        for name, sizes in (("hidden", self.hidden), ("channels", self.channels)):
            if any(not isinstance(size, int) or size < 1 for size in sizes or ()):
                raise InvalidOption(
                    f"NetworkConfig: {name} must be widths of at least 1; got {sizes}."
                )
        if self.kind == "nature" and len(self.channels or (32, 64, 64)) != 3:
            raise InvalidOption(
                f"NetworkConfig: kind 'nature' has three convolutions; got channels "
                f"{self.channels}. Name three, or use kind 'conv'."
            )
        if self.blocks < 1:
            raise InvalidOption(f"NetworkConfig: blocks must be at least 1; got {self.blocks}.")
        if not (math.isfinite(self.value_scale) and self.value_scale > 0):
            raise InvalidOption(
                f"NetworkConfig: value_scale must be a positive number; got {self.value_scale}."
            )
