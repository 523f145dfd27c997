"""Search trees as `.npz` files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.core.files import state_file
from plangym_ext.core.files.whole_file import opened, replacing
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import NoSuchFile, UnreadableFile, WrongKind
from plangym_ext.planners.plans import SearchTree

#: Version of the layout; written as column `format`.
FORMAT = 1
_DTYPES = {
    "parent": np.int32,
    "action": np.int32,
    "visits": np.int32,
    "q": np.float32,
    "reward": np.float64,
    "value": np.float64,
    "prior": np.float32,
    "ended": np.bool_,
}


@checking_arguments
def write_tree(path: str | os.PathLike[str], tree: SearchTree | None) -> None:
    """Write a tree as a compressed `.npz`, one `[N]` column per field of `SearchTree`.

    The file appears whole or not at all. Any numpy reads it; `read_tree` checks it too.

    Args:
        path: of the file, with its extension.
        tree: `plan.tree` of a plan made with `return_tree=True`.

    Raises:
        WrongKind: there is none.
    """
    if tree is None:
        raise WrongKind(
            "write_tree: tree must be that of a plan; got None. Plan with return_tree=True."
        )
    columns: dict[str, Any] = {name: np.asarray(column) for name, column in tree._asdict().items()}
    with replacing(Path(path), "wb") as file:
        state_file.write(file, {"format": np.array(FORMAT, np.int32), **columns})


def read_tree(path: str | os.PathLike[str]) -> SearchTree:
    """Read a tree file that `write_tree` wrote.

    Raises:
        NoSuchFile: there is none.
        UnreadableFile: the file is no such tree, or it is damaged.
        OSError: it is not there, or may not be read.
    """
    try:
        # A tree is numbers: a file that holds pickled objects would run code as it is read.
        with opened(Path(path)) as file:
            columns = state_file.read(file, (), ("format", *_DTYPES))
    except FileNotFoundError:
        raise NoSuchFile(f"read_tree: there is no file {path}.") from None
    except (PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # zipfile and zlib raise what they please for damaged files
        raise UnreadableFile(f"read_tree: {path} is no tree of write_tree: {error}") from error
    missing = {"format", *_DTYPES} - columns.keys()
    if missing or columns["format"].shape != () or columns["format"] != FORMAT:
        raise UnreadableFile(
            f"read_tree: {path} must have format {FORMAT} and the columns {', '.join(_DTYPES)}; "
            f"got {', '.join(sorted(columns)) or 'none'}."
        )
    count = len(np.atleast_1d(columns["parent"]))
    for name, dtype in _DTYPES.items():
        column = columns[name]
        if column.dtype != dtype or column.shape != (count,):
            raise UnreadableFile(
                f"read_tree: column {name} of {path} must be ({count},) {np.dtype(dtype)}; got "
                f"{column.shape} {column.dtype}."
            )
    parent = columns["parent"]
    if (
        count == 0
        or parent[0] != -1
        or (parent[1:] < 0).any()
        or (parent[1:] >= np.arange(1, count)).any()
    ):
        raise UnreadableFile(f"read_tree: in {path} parents must come before their children.")
    _check_numbers(path, columns)
    return SearchTree(**{name: columns[name] for name in _DTYPES})


def _check_numbers(path: Any, columns: dict[str, Any]) -> None:
    """Refuse numbers that no search writes."""
    action = columns["action"]
    floats = ("q", "reward", "value", "prior")
    wrong = [name for name in floats if not np.isfinite(columns[name]).all()]
    if action[0] != -1 or (action[1:] < 0).any():
        wrong.append("action")
    if (columns["visits"] < 0).any():
        wrong.append("visits")
    if wrong:
        raise UnreadableFile(
            f"read_tree: {path} is damaged: impossible numbers of {', '.join(wrong)}."
        )
