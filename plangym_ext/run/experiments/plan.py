"""Sweep specification: parsing, list of runs with settings and folders, outcome files."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.errors import InvalidOption, UnknownName
from plangym_ext.run.files import read_json, write_json
from plangym_ext.run.settings.compose import compose, read_file
from plangym_ext.run.settings.settings import Text, merged, nested, plain


def _is_section(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _are_levels(value: Any) -> bool:
    # Each has a row at least: with none there is no variant.
    return isinstance(value, list) and all(
        isinstance(level, list) and level and all(map(_is_section, level)) for level in value
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


#: What each key of `KEYS` must be, in words and by a test.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "preset": ("the name of a preset or of a file", lambda value: isinstance(value, str)),
    "settings": ("settings by key", _is_section),
    "over": ("values by key", _is_section),
    "levels": ("lists of rows, each with settings by key", _are_levels),
    "seeds": ("a whole number, 1 or more", _is_count),
    "sample": ("a whole number, 1 or more", _is_count),
}
#: What a sweep's file may say.
KEYS = tuple(_KINDS)


class Sweep(NamedTuple):
    """Specification of a sweep, from a file or the command line.

    Args:
        sources: presets, files and settings of every run; see `compose`.
        over: values by dotted key.
        levels: rows of settings that change together.
        seeds: runs of each variant, with the seeds 0, 1, ... after that of the settings.
        sample: how many variants to draw; None: all of them.
    """

    sources: Sequence[Any]
    over: Mapping[str, Any]
    levels: Sequence[Level] = ()
    seeds: int = 1
    sample: int | None = None


class Job(NamedTuple):
    """One run.

    Args:
        name: folder of it, below that of the sweep.
        variant: name of its variant.
        settings: all of them, as a file of settings holds them.
        rounds: of the whole run.
    """

    name: str
    variant: str
    settings: dict[str, Any]
    rounds: int


def read_sweep(path: Path) -> dict[str, Any]:
    """Return the content of a sweep file, one entry per key of `KEYS`.

    Raises:
        UnknownName: it has another key.
        InvalidOption: it cannot be read.
    """
    found = read_file(path)
    for key in found:
        if key not in KEYS:
            raise UnknownName(f"sweep: {path} has {key!r}; a sweep has {', '.join(KEYS)}.")
    for key, value in found.items():
        kind, is_right = _KINDS[key]
        if not is_right(value):
            raise InvalidOption(f"sweep: {key} in {path} must be {kind}; got {value!r}.")
    return found


def jobs_of(sweep: Sweep) -> list[Job]:
    """Return all runs; every setting is checked.

    Raises:
        PlangymExtError: a setting is not known, or has a value that it cannot have.
    """
    over = {key: read_over(key, value) for key, value in sweep.over.items()}
    if sweep.sample is None:
        variants = grid(over, sweep.levels)
    else:
        # A fixed seed: a sweep that goes on has to find its variants in their folders.
        variants = sampled(over, sweep.levels, sweep.sample, seed=0)
    _check_names(variants)
    found = [(variant, job) for variant in variants for job in _with_seeds(variant, sweep)]
    _check_distinct(found)
    return [job for _, job in found]


def _with_seeds(variant: Variant, sweep: Sweep) -> list[Job]:
    sources = list(sweep.sources)
    of_all: dict[str, Any] = {}
    while sources and isinstance(sources[-1], Mapping):
        of_all = merged(sources.pop(), of_all)
    # What is said of all runs is said of the algorithm or planner of this variant, too.
    own = merged(of_all, nested(dict(variant.settings)), at_once=True)
    config = compose([*sources, own])
    if config.rounds is None:
        raise InvalidOption(
            "sweep: rounds must be a number, as a sweep compares finished runs; got None."
        )
    settings = plain(config)
    found = []
    for seed in range(config.seed, config.seed + sweep.seeds):
        name = f"{variant.name}/seed-{seed}" if variant.name else f"seed-{seed}"
        found.append(Job(name, variant.name, {**settings, "seed": seed}, config.rounds))
    return found


def _check_distinct(found: Sequence[tuple[Variant, Job]]) -> None:
    """Refuse two jobs of the same settings: one run would count as two."""
    known: dict[str, str] = {}
    for variant, job in found:
        settings = json.dumps([variant.given, job.settings], sort_keys=True, default=repr)
        other = known.setdefault(settings, job.name)
        if other != job.name:
            raise InvalidOption(
                f"sweep: {other} and {job.name} have the same settings, seed included, and would "
                f"be the same run twice. Give each value once, and vary seeds by --seeds alone."
            )


def _check_names(variants: Sequence[Variant]) -> None:
    """Refuse two variants that would share a folder."""
    names = [variant.name for variant in variants]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InvalidOption(
            f"sweep: two variants would both be called {min(twice)!r}. Give rows that differ in "
            f"longer settings a name."
        )


# Outcome file of a sweep run: done or failed ----------------------------------


DONE, FAILED = "done", "failed"
_FILE = "outcome.json"


def outcome(folder: Path) -> str:
    """Return `DONE` or `FAILED`; empty before the end of a run.

    A file that says neither is passed over: the run goes on from its last checkpoint.
    """
    try:
        found = read_json(folder / _FILE, "how a run has ended")["status"]
    except (OSError, LookupError):
        return ""
    return found if found in (DONE, FAILED) else ""


def write_outcome(folder: Path, exit_status: int, seconds: float) -> None:
    """Write the outcome of a run, from the exit status of its process."""
    status = FAILED if exit_status else DONE
    said = {"status": status, "exit": exit_status, "seconds": round(seconds, 3)}
    write_json(folder / _FILE, said)


# Variants of a sweep: grids of settings, random draws, rows of a file ---------


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
                f"sweep: {key} has a range, from which a grid cannot be made; say how many values "
                f"to draw with --sample N, or list the values."
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
