"""Figures as files: matplotlib, if it is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plangym_ext.errors import MissingExtra, installing


def load_pyplot(asked_by: str) -> Any:
    """Return matplotlib's pyplot, set to draw into files.

    Args:
        asked_by: what needs it, for the message.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtra(
            f"{asked_by} needs matplotlib, which is not installed. {installing('plot')}"
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, target: Path) -> None:
    """Write a figure in the format of the file's ending, and let go of it."""
    figure.tight_layout()
    figure.savefig(target, dpi=120)
    load_pyplot("a figure").close(figure)
