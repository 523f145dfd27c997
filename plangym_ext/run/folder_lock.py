"""FolderLock: exclusive lock of an output folder for one process."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from pathlib import Path

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.files.whole_file import PathLock
from plangym_ext.errors import InvalidOption
from plangym_ext.run.files import made_folders, remove_empty

#: Folders that are removed by another process between the making and the lock, at most.
_TRIES = 100


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
        self._made: list[Path] = []
        try:
            self._lock = self._held(folder.absolute(), folder)
        except OSError as error:
            if error.errno is None:  # another holds it, and has nothing in it yet
                raise
            remove_empty(self._made)
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

    def _held(self, path: Path, folder: Path) -> PathLock:
        busy = (
            f"{folder}: another run is writing there. Wait until it has ended, or choose another "
            "folder."
        )
        for _ in range(_TRIES):
            # One that was refused may remove the folder that it has made, before we hold it.
            with contextlib.suppress(FileNotFoundError):
                self._made = made_folders(path)
                return PathLock(path, os.O_RDONLY, busy)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))

    def close(self) -> None:
        """Release the folder; safe to call twice."""
        # While it is held: another one that waits for it would find it gone.
        if self._lock.is_there():
            remove_empty(self._made)
        self._made = []
        self._lock.close()
