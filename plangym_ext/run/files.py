"""Output folders and result files: creation, vacancy checks, atomic JSON writes."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plangym_ext.core.files.whole_file import replacing
from plangym_ext.errors import FolderTaken

#: Where a run writes its settings.
CONFIG = "config.json"
#: What the commands leave in a folder, and what it says of it.
_RESULTS = {
    "episode.json": "an episode of `plan`",
    "compare.json": "a comparison",
    CONFIG: "a training run",
    "sweep.json": "a sweep",
    "archive.npz": "an exploration",
}


def made_folders(path: Path) -> list[Path]:
    """Make a folder that can be written to, and those above it.

    Returns:
        those that were not there, the innermost first.

    Raises:
        OSError: it cannot be made, or written to.
    """
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    # Tried, not looked up: a read-only mount refuses even whom the permission bits let write.
    with tempfile.TemporaryFile(dir=path):
        pass
    return missing


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove some folders, the innermost first, up to one that is not empty."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def check_kind(folder: Path, own: str) -> None:
    """Refuse a folder with results of another kind.

    Args:
        folder: where results will be written.
        own: name of the file that tells their kind.

    Raises:
        FolderTaken: there are such results.
    """
    for name, what in _RESULTS.items():
        if name != own and (folder / name).exists():
            raise FolderTaken(f"{folder} holds {what}. Name another folder with --out.")


def check_vacant(folder: Path, own: str, *, overwrite: bool) -> None:
    """Refuse a folder with results that must not be overwritten.

    Nothing is removed here: old results stay until there are new ones in their place.

    Args:
        folder: where results will be written.
        own: name of the file that tells their kind.
        overwrite: whether results of the same kind may be replaced.

    Raises:
        FolderTaken: there are results, and they are to be kept.
    """
    check_kind(folder, own)
    if (folder / own).exists() and not overwrite:
        raise FolderTaken(
            f"{folder} holds {_RESULTS[own]} already. Name another folder with --out, or write "
            "over it with --overwrite."
        )


def remove_stale(folder: Path, names: Sequence[str]) -> None:
    """Remove files of old results beside results that were just replaced."""
    for name in names:
        # A run that failed may have left one of them and no more.
        (folder / name).unlink(missing_ok=True)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write `content` so that a reader sees the old file or the new, never half of one."""
    with replacing(path) as file:
        json.dump(content, file, indent=2)
        file.write("\n")
