"""Entry point and argument parser of the command line `plangym-ext`."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import errno
import io
import logging
import os
import re
import select
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import plangym_ext
from plangym_ext.core.compiling.progress import LOGGER, compile_seconds
from plangym_ext.errors import PlangymExtError, WorkerError, in_our_words, suggestion
from plangym_ext.run.arguments import INTERRUPTED, add_options, error_as_typed, keep_paths
from plangym_ext.run.commands import COMMANDS, load_command
from plangym_ext.run.commands.completion import ASKED, answer
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.training.interrupts import closing_when_terminated, interrupts_raised


def closest_option(typed: str, options: Iterable[str]) -> str | None:
    """Return the option most similar to the typed one; None if none is similar.

    Sections need not be typed (`--learning-rate` for `--algorithm.learning_rate`), nor more
    than a word's initial (`--lr`, `--algorithm.lr`).
    """
    wanted = _plain(in_our_words(typed))
    named = {option: _plain(option) for option in options if option not in ("-h", "--help")}
    if not wanted:
        return None
    # From the surest to the vaguest; the first that any option passes decides.
    tests = (
        lambda name: name == wanted,
        lambda name: _last(name) == _last(wanted),
        lambda name: (
            "".join(word[:1] for word in _last(name).split("-")) == _last(wanted)
            and _section(wanted) in ("", _section(name))
        ),
        # One or two letters begin too many names to mean one of them.
        lambda name: len(wanted) > 2 and _last(name).startswith(wanted),
    )
    for test in tests:
        for option, name in named.items():
            if test(name):
                return option
    by_name = {name: option for option, name in named.items()}
    # Backwards, so that of options with the same last part the first stays.
    by_last = {_last(name): option for option, name in reversed(named.items())}
    for found, word in ((by_name, wanted), (by_last, _last(wanted))):
        close = difflib.get_close_matches(word, found, n=1, cutoff=0.7)
        if close:
            return found[close[0]]
    return "--capture" if wanted == "state" and "--capture" in named else None  # its old name


def _plain(option: str) -> str:
    return option.lstrip("-").lower().replace("_", "-")


def _section(name: str) -> str:
    return name.rpartition(".")[0]


def _last(name: str) -> str:
    return name.rpartition(".")[2]


class _Line(logging.Handler):
    """A temporary status line, wiped at its end."""

    def __init__(self, line: ProgressLine) -> None:
        super().__init__()
        # What was compiled before this line is not of the time that it shows.
        self._line, self._before = line, compile_seconds()

    def emit(self, record: logging.LogRecord) -> None:
        """Show the function being compiled and the time so far."""
        what: str = getattr(record, "compiling", "")
        if not what:
            self._line.wipe()
            return
        # The log is written by the thread that compiles.
        seconds = compile_seconds() - self._before
        so_far = f"; {seconds:.0f} s so far" if seconds >= 1 else ""
        self._line.update(f"compiling {what.removeprefix('plangym_ext.')} (once{so_far})")


@contextlib.contextmanager
def compiling_shown(line: ProgressLine | None = None) -> Iterator[None]:
    """Show compilation progress in a block; nothing appears for cached code.

    Args:
        line: where; None: a line of its own on standard error.
    """
    handler, level = _Line(line or ProgressLine()), LOGGER.level
    LOGGER.addHandler(handler)
    # Loggers drop what is below a warning if they are not asked for it.
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        LOGGER.removeHandler(handler)


#: What a disk says that is full.
_FULL = {errno.ENOSPC, errno.EDQUOT}
#: The same, and that it may not be written to, and of a path that is none: no fault of the program.
_DISK = _FULL | {
    *(errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ESTALE),
}
#: Exit status of a call that could not be understood, as argparse has it.
USAGE_ERROR = 2
#: Exit status when the reader of the output has gone, as a shell has it of a program that SIGPIPE
#: has ended.
_UNREAD = 128 + 13
#: Descriptor of the output. By number, as `sys.stdout` may have been replaced.
_STDOUT = 1


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Help formatter with defaults, except None, empty ones and off flags."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_flag = action.const is True
        plain = action.default in (None, "", []) or is_flag
        return action.help if plain else super()._get_help_string(action)


_NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


class _Parser(argparse.ArgumentParser):
    """Argument parser with one-line errors and the closest match."""

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
            meant = f" (did you mean {close!r}?)" if close else ""
            message = f"unknown option {first!r}{meant}. See {self.prog} --help"
        needed = "the following arguments are required: "
        if message.startswith(needed):
            about = {action.metavar: action.help for action in self._actions if action.help}
            names = message.removeprefix(needed).split(", ")
            missing = "; ".join(": ".join(filter(None, [one, about.get(one)])) for one in names)
            message = f"missing {missing}. See {self.prog} --help"
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")


def build_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the command line: all commands, and the options of the one that is named.

    Args:
        arguments: what was typed; the command named first may have options that depend
            on the others.
    """
    parser = _Parser(
        prog="plangym-ext",
        description="Batched stepping and planning over Gymnasium environments.",
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
            add_options(command, module.Options, arguments[1:])
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
    # Names of files have letters that a terminal may not: telling what was done is not to fail.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            with closing_when_terminated(), interrupts_raised():
                return _run(arguments)
        finally:
            # Here, where errors are caught: the rest would else be written after the end of it all.
            sys.stdout.flush()
    except WorkerError:
        raise  # of code of the user's, whose traceback it has as its cause
    except PlangymExtError as error:
        # Expected failures are one line; anything else is a fault and keeps its traceback.
        print(f"{called}: {error_as_typed(error)}", file=sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:
        if not _is_unread():
            raise
        return _UNREAD
    except OSError as error:
        if error.errno not in _DISK:
            raise
        file = f"{error.filename}: " if error.filename else ""
        room = ". Make room, and give the command again." if error.errno in _FULL else ""
        print(f"{called}: {error_as_typed(file)}{error.strerror}{room}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt as interrupt:
        kept = f": {error_as_typed(interrupt)}" if interrupt.args else ""
        print(f"\n{called}: interrupted{kept}", file=sys.stderr)
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
    keep_paths(options)
    quiet = getattr(options, "quiet", False)
    with contextlib.nullcontext() if quiet else compiling_shown():
        return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
