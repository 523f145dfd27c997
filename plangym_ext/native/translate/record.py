"""Record: layout of an env's fields, and conversion to and from the env's attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.errors import IncompleteState
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.translate.arrays import code
from plangym_ext.native.translate.values import Num, Same, Untranslatable, joined, kind_of


class Record:
    """Fields of an env, and the record that holds them."""

    fields: dict[str, list[Any]]
    draws: bool
    obs: tuple[Any, tuple[int, ...]]
    reset_info: dict[str, Any] | None

    def record(self) -> np.dtype[Any]:
        """Return the dtype of the state."""
        fields: list[Any] = [("rng", pcg64.RNG)] if self.draws else []
        dtype, shape = self.obs
        fields.append((".obs", dtype.newbyteorder("<"), (int(np.prod(shape)),)))
        for name, (kind, inner) in (self.reset_info or {}).items():
            fields.append((f".said.{name}", Num(kind, "").dtype, inner))
        for name, options in self.fields.items():
            if len(options) > 1:
                fields.append((f"{name}.tag", np.dtype("u1")))
            for k, one in enumerate(options):
                for leaf, kind, count in record_leaves(one, f"{name}.{k}"):
                    fields.append(
                        (leaf, Num(kind, "").dtype, *([(count,)] if count is not None else []))
                    )
        fields.sort(key=lambda one: -np.dtype(one[1]).base.itemsize if one[0] != "rng" else -99)
        return np.dtype(fields)

    def capture(self, env: Any, record: Any) -> None:
        """Write the fields of an env to a record.

        Raises:
            IncompleteState: one holds a value of another kind than it was compiled for.
        """
        for name, options in self.fields.items():
            value = getattr(env, name)
            wanted = form_of(value, name)
            k = _best(wanted, options)
            if k is None:
                raise IncompleteState(
                    f"{type(env).__name__}.{name} = {value!r}: it was compiled for other kinds of "
                    "values. Compile it with an env that has been played, or use the class itself."
                )
            if len(options) > 1:
                record[f"{name}.tag"] = k
            try:
                _capture(value, options[k], record, f"{name}.{k}")
            except OverflowError:
                raise IncompleteState(
                    f"{type(env).__name__}.{name} = {value!r}: compiled envs keep ints of 64 bits."
                ) from None

    def restore(self, env: Any, record: Any) -> None:
        """Set the fields of an env by a record."""
        for name, options in self.fields.items():
            k = int(record[f"{name}.tag"]) if len(options) > 1 else 0
            setattr(env, name, _restored(options[k], record, f"{name}.{k}"))

    def fits(self, record: Any) -> bool:
        """Return whether a record may be one of this env."""
        return all(
            len(options) == 1 or record[f"{name}.tag"] < len(options)
            for name, options in self.fields.items()
        )


def form_of(value: Any, name: str) -> Any:
    """Return the form of a Python object."""
    if kind_of(value):
        return ("num", kind_of(value))
    if value is None or isinstance(value, str):
        return ("const", Same(value))
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return ("arr", code(value.dtype), value.shape)
    if type(value) in (list, tuple):
        return ("seq", type(value) is list, tuple(form_of(one, name) for one in value))
    raise Untranslatable(
        f"the attribute {name} changes, and holds a {type(value).__name__}: a state is made of "
        "numbers, arrays and tuples"
    )


def record_leaves(one: Any, place: str) -> list[tuple[str, str, int | None]]:
    """Return the fields of a record that hold a form: name, kind, count of elements."""
    if one[0] == "num":
        return [(place, one[1], None)]
    if one[0] == "arr":
        return [(place, one[1], int(np.prod(one[2], dtype=int)))]
    if one[0] == "seq":
        return [leaf for k, x in enumerate(one[2]) for leaf in record_leaves(x, f"{place}.{k}")]
    return []


def _best(wanted: Any, options: list[Any]) -> int | None:
    """Return the option that holds a form; None: none does."""
    if wanted in options:
        return options.index(wanted)
    for k, one in enumerate(options):
        if one[0] == wanted[0] and joined(one, wanted) == one:
            return k
    return next((k for k, one in enumerate(options) if _converts(wanted, one)), None)


def _converts(wanted: Any, one: Any) -> bool:
    """Return whether a number of one kind is the same as another kind's: 0 as 0.0."""
    if wanted[0] == one[0] == "seq":
        same = wanted[1] == one[1] and len(wanted[2]) == len(one[2])
        return same and all(map(_converts, wanted[2], one[2]))
    return wanted == one or (wanted[0] == one[0] == "num" and one[1] in ("float", "f8", "f?"))


def _capture(value: Any, one: Any, record: Any, place: str) -> None:
    if one[0] == "num":
        record[place] = value
    elif one[0] == "arr":
        record[place] = value.reshape(-1)
    elif one[0] == "seq":
        for k, (part, inner) in enumerate(zip(value, one[2], strict=True)):
            _capture(part, inner, record, f"{place}.{k}")


def _restored(one: Any, record: Any, place: str) -> Any:
    if one[0] == "num":
        value = record[place]
        return value.item() if one[1] in ("int", "float", "bool", "i?") else value
    if one[0] == "arr":
        return record[place].reshape(one[2]).copy()
    if one[0] == "seq":
        parts = [_restored(inner, record, f"{place}.{k}") for k, inner in enumerate(one[2])]
        return parts if one[1] else tuple(parts)
    return one[1].value


def put_shown(program: Record, record: Any, obs: Any, info: Any = None) -> None:
    """Write what a step or a reset has shown to a record."""
    record[".obs"] = np.asarray(obs).reshape(-1)
    for name in program.reset_info or () if info is not None else ():
        record[f".said.{name}"] = info[name]


def whole_record(program: Record, env: Any, shown: np.ndarray) -> np.ndarray:
    """Return `[1]` record of an env and its generator, with what the record `shown` has shown."""
    row = np.zeros(1, shown.dtype)
    for name in shown.dtype.names or ():
        if name.startswith("."):
            row[name] = shown[name]
    program.capture(env, row[0])
    if program.draws:
        row["rng"] = pcg64.record_of(env.np_random)
    return row
