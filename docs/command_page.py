"""The page of the command line, made from the program itself."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

from plangym_ext.run.arguments import add_options
from plangym_ext.run.commands import COMMANDS, load_command

TOP = """\
# Command line

`plangym-ext COMMAND` or `python -m plangym_ext COMMAND`; `--help` after a command lists its
options, `--version` prints the version. [Getting
started](../getting_started.md#the-command-line) has examples.

Exit status: 0; 1 for a negative result (`doctor`: a state that is not exact, `list`: no name);
2 for an invalid command line, or another expected failure, explained in one line; 130
after Ctrl-C, which keeps all results so far.

Options that several commands share are described once, before the sections, which list them under
"Shared".
"""


OPTIONS = """\
## Options of planners

`plan --planner NAME` takes the options of that planner; `compare` takes them as
`NAME:option=value,...`, and `train` as `--planner.OPTION`. `plangym-ext plan --planner NAME --help`
and the page of each planner on the site list them.
"""

Row = tuple[str, ...]


def page() -> str:
    """Return the text of the page."""
    parts = [TOP, _list(_commands())]
    commands = {name: _command_rows(name) for name in COMMANDS}
    shared = _shared(commands, least=3)
    parts += _shared_tables(shared)
    for name, rows in commands.items():
        parts.append(f"## {name}\n\n{inspect.cleandoc(load_command(name).__doc__)}\n")
        parts += _own_part(rows, shared)
    parts.append(OPTIONS)
    return "\n".join(parts)


def _commands() -> Iterator[Row]:
    for name, (_, summary) in COMMANDS.items():
        yield f"[{name}](#{name})", "", summary


def _command_rows(name: str) -> list[Row]:
    parser = argparse.ArgumentParser(prog=f"plangym-ext {name}", add_help=False)
    add_options(parser, load_command(name).Options)
    return [_row(parser, action) for action in parser._actions if action.help != argparse.SUPPRESS]


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> Row:
    typed = ", ".join(action.option_strings)
    if action.nargs != 0:
        many = " ..." if action.nargs == "+" else ""
        typed = f"{typed} {action.metavar or action.dest.upper()}{many}".strip()
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    is_needed = action.required and bool(action.option_strings)
    return f"`{typed}`", "needed" if is_needed else _shown(action.default), text


def _shared(tables: dict[str, list[Row]], least: int) -> dict[Row, tuple[str, ...]]:
    """Return the options that are the same in several tables, and the names of these."""
    found: dict[Row, tuple[str, ...]] = {}
    for name, rows in tables.items():
        for row in rows:
            if row[0].startswith("`--"):
                found[row] = (*found.get(row, ()), name)
    return {row: names for row, names in found.items() if len(names) >= least}


def _shared_tables(shared: dict[Row, tuple[str, ...]]) -> Iterator[str]:
    """Yield a list for each set of names, that of most names first."""
    for names in sorted(dict.fromkeys(shared.values()), key=len, reverse=True):
        yield f"Of {', '.join(f'`{name}`' for name in names)}:\n"
        yield _list(row for row, having in shared.items() if having == names)


def _own_part(rows: list[Row], shared: dict[Row, Any]) -> Iterator[str]:
    """Yield the list of the options that it has alone, and the names of the others."""
    if own := [row for row in rows if row not in shared]:
        yield _list(own)
    if others := [row[0] for row in rows if row in shared]:
        yield f"Shared: {', '.join(others)}.\n"


def _shown(value: Any) -> str:
    return "" if value is None or value is False else f"`{value}`"


def _list(rows: Iterable[Row]) -> str:
    return "".join(
        f"- {option}{f' ({default})' if default else ''}: {_line(meaning)}\n"
        for option, default, meaning in rows
    )


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text)
