"""Configuration of advantage estimation: GAE or branches. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from plangym_ext.core.options import CheckedOptions, Count, OneOf, Range

ADVANTAGES = ("gae", "forked")


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig(CheckedOptions):
    """Source of the advantages: played steps, or branches from visited states.

    Args:
        name: "gae"; or "forked": of the first actions of k branches from each forked state, beside
            each other. Then those states alone teach, and the steps of branches are charged.
        branches: k, from each forked state.
        horizon: steps after which a branch is cut and worth what the critic says.
        every: steps of an env from one forked state to the next.
        common_random_numbers: whether the branches of a state draw alike after their first actions.
    """

    name: Annotated[str, OneOf(ADVANTAGES)] = "gae"
    branches: Annotated[int, Range(2)] = 4
    horizon: Count = 32
    every: Count = 8
    common_random_numbers: bool = True

    @property
    def forked(self) -> bool:
        """Whether branches are needed."""
        return self.name == "forked"

    @property
    def branching(self) -> dict[str, Any]:
        """The arguments of a `ForkingSampler`, by name."""
        names = ("branches", "horizon", "every", "common_random_numbers")
        return {name: getattr(self, name) for name in names}
