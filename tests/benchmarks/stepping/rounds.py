"""Contestants measured in turn, so that whatever else the machine does meets all of them."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

#: Given seconds to run for, a contestant returns its figure: rows/s, or microseconds.
Contestant = Callable[[float], float]


Name = TypeVar("Name", bound=Hashable)


def interleaved(
    contestants: dict[Name, Contestant], rounds: int, seconds: float
) -> dict[Name, list[float]]:
    """One figure of every contestant per round; the order turns with every round."""
    figures: dict[Name, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for contestant in contestants.values():
        contestant(min(seconds, 0.2))  # memory is mapped, branches are taken
    for k in range(rounds):
        for name in names if k % 2 == 0 else reversed(names):
            figures[name].append(contestants[name](seconds))
    return figures


def rows_per_second(step: Callable[[], Any], rows: int) -> Contestant:
    """Contestant that calls `step`, which runs `rows` rows, again and again."""

    def run(seconds: float) -> float:
        calls, begun = 0, time.perf_counter()
        while (now := time.perf_counter()) < begun + seconds:
            step()
            calls += 1
        return calls * rows / (now - begun)

    return run


def usual_microseconds(call: Callable[[], Any]) -> Contestant:
    """Contestant that gives the median time of one call."""

    def run(seconds: float) -> float:
        times = []
        stop = time.perf_counter() + seconds
        while (begun := time.perf_counter()) < stop:
            call()
            times.append(time.perf_counter() - begun)
        return statistics.median(times) * 1e6

    return run


def parent_microseconds(call: Callable[[], Any]) -> Contestant:
    """Contestant that gives the processor time that one call takes in this process."""

    def run(seconds: float) -> float:
        calls, stop = 0, time.perf_counter() + seconds
        begun = time.process_time()
        while time.perf_counter() < stop:
            call()
            calls += 1
        return (time.process_time() - begun) / calls * 1e6

    return run


def finding(
    name: str,
    values: list[float],
    unit: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    **beside: Any,
) -> dict[str, Any]:
    """One line of the table.

    Args:
        name: what was measured.
        values: one figure per round; the median is held against the target.
        unit: of the figures.
        at_least: target, or None.
        at_most: target, or None.
        beside: whatever else belongs to it; lists of figures are kept with their medians.
    """
    middle = statistics.median(values)
    met = None
    if at_least is not None:
        met = middle >= at_least
    if at_most is not None:
        met = middle <= at_most
    return {
        "name": name,
        "median": middle,
        "min": min(values),
        "max": max(values),
        "unit": unit,
        "at_least": at_least,
        "at_most": at_most,
        "met": met,
        "beside": {
            key: {"median": statistics.median(value), "rounds": value}
            if isinstance(value, list)
            else value
            for key, value in beside.items()
        },
    }


def ratios(ours: list[float], theirs: list[float]) -> list[float]:
    """Ratio of every round."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def fastest(call: Callable[[], Any]) -> Contestant:
    """Contestant that gives the least seconds that one call took."""

    def run(seconds: float) -> float:
        least, stop = math.inf, time.perf_counter() + seconds
        while (begun := time.perf_counter()) < stop:
            call()
            least = min(least, time.perf_counter() - begun)
        return least

    return run


class Tree(NamedTuple):
    """A contestant of searches: its name, trees, simulations of each, and simulations a wave."""

    name: str
    trees: int
    sims: int
    wave: int
