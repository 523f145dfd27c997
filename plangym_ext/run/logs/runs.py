"""Logged runs, read back: one by one, and as groups that differ in their seed alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import UnknownName
from plangym_ext.run.logs.appended import AppendedFile
from plangym_ext.run.logs.csv_file import parse_table

Floats = npt.NDArray[np.float64]

#: Params that tell runs of one experiment apart; other programs' logs have the last three.
RUN_PARAMS = frozenset({"seed", "exp_id", "run_id", "run_ID"})


class Run(NamedTuple):
    """One folder with a `progress.csv`."""

    folder: Path
    params: dict[str, Any]  # "a.b" for nested ones; {} without a params.json
    columns: dict[str, Floats]  # [rows] each, NaN where a cell is empty or no number


class Group(NamedTuple):
    """Runs that differ in nothing but their seed."""

    label: str
    runs: list[Run]


def read_run(folder: Path) -> Run:
    """Read a run, also while it is going on."""
    names, rows = parse_table(AppendedFile(folder / "progress.csv").whole_lines())
    cells = [[_number(cell) for cell in row] for row in rows if len(row) == len(names)]
    table = np.array(cells, np.float64).reshape(len(cells), len(names))
    path = folder / "params.json"
    params = dict(_flat(json.loads(path.read_text()))) if path.exists() else {}
    return Run(folder, params, dict(zip(names, table.T, strict=True)))


def find_groups(folders: Iterable[Path]) -> list[Group]:
    """Return the runs in and below some folders, those with the same params together.

    Runs without params belong together if they lie below the same of the folders. A group
    is named by the params that not all groups share, or by its folder.

    Raises:
        UnknownName: a folder has no run.
    """
    found: dict[tuple[Any, ...], list[Run]] = {}
    seen: set[Path] = set()
    for folder in folders:
        paths = sorted(path.parent for path in folder.rglob("progress.csv"))
        if not paths:
            raise UnknownName(
                f"{folder} must be a folder with a progress.csv in it or below; there is none. "
                f"Pass the folder that a run wrote to."
            )
        for path in paths:
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            run = read_run(path)
            found.setdefault(_key(run, folder), []).append(run)
    return [Group(_label(runs, list(found.values())), runs) for runs in found.values()]


def _key(run: Run, folder: Path) -> tuple[Any, ...]:
    if not run.params:
        return (str(folder),)
    return tuple(sorted((n, repr(v)) for n, v in run.params.items() if not _of_run(n)))


def _of_run(name: str) -> bool:
    return name.rpartition(".")[2] in RUN_PARAMS


def _label(runs: Sequence[Run], groups: Sequence[Sequence[Run]]) -> str:
    firsts = [group[0].params for group in groups]
    names = sorted({name for params in firsts for name in params if not _of_run(name)})
    own = runs[0].params
    differing = [n for n in names if any(params.get(n) != own.get(n) for params in firsts)]
    if own and differing:
        return ", ".join(f"{name}={own.get(name)}" for name in differing)
    folder = runs[0].folder
    return (folder if len(runs) == 1 else folder.parent).resolve().name


def _flat(params: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield (dotted name, value) of nested params."""
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
