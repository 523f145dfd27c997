"""State files: saved env states that another process can restore.

A state file is an ordinary `.npz` without pickles:

    states     `[B, S]` uint8, the sealed rows as `get_state` returns them
    identity   JSON text: what env they belong to, readable without the library

and, in that of a `StateSet`, what is seen in them: `obs0`, `obs1`, ... for the arrays of the
observation space, `legal` if the env says which actions may be played, and `to_go`.

Every row carries its own checksum and the fingerprint of its env, so damage and
mix-ups are refused when the rows are used, whatever happened to the file.
"""

from __future__ import annotations

import json
import math
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from plangym_ext.arrays.nested import as_array
from plangym_ext.core.files.whole_file import opened, replacing
from plangym_ext.core.row_stepper import RowStepper
from plangym_ext.errors import DamagedState, NoSuchFile, StateError, WrongKind
from plangym_ext.states import plain


def save_states(path: str | os.PathLike[str], states: np.ndarray, env: RowStepper) -> None:
    """Write states of an env to a file; an existing one is replaced as a whole.

    Args:
        path: of the file; ".npz" is added if it has no suffix.
        states: `[B, S]` or `[S]` uint8 from `get_state` or `step_batch`.
        env: that they belong to.

    Raises:
        StateError: a row is damaged or belongs to another env. Nothing is written.
    """
    found = as_array(states, "save_states: states", StateError)
    write_arrays(path, np.atleast_2d(found), {}, env, "save_states")


def load_states(path: str | os.PathLike[str], env: RowStepper) -> np.ndarray:
    """Read states that `save_states` wrote.

    Args:
        path: of the file.
        env: that they must belong to: same id, arguments and simulator version.

    Returns:
        `[B, S]` uint8, checked.

    Raises:
        DamagedState: the file or a row in it is damaged.
        ForeignState: the states belong to another env; the message has both.
        NoSuchFile: there is none.
    """
    found = read_arrays(path, (), (), "load_states")
    return checked_file(path, found, env, "load_states")


def write_arrays(
    path: str | os.PathLike[str],
    states: np.ndarray,
    arrays: Mapping[str, np.ndarray],
    env: RowStepper,
    where: str,
) -> None:
    """Write states `[B, S]` with other arrays beside them; see `save_states`."""
    rows = _checked_env(env, where).checked_states(states, where)
    identity = json.dumps(env.envelope.identity, sort_keys=True, default=repr)
    content: dict[str, Any] = {"states": rows, "identity": np.array(identity), **arrays}
    # Readers take rows one after another alone; numpy would write columns first where they are.
    content = {name: np.asarray(array, order="C") for name, array in content.items()}
    with replacing(_with_suffix(path), "wb") as file:
        write(file, content)


def read_arrays(
    path: str | os.PathLike[str], needed: Iterable[str], possible: Iterable[str], where: str
) -> dict[str, np.ndarray]:
    """Return the arrays of a state file by name, fresh, with "states" and "identity".

    Args:
        path: of the file.
        needed: names of arrays that must be there.
        possible: names of arrays that may be there.
        where: method name, for messages.

    Raises:
        DamagedState: the file is damaged, or lacks what is needed.
        NoSuchFile: there is none.
    """
    path = _with_suffix(path)
    try:
        with opened(path) as file:
            return read(file, ["states", "identity", *needed], possible)
    except FileNotFoundError:
        raise NoSuchFile(f"{where}: there is no file {path}.") from None
    except Exception as error:  # zipfile and zlib raise what they please for damaged files
        raise DamagedState(
            f"{where}: {path} is no state file, or it is damaged: "
            f"{str(error) or type(error).__name__}"
        ) from error


def checked_file(
    path: str | os.PathLike[str], found: Mapping[str, np.ndarray], env: RowStepper, where: str
) -> np.ndarray:
    """Return the states that were read, `[B, S]` uint8, checked; see `load_states`."""
    path, states = _with_suffix(path), found["states"]
    if states.ndim != 2 or states.dtype != np.uint8:
        raise DamagedState(
            f"{where}: {path} is damaged: its states must be [B, S] uint8; got {states.shape} "
            f"{states.dtype}."
        )
    try:
        return _checked_env(env, where).checked_states(states, f"{where}({path.name})")
    except ValueError as error:
        error.add_note(f"{path} says its states belong to {_pretty(str(found['identity']))}")
        raise


def _checked_env(env: Any, where: str) -> RowStepper:
    if not hasattr(env, "checked_states"):
        raise WrongKind(f"{where}: env must be an env from make; got {type(env).__name__}")
    found: RowStepper = env
    return found


def _with_suffix(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise WrongKind(f"path must be a str or a path; got {path!r}")
    path = Path(path)
    return path if path.suffix else path.with_suffix(".npz")


def _pretty(identity: str) -> Any:
    try:
        return json.loads(identity)
    except json.JSONDecodeError:
        return identity


# `.npz` files of named arrays -------------------------------------------------
# A file unpacks to no more than ten times its own size, or 16 MiB: one that packs better gets bytes
# that mean nothing. So a reader knows what a file may hold before it unpacks anything.


#: Most bytes that a file may unpack to: so many times its own size, but for small ones.
_MOST_TIMES, _FLOOR = 10, 16 << 20
_PIECE = 1 << 20  # unpacked at a time, so that Ctrl-C comes through
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: Of a file that packs better: bytes that mean nothing, so that it is large enough for its content.
_ROOM = "room"
_HEADER = re.compile(
    rb"\{'descr': '([^']{1,32})', 'fortran_order': False, 'shape': \(([\d, ]{0,64})\), \} *\n"
)


def write(file: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by their names; readers can read their rows only in order."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, array, (1, 0), allow_pickle=False)
        _make_room(archive, file.tell(), sum(array.nbytes for array in arrays.values()))


def read(
    file: IO[bytes], needed: Iterable[str], possible: Iterable[str] = ()
) -> dict[str, np.ndarray]:
    """Return arrays by their names, fresh.

    Args:
        file: that `write` or `numpy.savez` wrote.
        needed: names of arrays that must be there.
        possible: names of arrays that may be there.

    Raises:
        Exception: whatever zipfile and zlib raise for damaged files, or a ValueError.
    """
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        there = set(archive.namelist())
        names = [*needed, *(name for name in possible if f"{name}.npy" in there)]
        found, left = {}, max(_MOST_TIMES * size, _FLOOR)
        for name in names:
            found[name] = _array(archive, name, size, left)
            left -= found[name].nbytes
    return found


def _array(archive: zipfile.ZipFile, name: str, packed: int, left: int) -> np.ndarray:
    """Return an array of an `.npz`, unpacked only if it is of a size that the file may hold."""
    info = archive.getinfo(f"{name}.npy")
    # Its directory may say anything: only of these two is the size bounded by what is read.
    if info.compress_type not in _METHODS or info.header_offset + info.compress_size > packed:
        raise ValueError(f"{name} is packed in a way that save_states never uses")
    with archive.open(info) as file:
        dtype, shape = _form(file, name)
        size, header = math.prod(shape) * dtype.itemsize, file.tell()
        if max(size, info.file_size - header) > left:
            raise ValueError(
                f"{name} would take {max(size, info.file_size):,} bytes, of at most {left:,} for a "
                f"file of {packed:,}"
            )
        data = np.empty(size, np.uint8)
        at = 0
        while piece := file.read(min(_PIECE, size - at) or 1):  # to the end, where the checksum is
            if at + len(piece) > size:
                raise ValueError(f"{name} has more than the {size:,} bytes of its shape {shape}")
            data[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
    if at != size:
        raise ValueError(f"{name} must have {size:,} bytes for its shape {shape}, got {at:,}")
    # A flag of another byte than 0 and 1 has numpy count wrongly, and write beyond an array.
    found = data != 0 if dtype == np.bool_ else data.view(dtype)
    return found.reshape(shape)


def _form(file: IO[bytes], name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return type and shape of an array; its header is as numpy writes it for plain arrays."""
    if file.read(8) != b"\x93NUMPY\x01\x00":
        raise ValueError(f"{name} has another format")
    header = _HEADER.fullmatch(file.read(int.from_bytes(file.read(2), "little")))
    if header is None:
        raise ValueError(f"{name} is no plain array, with rows one after another")
    lengths = [text for text in header[2].replace(b" ", b"").split(b",") if text]
    return plain.dtype_of(header[1].decode()), tuple(map(int, lengths))


def _make_room(archive: zipfile.ZipFile, packed: int, content: int) -> None:
    """Add bytes that mean nothing to a file that would be too small for its content to be read."""
    # Twice what is needed, for the headers and all that a reader counts otherwise.
    lacking = 2 * content // _MOST_TIMES - packed if content > _FLOOR // 2 else 0
    if lacking <= 0:
        return
    with archive.open(zipfile.ZipInfo(_ROOM), "w", force_zip64=True) as part:
        for at in range(0, lacking, _PIECE):
            part.write(bytes(min(_PIECE, lacking - at)))
