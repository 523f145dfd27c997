"""Command-line options for training settings, such as `--algorithm.learning_rate 1e-3`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from plangym_ext.core.inherited_options import search_current_folder
from plangym_ext.run.arguments import let_pass, typed_settings
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.settings.settings import Setting, Text, listed, nested

#: Sections whose options depend on their name.
_NAMES = ("planner.name", "agent.name", "algorithm.name")


def add_setting_options(
    parser: argparse.ArgumentParser, given: Sequence[str], sources: Sequence[Any]
) -> None:
    """Add one option per setting, with the defaults of `sources`.

    Args:
        parser: of the command.
        given: what was typed; a planner or algorithm named there brings its own settings.
        sources: presets and files; see `compose`. Without any no setting is known: those that
            were typed pass, for the command to refuse.

    Raises:
        PlangymExtError: the sources cannot be put together.
    """
    typed = typed_settings(given)
    # Settings depend on the planner, which takes a compiler with it: not for help alone.
    if not sources:
        known = parser._option_string_actions
        let_pass(parser, [key for key in typed if f"--{key}" not in known])
        return
    # A class of one's own, `my_module:Mine`, is loaded to list its settings.
    search_current_folder()
    # Names alone, on which it depends what settings there are: values are read when all is known.
    config = compose([*sources, nested({key: typed[key] for key in _NAMES if key in typed})])
    free = []
    for setting in listed(config):
        if setting.free:
            free.append(setting)
            continue
        # A percent sign is a placeholder to argparse.
        text = setting.help.replace("%", "%%").replace("`", "")
        default = "" if "%(default)" in text else f" (default: {_shown(setting.default)})"
        parser.add_argument(
            f"--{setting.key}",
            dest=setting.key,
            type=Text,
            metavar="X",
            default=None,
            help=f"{text}{default.replace('%', '%%')}",
        )
    for setting in free:
        _add_free(parser, setting, typed)


def _add_free(parser: argparse.ArgumentParser, setting: Setting, typed: Mapping[str, str]) -> None:
    """Add the keys that were typed below a setting with free keys."""
    keys = [key for key in typed if key.startswith(f"{setting.key}.")]
    for key in keys:
        parser.add_argument(f"--{key}", dest=key, type=Text, help=argparse.SUPPRESS)
    if not keys:
        # For the help alone; what it says is true of any key.
        parser.add_argument(
            f"--{setting.key}.NAME",
            dest=f"{setting.key}.NAME",
            type=Text,
            metavar="X",
            default=None,
            help=f"{setting.help.replace('%', '%%')} (now: {_shown(setting.default)})".replace(
                "`", ""
            ),
        )


def chosen_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the typed settings as nested sections."""
    found = vars(options).items()
    # Known by their type: other options of a command are never `Text`, and None was not typed.
    settings = {key: value for key, value in found if isinstance(value, Text)}
    return nested(settings)


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={one}" for key, one in value.items()) or "none"
    return str(value)
