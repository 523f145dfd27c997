"""Operations on nested batches (dicts and tuples of arrays): map, stack, take and write rows.

This is the form of a batch whose space is a gymnasium `Dict` or `Tuple`. A batch that is
one array is the simplest case, so callers need not tell the two apart.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import (
    InvalidObservation,
    InvalidOption,
    MissingExtra,
    WrongKind,
    installing,
)


def mapped(change: Callable[..., Any], value: Any, *others: Any) -> Any:
    """Return `change(leaf, *leaves of others)` of every leaf, nested as `value`.

    Args:
        change: a function of one leaf of each argument.
        value: dicts and tuples of leaves, or one leaf.
        others: nested alike.
    """
    if isinstance(value, Mapping):
        return {key: mapped(change, part, *(o[key] for o in others)) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(mapped(change, *parts) for parts in zip(value, *others, strict=True))
    return change(value, *others)


def leaves(value: Any) -> Iterator[Any]:
    """Yield every leaf, in order."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def stacked(values: Sequence[Any]) -> Any:
    """Return a batch `[L, ...]` of L single values with equal nesting; a fresh copy."""
    return mapped(lambda *parts: np.stack([np.asarray(part) for part in parts]), *values)


def rows_of(batch: Any, index: Any) -> Any:
    """Return some rows of a nested batch, or one row for an integer.

    Args:
        batch: nested arrays `[B, ...]`.
        index: anything that indexes the first axis. As with numpy, slices give views and
            arrays give copies.
    """
    return mapped(lambda leaf: leaf[index], batch)


def write_rows(batch: Any, index: Any, rows: Any) -> None:
    """Write rows at `index` of the first axis of a batch with equal nesting."""
    for leaf, values in zip(leaves(batch), leaves(rows), strict=True):
        leaf[index] = values


def num_rows(batch: Any) -> int:
    """Return B of a nested batch of arrays `[B, ...]`."""
    return len(next(leaves(batch)))


def content(value: Any) -> bytes:
    """Return bytes that are equal for equal values and differ for others of the same nesting.

    Args:
        value: what an observation may hold: arrays, numbers, texts, None, and tuples, lists
            and dicts of them. Named tuples and lists count as tuples, a dict as its keys and
            values in their order.
    """
    if isinstance(value, Mapping):
        return content([part for item in value.items() for part in item])
    if isinstance(value, tuple | list):
        parts = [content(part) for part in value]
        # With their lengths, or (b"a", b"bc") would be (b"ab", b"c").
        return b"".join(b"%d:%b" % (len(part), part) for part in parts)
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return content((value.shape, value.ravel().tolist()))
    if isinstance(value, np.ndarray | np.generic | bool | int | float | complex):
        array = np.asarray(value)
        return f"{array.dtype.str}{array.shape}".encode() + array.tobytes()
    return repr(value).encode()


_FORMATS = "?bBhHiIlLqQfd"  # what a memoryview reads and writes


def cells_of(array: np.ndarray) -> memoryview | None:
    """Return a memoryview of the array, which takes numbers without casts; None if impossible."""
    return array.data if array.dtype.isnative and array.dtype.char in _FORMATS else None


# Conversion of an env's reward to a float -------------------------------------


def reward_of(reward: Any) -> float:
    """Return a reward as a float; arrays of one number count, as for gymnasium's vector envs.

    Raises:
        InvalidObservation: it is no number, or several.
    """
    if not isinstance(reward, str | bytes | bytearray):  # of which Python makes floats as well
        with contextlib.suppress(TypeError, ValueError):
            return float(reward)
    if isinstance(reward, np.ndarray) and reward.size == 1:
        return float(reward.reshape(-1)[0])
    several = isinstance(reward, list | tuple | dict | np.ndarray)
    advice = (
        "Several, one for each agent or objective, are made one by a wrapper: "
        "gymnasium.wrappers.TransformReward(env, lambda reward: float(sum(reward)))."
        if several
        else "Correct the env."
    )
    raise InvalidObservation(f"reward: expected one number; got {reward!r}. {advice}")


# Conversion of numpy arrays to torch tensors on the same memory ---------------


def as_tensor(data: npt.NDArray[Any]) -> Any:
    """Return a torch tensor that shares memory with `data` and keeps it alive.

    Raises:
        MissingExtra: torch is not installed.
        TypeError: torch has no such dtype.
        ValueError: `data` runs backwards along an axis, which torch cannot.
    """
    try:
        # Here and not above: importing torch takes seconds and most workers
        # never need it.
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise MissingExtra(
            f"Array.to_torch: torch must be installed; it is not. {installing('learn')}"
        ) from error
    if any(stride < 0 for stride in data.strides):
        raise InvalidOption(
            f"Array.to_torch: strides must not be negative; got {data.strides} for shape "
            f"{data.shape}. Flip the tensor of the unreversed view."
        )
    try:
        return torch.from_numpy(np.asarray(data))
    except TypeError as error:
        raise WrongKind(
            f"Array.to_torch: torch must know the dtype; got {data.dtype} ({error}). "
            f"Convert to_ndarray() first."
        ) from error


def as_array(given: Any, where: str, kind: type[Exception]) -> np.ndarray:
    """Return a caller's argument as an array; raise `kind` if it cannot be converted."""
    try:
        return np.asarray(given)
    except Exception as error:  # whatever `__array__` of an object raises
        raise kind(f"{where} must be one array; got {type(given).__name__}: {error}") from error
