"""EnsembleConfig: layers of an ensemble of observation models. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from plangym_ext.core.options import CheckedOptions, Count, Finite, OneOf
from plangym_ext.learn.networks.agent_config import ACTIVATIONS


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig(CheckedOptions):
    """Configuration of an `EnsembleNetwork`, and of the `EnsembleModel` over it.

    Args:
        members: networks side by side, which differ in their initial weights.
        hidden: widths of the dense layers of each.
        activation: "relu", "tanh", "gelu" or "silu".
        endings: whether members also predict that an episode ends; else none ends in the model.
        particles: of each member, in a state of the model.
        sample: whether particles draw what follows; else they go to the mean.
        disagreement: added to the reward for each unit of disagreement: below 0 a penalty, above
            0 a bonus.
    """

    members: Count = 5
    hidden: tuple[Count, ...] = (200, 200)
    activation: Annotated[str, OneOf(ACTIVATIONS)] = "silu"
    endings: bool = False
    particles: Count = 1
    sample: bool = True
    disagreement: Finite = 0.0
