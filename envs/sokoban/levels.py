"""Reader for Sokoban level files in Boxoban's text format."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from plangym_ext.core.files.whole_file import contents
from plangym_ext.envs.sokoban.cells import MAX_SIDE, SYMBOLS, find_fault
from plangym_ext.errors import InvalidOption

_MOST_BYTES = 1 << 30  # of a file; all of Boxoban's have a tenth of it
Board = NDArray[np.uint8]

_SYMBOL_TO_CODE = str.maketrans({symbol: chr(code) for code, symbol in enumerate(SYMBOLS)})


class Levels(Sequence[Board]):
    """Levels of one size, by position.

    Args:
        boards: `[L, H, W]` uint8 cell codes, L >= 1; copied.
        source: where they come from, for messages.

    Attributes:
        boards: `[L, H, W]` uint8, read-only; indexing gives `[H, W]` views of it.

    Raises:
        InvalidOption: a board is not a legal level.
    """

    def __init__(self, boards: NDArray[np.uint8], source: str = "levels") -> None:
        # Made read-only below: states and pictures are made of views of it.
        boards = np.array(boards, copy=True, order="C")
        if boards.ndim != 3 or boards.dtype != np.uint8 or boards.size == 0:
            raise InvalidOption(
                f"{source}: expected boards of shape [L, H, W], uint8, at least one; "
                f"got {list(boards.shape)}, {boards.dtype}."
            )
        if max(boards.shape[1:]) > MAX_SIDE:
            raise InvalidOption(
                f"{source}: a level may have at most {MAX_SIDE} rows and columns; "
                f"got {boards.shape[1]}x{boards.shape[2]}."
            )
        for index, board in enumerate(boards):
            fault = find_fault(board.tobytes(), boards.shape[2])
            if fault is not None:
                raise InvalidOption(f"{source}, level at position {index}: {fault[1]}.")
        boards.flags.writeable = False
        self.boards = boards
        self.source = source

    @property
    def dim(self) -> tuple[int, int]:
        """Rows and columns of every level."""
        return self.boards.shape[1], self.boards.shape[2]

    def __len__(self) -> int:
        return len(self.boards)

    @overload
    def __getitem__(self, index: int) -> Board: ...

    @overload
    def __getitem__(self, index: slice) -> Levels: ...

    def __getitem__(self, index: int | slice) -> Board | Levels:
        if isinstance(index, slice):
            return Levels(self.boards[index], self.source)
        return self.boards[index]

    def __repr__(self) -> str:
        height, width = self.dim
        return f"Levels({len(self)} of {height}x{width} from {self.source})"


class _Block(NamedTuple):
    """Lines of one level in a file; line numbers start at 1."""

    name: str
    first_line: int
    rows: list[str]


def read_levels(path: str | os.PathLike[str]) -> Levels:
    """Read a level file, or several.

    Args:
        path: UTF-8 text in the format that `parse_levels` describes; or a pattern of several
            such files, as "train_*.txt", which are read in the order of their names.

    Raises:
        OSError: a file cannot be read.
        InvalidOption: a level is not legal, or not of the first one's size; the message names
            file, level and line.
    """
    name = os.fspath(path)
    # A file with brackets in its name is no pattern. What nothing matches is read as a path, whose
    # error then names it.
    paths = [name] if os.path.exists(name) else sorted(glob.glob(name)) or [name]
    found = [
        parse_levels(contents(Path(one), _MOST_BYTES).decode("utf-8"), source=one) for one in paths
    ]
    for one, levels in zip(paths, found, strict=True):
        if levels.dim != found[0].dim:
            raise InvalidOption(
                f"{one}: every level must have the size of those in {paths[0]}, "
                f"{found[0].dim}; got {levels.dim}. Read the files apart."
            )
    return Levels(np.concatenate([levels.boards for levels in found]), source=name)


def parse_levels(text: str, source: str = "text") -> Levels:
    """Read levels from text.

    Boxoban's format: a line `; <number>` before each level, one line per row in the
    symbols `#` wall, space floor, `.` target, `$` box, `*` box on target, `@` player,
    `+` player on target; blank lines between levels. The `;` lines may be missing.

    Raises:
        InvalidOption: a level is not legal; the message names source, level and line.
    """
    boards: list[Board] = []
    for block in _blocks(text):
        board = _board(block, source)
        if boards and board.shape != boards[0].shape:
            raise InvalidOption(
                f"{source}, level {block.name}, line {block.first_line}: every level must have "
                f"the size of the first, {boards[0].shape[0]}x{boards[0].shape[1]}; got "
                f"{board.shape[0]}x{board.shape[1]}. Pad it with walls or split the file."
            )
        boards.append(board)
    if not boards:
        raise InvalidOption(f"{source}: expected at least one level; got none.")
    return Levels(np.stack(boards), source)


def _blocks(text: str) -> Iterator[_Block]:
    """Split text into levels; a level ends at a blank line, a header or the end."""
    block, named = _Block("0", 1, []), False
    count = 0
    # The added header closes the last level.
    for number, raw in enumerate([*text.split("\n"), ";"], start=1):
        # Every row ends with a wall: what is cut off is the line's ending, never floor.
        line = raw.rstrip()
        is_header = line.startswith(";")
        if block.rows and (is_header or not line):
            yield block
            count += 1
            block, named = _Block(str(count), number, []), False
        if is_header:
            # A header without rows would shift the position of every later level.
            if named:
                yield block
            block, named = _Block(line[1:].strip() or str(count), number, []), True
        elif line:
            if not block.rows:
                block = block._replace(first_line=number)
            block.rows.append(line)


def _board(block: _Block, source: str) -> Board:
    """Return the codes of one level, [H, W] uint8."""

    def fail(row: int, what: str) -> InvalidOption:
        # A fault of the whole board has row -1: the level's first line is named.
        line = block.first_line + max(row, 0)
        return InvalidOption(f"{source}, level {block.name}, line {line}: {what}.")

    if not block.rows:
        raise fail(0, "expected rows after the level's header; got none")
    width = len(block.rows[0])
    for row, text in enumerate(block.rows):
        unknown = [symbol for symbol in text if symbol not in SYMBOLS]
        if unknown:
            raise fail(row, f"expected the symbols {SYMBOLS!r}; got {unknown[0]!r}")
        if len(text) != width:
            raise fail(row, f"expected {width} cells, as in the level's first row; got {len(text)}")
    # Codes are below 256, which latin-1 makes one byte each.
    cells = "".join(block.rows).translate(_SYMBOL_TO_CODE).encode("latin-1")
    fault = find_fault(cells, width)
    if fault is not None:
        raise fail(*fault)
    return np.frombuffer(cells, np.uint8).reshape(len(block.rows), width)
