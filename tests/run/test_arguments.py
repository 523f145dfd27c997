"""Command-line options that a class declares."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pytest

from plangym_ext.core.options import Count, OneOf, Whole
from plangym_ext.run.arguments import Argument, Option, add_options


class Options:
    """One option of each kind.

    Args:
        env: by its place
        count: 50 % of
            all
        least: needed
        kind: of two
        out: a path
        names: some
        over: given again
        ray: with or without a value
        flag: on
        draws: on and off
    """

    env: Annotated[str, Argument("ENV_ID")]
    word: Annotated[str, Argument("WORD", "in place of the text above")] = ""
    least: Annotated[Whole, Option("N")]
    count: Annotated[Count | None, Option("N")] = None
    kind: Annotated[str, OneOf(("one", "two"))] = "one"
    out: Annotated[Path, Option("DIR")] = Path("runs")
    names: Annotated[tuple[str, ...] | None, Option("NAME")] = None
    over: Annotated[Sequence[str] | None, Option("KEY=VALUE")] = None
    ray: Annotated[str | None, Option("ADDRESS", bare="")] = None
    flag: bool = False
    draws: bool | None = None


def parsed(*words):
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_options(parser, Options)
    return vars(parser.parse_args(words)), parser


def test_defaults():
    found, parser = parsed("Env-v0", "--least", "0")
    assert found == {
        "env": "Env-v0",
        "word": "",
        "least": 0,
        "count": None,
        "kind": "one",
        "out": Path("runs"),
        "names": None,
        "over": None,
        "ray": None,
        "flag": False,
        "draws": None,
    }
    text = " ".join(parser.format_help().split())
    assert "--count N 50 % of all" in text
    assert "WORD in place of the text above" in text


def test_values_of_each_kind():
    words = "Env-v0 w --least 3 --count 2 --kind two --out a/b --names x y --over a=1 --over b=2"
    found, _ = parsed(*words.split(), "--ray", "--flag", "--no-draws")
    assert (found["word"], found["least"], found["count"], found["kind"]) == ("w", 3, 2, "two")
    assert (found["out"], found["names"]) == (Path("a/b"), ["x", "y"])
    assert (found["over"], found["ray"], found["flag"], found["draws"]) == (
        ["a=1", "b=2"],
        "",
        True,
        False,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--least -1", "expected an int >= 0; got '-1'"),
        ("--least 0 --count 0", "expected an int >= 1; got '0'"),
        ("--least 0 --count x", "expected an int >= 1; got 'x'"),
        ("--least 0 --kind three", "invalid choice: 'three'"),
    ],
)
def test_bounds_hold(words, message):
    with pytest.raises(argparse.ArgumentError, match=message):
        parsed("Env-v0", *words.split())
