"""States on disk: saved one day, restored on another, in another process.

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
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.core.row_stepper import RowStepper
from plangym_ext.core.whole_file import replacing
from plangym_ext.errors import DamagedState, NoSuchFile

#: Deflate makes no more than 1,032 bytes out of one.
_MOST_EXPANSION = 1032


def save_states(path: str | os.PathLike[str], states: np.ndarray, env: RowStepper) -> None:
    """Write states of an env to a file; an existing one is replaced as a whole.

    Args:
        path: of the file; ".npz" is added if it has no suffix.
        states: `[B, S]` or `[S]` uint8 from `get_state` or `step_batch`.
        env: that they belong to.

    Raises:
        StateError: a row is damaged or belongs to another env. Nothing is written.
    """
    write_arrays(path, np.atleast_2d(np.asarray(states)), {}, env, "save_states")


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
    rows = env.checked_states(states, where)
    identity = json.dumps(env.envelope.identity, sort_keys=True, default=repr)
    content: dict[str, Any] = {"states": rows, "identity": np.array(identity), **arrays}
    # Readers take rows one after another alone; numpy would write columns first where they are.
    content = {name: np.asarray(array, order="C") for name, array in content.items()}
    with replacing(_with_suffix(path), "wb") as file:
        np.savez_compressed(file, **content)


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
        with zipfile.ZipFile(path) as archive:
            there = set(archive.namelist())
            names = ["states", "identity", *needed]
            names += [name for name in possible if f"{name}.npy" in there]
            return {name: _array(archive, name) for name in names}
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
    path = _with_suffix(path)
    try:
        return env.checked_states(found["states"], f"{where}({path.name})")
    except ValueError as error:
        error.add_note(f"{path} says its states belong to {_pretty(str(found['identity']))}")
        raise


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Return an array of an `.npz`, read only if the file holds as much as it says."""
    # Asked before anything is unpacked: a file of a few bytes may claim to hold gigabytes.
    info = archive.getinfo(f"{name}.npy")
    if info.file_size > _MOST_EXPANSION * info.compress_size + _MOST_EXPANSION:
        raise ValueError(f"{name} would take {info.file_size:,} bytes")
    with archive.open(info) as file:
        # numpy writes later versions only for headers that no array of bytes or numbers has.
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{name} has another format")
        shape, columns_first, dtype = np.lib.format.read_array_header_1_0(file)
        if dtype.hasobject or columns_first:
            raise ValueError(f"{name} is an array of {dtype}")
        data = file.read()  # to the end, where the checksum is
    size = math.prod(shape) * dtype.itemsize
    if len(data) != size:
        raise ValueError(
            f"{name} must have {size:,} bytes for its shape {shape}, got {len(data):,}"
        )
    # A copy: bytes are read-only.
    return np.frombuffer(data, dtype).reshape(shape).copy()


def _with_suffix(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    return path if path.suffix else path.with_suffix(".npz")


def _pretty(identity: str) -> Any:
    try:
        return json.loads(identity)
    except json.JSONDecodeError:
        return identity
