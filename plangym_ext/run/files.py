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


def make_folder_of(path: Path, option: str = "--out") -> None:
    """Make the folder of the file that an option names.

    Raises:
        InvalidOption: it cannot be made, or written to.
    """
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


def make_vacant(folder: Path, own: Sequence[str], *, overwrite: bool) -> None:
    """Refuse a folder with the results of another run, or remove those of the same kind.

    Args:
        folder: where results will be written.
        own: names of the files that this run writes; the first of them tells its kind.
        overwrite: remove them, if the results are of the same kind.

    Raises:
        FolderTaken: there are results, and they are to be kept.
    """
    check_kind(folder, own[0])
    if (folder / own[0]).exists() and not overwrite:
        raise FolderTaken(
            f"{folder} holds {_RESULTS[own[0]]} already. Name another folder with --out, or write "
            "over it with --overwrite."
        )
    # After all kinds were looked at: a folder that is refused stays as it was.
    for name in own:
        # Also without the first: a run that failed may have left a film and no more.
        (folder / name).unlink(missing_ok=True)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write `content` so that a reader sees the old file or the new, never half of one."""
    with replacing(path) as file:
        json.dump(content, file, indent=2)
        file.write("\n")
