"""Declared options as arguments of a command line; those of the env (`--env.KEY`), `--import`."""

from __future__ import annotations

import argparse
import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from plangym_ext.core.inherited_options import described, import_own, search_current_folder
from plangym_ext.run.progress import ProgressLine

#: Exit status after Ctrl-C, as shells have it.
INTERRUPTED = 130


class Argument(NamedTuple):
    """A declared option that is a positional argument of a command.

    Attributes:
        metavar: what the help calls the value.
        help: in place of the text under `Args`.
        bare: what the option means if it is typed without a value; None: it needs one.
    """

    metavar: str
    help: str = ""
    bare: str | None = None


class Option(Argument):
    """A declared option of a command by `--name`, with the help's word for its value."""


def add_options(parser: argparse.ArgumentParser, cls: type[Any], given: Sequence[str] = ()) -> None:
    """Add the options that a class declares, see `core.options`, with the help under `Args`.

    A bool is a flag; with None, one that is turned on and off. A tuple takes several values, and
    a sequence one each time that it is given. Bounds hold for integers.

    Args:
        parser: of a command.
        cls: has an annotation for each option, in the order of the help. Its `besides`, if it has
            any, are functions of the parser and `given`, which add what depends on that.
        given: what was typed.
    """
    from plangym_ext.core.options import declared_by

    helps = described(cls)
    for name, annotation in inspect.get_annotations(cls).items():
        declared = declared_by(annotation, cls.__module__)
        shown = declared.rule(Argument) or Option("")
        by_name = isinstance(shown, Option)
        text = shown.help or helps[name]
        known: dict[str, Any] = {"help": text.replace("%", "%%")}
        if by_name:
            known["required"] = name not in vars(cls)
        if vars(cls).get(name) not in (None, ()):
            known["default"] = vars(cls)[name]
        known |= _form(declared, shown, required=name not in vars(cls))
        parser.add_argument("--" + name.replace("_", "-") if by_name else name, **known)
    for add in getattr(cls, "besides", ()):
        add(parser, given)


def _form(declared: Any, shown: Argument, *, required: bool) -> dict[str, Any]:
    """Return the arguments of `add_argument` that say which values an option takes."""
    from plangym_ext.core.options import OneOf, Range

    (kind,) = declared.kinds
    many = typing.get_origin(kind)
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction if declared.optional else "store_true"}
    found: dict[str, Any] = {"metavar": shown.metavar} if shown.metavar else {}
    if one_of := declared.rule(OneOf):
        found["choices"] = tuple(one_of.names)
    if many is Sequence:
        found["action"] = "append"
    elif many is tuple:
        found["nargs"] = "+" if required or declared.optional or isinstance(shown, Option) else "*"
    elif shown.bare is not None:
        found |= {"nargs": "?", "const": shown.bare}
    elif not isinstance(shown, Option) and not required:
        found["nargs"] = "?"
    inner = typing.get_args(kind)[0] if many else kind
    if inner is int:
        found["type"] = _whole(declared.rule(Range))
    elif inner is not str:
        found["type"] = inner
    return found


def _whole(bounds: Any) -> Callable[[str], int]:
    """Return a parser of an int within bounds, and of 64 bits."""
    low, high = bounds.low, min(bounds.high, 2**63 - 1)

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            # No number gets the message of one that is too small.
            value = low - 1
        if not low <= value <= high:
            bound = f"<= {high}" if value > high else f">= {low}"
            raise argparse.ArgumentTypeError(f"expected an int {bound}; got {text!r}")
        return value

    return parse


def typed_settings(given: Sequence[str]) -> dict[str, str]:
    """Return typed `--key value` and `--key=value` pairs, before the parser is built."""
    found: dict[str, str] = {}
    for position, word in enumerate(given):
        if not word.startswith("--"):
            continue
        key, equals, value = word.removeprefix("--").partition("=")
        if equals:
            found[key] = value
        elif position + 1 < len(given):
            found[key] = given[position + 1]
    return found


def let_pass(parser: argparse.ArgumentParser, keys: Iterable[str]) -> None:
    """Add typed options that help does not list, such as `--env.size`."""
    for key in keys:
        parser.add_argument(f"--{key}", dest=key, help=argparse.SUPPRESS)


#: The folder in which the command was typed; None: none was.
_typed_in: Path | None = None


def keep_paths(options: argparse.Namespace) -> None:
    """Make the paths of a command absolute, in place.

    An env may work in a folder of its own (`os.chdir`): what was typed is of the folder before.
    """
    global _typed_in
    _typed_in = Path.cwd()
    for name, value in vars(options).items():
        if isinstance(value, Path):
            setattr(options, name, value.absolute())
        elif isinstance(value, list) and any(isinstance(one, Path) for one in value):
            setattr(options, name, [one.absolute() for one in value])


def as_typed(path: Path) -> Path:
    """Return a path in the user's form: relative to the folder of the command."""
    below = _typed_in is not None and path.is_relative_to(_typed_in)
    return path.relative_to(_typed_in) if below else path  # type: ignore[arg-type]


def error_as_typed(error: BaseException | str) -> str:
    """Return the text of an error, with paths in the user's form."""
    text = str(error)
    # Not of the root, which would take every slash.
    long = _typed_in is not None and len(_typed_in.parts) > 1
    return text.replace(f"{_typed_in}/", "") if long else text


_ARGUMENTS = "env."


def add_import_option(parser: argparse.ArgumentParser, _given: Sequence[str] = ()) -> None:
    """Add `--import MODULE`."""
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        metavar="MODULE",
        help="import a module first, such as one that registers envs, from the current folder or "
        "wherever Python finds it; may be given again",
    )


def add_env_options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    """Add `--import MODULE`, and `--env.KEY value` for every KEY that was typed."""
    add_import_option(parser)
    keys = [key for key in typed_settings(given) if key.startswith(_ARGUMENTS)]
    let_pass(parser, keys)
    if not keys:
        # For the help alone; what it says is true of any key.
        parser.add_argument(
            "--env.KEY", dest="env.KEY", metavar="X", help="argument KEY of the env's constructor"
        )


def env_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Return the typed constructor arguments of the env, with numbers and flags parsed."""
    from plangym_ext.run.settings.settings import Text, free

    typed = {
        key.removeprefix(_ARGUMENTS): Text(value)
        for key, value in vars(options).items()
        # The option of the help has a key too, and no value.
        if key.startswith(_ARGUMENTS) and value is not None
    }
    found: dict[str, Any] = free(typed)
    return found


def made_env(options: argparse.Namespace, line: ProgressLine, *, draws: bool) -> Any:
    """Return the env of a command, and print the remark on its backend."""
    import plangym_ext
    from plangym_ext.registry import find_spec

    find_spec(options.env)
    arguments: dict[str, Any] = {"frameskip": options.frameskip, **env_arguments(options)}
    if draws:
        arguments["render_mode"] = "rgb_array"
    with line.passing(f"making {options.env}"):
        env = plangym_ext.make(options.env, n_workers=options.n_workers, **arguments)
    if env.backend_note:
        line.above(f"{env.name}: {env.backend_note}")
    return env


def import_modules(
    options: argparse.Namespace, ids: Iterable[str] = (), *, search: bool = False
) -> None:
    """Import the modules of `--import`, and let modules lie in the current folder.

    Args:
        options: of the command.
        ids: of envs; `my_module:Corridor-v0` has its module imported when it is made.
        search: whether what the command reads may name modules there all the same: a checkpoint
            its env, a planner its functions.

    Raises:
        UnknownName: there is no such module.
    """
    modules = options.imports or []
    if search or modules or any(":" in name for name in ids):
        search_current_folder()
    for module in modules:
        import_own(module, f"--import: expected a module; got {module!r}")


def render_modes(env_id: str) -> Sequence[str]:
    """Return the render modes in the metadata of an env's class."""
    import gymnasium as gym

    from plangym_ext.registry import find_spec

    # Asked of the class: no env is made yet, and whether it draws decides how it is made.
    entry = find_spec(env_id).entry_point
    env: Any = gym.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
    return getattr(env, "metadata", {}).get("render_modes", ())
