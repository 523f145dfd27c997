"""What the page of runs shows, read from their folders."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from plangym_ext.run.experiments.outcome import outcome
from plangym_ext.run.logs.runs import Run, find_groups, read_columns, shared_names

#: Rows of a log that are drawn; of longer ones every n-th, and the last.
_ROWS = 1500
_PLACEHOLDER = "/*DATA*/"
#: Where a run keeps films and pages of searches of its evaluations.
EPISODES = "episodes"

#: Turns the file of an episode into what the page loads.
Address = Callable[[Path], str]


def page(content: Mapping[str, Any]) -> str:
    """Return the whole page, which needs nothing else."""
    import importlib.resources

    text = importlib.resources.files(__package__).joinpath("page.html").read_text("utf-8")
    # Closed by a "</script>" in a setting, the rest would be read as part of the page.
    data = json.dumps(content, allow_nan=False).replace("<", "\\u003c")
    return text.replace(_PLACEHOLDER, data)


def content(
    folders: Sequence[Path], address: Address, *, status: str = "", live: bool = False
) -> dict[str, Any]:
    """Return what the page shows of the runs in and below some folders.

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
    groups = find_groups(folders)
    runs = [
        _of_run(run, _name(group.label, run, len(group.runs)), address)
        for group in groups
        for run in group.runs
    ]
    return {
        "title": shared_names(groups) or folders[0].resolve().name,
        "subtitle": ", ".join(map(str, folders)),
        "status": status,
        "live": live,
        "rows": rows,
        "runs": runs,
    }


def signature(folders: Sequence[Path]) -> str:
    """Return a text that changes when what the page shows does."""
    found = 0
    for folder in folders:
        # Of a row in the log `timings.csv` is written last, so that the others have it by then.
        for pattern in ("timings.csv", "eval.json", f"{EPISODES}/*"):
            for path in folder.rglob(pattern):
                # A file that is being written has another name until it is whole.
                with contextlib.suppress(FileNotFoundError):
                    about = path.stat()
                    found += 1 + about.st_mtime_ns + about.st_size
    return f"{found:x}"


def _name(label: str, run: Run, count: int) -> str:
    return label if count == 1 else f"{label}, seed {run.params.get('seed', run.folder.name)}"


def _of_run(run: Run, name: str, address: Address) -> dict[str, Any]:
    return {
        "name": name,
        "settings": run.params,
        "total": _total(run.params),
        "ended": outcome(run.folder),
        "columns": _columns(run.columns),
        "timings": _columns(read_columns(run.folder / "timings.csv")),
        "evaluation": _evaluation(run.folder / "eval.json"),
        "episodes": _episodes(run.folder / EPISODES, address),
    }


def _total(settings: Mapping[str, Any]) -> int | None:
    """Return the steps of the whole run; None if its params do not say."""
    try:
        one_round = settings["collector.num_envs"] * settings["collector.moves"]
        return int(settings["rounds"] * one_round * settings.get("learners", 1))
    except (KeyError, TypeError):
        return None


def _columns(columns: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """Return columns as lists for JSON, thinned out, None where there is no number."""
    return {name: [_number(x) for x in _thin(values)] for name, values in columns.items()}


def _thin(values: Any) -> Any:
    every = -(-len(values) // _ROWS) if len(values) else 1
    # Counted from the end: the newest row is always there.
    return values[::-1][::every][::-1]


def _number(value: float) -> float | None:
    # JSON has no NaN, and browsers refuse the one that Python writes.
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _evaluation(path: Path) -> dict[str, Any] | None:
    """Return what `plangym-ext eval` found; None if it was not run."""
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    named = {
        "checkpoint": "checkpoint",
        "mean return": "eval/return",
        "lowest": "eval/return_min",
        "spread": "eval/return_std",
        "mean length": "eval/length",
        "player": "player",
    }
    values = {shown: found.get(key) for shown, key in named.items()}
    return {**values, "episodes": len(found.get("returns", ()))}


def _episodes(folder: Path, address: Address) -> list[dict[str, str]]:
    """Return the recorded episodes, the oldest first: a film, a page of searches, or both."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*")) if folder.is_dir() else ():
        kind = {".mp4": "video", ".html": "tree"}.get(path.suffix)
        # Those with a dot are still being written.
        if kind and not path.name.startswith("."):
            found.setdefault(path.stem, {"name": path.stem})[kind] = address(path)
    return list(found.values())
