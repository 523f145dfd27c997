"""Result files: whole or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plangym_ext.core.whole_file import replacing


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write `content` so that a reader sees the old file or the new, never half of one."""
    with replacing(path) as file:
        json.dump(content, file, indent=2)
        file.write("\n")
