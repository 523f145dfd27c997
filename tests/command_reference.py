"""The page docs/command_line.md, made from the program itself.

python tests/command_reference.py
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plangym_ext.planners import PLANNERS, load_planner, options_of
from plangym_ext.run.commands import COMMANDS, load_command

PAGE = Path(__file__).parents[1] / "docs" / "command_line.md"
TOP = """\
<!-- written by tests/command_reference.py; a test compares it with the program -->
# Command line

`plangym-ext COMMAND` or `python -m plangym_ext COMMAND`; `--help` after a command lists its
options, `--version` prints the version. [Getting started](getting_started.md#the-command-line) has
examples.

Exit status: 0; 1 for a negative result (`doctor`: a state that is not exact, `list`: no name);
2 for an invalid command line, or another expected failure, explained in one line; 130
after Ctrl-C, which keeps all results so far.
"""


def page() -> str:
    """Return the text of the page."""
    parts = [TOP, _table(("command", "what it does"), _commands())]
    for name in COMMANDS:
        parts += _command(name)
    parts.append(
        "## Options of planners\n\n"
        "`plan --planner NAME` takes the options of that planner; `compare` takes them as\n"
        "`NAME:option=value,...`, and `train` as `--planner.OPTION`. These belong to all of them:\n"
    )
    shared = set.intersection(*(_options(load_planner(name)) for name in PLANNERS))
    some = next(iter(PLANNERS))
    parts.append(_planner_table(load_planner(some), shared, inside=True))
    for name, entry in PLANNERS.items():
        parts.append(f"### {name}\n\n{entry.help[:1].upper()}{entry.help[1:]}.\n")
        parts.append(_planner_table(load_planner(name), shared, inside=False))
    return "\n".join(parts)


def _commands() -> Iterator[tuple[str, ...]]:
    for name, (_, summary) in COMMANDS.items():
        yield f"[{name}](#{name})", summary


def _command(name: str) -> Iterator[str]:
    """Yield the section of a command."""
    module = load_command(name)
    parser = argparse.ArgumentParser(prog=f"plangym-ext {name}", add_help=False)
    module.add_arguments(parser, [])
    yield f"## {name}\n\n{inspect.cleandoc(module.__doc__)}\n"
    rows = [_row(parser, action) for action in parser._actions if action.help != argparse.SUPPRESS]
    yield _table(("option", "default", "meaning"), rows)


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, ...]:
    typed = ", ".join(action.option_strings)
    if action.nargs != 0:
        many = " ..." if action.nargs == "+" else ""
        typed = f"{typed} {action.metavar or action.dest.upper()}{many}".strip()
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    is_needed = action.required and bool(action.option_strings)
    return f"`{typed}`", "needed" if is_needed else _shown(action.default), text


def _options(planner: Any) -> set[str]:
    return {option.name for option in options_of(planner) if option.kind is not None}


def _planner_table(planner: Any, shared: set[str], *, inside: bool) -> str:
    rows = [
        (f"`--{option.name.replace('_', '-')}`", option.kind.__name__, default, option.help)
        for option in options_of(planner)
        if option.kind is not None and (option.name in shared) == inside
        for default in [_shown(option.default)]
    ]
    return _table(("option", "type", "default", "meaning"), rows)


def _shown(value: Any) -> str:
    return "" if value is None or value is False else f"`{value}`"


def _table(heading: tuple[str, ...], rows: Any) -> str:
    lines = [heading, ("---",) * len(heading), *rows]
    return "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("|", "\\|"))


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}")
