"""CheckedConfig: base class of configurations with field checks. Needs no package."""

from __future__ import annotations

import math
from typing import Any

from plangym_ext.core.inherited_options import InheritedOptions
from plangym_ext.errors import InvalidOption, suggestion
from plangym_ext.learn.field_kinds import take_kinds
from plangym_ext.learn.schedule import Number, OwnSchedule, Schedule


class CheckedConfig(InheritedOptions):
    """Abstract; a dataclass whose messages name the class and the field."""

    def __post_init__(self) -> None:
        """Check the kinds of the settings."""
        take_kinds(self)

    def _option(self, name: str) -> str:
        return f"{type(self).__name__}: {name}"

    def _choice(self, name: str, known: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value not in known:
            raise InvalidOption(
                f"{self._option(name)} must be one of {', '.join(known)}; "
                f"got {value!r}{suggestion(str(value), known)}."
            )

    def _scheduled(self, name: str, low: float, high: float = math.inf) -> None:
        """Check a `Number`; what a function returns is checked when it is called."""
        value: Number = getattr(self, name)
        if isinstance(value, Schedule):
            self._check(f"{name}.start", value.start, low, high)
            self._check(f"{name}.end", value.end, low, high)
        elif isinstance(value, OwnSchedule):
            held = value.held_to(self._option(name), low, high)
            object.__setattr__(self, name, held)  # the dataclass is frozen
        else:
            self._check(name, value, low, high)

    def _limit(self, name: str, none: str = "there is no limit") -> None:
        """Check a limit, which None takes away; 0 would leave nothing to learn from."""
        value = getattr(self, name)
        if value is None:
            return
        self._scheduled(name, 0.0)
        if value == 0:
            raise InvalidOption(
                f"{self._option(name)} must be above 0, or None, and {none}; got {value!r}."
            )

    def _number(
        self, name: str, low: float, high: float = math.inf, *, whole: bool = False
    ) -> None:
        self._check(name, getattr(self, name), low, high, whole=whole)

    def _check(
        self, name: str, value: Any, low: float, high: float, *, whole: bool = False
    ) -> None:
        good = isinstance(value, int if whole else int | float) and math.isfinite(value)
        # Python's bools are ints; NaN is not finite, and so is refused before it is compared.
        if isinstance(value, bool) or not good or not low <= value <= high:
            kind = "an integer" if whole else "a finite number"
            raise InvalidOption(
                f"{self._option(name)} must be {kind} in [{low}, {high}]; got {value!r}."
            )
