"""Command-line options generated from a planner's constructor options."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plangym_ext.core.own_modules import search_current_folder
from plangym_ext.run.named_player import is_function, value_parser

if TYPE_CHECKING:
    from plangym_ext.planners import Option

# Of the attributes that options are kept in, to tell them from those of the command.
_PREFIX = "planner_"
#: Options that bound a plan.
_LIMITS = ("num_simulations", "max_model_steps", "max_seconds")


def add_planner_options(
    parser: argparse.ArgumentParser, given: Sequence[str], *, default: str
) -> None:
    """Add the options of the planner that `given` names with `--planner`.

    Their defaults are the planner's own, or those that were tuned for the env or its family.

    If help is asked for without naming one, none is loaded: that would take a
    compiler with it.

    Args:
        parser: of the command.
        given: what was typed.
        default: the planner if none is named.

    Raises:
        UnknownName: there is no such planner.
    """
    name = _named(given)
    if name is None and (not given or "--help" in given or "-h" in given):
        return
    name = name or default
    if ":" in name:
        search_current_folder()
        if is_function(name):
            return
    from plangym_ext.planners import load_planner, options_of
    from plangym_ext.planners.tuned import is_tuned, tuned_options

    # Nothing is parsed yet: one of these ids among the words is the env.
    env = next((word for word in given if is_tuned(word)), "")
    tuned = tuned_options(env, name)
    group = parser.add_argument_group(f"options of {name}")
    planner = load_planner(name)
    for option in _limits_first(options_of(planner)):
        if option.kind is None:
            continue
        flag = "--" + option.name.replace("_", "-")
        target = _PREFIX + option.name
        # A percent sign is a placeholder to argparse.
        text = option.help.replace("%", "%%").replace("`", "")
        value: Any = tuned.get(option.name, option.default)
        if option.name in tuned:
            text += f" (default in {env}: {value})"
        elif option.name == "num_simulations":
            text += f" (default: {planner.default_simulations}, unless another limit is given)"
        if option.kind is bool:
            # With `--no-NAME`: what is on by default could not be turned off otherwise.
            kind: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        else:
            kind = {"type": value_parser(option.kind, option.optional), "metavar": "X"}
        if value is inspect.Parameter.empty:
            kind["required"] = True
            value = None
        group.add_argument(flag, dest=target, default=value, help=text, **kind)


def _limits_first(options: Sequence[Option]) -> list[Option]:
    """Put what bounds a plan, which is set most often, before what shapes it."""
    return sorted(options, key=lambda option: option.name not in _LIMITS)


def chosen_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keywords for the planner's constructor."""
    found = vars(options).items()
    return {key.removeprefix(_PREFIX): value for key, value in found if key.startswith(_PREFIX)}


def _named(given: Sequence[str]) -> str | None:
    """Return the value of `--planner`, if it was typed."""
    for position, word in enumerate(given):
        if word.startswith("--planner="):
            return word.partition("=")[2]
        if word == "--planner" and position + 1 < len(given):
            return given[position + 1]
    return None
