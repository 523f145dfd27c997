"""Checks that dataclasses of settings share. Needs nothing beyond the standard library."""

from __future__ import annotations

import math
from typing import Any

from plangym_ext.errors import InvalidOption, suggestion


class CheckedConfig:
    """Abstract; messages name the class and the field."""

    def _option(self, name: str) -> str:
        return f"{type(self).__name__}: {name}"

    def _choice(self, name: str, known: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value not in known:
            raise InvalidOption(
                f"{self._option(name)} must be one of {', '.join(known)}; "
                f"got {value!r}{suggestion(str(value), known)}."
            )

    def _number(
        self, name: str, low: float, high: float = math.inf, *, whole: bool = False
    ) -> None:
        value: Any = getattr(self, name)
        good = isinstance(value, int if whole else int | float) and math.isfinite(value)
        if isinstance(value, bool) or not good or not low <= value <= high:
            kind = "an integer" if whole else "a finite number"
            raise InvalidOption(
                f"{self._option(name)} must be {kind} in [{low}, {high}]; got {value!r}."
            )
