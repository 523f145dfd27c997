"""Schedules: numbers that change with the update count. Needs the standard library only."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Union

from plangym_ext.core.inherited_options import load_own
from plangym_ext.core.numbers import finite_between
from plangym_ext.core.options import (
    CheckedOptions,
    Count,
    Finite,
    OneOf,
    Range,
    Share,
    Weight,
    Whole,
    declarations,
)
from plangym_ext.errors import InvalidOption

SHAPES = ("linear", "cosine", "rsqrt")


@dataclass(frozen=True, kw_only=True)
class Schedule(CheckedOptions):
    """A linear change from `start` to `end` over a number of updates; `end` afterwards.

    Args:
        start: before the first update.
        end: after `over` updates.
        over: updates, at least 1.
        shape: "linear"; "cosine", half a wave; or "rsqrt": `start` for so many updates, and then
            `start` times the root of `over` by the updates, down to `end`.
        warmup: updates over which it rises from 0 to what it says otherwise.

    Raises:
        InvalidOption: `over` is no int, or below 1; or there is no such shape.
    """

    start: Finite
    end: Finite
    over: Count
    shape: Annotated[str, OneOf(SHAPES)] = "linear"
    warmup: Whole = 0

    def __call__(self, updates: int) -> float:
        """Return the number for the update after `updates` others."""
        done = min(1.0, updates / self.over)
        if self.shape == "cosine":
            done = 0.5 * (1.0 - math.cos(math.pi * done))
        if self.shape == "rsqrt":
            found = max(self.end, self.start / math.sqrt(max(1.0, updates / self.over)))
        else:
            found = (1.0 - done) * self.start + done * self.end  # exact at both ends
        # Plus 1, or the first update would have a rate of 0.
        return found * min(1.0, (updates + 1) / self.warmup) if self.warmup else found

    def held_to(self, option: str, low: float, high: float) -> Schedule:
        """Return the schedule; raise if its ends are out of an option's range."""
        for name, value in (("start", self.start), ("end", self.end)):
            finite_between(f"{option}.{name}", value, low, high)
        return self

    def __str__(self) -> str:
        shape = "" if self.shape == "linear" else f', shape = "{self.shape}"'
        warmup = f", warmup = {self.warmup}" if self.warmup else ""
        return f"{{start = {self.start}, end = {self.end}, over = {self.over}{shape}{warmup}}}"


@dataclass(frozen=True)
class OwnSchedule:
    """A user's function from the number of updates to a value.

    Args:
        name: "module:function"; the function takes an int and returns a finite number.
        option: the setting that it stands for, which messages name.
        low: the least number that the setting takes.
        high: the greatest.
    """

    name: str
    # Of the setting and not of the function: the same function is equal wherever it stands.
    option: str = field(default="schedule", compare=False, repr=False)
    low: float = field(default=-math.inf, compare=False, repr=False)
    high: float = field(default=math.inf, compare=False, repr=False)

    @functools.cached_property
    def _function(self) -> Callable[[int], Any]:
        which = "which takes the number of updates and returns a number"
        found: Callable[[int], Any] = load_own(self.name, "schedule", "function", which)
        return found

    def __call__(self, updates: int) -> float:
        """Return the number for the update after `updates` others.

        Raises:
            UnknownName: there is no such function.
            InvalidOption: it returned no finite number in [low, high].
        """
        found = self._function(updates)
        # Python's bools are ints; NumPy's numbers are of no Python kind, but real.
        good = isinstance(found, numbers.Real) and not isinstance(found, bool)
        if not (good and math.isfinite(found) and self.low <= found <= self.high):
            raise InvalidOption(
                f"{self.option}: {self.name}({updates}) must be a finite number in "
                f"[{self.low}, {self.high}]; got {found!r}."
            )
        return float(found)

    def held_to(self, option: str, low: float, high: float) -> OwnSchedule:
        """Return the same schedule with a check of its values against an option's range."""
        return replace(self, option=option, low=max(low, self.low), high=min(high, self.high))

    def to_settings(self) -> str:
        """Return the function's name for the settings."""
        return self.name

    def __str__(self) -> str:
        return self.name


#: What a setting may be that is asked anew for each update.
Number = Union[float, Schedule, OwnSchedule]  # noqa: UP007 - read at run time
#: Such a number from 0 on, or in [0, 1].
Scheduled = Annotated[Number, Range(0.0)]
ScheduledShare = Annotated[Number, Range(0.0, 1.0)]
#: A limit: of 0 nothing would be left to learn from.
Limit = Annotated[Number | None, Range(0.0, above=True, advice="None: there is no limit.")]


def at(number: Number, updates: int) -> float:
    """Return a number as it is for the update after `updates` others."""
    return number(updates) if callable(number) else number


def schedules_of(
    cls: Any, options: Mapping[str, Any], where: str
) -> dict[str, Callable[[int], float]]:
    """Return the options that follow a schedule, held to what a class takes; ints are rounded.

    Args:
        cls: a dataclass.
        options: by name.
        where: what their names follow in messages.

    Raises:
        InvalidOption: a schedule begins or ends out of an option's range.
    """
    found: dict[str, Callable[[int], float]] = {}
    for name, number in options.items():
        if callable(number):
            takes = declarations(cls)[name]
            bounds = takes.rule(Range) or Range()
            found[name] = held = number.held_to(where + name, bounds.low, bounds.high)
            if int in takes.kinds:
                found[name] = functools.partial(_whole, held)
    return found


def _whole(number: Number, updates: int) -> int:
    return round(at(number, updates))


# Common configuration of the algorithms that train an agent's network. Imports no torch


OPTIMIZERS = ("adam", "adamw", "rmsprop", "sgd")


@dataclass(frozen=True, kw_only=True)
class LearnerConfig(CheckedOptions):
    """Common configuration of the algorithms that train an agent's network.

    A `Number` is one, or changes with the updates: a `Schedule`, which settings have as
    `{start, end, over}`, or a function of your own, "module:function".

    Args:
        optimizer: "adam", "adamw", "rmsprop" or "sgd" (with momentum 0.9).
        learning_rate: its step size.
        adam_beta: how much adam's first moment keeps of itself in each step.
        epsilon: what adam and rmsprop add to the root of the second moment.
        l2: weight decay; biases are free.
        max_grad_norm: longer gradients are shortened to this; None: they are not.
        discount: gamma, per step; statistics of episodes have its first number.
    """

    optimizer: Annotated[str, OneOf(OPTIMIZERS)] = "adam"
    learning_rate: Scheduled = 3e-4
    adam_beta: Share = 0.9
    # Of OpenAI's Baselines for PPO and A2C; torch's own is 1e-8.
    epsilon: Weight = 1e-5
    l2: Weight = 0.0
    max_grad_norm: Limit = 0.5
    discount: ScheduledShare = 0.99
