"""Declared options: each kind of annotation, the messages, and what subclasses inherit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pytest

from plangym_ext.core.options import (
    CheckedOptions,
    Count,
    Finite,
    Function,
    OneOf,
    Positive,
    Range,
    Share,
    Weight,
    Whole,
    declarations,
)
from plangym_ext.errors import InvalidOption


@dataclass(frozen=True, kw_only=True)
class Part(CheckedOptions):
    """A part."""

    size: Count = 1


@dataclass(frozen=True, kw_only=True)
class Options(CheckedOptions):
    """One option of each kind."""

    count: Count = 8
    whole: Whole | None = None
    most: Annotated[int, Range(1, 10, advice="Ask for less.")] = 2
    share: Share = 0.5
    weight: Weight = 1.0
    rate: Positive = 1e-3
    number: Finite = 0.0
    flag: bool = False
    text: str = ""
    name: Annotated[str, OneOf({"one": 1, "two": 2})] = "one"
    own: Annotated[str, OneOf(("one", "two"), own=True)] = "one"
    widths: tuple[Count, ...] | None = (64, 64)
    function: Annotated[Callable[[Any], Any] | str | None, Function("a function of rows")] = None
    part: Part = field(default_factory=Part)
    anything: Any = None


@dataclass(frozen=True, kw_only=True)
class Others(Options):
    """Other defaults, some with other bounds."""

    _called = "settings: others."

    count: int = 4
    widths: tuple[int, ...] | None = (8,)
    name: Annotated[str, OneOf(("three",))] = "three"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "count must be an integer >= 1; got 0."),
        ({"count": True}, "count must be an integer >= 1; got True."),
        ({"count": 2.0}, "count must be an integer >= 1; got 2.0."),
        ({"count": None}, "count must be an integer >= 1; got None."),
        ({"whole": -1}, "whole must be an integer >= 0; got -1."),
        ({"most": 11}, "most must be at most 10; got 11. Ask for less."),
        ({"most": 0}, "most must be an integer >= 1; got 0. Ask for less."),
        ({"share": 1.5}, "share must be a finite number in [0.0, 1.0]; got 1.5."),
        ({"share": np.nan}, "share must be a finite number in [0.0, 1.0]; got nan."),
        ({"share": "0.5"}, "share must be a finite number in [0.0, 1.0]; got '0.5'."),
        ({"share": True}, "share must be a finite number in [0.0, 1.0]; got True."),
        ({"weight": -0.1}, "weight must be a finite number in [0.0, inf]; got -0.1."),
        ({"rate": 0}, "rate must be a finite number above 0; got 0."),
        ({"rate": "fast"}, "rate must be a finite number above 0; got 'fast'."),
        ({"number": np.inf}, "number must be a finite number; got inf."),
        ({"flag": "no"}, "flag must be True or False; got 'no'."),
        ({"text": 3}, "text must be a text; got 3."),
        ({"name": "tow"}, "name must be one of one, two; got 'tow' (did you mean 'two'?)."),
        ({"name": []}, "name must be one of one, two; got []."),
        (
            {"own": "tow"},
            "own must be one of one, two, or module:Class; got 'tow' (did you mean 'two'?).",
        ),
        ({"widths": 64}, "widths must be a tuple, each an integer; got 64. Write (64,)."),
        ({"widths": [8, 0]}, "widths[1] must be an integer >= 1; got 0."),
        ({"function": 3}, "function must be a function of rows or None; got 3."),
        ({"part": "part"}, "part must be a Part, such as Part(); got 'part'."),
    ],
)
def test_values_out_of_place_are_refused(options, message):
    with pytest.raises(InvalidOption) as caught:
        Options(**options)
    assert str(caught.value) == f"Options: {message}"


def test_values_become_those_of_python():
    options = Options(
        count=np.int64(3),
        share=np.float32(0.5),
        weight=-0.0,
        number=np.array(2),
        flag=np.bool_(True),
        widths=np.array([4, 2]),
        own="my_module:Mine",
        function="my_module:mine",
    )
    values = [options.count, options.share, options.number, options.flag, *options.widths]
    assert values == [3, 0.5, 2.0, True, 4, 2]
    assert [type(value) for value in values] == [int, float, float, bool, int, int]
    assert str(options.weight) == "0.0"
    assert Options(whole=None, widths=None, function=len).function is len


def test_a_subclass_that_changes_a_default_keeps_the_bounds():
    for options, message in (
        ({"count": 0}, "count must be an integer >= 1; got 0."),
        ({"widths": (0,)}, "widths[0] must be an integer >= 1; got 0."),
        ({"name": "one"}, "name must be one of three; got 'one'."),
    ):
        with pytest.raises(InvalidOption) as caught:
            Others(**options)
        assert str(caught.value) == f"settings: others.{message}"


def test_annotations_that_cannot_be_looked_up_are_passed_over():
    class Hidden:
        pass

    @dataclass(frozen=True, kw_only=True)
    class Local(Part):
        hidden: Hidden | None = None

    assert set(declarations(Local)) == {"size"}
    with pytest.raises(InvalidOption, match="Local: size must be an integer >= 1; got 0"):
        Local(size=0)
