"""The command line `plangym-ext`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import plangym_ext
from plangym_ext.errors import PlangymExtError, suggestion
from plangym_ext.run import compare, doctor, evaluate, plan, plot, train
from plangym_ext.run.compiling_shown import compiling_shown
from plangym_ext.run.misspelt import closest_option

#: Exit status of a call that could not be understood, as argparse has it.
USAGE_ERROR = 2
#: Exit status after Ctrl-C, as shells have it.
INTERRUPTED = 130

_COMMANDS: dict[str, tuple[Any, str]] = {
    "plan": (plan, "a planner plays one episode"),
    "compare": (compare, "several planners at equal model steps"),
    "train": (train, "a network learns from planning"),
    "eval": (evaluate, "play episodes with what was trained"),
    "plot": (plot, "curves of runs, seeds together"),
    "doctor": (doctor, "how an env's state is captured, with proof"),
}


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Names defaults, but not None, which the help explains, or that a flag is off."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_flag = action.const is True
        plain = action.default is None or is_flag
        return action.help if plain else super()._get_help_string(action)


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, with the closest match."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", _Help)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(**kwargs)

    def error(self, message: str) -> NoReturn:
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            first = message.removeprefix(prefix).split()[0].partition("=")[0]
            options = [
                name
                for action in self._actions
                if action.help != argparse.SUPPRESS
                for name in action.option_strings
            ]
            close = closest_option(first, options)
            meant = f"; did you mean {close!r}?" if close else "."
            message = f"unknown option {first!r}{meant} See {self.prog} --help"
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")


def build_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the whole command line, one subcommand a module.

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
    for name, (module, summary) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=module.__doc__)
        chosen = arguments[1:] if arguments[:1] == [name] else []
        module.add_arguments(command, chosen)
        command.set_defaults(run=module.run, parser=command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    try:
        parser = build_parser(arguments)
    except PlangymExtError as error:
        print(f"plangym-ext {arguments[0]}: {error}", file=sys.stderr)
        return USAGE_ERROR
    if not arguments:
        parser.print_help(sys.stderr)
        return USAGE_ERROR
    if not arguments[0].startswith("-") and arguments[0] not in _COMMANDS:
        parser.error(
            f"unknown command {arguments[0]!r}{suggestion(arguments[0], [*_COMMANDS, 'help'])}; "
            f"commands: {', '.join(_COMMANDS)}"
        )
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        options.parser.error("unrecognized arguments: " + " ".join(unknown))
    try:
        with compiling_shown():
            return int(options.run(options))
    except PlangymExtError as error:
        # Expected failures are one line; anything else is a fault and keeps its traceback.
        print(f"plangym-ext {options.command}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print(f"\nplangym-ext {options.command}: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
