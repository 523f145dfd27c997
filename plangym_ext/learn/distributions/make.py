"""Which distribution an action space has."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.distributions.base import Distribution
from plangym_ext.learn.distributions.categorical import Categorical
from plangym_ext.learn.distributions.gaussian import Gaussian
from plangym_ext.learn.distributions.multi_categorical import MultiCategorical


def distribution_of(space: spaces.Space[Any]) -> Distribution:
    """Return the distribution over the actions of a Discrete, MultiDiscrete or Box space.

    Raises:
        InvalidOption: any other space.
    """
    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return MultiCategorical(np.asarray(space.nvec), np.asarray(space.start))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return Gaussian(space.low, space.high, space.dtype)
    raise InvalidOption(
        f"make_network: actions must be Discrete, MultiDiscrete or a Box of floats; got {space}. "
        f"Wrap the env, or write a network of your own."
    )
