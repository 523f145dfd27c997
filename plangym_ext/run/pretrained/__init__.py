"""Pretrained agents: checkpoints `NAME.pt`, and their returns in `cards.json`.

Written by `tests/benchmarks/pretrained.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plangym_ext.run.files import read_json

FOLDER = Path(__file__).parent
CARDS = FOLDER / "cards.json"


def cards() -> dict[str, dict[str, Any]]:
    """Return the card of each agent by name: "env", mean "return", "returns", "steps"."""
    return read_json(CARDS, "what pretrained agents reach")


def checkpoint_path(named: Path | str) -> Path:
    """Return the absolute path of a checkpoint, of a run's folder, or of a pretrained agent.

    Args:
        named: a path, which counts if it exists, or the name of a pretrained agent.
    """
    name, path = str(named), Path(named).absolute()
    return FOLDER / f"{name}.pt" if not path.exists() and name in cards() else path
