"""The options of a planner as options of a command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from plangym_ext.errors import InvalidOption, UnknownName, suggestion
from plangym_ext.run.own_player import is_own

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
    if is_own(name):
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
        default = tuned.get(option.name, option.default)
        if option.name in tuned:
            text += f" (default in {env}: {default})"
        elif option.name == "num_simulations":
            text += f" (default: {planner.default_simulations}, unless another limit is given)"
        if option.kind is bool:
            # With `--no-NAME`: what is on by default could not be turned off otherwise.
            kind: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        else:
            kind = {"type": _parser(option.kind, option.optional), "metavar": "X"}
        group.add_argument(flag, dest=target, default=default, help=text, **kind)


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


def _parser(kind: type, optional: bool) -> Callable[[str], Any]:
    """Return a parser of one value; `none` is one where the option may be None."""

    def parse(text: str) -> Any:
        if optional and text.lower() == "none":
            return None
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"expected {'a' if kind is float else 'an'} {kind.__name__}; got {text!r}"
            ) from None

    return parse


def planner_from(text: str) -> Any:
    """Make a planner from `name` or `name:option=value,option=value`.

    Raises:
        UnknownName: there is no such planner or option.
        InvalidOption: a value is not one of that option.
    """
    from plangym_ext.planners import load_planner, options_of

    name, _, rest = text.partition(":")
    cls = load_planner(name)
    known = {option.name: option for option in options_of(cls) if option.kind is not None}
    chosen: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        key = key.strip().replace("-", "_")
        if key not in known:
            raise UnknownName(
                f"{name}: option must be one of {', '.join(known)}; got {key!r}"
                f"{suggestion(key, known)}"
            )
        option = known[key]
        assert option.kind is not None
        chosen[key] = _typed(f"{name}: {key}", value.strip(), option.kind, option.optional)
    return cls(**chosen)


def _typed(where: str, text: str, kind: type, optional: bool) -> Any:
    # `bool` would take every text for True that is not empty.
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise InvalidOption(f"{where} must be true or false; got {text!r}")
    try:
        return _parser(kind, optional)(text)
    except argparse.ArgumentTypeError as error:
        raise InvalidOption(f"{where}: {error}") from None
