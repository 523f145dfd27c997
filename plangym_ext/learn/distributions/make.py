"""Choice of the action distribution for an action space."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.distributions.base import Distribution, Params, Parts
from plangym_ext.learn.distributions.categorical import Bernoulli, Categorical, MultiCategorical
from plangym_ext.learn.distributions.gaussian import (
    DeterministicActions,
    Gaussian,
    SquashedGaussian,
)
from plangym_ext.learn.distributions.noise import Noise


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


# Joint distribution of a Dict or Tuple action ---------------------------------


@final
class Joint(Parts):
    """The parameters of all parts side by side, in the order of the space; targets alike."""

    def __init__(self, layout: SpaceLayout, parts: list[Distribution]) -> None:
        super().__init__(parts)
        self._layout = layout
        # Parts say which of their own columns are deviations: here these are moved to where a part
        # lies.
        self.log_std_columns = tuple(
            start + column
            for start, part in zip(self.bounds[:-1], parts, strict=True)
            for column in part.log_std_columns
        )
        self.clips = any(part.clips for part in parts)

    def greedy(self, params: Params) -> Any:
        """Return `[B, ...]`, nested as the space."""
        return self._join(part.greedy(p) for part, p in self._split(np.asarray(params)))

    def draw(self, params: Params, noise: Noise, temperature: float = 1.0) -> Any:
        """Draw `[B, ...]`, nested as the space, part by part."""
        # In the order of the parts: each takes its own numbers of a row's noise, in turn.
        parts = self._split(np.asarray(params))
        return self._join(part.draw(p, noise, temperature) for part, p in parts)

    def clip(self, actions: Any) -> Any:
        """Return the actions within their bounds."""
        if not self.clips:
            return actions
        pairs = zip(self.parts, self._layout.split(actions), strict=True)
        return self._join(part.clip(rows) for part, rows in pairs)

    def log_prob(self, params: Any, actions: Any) -> Any:
        """Return `[...]`, summed over the parts."""
        triples = zip(self._split(params), self._layout.split(actions), strict=True)
        # Independent parts: the likelihood of the whole is the product.
        return sum(part.log_prob(p, rows) for (part, p), rows in triples)

    def rsample(self, params: Any, noise: Noise) -> Any:
        """Draw tensors nested as the space, not clipped."""
        return self._join(part.rsample(p, noise) for part, p in self._split(params))

    def rsample_with_log_prob(self, params: Any, noise: Noise) -> tuple[Any, Any]:
        """Return draws of all parts, and the sum of their log probabilities."""
        pairs = [part.rsample_with_log_prob(p, noise) for part, p in self._split(params)]
        return self._join(action for action, _ in pairs), sum(logs for _, logs in pairs)

    def encode(self, actions: Any) -> npt.NDArray[np.float32]:
        """Return the targets of all parts side by side."""
        pairs = zip(self.parts, self._layout.split(actions), strict=True)
        return np.concatenate([part.encode(rows) for part, rows in pairs], axis=1)

    def _join(self, rows: Any) -> Any:
        return self._layout.join(tuple(rows))
