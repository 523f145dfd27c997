"""Outcome file of a sweep run: done or failed."""

from __future__ import annotations

import json
from pathlib import Path

from plangym_ext.run.files import write_json

DONE, FAILED = "done", "failed"
_FILE = "outcome.json"


def outcome(folder: Path) -> str:
    """Return `DONE` or `FAILED`; empty before the end of a run.

    A file that says neither is passed over: the run goes on from its last checkpoint.
    """
    try:
        found = json.loads((folder / _FILE).read_text(encoding="utf-8"))["status"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return found if found in (DONE, FAILED) else ""


def write_outcome(folder: Path, exit_status: int, seconds: float) -> None:
    """Write the outcome of a run, from the exit status of its process."""
    status = FAILED if exit_status else DONE
    said = {"status": status, "exit": exit_status, "seconds": round(seconds, 3)}
    write_json(folder / _FILE, said)
