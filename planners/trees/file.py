"""A search tree as a file of columns."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.core.whole_file import replacing
from plangym_ext.errors import WrongKind
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


def write_tree(path: str | os.PathLike[str], tree: SearchTree) -> None:
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
        np.savez_compressed(file, format=np.int32(FORMAT), **columns)


def read_tree(path: str | os.PathLike[str]) -> SearchTree:
    """Read a tree that `write_tree` wrote.

    Raises:
        ValueError: the file is no such tree, or it is damaged.
    """
    try:
        # A tree is numbers: a file that holds pickled objects would run code as it is read.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
            columns: dict[str, Any] = {name: found[name] for name in found.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"read_tree: {path} is no tree of write_tree: {error}") from error
    missing = {"format", *_DTYPES} - columns.keys()
    if missing or columns["format"] != FORMAT:
        raise ValueError(
            f"read_tree: {path} must have format {FORMAT} and the columns {', '.join(_DTYPES)}; "
            f"got {', '.join(sorted(columns)) or 'none'}."
        )
    count = len(np.atleast_1d(columns["parent"]))
    for name, dtype in _DTYPES.items():
        column = columns[name]
        if column.dtype != dtype or column.shape != (count,):
            raise ValueError(
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
        raise ValueError(f"read_tree: in {path} parents must come before their children.")
    return SearchTree(**{name: columns[name] for name in _DTYPES})
