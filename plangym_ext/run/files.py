"""Output folders and result files: creation, vacancy checks, atomic JSON writes."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.files.whole_file import HeldFile, PathLock, contents, replacing
from plangym_ext.errors import FolderBusy, FolderTaken, InvalidOption, UnreadableFile
from plangym_ext.run.arguments import as_typed

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
    """Remove empty folders, the innermost first, until one is not empty."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def check_kind(folder: Path, own: str) -> None:
    """Refuse a folder with results of another kind.

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


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Return the JSON object that a file holds.

    Raises:
        OSError: it cannot be read.
        UnreadableFile: it holds no such object, is too large, or is a pipe or a device.
    """
    data = contents(path)
    try:
        # A list or an object takes up to 200 bytes of memory, and two of a file.
        if len(data) > 1 << 20 and data.count(b"[") + data.count(b"{") > len(data) // 20:
            raise ValueError("it has too many lists and objects")
        found = json.loads(data.decode())
        if isinstance(found, dict):
            return found
        told = f"it holds a {type(found).__name__}"
    except (ValueError, RecursionError) as error:
        told = str(error).partition("\n")[0]
    raise UnreadableFile(
        f"{path}: it must hold {what}, a JSON object; it is damaged, or another kind of file "
        f"({told}). Repair or remove it."
    )


# OutputFiles: locks on a command's output files before its work begins --------

#: Folders that are removed by another process between the making and the lock, at most.
_TRIES = 100
_Lock = TypeVar("_Lock")


def _held_in(
    folder: Path, lock: Callable[[], _Lock], tries: int = _TRIES
) -> tuple[_Lock, list[Path]]:
    """Make a folder and lock something in it; return the lock, and what `made_folders` has made."""
    made: list[Path] = []
    try:
        made = made_folders(folder)
        return lock(), made
    except FolderBusy:
        raise
    except (FileNotFoundError, FileExistsError):
        if not tries:
            remove_empty(made)
            raise
    # One that was refused has removed the folder that it had made, before it was held.
    held, inner = _held_in(folder, lock, tries - 1)
    return held, [*inner, *(one for one in made if one not in inner)]


class OutputFiles(Closing):
    """Locks of single output files in folders that others may use.

    A command that has a folder to itself takes a `FolderLock`. Folders that were made here, and
    have nothing in them at the end, are removed.

    Args:
        paths: of the files.
        option: that names them or their folder, for messages.
        replace: whether they may be there already.
        own: bytes in a file that the command has made itself, of what is there still: it is
            renewed in any case.
        otherwise: what to do in place of naming another place, for messages.

    Raises:
        FolderTaken: one of them is there, and `replace` is False.
        FolderBusy: another process is writing one of them.
        InvalidOption: one of them cannot be written.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        option: str = "--out",
        *,
        replace: bool,
        own: bytes = b"",
        otherwise: str = "write over it with --overwrite",
    ) -> None:
        with ExitStack() as stack:
            for path in paths:
                if path.is_dir():
                    raise InvalidOption(
                        f"{option} must be the file to write; got the folder {as_typed(path)}. "
                        f"Name a file in it."
                    )
                try:
                    self._hold(path, stack)
                except FolderBusy:
                    raise
                except OSError as error:
                    raise InvalidOption(
                        f"{option} must be a file in a folder that can be written to; got "
                        f"{path}: {error.strerror}"
                    ) from error
                except InvalidOption as error:
                    raise InvalidOption(f"{option}: {error}") from None
                # Once it is held: another command may have written it a moment ago.
                if path.exists() and not (replace or (own and own in contents(path, 1 << 30))):
                    raise FolderTaken(
                        f"{path} is there already. Name another place with {option}, or "
                        f"{otherwise}."
                    )
            self._stack = stack.pop_all()

    @staticmethod
    def _hold(path: Path, stack: ExitStack) -> None:
        held, made = _held_in(path.parent.absolute(), lambda: HeldFile(path))
        # After the file is let go, which lies in the folder.
        stack.callback(remove_empty, made)
        stack.enter_context(held)

    def close(self) -> None:
        """Release files that were not written; safe to call twice."""
        self._stack.close()


# FolderLock: exclusive lock of an output folder for one process ---------------


class FolderLock(Closing):
    """Makes an output folder, and locks it until it is closed or the process ends.

    To be taken before anything is looked up in the folder: of two commands that begin at once in
    one folder, even in a new one, the second is refused. The lock is on the folder itself, so it
    leaves no file, and a run that was killed can be resumed at once. What was made here, and has
    nothing in it at the end, is removed.

    Args:
        folder: made if it is not there, with those above it.
        files: names of files that will be written in it.

    Raises:
        FolderBusy: another process, or another part of this one, holds it.
        InvalidOption: it cannot be made, or written to, or a folder has the name of a file.
    """

    def __init__(self, folder: Path, files: Sequence[str] = ()) -> None:
        path = folder.absolute()
        busy = (
            f"{folder}: another run is writing there. Wait until it has ended, or choose another "
            "folder."
        )
        try:
            self._lock, self._made = _held_in(path, lambda: PathLock(path, os.O_RDONLY, busy))
        except FolderBusy:  # which may have nothing in it yet
            raise
        except OSError as error:
            raise InvalidOption(
                f"--out must be a folder that can be written to; got {folder}: {error.strerror}"
            ) from error
        for name in files:
            if (folder / name).exists() and not (folder / name).is_file():
                self.close()
                raise InvalidOption(
                    f"{folder / name} must be a file, or not be there; it is a folder, a "
                    f"pipe or a device. Move it, "
                    f"or name another folder with --out."
                )

    def close(self) -> None:
        # While it is held: another one that waits for it would find it gone.
        if self._lock.is_there():
            remove_empty(self._made)
        self._made = []
        self._lock.close()


def versions() -> dict[str, str]:
    """Return the versions of Python and of packages that affect results."""
    import importlib.metadata
    import platform

    found = {"python": platform.python_version()}
    for name in ("plangym-ext", "torch", "numpy", "gymnasium", "numba", "ale-py", "mujoco"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
