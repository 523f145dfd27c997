"""Variants of a sweep: grids of settings, random draws, rows of a file."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.errors import InvalidOption
from plangym_ext.run.settings.settings import Text

#: One level: rows of settings of which a variant has one. A row's "name" is for its folder.
Level = Sequence[Mapping[str, Any]]
#: `log(1e-5, 1e-2)`, `uniform(0, 1)`, `int(1, 8)`.
_RANGE = re.compile(r"\s*(log|uniform|int)\s*\(\s*([^,()]+?)\s*,\s*([^,()]+?)\s*\)\s*")


class Variant(NamedTuple):
    """One combination of settings, to be run with each of the seeds.

    Args:
        name: what tells it from the others, fit for a folder; empty if there is only one.
        settings: value by dotted key.
        given: names that its rows were given, which may tell equal settings apart.
    """

    name: str
    settings: Mapping[str, Any]
    given: tuple[str, ...] = ()


@dataclass(frozen=True)
class Range:
    """A range of random numbers.

    Args:
        kind: "uniform" between the ends; "log", whose logarithm is; "int", both ends included.
        low: end.
        high: end.
    """

    kind: str
    low: float
    high: float

    def __post_init__(self) -> None:
        """Check the ends."""
        is_finite = math.isfinite(self.low) and math.isfinite(self.high)
        if not is_finite or not self.low < self.high or (self.kind == "log" and self.low <= 0):
            both = ", both finite" if not is_finite else ", both above 0" * (self.kind == "log")
            raise InvalidOption(
                f"sweep: {self.kind}(low, high) must have low < high{both}; got {self.low:g} and "
                f"{self.high:g}."
            )

    def draw(self, generator: np.random.Generator) -> float | int:
        """Return a number with four significant digits, so that names stay short."""
        if self.kind == "int":
            return int(generator.integers(round(self.low), round(self.high), endpoint=True))
        if self.kind == "log":
            # Alike in each power of ten, as learning rates are chosen.
            number = math.exp(generator.uniform(math.log(self.low), math.log(self.high)))
        else:
            number = generator.uniform(self.low, self.high)
        # Rounded, as folders are named by the values.
        return float(f"{number:.4g}")


def read_over(key: str, value: Any) -> list[Any] | Range:
    """Return the values of a key in `--over`.

    Args:
        key: dotted, for the message.
        value: a list; or text: values with commas between them, or with semicolons if the
            values have commas, or a range such as `log(1e-5, 1e-2)`.

    Raises:
        InvalidOption: there is no value.
    """
    if isinstance(value, str):
        found = _RANGE.fullmatch(value)
        if found is not None:
            return Range(found[1], _end(key, found[2]), _end(key, found[3]))
        between = ";" if ";" in value else ","
        value = [Text(part.strip()) for part in value.split(between) if part.strip()]
    if not isinstance(value, list | tuple) or not value:
        raise InvalidOption(
            f"sweep: the values of {key!r} must be a list, or a range such as "
            f"log(1e-5, 1e-2); got {value!r}."
        )
    return list(value)


def _end(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidOption(f"sweep: {key}: {text!r} is no number.") from None


def grid(over: Mapping[str, list[Any] | Range], levels: Sequence[Level] = ()) -> list[Variant]:
    """Return every combination of the values, the last key's changing fastest.

    Args:
        over: values by key.
        levels: rows of settings that change together, crossed with each other and with `over`.

    Raises:
        InvalidOption: a key has a range, which a grid cannot have.
    """
    for key, values in over.items():
        if isinstance(values, Range):
            raise InvalidOption(
                f"sweep: {key} has a range, of which a grid cannot have all; say how many to draw "
                f"with --sample N, or list the values."
            )
    own: list[Level] = [[{key: value} for value in values] for key, values in over.items()]  # type: ignore[union-attr]
    return [_variant(rows) for rows in itertools.product(*levels, *own)]


def sampled(
    over: Mapping[str, list[Any] | Range], levels: Sequence[Level], count: int, seed: int
) -> list[Variant]:
    """Return variants whose values are drawn independently, none twice.

    Args:
        over: values or ranges by key.
        levels: rows of settings that change together; one of each is drawn.
        count: how many; fewer if there are not so many.
        seed: of the drawing; a larger count with the same seed begins with the same variants.
    """
    generator = np.random.default_rng(seed)
    found: dict[str, Variant] = {}
    for _ in range(20 * count):  # draws of values that were drawn before are dropped
        rows = [_drawn(level, generator) for level in levels]
        rows += [{key: _drawn(values, generator)} for key, values in over.items()]
        variant = _variant(rows)
        found.setdefault(variant.name, variant)
        if len(found) == count:
            break
    return list(found.values())


def _drawn(values: Sequence[Any] | Range, generator: np.random.Generator) -> Any:
    """Return one of the values."""
    if isinstance(values, Range):
        return values.draw(generator)
    return values[int(generator.integers(len(values)))]


def _variant(rows: Sequence[Mapping[str, Any]]) -> Variant:
    # Later rows override: what varies comes after levels.
    settings = {key: value for row in rows for key, value in row.items() if key != "name"}
    names = [_name(row) for row in rows]
    given = tuple(str(row["name"]) for row in rows if "name" in row)
    return Variant(",".join(names), settings, given)


def _name(row: Mapping[str, Any]) -> str:
    """Return the folder name of a row: its name, or its settings."""
    if "name" in row:
        text = str(row["name"])
    else:
        text = ",".join(f"{key.rpartition('.')[2]}={_text(v)}" for key, v in row.items())
    name = re.sub(r"[^\w.,=+-]", "_", text)
    # As a folder it would be another one.
    return name.replace(".", "_") if name in (".", "..") else name


def _text(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
