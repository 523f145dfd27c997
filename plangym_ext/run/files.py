"""Result files: whole or not there."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plangym_ext.core.whole_file import replacing
from plangym_ext.errors import FolderTaken, InvalidOption

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


def make_folder(path: Path) -> None:
    """Make the folder that `--out` names, before anything is played for it.

    Raises:
        InvalidOption: it cannot be made, or written to.
    """
    try:
        _make_writable(path)
    except OSError as error:
        raise InvalidOption(
            f"--out must be a folder that can be written to; got {path}: {error.strerror}"
        ) from error


def check_file(path: Path, option: str = "--out") -> None:
    """Refuse a folder where an option names the file to write.

    Raises:
        InvalidOption: there is a folder of this name.
    """
    if path.is_dir():
        raise InvalidOption(
            f"{option} must be the file to write; got the folder {path}. Name a file in it."
        )


def check_new_file(path: Path, *, overwrite: bool, option: str = "--out") -> None:
    """Refuse a file with results that are to be kept; it stays until a new one replaces it.

    Raises:
        FolderTaken: there is one.
    """
    if path.exists() and not overwrite:
        raise FolderTaken(
            f"{path} is there already. Name another place with {option}, or write over it with "
            f"--overwrite."
        )


def make_folder_of(path: Path, option: str = "--out") -> None:
    """Make the folder of the file that an option names.

    Raises:
        InvalidOption: it cannot be made, or written to, or the file is a folder.
    """
    check_file(path, option)
    try:
        _make_writable(path.parent)
    except OSError as error:
        raise InvalidOption(
            f"{option} must be a file in a folder that can be written to; got {path}: "
            f"{error.strerror}"
        ) from error


def _make_writable(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Tried, not looked up: a read-only mount refuses even whom the permission bits let write.
    with tempfile.TemporaryFile(dir=folder):
        pass


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
    """Refuse a folder with results that are to be kept.

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
    """Remove what is beside results that were just replaced, and is of the old ones."""
    for name in names:
        # A run that failed may have left one of them and no more.
        (folder / name).unlink(missing_ok=True)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write `content` so that a reader sees the old file or the new, never half of one."""
    with replacing(path) as file:
        json.dump(content, file, indent=2)
        file.write("\n")
