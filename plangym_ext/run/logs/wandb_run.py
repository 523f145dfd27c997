"""WandbRun: logging to Weights & Biases."""

from __future__ import annotations

import importlib
import importlib.util
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plangym_ext.errors import MissingExtra, installing
from plangym_ext.run.files import write_json


class WandbRun:
    """Scalars by step. A log in the same folder continues the same run.

    `WANDB_MODE=offline` keeps the run in the folder, for `wandb sync`.

    Args:
        folder: where `wandb.json` keeps the run's identity, and its own files lie.
        project: that it belongs to.
        params: its config, written when it begins.

    Raises:
        MissingExtra: wandb is not installed.
    """

    def __init__(self, folder: Path, project: str, params: Mapping[str, Any] | None) -> None:
        if importlib.util.find_spec("wandb") is None:
            raise MissingExtra(
                "Logger: wandb must be installed, or wandb be left out; it is not. "
                f"{installing('wandb')}"
            )
        self._folder, self._project, self._params = folder, project, params
        self._run: Any = None

    def add(self, row: Mapping[str, int | float]) -> None:
        """Log the numbers of a row, all but its step."""
        if self._run is None:
            self._begin()
        step = int(row["step"])
        # Of a history nothing can be taken back: rows that a resumed run comes to again, and
        # which are the same, are left out.
        if step >= self._run.step:
            self._run.log({name: value for name, value in row.items() if name != "step"}, step=step)

    def truncate_after(self, step: int) -> None:
        """Leave the history as it is; see `add`."""

    def sync(self) -> None:
        """Do nothing: rows are handed to another process at once."""

    def close(self) -> None:
        """Wait for the upload; the next `add` continues the run."""
        if self._run is not None:
            self._run.finish()
            self._run = None

    def _begin(self) -> None:
        # Here and not above: it takes seconds, and few logs want it.
        wandb = importlib.import_module("wandb")
        self._run = wandb.init(
            project=self._project,
            id=self._identity(),
            name=self._folder.resolve().name,
            config=dict(self._params or {}),
            dir=str(self._folder),
            resume="allow",
            # The terminal is the live table's.
            settings=wandb.Settings(silent=True, console="off"),
        )

    def _identity(self) -> str:
        path = self._folder / "wandb.json"
        if not path.exists():
            write_json(path, {"id": secrets.token_hex(8), "project": self._project})
        return str(json.loads(path.read_text())["id"])
