"""Go-Explore: archives of cells, revisited by restoring exact states."""

from plangym_ext.explore.archive import Archive
from plangym_ext.explore.cells import Cells, FrameCells, InfoCells, ObsCells, cells_named
from plangym_ext.explore.go_explore import GoExplore
from plangym_ext.explore.playing import demonstration, verify

__all__ = [
    "Archive",
    "Cells",
    "FrameCells",
    "GoExplore",
    "InfoCells",
    "ObsCells",
    "cells_named",
    "demonstration",
    "verify",
]
