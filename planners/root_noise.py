"""Noise in the prior of a root, so that every action is tried now and then."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.simulator import Rng


def with_noise(
    prior: npt.NDArray[np.floating[Any]],
    legal: npt.NDArray[np.bool_],
    share: float,
    alpha: float,
    rng: Rng,
) -> npt.NDArray[np.floating[Any]]:
    """Return (1 - share) * prior + share * noise, `[A]`; the noise is over the legal actions.

    Args:
        prior: `[A]` probabilities.
        legal: `[A]`; without any, there is no noise.
        share: of the noise, in [0, 1].
        alpha: concentration of its Dirichlet distribution.
        rng: draws it.

    Source: Silver et al. 2017, "Mastering the game of Go without human knowledge", Methods.
    """
    actions, noise = np.flatnonzero(legal), np.zeros(len(prior))
    if len(actions):
        noise[actions] = rng.dirichlet(np.full(len(actions), alpha))
    return (1.0 - share) * prior + share * noise
