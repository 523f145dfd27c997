"""Content of the runs page, read from run folders as JSON data.

What a file of a run says is of no certain kind: a file that cannot be read or has impossible values
is left out, and the page shows its name.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from plangym_ext.core.numbers import framed, html_table
from plangym_ext.run.experiments.plan import outcome
from plangym_ext.run.files import read_json
from plangym_ext.run.logs.runs import (
    PARAMS,
    PROGRESS,
    Run,
    find_groups,
    read_columns,
    read_params,
    shared_names,
)
from plangym_ext.run.settings.config import RunConfig

#: Rows of a log that are drawn; of longer ones every n-th, and the last.
_ROWS = 1500
_PLACEHOLDER = "/*DATA*/"
#: By which a page is known.
MARK = b"<title>Runs</title>"
#: Where a run keeps films and pages of searches of its evaluations.
EPISODES = "episodes"
#: Params that name what a run is; the last if there are several envs.
_NAMED = ("algorithm.name", "planner.name", "env.id")
#: Letters of a text, entries of a list and levels of lists in it that the page shows.
_LETTERS, _ENTRIES, _LEVELS = 4000, 200, 5

#: Turns the file of an episode into what the page loads.
Address = Callable[[Path], str]
T = TypeVar("T")


def page(content: Mapping[str, Any]) -> str:
    """Return the complete, self-contained page."""
    import importlib.resources

    text = importlib.resources.files(__package__).joinpath("page.html").read_text("utf-8")
    # Closed by a "</script>" in a setting, the rest would be read as part of the page.
    data = json.dumps(content, allow_nan=False).replace("<", "\\u003c")
    return text.replace(_PLACEHOLDER, data)


def content(
    folders: Sequence[Path], address: Address, *, status: str = "", live: bool = False
) -> dict[str, Any]:
    """Return the page's data of the runs in and below some folders.

    Args:
        folders: of runs, also while they go on.
        address: of the file of an episode, for the page.
        status: shown in the corner.
        live: whether the page is to ask for what is new.

    Raises:
        UnknownName: a folder has no run.
    """
    # Before the logs are read: a row that is written meanwhile then makes the page ask again.
    rows = signature(folders)
    odd = _Odd()
    groups = find_groups(folders, odd.run)
    runs = sorted((run for group in groups for run in group.runs), key=lambda run: run.folder)
    envs = {env for run in runs if isinstance(env := run.params.get("env.id"), str)}
    return {
        "title": shared_names(groups) or folders[0].resolve().name,
        "subtitle": ", ".join(map(str, folders)),
        "status": status,
        "live": live,
        "rows": rows,
        "runs": [_of_run(run, _name(run, folders, len(envs) > 1), address, odd) for run in runs],
        "odd": odd.told,
    }


class ShownRun:
    """Base of objects that a notebook shows as the run that they are of.

    Attributes:
        config: settings of the run.
        folder: of the run.
    """

    config: RunConfig
    folder: Path

    def _repr_html_(self) -> str:
        """Return the notebook view: what the run is and, if it has a log, its curves."""
        named = {"algorithm": self.config.algorithm, "planner": self.config.planner}
        known = [(kind, one.name) for kind, one in named.items() if one is not None]
        table = html_table(str(self.folder), [("env", self.config.env.id), *known])
        if not (self.folder / PROGRESS).exists():
            return table
        # Without its films, which a notebook would keep in every copy.
        return table + framed(page(content([self.folder], lambda _: "")), 560)


def signature(folders: Sequence[Path]) -> str:
    """Return a text that changes with the page's data."""
    found = 0
    for folder in folders:
        # Of a row in the log `timings.csv` is written last, so that the others have it by then.
        for pattern in ("timings.csv", "eval.json", f"{EPISODES}/*"):
            for path in folder.rglob(pattern):
                # A file that is being written has another name until it is whole.
                with contextlib.suppress(OSError):
                    about = path.stat()
                    found += 1 + about.st_mtime_ns + about.st_size
    return f"{found:x}"


class _Odd:
    """Collects notes on unreadable files.

    Attributes:
        told: a line for each.
    """

    def __init__(self) -> None:
        self.told: list[str] = []

    def part(self, path: Path, read: Callable[[Path], T], otherwise: T) -> T:
        """Return the content of a file, or its placeholder."""
        try:
            return read(path)
        # Of whatever kind: no file, of a person's or a program's, is to cost the other panels.
        except Exception as error:
            self.told.append(_plain(f"{path}: {type(error).__name__}: {error}"))
            return otherwise

    def run(self, folder: Path) -> Run:
        """Return a run without what cannot be read of it."""
        return Run(
            folder,
            self.part(folder / PARAMS, read_params, {}),
            self.part(folder / PROGRESS, read_columns, {}),
        )


def _name(run: Run, folders: Sequence[Path], several_envs: bool) -> str:
    """Return folder, algorithm and seed of a run, and its env if there are several."""
    root = next((one for one in folders if run.folder.is_relative_to(one)), run.folder)
    inside = run.folder.relative_to(root)
    # With the folder that was named in front, if there are several.
    named = [root.resolve().name] if len(folders) > 1 or not inside.parts else []
    about = [run.params.get(name) for name in _NAMED[: 3 if several_envs else 2]]
    seed = run.params.get("seed")
    parts = ["/".join([*named, *inside.parts]), *(one for one in about if isinstance(one, str))]
    return _plain(" · ".join([*parts, *([] if seed is None else [f"seed {seed}"])]))


def _of_run(run: Run, name: str, address: Address, odd: _Odd) -> dict[str, Any]:
    timings: dict[str, Any] = odd.part(run.folder / "timings.csv", read_columns, {})
    return {
        "id": str(run.folder),
        "name": name,
        "env": _plain(str(run.params.get("env.id", ""))),
        "settings": _plain(run.params),
        "total": _total(run.params),
        "ended": outcome(run.folder),
        "columns": _columns(run.columns),
        "timings": _columns(timings),
        "evaluation": odd.part(run.folder / "eval.json", _evaluation, None),
        "episodes": _episodes(run.folder / EPISODES, address, odd),
    }


def _total(settings: Mapping[str, Any]) -> int | None:
    """Return the steps of the whole run; None if its params do not say."""
    names = ("collector.num_envs", "collector.moves", "rounds")
    found = [*map(settings.get, names), settings.get("learners", 1)]
    return math.prod(found) if all(isinstance(one, int) and one < 2**53 for one in found) else None


def _plain(value: Any, level: int = 0) -> Any:
    """Return a file's content as JSON for browsers, limited in size."""
    if isinstance(value, float):
        # JSON has neither NaN nor infinity, and browsers refuse what Python writes for them.
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value if len(value) <= _LETTERS else f"{value[:_LETTERS]}…"
    if not isinstance(value, list | dict):
        return value
    if level == _LEVELS:
        return "…"
    if isinstance(value, list):
        return [_plain(one, level + 1) for one in value[:_ENTRIES]] + ["…"] * (
            len(value) > _ENTRIES
        )
    return {_plain(name): _plain(one, level + 1) for name, one in value.items()}


def _columns(columns: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """Return columns as lists for JSON, thinned out, None where there is no number."""
    return {_plain(name): [_number(x) for x in _thin(found)] for name, found in columns.items()}


def _thin(values: Any) -> Any:
    every = -(-len(values) // _ROWS) if len(values) else 1
    # Counted from the end: the newest row is always there.
    return values[::-1][::every][::-1]


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _evaluation(path: Path) -> dict[str, Any] | None:
    """Return the result of `plangym-ext eval`; None without one."""
    if not path.exists():
        return None
    found = read_json(path, "what `plangym-ext eval` found")
    named = {
        "checkpoint": "checkpoint",
        "mean return": "eval/return",
        "lowest": "eval/return_min",
        "spread": "eval/return_std",
        "mean length": "eval/length",
        "player": "player",
    }
    values = {shown: _plain(found.get(key)) for shown, key in named.items()}
    return {**values, "episodes": len(found.get("returns", ()))}


def _episodes(folder: Path, address: Address, odd: _Odd) -> list[dict[str, str]]:
    """Return the recorded episodes, the oldest first: a film, a page of searches, or both."""
    found: dict[str, dict[str, str]] = {}
    files: list[Path] = odd.part(folder, _files, [])
    for path in files:
        kind = {".mp4": "video", ".html": "tree"}.get(path.suffix)
        # Those with a dot are still being written.
        if kind and not path.name.startswith("."):
            there = odd.part(path, address, "")
            if there:
                found.setdefault(path.stem, {"name": _plain(path.stem)})[kind] = there
    return list(found.values())


def _files(folder: Path) -> list[Path]:
    # No folders and no pipes, which would be waited for.
    return sorted(path for path in folder.glob("*") if path.is_file())
