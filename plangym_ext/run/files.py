"""Result files: whole or not there."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from plangym_ext.core.whole_file import replacing
from plangym_ext.errors import InvalidOption


def make_folder(path: Path) -> None:
    """Make the folder that `--out` names, before anything is played for it.

    Raises:
        InvalidOption: it cannot be made, or written to.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InvalidOption(
            f"--out must be a folder that can be written to; got {path}: {error.strerror}"
        ) from error


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write `content` so that a reader sees the old file or the new, never half of one."""
    with replacing(path) as file:
        json.dump(content, file, indent=2)
        file.write("\n")
