"""FastLander: LunarLander without particles, and without chance if asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.envs.box2d import quiet_import

with quiet_import():
    from gymnasium.envs.box2d.lunar_lander import LunarLander


class FastLander(LunarLander):
    """Gymnasium's lander, whose engines throw no particles.

    Particles touch the ground alone: flights are those of LunarLander-v3, and each picture is
    drawn in the same time however long an episode is.

    Args:
        deterministic: replace everything that is drawn by its mean: flat ground, no push at the
            start, no dispersion.
        kwargs: of gymnasium's lander.
    """

    def __init__(self, *, deterministic: bool = False, **kwargs: Any) -> None:
        self._deterministic = deterministic
        super().__init__(**kwargs)

    @property
    def np_random(self) -> np.random.Generator:
        """The env's generator; that of means if nothing is to be drawn."""
        found = super().np_random
        return _Means(found.bit_generator) if self._deterministic else found

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._np_random = value

    def _create_particle(self, *_: Any) -> _NoParticle:
        return _NoParticle()


class _Means(np.random.Generator):
    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        mean = (low + high) / 2
        return mean if size is None else np.full(size, mean)


class _NoParticle:
    def ApplyLinearImpulse(self, *_: Any) -> None:  # noqa: N802 - Box2D's name
        """Push nothing."""
