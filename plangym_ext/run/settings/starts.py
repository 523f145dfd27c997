"""Settings of the start-state distribution of an agent's episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plangym_ext.core.numbers import finite_between
from plangym_ext.errors import InvalidOption, suggestion

KINDS = ("stored", "backward", "unsure")


@dataclass(frozen=True, kw_only=True)
class StartsSettings:
    """Start-state distribution of the training episodes.

    Args:
        file: of a `StateSet`, as `plangym-ext states` writes it; empty: there is none, and
            episodes begin by a reset.
        kind: "stored" draws them all alike; "backward" goes from the end of a demonstration to
            its beginning; "unsure" draws those where the agent's values were wrong.
        share: in [0, 1], how likely an episode begins there instead of by a reset.
        options: further arguments of that kind, such as `window` of "backward".
    """

    file: str = ""
    kind: str = "stored"
    share: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the settings."""
        finite_between("settings: starts.share", self.share, 0.0, 1.0)
        if self.kind not in KINDS:
            raise InvalidOption(
                f"settings: starts.kind must be one of {', '.join(KINDS)}; got {self.kind!r}"
                f"{suggestion(self.kind, KINDS)}."
            )
