"""Presets: tested settings of training runs, one file for each in `preset_files`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from plangym_ext.core.files.whole_file import contents
from plangym_ext.errors import UnknownName, suggestion


class Preset(NamedTuple):
    """A file of settings that work, for users to copy.

    Attributes:
        path: of the TOML file, whose first line says in a comment what learns what.
    """

    path: Path

    @property
    def about(self) -> str:
        """What learns what, in one line."""
        first, _, _ = contents(self.path).decode().partition("\n")
        return first.removeprefix("# ").rstrip()

    @property
    def settings(self) -> dict[str, Any]:
        """Nested settings, as `compose` takes them."""
        return tomllib.loads(contents(self.path).decode())


#: Name -> preset.
PRESETS = {
    path.stem: Preset(path) for path in sorted(Path(__file__).with_name("preset_files").iterdir())
}


def preset(name: str) -> dict[str, Any]:
    """Return the settings of a preset, to be changed as one likes.

    Raises:
        UnknownName: there is no such preset.
    """
    if name not in PRESETS:
        raise UnknownName(
            f"preset must be one of {', '.join(PRESETS)}, or a file that ends in .toml, .yaml or "
            f".json; got {name!r}{suggestion(name, PRESETS)}"
        )
    return PRESETS[name].settings
