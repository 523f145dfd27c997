"""Reader of logged runs, and their grouping by settings over seeds."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import UnknownName, UnreadableFile
from plangym_ext.run.files import read_json
from plangym_ext.run.logs.appended import AppendedFile, parse_table

Floats = npt.NDArray[np.float64]
#: Files of a run.
PARAMS, PROGRESS = "params.json", "progress.csv"

#: Params that tell runs of one experiment apart; other programs' logs have the last three.
RUN_PARAMS = frozenset({"seed", "exp_id", "run_id", "run_ID"})
#: Params that say how long a run is or what it keeps, but not what it computes on the way.
LENGTH_PARAMS = frozenset(
    {
        "rounds",
        "checkpoint_every",
        "weights_every",
        "wandb",
        "evaluation.record",
        "evaluation.stop_at",
        "env.n_workers",
    }
)
#: Params whose value alone names a run.
NAMING = ("env.id", "algorithm.name", "planner.name", "agent.name")


class Run(NamedTuple):
    """One folder with a `progress.csv`."""

    folder: Path
    params: dict[str, Any]  # "a.b" for nested ones; {} without a params.json
    columns: dict[str, Floats]  # [rows] each, NaN where a cell is empty or no number


class Group(NamedTuple):
    """Runs that differ only in their seeds.

    Args:
        label: what tells them from the other groups.
        runs: of them.
    """

    label: str
    runs: list[Run]

    def param(self, name: str) -> Any:
        """Return a param of the runs; None if they have no such param."""
        return self.runs[0].params.get(name)


def read_run(folder: Path) -> Run:
    """Read a finished or running run.

    Raises:
        UnreadableFile: its `params.json` holds no params, or its log no table.
    """
    return Run(folder, read_params(folder / PARAMS), read_columns(folder / PROGRESS))


def read_params(path: Path) -> dict[str, Any]:
    """Return the params of a run, "a.b" for nested ones; none of a file that is not there.

    Raises:
        UnreadableFile: it holds no params.
    """
    try:
        return dict(_flat(read_json(path, "the params of a run")))
    except FileNotFoundError:
        return {}


def read_columns(path: Path) -> dict[str, Floats]:
    """Return the columns of a log, `[rows]` each; none of a file that is not there.

    Rows that are being written are left out.

    Raises:
        UnreadableFile: it is no table.
    """
    if not path.exists():
        return {}
    try:
        # Bytes that are no text are no numbers either, and cost their cells alone.
        names, rows = parse_table(AppendedFile(path).whole_lines(errors="replace"))
    except csv.Error as error:
        raise UnreadableFile(
            f"{path}: it must hold a table; it is damaged, or another kind of file ({error})."
        ) from None
    # A row of another length was written while the columns were rewritten, by a run that goes on.
    cells = [[_number(cell) for cell in row] for row in rows if len(row) == len(names)]
    table = np.array(cells, np.float64).reshape(len(cells), len(names))
    return dict(zip(names, table.T, strict=True))


def find_groups(folders: Iterable[Path], read: Callable[[Path], Run] = read_run) -> list[Group]:
    """Return the runs in and below some folders, those with the same params together.

    Runs without params belong together if they lie below the same of the folders. A group
    is named by the params that not all groups share, or by its folder.

    Args:
        folders: with runs in them.
        read: reads the run of a folder.

    Raises:
        UnknownName: a folder has no run.
    """
    found: dict[tuple[Any, ...], list[Run]] = {}
    seen: set[Path] = set()
    for folder in folders:
        paths = sorted(path.parent for path in folder.rglob(PROGRESS))
        if not paths:
            raise UnknownName(
                f"{folder} must be a folder with a progress.csv in it or below; there is none. "
                f"Pass the folder that a run wrote to."
            )
        for path in paths:
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            run = read(path)
            found.setdefault(_key(run, folder), []).append(run)
    naming = _naming([runs[0].params for runs in found.values()])
    return [Group(_label(runs, naming), runs) for runs in found.values()]


def shared_names(groups: Sequence[Group]) -> str:
    """Return the env and algorithm names common to all groups; empty without any."""
    named = ("env.id", "algorithm.name", "planner.name")
    # As text: what a file calls a name may be a list, of which there is no set.
    shared = [{str(group.param(name) or "") for group in groups} for name in named]
    return ", ".join(min(found) for found in shared if len(found) == 1 and "" not in found)


def _key(run: Run, folder: Path) -> tuple[Any, ...]:
    if not run.params:
        return (str(folder),)
    # By `repr`: lists cannot be hashed, and 1 and 1.0 were written differently.
    return tuple(sorted((n, repr(v)) for n, v in run.params.items() if not _of_run(n)))


def _of_run(name: str) -> bool:
    return name.rpartition(".")[2] in RUN_PARAMS or name in LENGTH_PARAMS


def _naming(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fewest params, taken in turn, whose values tell the groups apart."""
    names = sorted({name for params in groups for name in params if not _of_run(name)})
    names.sort(key=lambda name: NAMING.index(name) if name in NAMING else len(NAMING))
    chosen: list[str] = []
    told_apart = 1
    for name in names:
        values = {tuple(repr(params.get(n)) for n in (*chosen, name)) for params in groups}
        # A name that parts no groups further says nothing.
        if len(values) > told_apart:
            chosen, told_apart = [*chosen, name], len(values)
    return chosen


def _label(runs: Sequence[Run], naming: Sequence[str]) -> str:
    own = runs[0].params
    if own and naming:
        known = [(name, own.get(name)) for name in naming]
        parts = [str(v) if n in NAMING else f"{n}={v}" for n, v in known if v is not None]
        if parts:
            return ", ".join(parts)
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
