"""OutputFiles: locks on a command's output files before its work begins."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.files.whole_file import HeldFile
from plangym_ext.errors import FolderBusy, FolderTaken, InvalidOption
from plangym_ext.run.arguments import as_typed
from plangym_ext.run.files import made_folders, remove_empty


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

    Raises:
        FolderTaken: one of them is there, and `replace` is False.
        FolderBusy: another process is writing one of them.
        InvalidOption: one of them cannot be written.
    """

    def __init__(
        self, paths: Sequence[Path], option: str = "--out", *, replace: bool, own: bytes = b""
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
                if path.exists() and not (replace or (own and own in path.read_bytes())):
                    raise FolderTaken(
                        f"{path} is there already. Name another place with {option}, or write "
                        f"over it with --overwrite."
                    )
            self._stack = stack.pop_all()

    @staticmethod
    def _hold(path: Path, stack: ExitStack) -> None:
        # After the file is let go, which lies in the folder.
        stack.callback(remove_empty, made_folders(path.parent.absolute()))
        stack.enter_context(HeldFile(path))

    def close(self) -> None:
        """Release files that were not written; safe to call twice."""
        self._stack.close()
