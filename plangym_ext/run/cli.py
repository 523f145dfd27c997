"""The command line `plangym-ext`."""

from __future__ import annotations

import argparse
import errno
import os
import re
import select
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import plangym_ext
from plangym_ext.errors import PlangymExtError, WorkerError, suggestion
from plangym_ext.run.arguments import INTERRUPTED
from plangym_ext.run.commands import COMMANDS, load_command
from plangym_ext.run.commands.completion import ASKED, answer
from plangym_ext.run.compiling_shown import compiling_shown
from plangym_ext.run.misspelt import closest_option

#: What a disk says that is full, or that may not be written to: no fault of the program.
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
#: Exit status of a call that could not be understood, as argparse has it.
USAGE_ERROR = 2
#: Exit status when the reader of the output has gone, as a shell has it of a program that SIGPIPE
#: has ended.
_UNREAD = 128 + 13
#: Descriptor of the output. By number, as `sys.stdout` may have been replaced.
_STDOUT = 1


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Names defaults, but not None, which the help explains, or that a flag is off."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_flag = action.const is True
        plain = action.default is None or is_flag
        return action.help if plain else super()._get_help_string(action)


_NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, with the closest match."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", _Help)
        # Options are also looked for before there is a parser (`typed_settings`), which knows no
        # short forms.
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(**kwargs)
        # argparse's own takes -1e-3 for an option.
        self._negative_number_matcher = _NEGATIVE

    def error(self, message: str) -> NoReturn:
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            first = message.removeprefix(prefix).split()[0].partition("=")[0]
            options = [
                name
                for action in self._actions
                # Those that were typed and let pass are hidden: none of them is what was meant.
                if action.help != argparse.SUPPRESS
                for name in action.option_strings
            ]
            close = closest_option(first, options)
            meant = f"; did you mean {close!r}?" if close else "."
            message = f"unknown option {first!r}{meant} See {self.prog} --help"
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")


def build_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the command line: all commands, and the options of the one that is named.

    Args:
        arguments: what was typed; the command named first may have options that depend
            on the others.
    """
    parser = _Parser(
        prog="plangym-ext",
        description="Batched stepping and planning over any Gymnasium environment.",
        epilog="plangym-ext COMMAND --help lists the options of a command.",
    )
    parser.add_argument("--version", action="version", version=plangym_ext.__version__)
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_Parser
    )
    # The first word or none: no option but --version and --help stands before a command.
    named = next(iter(arguments), None)
    for name, (_, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        # The others are not imported: some bring a compiler or simulators.
        if name == named:
            module = load_command(name)
            command.description = module.__doc__
            module.add_arguments(command, arguments[1:])
            command.set_defaults(run=module.run, parser=command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Before the parser is made, which would refuse a line that is not complete.
    if arguments[:1] == [ASKED]:
        return answer(arguments[1:])
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    called = " ".join(["plangym-ext", *arguments[:1]])
    try:
        try:
            return _run(arguments)
        finally:
            # Here, where errors are caught: the rest would else be written after the end of it all.
            sys.stdout.flush()
    except WorkerError:
        raise  # of code of the user's, whose traceback it has as its cause
    except PlangymExtError as error:
        # Expected failures are one line; anything else is a fault and keeps its traceback.
        print(f"{called}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:
        if not _is_unread():
            raise
        return _UNREAD
    except OSError as error:
        if error.errno not in _DISK:
            raise
        file = f"{error.filename}: " if error.filename else ""
        print(f"{called}: {file}{error.strerror}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print(f"\n{called}: interrupted", file=sys.stderr)
        return INTERRUPTED


def _is_unread() -> bool:
    """Return whether the reader of the output has gone, as `head` does; then it goes nowhere."""
    poller = select.poll()
    # No events are asked for: that a pipe has no reader is told in any case.
    poller.register(_STDOUT, 0)
    if not poller.poll(0):
        return False
    # What is left of it would else be written, and fail, once more when the program ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
    return True


def _run(arguments: Sequence[str]) -> int:
    """Understand what was typed, and run it."""
    parser = build_parser(arguments)
    if not arguments:
        parser.print_help(sys.stderr)
        return USAGE_ERROR
    if not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        parser.error(
            f"unknown command {arguments[0]!r}{suggestion(arguments[0], [*COMMANDS, 'help'])}; "
            f"commands: {', '.join(COMMANDS)}"
        )
    # Not `parse_args`: the command's own parser is to name the option that was meant.
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        options.parser.error("unrecognized arguments: " + " ".join(unknown))
    with compiling_shown():
        return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
