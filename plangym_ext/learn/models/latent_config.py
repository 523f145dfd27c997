"""LatentConfig: layers of the network of a latent model. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from plangym_ext.core.options import CheckedOptions, Count, OneOf, Positive, Whole
from plangym_ext.learn.networks.agent_config import ACTIVATIONS, CHANNELS, KINDS


@dataclass(frozen=True, kw_only=True)
class LatentConfig(CheckedOptions):
    """Configuration of a `LatentNetwork`.

    Args:
        kind: layers that observations go through first; see `NetworkConfig`.
        representation: widths of the dense layers from there to the latent.
        channels: of the convolutions; see `NetworkConfig`.
        blocks: residual blocks per stage.
        latent: width of the latent, whose numbers are brought to [0, 1].
        hidden: widths of the dense layers of dynamics and of prediction.
        activation: "relu", "tanh", "gelu" or "silu".
        layer_norm: whether dense layers are normalised before their activation.
        value_support: n, atoms on each side of 0 for values; see `Support`. 0: values are plain
            numbers.
        reward_support: the same for rewards.
        value_scale: values are this times what the support expects.
        endings: whether dynamics also predict that the episode ends, and searches stop there;
            else what follows an end is learned to be worth nothing.
        image_channels: see `NetworkConfig`.
    """

    kind: Annotated[str, OneOf(KINDS)] = "auto"
    representation: tuple[Count, ...] = (128,)
    channels: tuple[Count, ...] | None = None
    blocks: Count = 2
    latent: Count = 64
    hidden: tuple[Count, ...] = (128,)
    activation: Annotated[str, OneOf(ACTIVATIONS)] = "relu"
    layer_norm: bool = False
    value_support: Whole = 20
    reward_support: Whole = 5
    value_scale: Positive = 1.0
    endings: bool = True
    image_channels: Annotated[str, OneOf(CHANNELS)] = "auto"
