"""NamedPlayer: planners and agents named on the command line, such as `mcts:c-puct=1.4`.

`mcts`, `mcts:c-puct=1.4`, `module:Class`, `module:Class:depth=5`, and `module:function`, which
takes the env and returns a planner or an agent.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from plangym_ext.core.inherited_options import load_own
from plangym_ext.core.options import parsed
from plangym_ext.errors import InvalidOption, UnknownName, WrongKind, suggestion
from plangym_ext.planners.registry import PLANNERS

_EXPECTED = {int: "an int", float: "a float", bool: "true or false", str: "a text"}


class NamedPlayer:
    """A player named by a text: a planner, or a function that is called with each env.

    Args:
        text: see above.
        option: what named it, for errors.
        **limits: options that hold whatever the text says, such as `max_model_steps`.

    Raises:
        UnknownName: there is no such planner, module, class, function or option.
        InvalidOption: a value is not one of that option.
        WrongKind: a class of your own is no planner that can be made.
    """

    def __init__(self, text: str, option: str, **limits: Any) -> None:
        self.text, self._option, self._limits = text, option, limits
        self.name, options = split_player(text)
        self._make: Callable[[Any], Any] | None = None
        if not is_function(self.name, option):
            self._planner = _made_planner(self.name, options, limits)
            return
        self._make = _function(self.name, option)
        if options:
            raise InvalidOption(
                f"{option}: only planners and classes take options; {self.name} is a function, and "
                f"got {options!r}."
            )

    def made_for(self, env: Any) -> Any:
        """Return the player for an env: the same each time, if it is a planner.

        Raises:
            WrongKind: the function returned neither a planner nor an agent.
        """
        if self._make is None:
            return self._planner
        player = _as_planner(self._make(env), self.name, self._option)
        for name, value in self._limits.items():
            setattr(player, name, value)
        return player


def split_player(text: str) -> tuple[str, str]:
    """Return the name and the options of a player text, `name:option=value,option=value`."""
    name, _, rest = text.partition(":")
    own, _, options = rest.partition(":")
    if name in PLANNERS or not own.isidentifier():
        return name, rest
    return f"{name}:{own}", options


def is_function(name: str, option: str = "--planner") -> bool:
    """Return whether a name is a user's function, or a class other than a planner."""
    from plangym_ext.planners.base import Planner

    if ":" not in name:
        return False
    found = _function(name, option)
    return not (isinstance(found, type) and issubclass(found, Planner))


def _function(name: str, option: str) -> Callable[[Any], Any]:
    which = "a planner, or a function which takes the env and returns a planner or an agent"
    found: Callable[[Any], Any] = load_own(name, option, "name", which)
    return found


def _as_planner(found: Any, name: str, option: str) -> Any:
    from plangym_ext.planners.base import Planner, as_planner

    player = as_planner(found)
    if not isinstance(player, Planner):
        raise WrongKind(
            f"{option}: {name} must return a planner or an agent; got a {type(player).__name__}. "
            f"Derive an agent from plangym_ext.learn.Agent."
        )
    return player


def _made_planner(name: str, options: str, limits: Mapping[str, Any]) -> Any:
    """Make a planner of its name and `option=value,option=value`."""
    from plangym_ext.planners import load_planner, options_of

    cls = load_planner(name)
    known = {option.name: option for option in options_of(cls) if option.kind is not None}
    chosen: dict[str, Any] = {}
    for part in filter(None, options.split(",")):
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
    return cls(**{**chosen, **limits})


def value_parser(kind: type, optional: bool) -> Callable[[str], Any]:
    """Return a parser of one value; `none` is valid if the option may be None."""

    def parse(text: str) -> Any:
        if optional and text.lower() == "none":
            return None
        value = parsed(text, kind)
        if value is None:
            raise argparse.ArgumentTypeError(f"expected {_EXPECTED[kind]}; got {text!r}")
        return value

    return parse


def _typed(where: str, text: str, kind: type, optional: bool) -> Any:
    try:
        return value_parser(kind, optional)(text)
    except argparse.ArgumentTypeError as error:
        wanted = str(error).removeprefix("expected ")
        raise InvalidOption(f"{where} must be {wanted}") from None
