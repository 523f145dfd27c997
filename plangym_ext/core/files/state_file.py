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
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.arrays.tensors import as_array
from plangym_ext.core.files import array_file
from plangym_ext.core.files.whole_file import opened, replacing
from plangym_ext.core.row_stepper import RowStepper
from plangym_ext.errors import DamagedState, NoSuchFile, StateError, WrongKind


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
        array_file.write(file, content)


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
            return array_file.read(file, ["states", "identity", *needed], possible)
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
