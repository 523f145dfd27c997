"""Sweep specification: parsing, and the list of runs with settings and folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from plangym_ext.errors import InvalidOption, UnknownName
from plangym_ext.run.experiments.variants import Level, Variant, grid, read_over, sampled
from plangym_ext.run.settings.compose import compose, read_file
from plangym_ext.run.settings.settings import merged, nested, plain


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
