"""Choice of the action distribution for an action space."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.distributions.base import Distribution
from plangym_ext.learn.distributions.categorical import Categorical
from plangym_ext.learn.distributions.deterministic_actions import DeterministicActions
from plangym_ext.learn.distributions.gaussian import Gaussian
from plangym_ext.learn.distributions.joint import Joint
from plangym_ext.learn.distributions.multi_categorical import Bernoulli, MultiCategorical
from plangym_ext.learn.distributions.squashed_gaussian import SquashedGaussian


def distribution_of(
    space: spaces.Space[Any], *, squash: bool = False, deterministic: bool = False
) -> Distribution:
    """Return the action distribution of an action space.

    Args:
        space: Discrete, MultiDiscrete, MultiBinary, a Box of floats, or Dict and Tuple of
            them.
        squash: whether a Box has a squashed Gaussian, and not a plain one.
        deterministic: whether a Box has actions alone, and no Gaussian.

    Raises:
        InvalidOption: any other space, or one to squash without finite bounds.
    """
    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return MultiCategorical(np.asarray(space.nvec), np.asarray(space.start))
    if isinstance(space, spaces.MultiBinary):
        return Bernoulli(tuple(space.shape))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        if deterministic:
            return DeterministicActions(space.low, space.high, space.dtype)
        gaussian = SquashedGaussian if squash else Gaussian
        return gaussian(space.low, space.high, space.dtype)
    if isinstance(space, spaces.Dict | spaces.Tuple):
        layout = SpaceLayout(space, objects=True)
        # In the order of the layout, by which `Joint` splits parameters.
        parts = [
            distribution_of(leaf.space, squash=squash, deterministic=deterministic)
            for leaf in layout.leaves
        ]
        return Joint(layout, parts)
    raise InvalidOption(
        f"make_network: actions must be Discrete, MultiDiscrete, MultiBinary, a Box of floats, "
        f"or Dict and Tuple of them; got {space}. Wrap the env, or write a network of your own."
    )
