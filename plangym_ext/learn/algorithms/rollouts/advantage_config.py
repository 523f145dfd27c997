"""Configuration of advantage estimation: GAE or branches. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.checked_config import CheckedConfig

ADVANTAGES = ("gae", "forked")


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig(CheckedConfig):
    """Source of the advantages: played steps, or branches from visited states.

    Args:
        name: "gae"; or "forked": of the first actions of k branches from each forked state, beside
            each other. Then those states alone teach, and the steps of branches are charged.
        branches: k, from each forked state.
        horizon: steps after which a branch is cut and worth what the critic says.
        every: steps of an env from one forked state to the next.
        common_random_numbers: whether the branches of a state draw alike after their first actions.
    """

    name: str = "gae"
    branches: int = 4
    horizon: int = 32
    every: int = 8
    common_random_numbers: bool = True

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        self._choice("name", ADVANTAGES)
        for name, least in (("branches", 2), ("horizon", 1), ("every", 1)):
            self._number(name, least, whole=True)

    @property
    def forked(self) -> bool:
        """Whether branches are needed."""
        return self.name == "forked"

    @property
    def branching(self) -> dict[str, Any]:
        """The arguments of a `ForkingSampler`, by name."""
        names = ("branches", "horizon", "every", "common_random_numbers")
        return {name: getattr(self, name) for name in names}


def check_advantages(given: Any) -> None:
    """Refuse a value that is not an `AdvantageConfig`, such as a name.

    Raises:
        InvalidOption: it is none.
    """
    if not isinstance(given, AdvantageConfig):
        raise InvalidOption(
            f"advantages must be an AdvantageConfig, such as AdvantageConfig(name='forked'); got "
            f"{given!r}."
        )
