"""BlockFiles: incremental checkpoints of large arrays in immutable block files."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple, cast, final

import numpy as np
import numpy.typing as npt

from plangym_ext.core.files.whole_file import opened, replacing
from plangym_ext.errors import DamagedCheckpoint, UnreadableFile

#: Bytes of a block: more is saved anew of large ones, and small ones are more to list.
BLOCK_BYTES = 1 << 18
#: Most blocks of a file. What a ring has overwritten leaves few files that are used in part.
FILE_BLOCKS = 64
#: Arrays of fewer bytes stay where they are.
LEAST_BYTES = 1 << 20
#: Marks what stands for an array.
_BLOCKS = "__blocks__"
_DIGEST_BYTES = 32
_MOST_BLOCK = 1 << 30
_FLOOR = 16 << 20  # bytes that a file which is not there any more may leave
_NAME = re.compile(r"blocks-(\d{8})\.bin")


class _Table(NamedTuple):
    """Places of the K blocks of an array."""

    digests: npt.NDArray[np.uint8]  # [K, 32] SHA-256 of each
    files: npt.NDArray[np.int64]  # [K] numbers of the files that hold them; -1: none yet
    offsets: npt.NDArray[np.int64]  # [K] bytes before them in their files
    size: int  # bytes of each but the last


@final
class BlockFiles:
    """The block files in a folder; files never change once written.

    A block is written again when its bytes have changed, or when little else of its file is
    still needed. So a ring of which a part was overwritten costs that part, and the files take at
    most twice as much as the arrays, for each content that is kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: By the place of an array in what was saved last.
        self._last: dict[str, _Table] = {}

    def save(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Write the changed blocks of large arrays, without copying the arrays.

        Returns:
            The content, with a table of blocks in place of every large array.

        Raises:
            OSError: it cannot be written; the files that were there are as they were.
        """
        blocks = {place: _blocks_of(array, BLOCK_BYTES) for place, array in _large(content)}
        tables = {place: _compared(parts, self._last.get(place)) for place, parts in blocks.items()}
        self._give_up_rare(blocks, tables)
        self._write(blocks, tables)
        self._last = tables
        return _with_tables(content, tables)

    def load(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return a saved value, with fresh arrays in place of tables.

        Raises:
            DamagedCheckpoint: a file is not there, or its bytes are others.
        """
        files: dict[int, BufferedReader] = {}
        # Each block that is written is of one array: a table that says more was forged.
        room = sum(self._sizes().values())
        wanted = sum(_nbytes(described) for _, described in _described(content))
        if wanted > room + _FLOOR:
            raise DamagedCheckpoint(
                f"{self.folder}: the blocks of a checkpoint would take {wanted:,} bytes; their "
                f"files have {room:,}. Take an older checkpoint."
            )
        try:
            found: dict[str, Any] = self._with_arrays(content, files)
            return found
        finally:
            for file in files.values():
                file.close()

    def go_on_from(self, content: Mapping[str, Any]) -> None:
        """Continue from another object's last `save`."""
        self._last = {place: _table(described) for place, described in _described(content)}

    def drop_all_but(self, needed: set[int]) -> None:
        """Remove all files but those with some numbers; see `files_of`."""
        for number in self._sizes().keys() - needed:
            self._path(number).unlink()

    # Files ----------------------------------------------------------------------

    def _path(self, number: int) -> Path:
        return self.folder / f"blocks-{number:08}.bin"

    def _sizes(self) -> dict[int, int]:
        """Return the bytes of each file that is there, by number."""
        found = ((_NAME.fullmatch(path.name), path) for path in self.folder.iterdir())
        return {int(name[1]): path.stat().st_size for name, path in found if name}

    def _give_up_rare(
        self, blocks: Mapping[str, list[memoryview]], tables: Mapping[str, _Table]
    ) -> None:
        """Forget where blocks are whose file is used by less than half, so that it can go."""
        used: dict[int, int] = {}
        for place, table in tables.items():
            for number, block in zip(table.files.tolist(), blocks[place], strict=True):
                used[number] = used.get(number, 0) + len(block)
        sizes = self._sizes()
        for number, count in used.items():
            # -1, of blocks that are in no file yet, is no number of a file: it stays -1.
            if number not in sizes or 2 * count < sizes[number]:
                for table in tables.values():
                    table.files[table.files == number] = -1

    def _write(self, blocks: Mapping[str, list[memoryview]], tables: Mapping[str, _Table]) -> None:
        """Write the blocks that are in no file into new ones."""
        waiting = [
            (table, blocks[place], i)
            for place, table in tables.items()
            for i in np.flatnonzero(table.files < 0).tolist()
        ]
        # Past all that are there, those of a save that was killed too: none is ever replaced.
        number = max(self._sizes(), default=-1) + 1
        for begin in range(0, len(waiting), FILE_BLOCKS):
            with replacing(self._path(number), "wb") as file:
                for table, parts, i in waiting[begin : begin + FILE_BLOCKS]:
                    table.files[i], table.offsets[i] = number, file.tell()
                    file.write(parts[i])
            number += 1

    def _with_arrays(self, value: Any, files: dict[int, BufferedReader]) -> Any:
        if not isinstance(value, Mapping):
            return value
        if value.keys() != {_BLOCKS}:
            return {key: self._with_arrays(one, files) for key, one in value.items()}
        described = value[_BLOCKS]
        array = np.empty(described["shape"], described["dtype"])
        table = _table(described)
        blocks = _blocks_of(array, table.size)
        _check(len(blocks) == len(table.files), described)
        for i, block in enumerate(blocks):
            number = int(table.files[i])
            file = files.get(number) or files.setdefault(number, self._opened(number))
            file.seek(int(table.offsets[i]))
            file.readinto(block)
            if _digest(block) != table.digests[i].tobytes():
                raise DamagedCheckpoint(
                    f"{self._path(number)}: its bytes are not those that were saved with the "
                    f"checkpoint. Take an older checkpoint."
                )
        return array

    def _opened(self, number: int) -> BufferedReader:
        try:
            return cast(BufferedReader, opened(self._path(number)))
        except (FileNotFoundError, IsADirectoryError, UnreadableFile):
            raise DamagedCheckpoint(
                f"{self._path(number)}: it is missing, or no file, and the checkpoint needs it. "
                f"Keep files of blocks beside the checkpoints."
            ) from None


def files_of(content: Mapping[str, Any]) -> set[int]:
    """Return the numbers of the files that something needs which `BlockFiles.save` returned."""
    found = (np.unique(_table(described).files).tolist() for _, described in _described(content))
    return set().union(*found)


def _blocks_of(array: npt.NDArray[Any], size: int) -> list[memoryview]:
    """Return views of the bytes of a contiguous array, so many each but the last."""
    data: memoryview = array.reshape(-1).view(np.uint8).data
    return [data[begin : begin + size] for begin in range(0, len(data), size)]


def _digest(block: memoryview) -> bytes:
    return hashlib.sha256(block).digest()


def _compared(blocks: list[memoryview], before: _Table | None) -> _Table:
    """Return a table in which the blocks that have not changed are where they were."""
    joined = b"".join(map(_digest, blocks))
    digests = np.frombuffer(joined, np.uint8).reshape(len(blocks), _DIGEST_BYTES)
    nowhere = np.full(len(blocks), -1), np.zeros(len(blocks), np.int64)
    table = _Table(digests, *nowhere, BLOCK_BYTES)
    if before is not None and before.size == table.size:
        num = min(len(blocks), len(before.files))
        same = np.flatnonzero((digests[:num] == before.digests[:num]).all(axis=1))
        table.files[same], table.offsets[same] = before.files[same], before.offsets[same]
    return table


def _large(value: Any, place: str = "") -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield place and array, contiguous, for each that is kept in blocks."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _large(one, f"{place}/{key}")
    elif isinstance(value, np.ndarray) and value.nbytes >= LEAST_BYTES and _is_plain(value):
        yield place, np.ascontiguousarray(value)


def _is_plain(array: npt.NDArray[Any]) -> bool:
    """Return whether bytes and the name of the dtype are all there is of an array."""
    return array.dtype.kind in "biufc"


def _with_tables(value: Any, tables: Mapping[str, _Table], place: str = "") -> Any:
    """Return nested values with tables in place of large arrays."""
    if isinstance(value, Mapping):
        return {key: _with_tables(one, tables, f"{place}/{key}") for key, one in value.items()}
    if place not in tables:
        return value
    shape = {"shape": list(value.shape), "dtype": value.dtype.str}
    return {_BLOCKS: {**shape, **tables[place]._asdict()}}


def _described(value: Any, place: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield place and description of each array in what `save` has returned."""
    if not isinstance(value, Mapping):
        return
    if value.keys() == {_BLOCKS}:
        yield place, value[_BLOCKS]
        return
    for key, one in value.items():
        yield from _described(one, f"{place}/{key}")


def _table(described: Mapping[str, Any]) -> _Table:
    """Return where the blocks of an array are."""
    found: Any = [described.get(name) for name in _Table._fields]
    *arrays, size = found
    _check(all(isinstance(array, np.ndarray) for array in arrays), described)
    forms = [(array.shape[1:], array.dtype, len(array)) for array in arrays if array.ndim]
    kinds = [((_DIGEST_BYTES,), np.uint8), ((), np.int64), ((), np.int64)]
    _check(forms == [(*kind, len(arrays[1])) for kind in kinds], described)
    _check(type(size) is int and 0 < size <= _MOST_BLOCK, described)
    # Of others than these, which no file has, the system says "Invalid argument".
    _check(all(((array >= 0) & (array < 1 << 40)).all() for array in arrays[1:]), described)
    return _Table(*found)


def _nbytes(described: Any) -> int:
    """Return the bytes of an array; see `_table` for the errors."""
    _check(isinstance(described, Mapping), described)
    shape, name = described.get("shape"), described.get("dtype")
    _check(isinstance(shape, list) and isinstance(name, str), described)
    _check(all(type(length) is int and length >= 0 for length in shape), described)
    _check(re.fullmatch(r"[<>|]?[biufc][0-9]{1,2}", name) is not None, described)
    try:
        return math.prod(shape) * np.dtype(name).itemsize
    except TypeError:  # a number of bytes that numpy does not have
        _check(False, described)
        raise


def _check(right: bool, described: Any) -> None:
    if not right:
        raise DamagedCheckpoint(
            f"{_BLOCKS}: an array's place in block files must be valid; got {described!r:.200}. "
            "Take an older checkpoint."
        )
