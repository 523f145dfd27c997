"""Preset: a named, tested set of training settings."""

from __future__ import annotations

from typing import Any, NamedTuple


class Preset(NamedTuple):
    """Settings that work.

    Attributes:
        about: what learns what, in one line.
        settings: nested, as `compose` takes them.
    """

    about: str
    settings: dict[str, Any]
