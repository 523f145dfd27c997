"""Command-line options of the env: constructor arguments (`--env.KEY`) and `--import`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from plangym_ext.core.inherited_options import import_own, search_current_folder
from plangym_ext.run.arguments import let_pass, typed_settings
from plangym_ext.run.progress import ProgressLine

_ARGUMENTS = "env."


def add_import_option(parser: argparse.ArgumentParser) -> None:
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
    """Add `--import MODULE`, and `--env.KEY value` for every KEY that was typed.

    Args:
        parser: of the command.
        given: what was typed.
    """
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
    """Return the env of a command, and print the remark on its backend.

    Args:
        options: of the command: `env`, `frameskip`, `n_workers` and the env's own.
        line: shows that the env is being made.
        draws: whether its pictures are wanted.
    """
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


def import_modules(options: argparse.Namespace, ids: Iterable[str] = ()) -> None:
    """Import the modules of `--import`, and let modules lie in the current folder.

    Args:
        options: of the command.
        ids: of envs; `my_module:Corridor-v0` has its module imported when it is made.

    Raises:
        UnknownName: there is no such module.
    """
    modules = options.imports or []
    if modules or any(":" in name for name in ids):
        search_current_folder()
    for module in modules:
        import_own(module, f"--import: expected a module; got {module!r}")
