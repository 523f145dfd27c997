"""Viewer: frames of several envs in one grid, live in a window, a notebook or a terminal."""

from __future__ import annotations

import importlib
import math
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.drawing import rgb_frame
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import InvalidOption, MissingExtra
from plangym_ext.planners.pages.tree import png, reduced


@checking_arguments
def frame_grid(frames: Sequence[Any], columns: int | None = None) -> np.ndarray:
    """Return frames of one size side by side, row by row; empty places are black.

    Args:
        frames: N pictures `[H, W, 3]` uint8, such as `venv.render()` returns.
        columns: of the grid; None: as many as bring it nearest to a square.

    Returns:
        `[rows H, columns W, 3]` uint8, fresh.

    Raises:
        InvalidOption: there is no frame, or their sizes differ.
        CannotDraw: one is no picture.
    """
    shown = [rgb_frame(frame, "frame_grid") for frame in frames]
    if len({frame.shape for frame in shown}) != 1 or (columns is not None and columns < 1):
        raise InvalidOption(
            f"frame_grid: frames must be of one size, at least one, in one column or more; got "
            f"{[frame.shape for frame in shown]}, columns={columns}."
        )
    height, width, _ = shown[0].shape
    columns = columns or min(len(shown), math.ceil(math.sqrt(len(shown) * height / width)))
    rows = -(-len(shown) // columns)
    grid = np.zeros((rows * columns, height, width, 3), np.uint8)
    grid[: len(shown)] = shown
    joined = grid.reshape(rows, columns, height, width, 3).swapaxes(1, 2)
    return joined.reshape(rows * height, columns * width, 3)


class Viewer(Closing):
    """Shows frames of several envs: in a notebook in the cell's output, else in a pygame window.

    A terminal without a display shows them as coloured blocks.

    Args:
        columns: of the grid; see `frame_grid`.
        title: of the window.

    Attributes:
        is_open: False once the user has closed the window.
    """

    @staticmethod
    def can_show() -> bool:
        """Return whether there is a notebook, a display or a terminal to show frames in."""
        return _in_notebook() or _has_display() or sys.stdout.isatty()

    def __init__(self, columns: int | None = None, title: str = "plangym_ext") -> None:
        self._columns, self._title = columns, title
        self._screen: Any = None
        self._handle: Any = None
        self.is_open = True

    def show(self, frames: Sequence[Any]) -> None:
        """Show N pictures `[H, W, 3]` uint8 in place of the last ones.

        Raises:
            MissingExtra: pygame is not installed.
        """
        grid = frame_grid(frames, self._columns)
        if _in_notebook():
            self._display(grid)
        elif not _has_display() and sys.stdout.isatty():
            sys.stdout.write("\x1b[H" + blocks(grid, *shutil.get_terminal_size()))
            sys.stdout.flush()
        elif self.is_open:
            self._draw(grid)

    def _display(self, grid: np.ndarray) -> None:
        ipython: Any = importlib.import_module("IPython.display")
        picture = ipython.Image(data=png(grid))
        if self._handle is None:
            self._handle = ipython.display(picture, display_id=True)
        else:
            self._handle.update(picture)

    def _draw(self, grid: np.ndarray) -> None:
        try:
            import pygame
        except ImportError as error:
            raise MissingExtra(
                'Viewer: a window needs pygame, which is not installed. Install "gymnasium[classic'
                '-control]".'
            ) from error
        size = grid.shape[1], grid.shape[0]
        if self._screen is None or self._screen.get_size() != size:
            pygame.display.init()
            self._screen = pygame.display.set_mode(size)
            pygame.display.set_caption(self._title)
        self._screen.blit(pygame.surfarray.make_surface(grid.swapaxes(0, 1)), (0, 0))
        pygame.display.flip()
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            self.is_open = False
            self.close()

    def close(self) -> None:
        if self._screen is not None:
            import pygame

            self._screen = None
            pygame.display.quit()


def blocks(picture: np.ndarray, columns: int, lines: int) -> str:
    """Return a picture as text of a terminal, two pixels in each character.

    Args:
        picture: `[H, W, 3]` uint8.
        columns: of the terminal.
        lines: of it; the last one stays free.
    """
    height, width, _ = picture.shape
    factor = max(-(-width // columns), -(-height // (2 * (lines - 1))), 1)
    small = reduced(picture, max(height, width) // factor)
    even = small[: len(small) // 2 * 2].reshape(-1, 2, *small.shape[1:]).swapaxes(1, 2)
    text = ""
    for row in even.tolist():
        for (r, g, b), (below_r, below_g, below_b) in row:
            # The upper half of the cell is drawn, the lower one is its background.
            text += f"\x1b[38;2;{r};{g};{b};48;2;{below_r};{below_g};{below_b}m▀"
        text += "\x1b[0m\x1b[K\n"
    return text + "\x1b[J"


def _has_display() -> bool:
    named = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform == "darwin" or any(map(os.environ.get, named))


def _in_notebook() -> bool:
    """Return whether this is a kernel of Jupyter, which shows pictures."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"
