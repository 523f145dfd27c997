"""Names of the agent modes (train, sample, eval) and their check. Imports no torch."""

from __future__ import annotations

from typing import Literal, get_args

from plangym_ext.errors import InvalidOption, suggestion

Mode = Literal["train", "sample", "eval"]
MODES: tuple[Mode, ...] = get_args(Mode)


def checked_mode(mode: str, where: str) -> Mode:
    """Return a mode after a check of its name."""
    for known in MODES:
        if mode == known:
            return known
    raise InvalidOption(
        f"{where}: mode must be one of {', '.join(MODES)}; got {mode!r}{suggestion(mode, MODES)}."
    )
