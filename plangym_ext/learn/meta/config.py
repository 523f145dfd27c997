"""ContextConfig: the networks of PEARL. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from plangym_ext.core.options import Count
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.networks.agent_config import SoftPolicyConfig


@dataclass(frozen=True, kw_only=True)
class ContextConfig(SoftPolicyConfig):
    """Configuration of PEARL's networks: a policy of observation and z, and a context encoder.

    Args:
        latent: numbers of z, what is inferred of a task.
        encoder_hidden: widths of the encoder's dense layers.
    """

    latent: Count = 5
    encoder_hidden: tuple[Count, ...] = (128, 128)

    def __post_init__(self) -> None:
        """Check what can be checked without spaces."""
        super().__post_init__()
        if self.recurrent != "none" or self.previous_action or self.previous_reward:
            raise InvalidOption(
                "ContextConfig: the context is all that is remembered; leave out recurrent, "
                "previous_action and previous_reward."
            )
        if self.normalize_obs:
            raise InvalidOption(
                "ContextConfig: normalize_obs would change contexts that are kept; normalise in "
                "the env."
            )
