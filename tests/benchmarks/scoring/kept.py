"""Finished episodes, and their file."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from plangym_ext.run.files import write_json
from scoring.cells import Cell


class Kept:
    """Episodes by cell and seed; written whole after each, so that none is ever lost.

    Args:
        path: of the JSON file; what is in it is used again. An episode played with other
            options than a cell has now is not: it is put aside under "superseded".
        machine: what the program runs on and with.
    """

    def __init__(self, path: Path, machine: dict[str, Any]) -> None:
        self._path = path
        content = json.loads(path.read_text()) if path.exists() else {}
        self.cells: dict[str, dict[str, Any]] = content.get("cells", {})
        self._superseded: list[dict[str, Any]] = content.get("superseded", [])
        self._machine = machine

    def episodes(self, cell: Cell) -> dict[str, Any]:
        """What is there of a cell, by seed."""
        found = self.cells.get(cell.key)
        return found["episodes"] if found and found["options"] == cell.options else {}

    def missing(self, cell: Cell) -> list[tuple[int, ...]]:
        """Groups of seeds that are still to be played."""
        there = self.episodes(cell)
        return [chunk for chunk in cell.chunks if not all(str(seed) in there for seed in chunk)]

    def add(self, cell: Cell, played: dict[str, Any]) -> None:
        """Take in finished episodes, and write the file."""
        entry = self.cells.get(cell.key)
        if entry is None or entry["options"] != cell.options:
            if entry is not None:
                self._superseded.append({"cell": cell.key, **entry})
            entry = {"options": cell.options, "episodes": {}}
            self.cells[cell.key] = entry
        today = datetime.date.today().isoformat()
        for seed, row in played.items():
            entry["episodes"][seed] = row | {"date": today, "machine": self._machine}
        entry["episodes"] = dict(sorted(entry["episodes"].items(), key=lambda item: int(item[0])))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self._path, {"cells": self.cells, "superseded": self._superseded})
