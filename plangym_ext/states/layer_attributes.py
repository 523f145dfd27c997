"""Attributes of one layer of an env: which of them are state."""

from __future__ import annotations

import contextlib
import functools
import types
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym

from plangym_ext.errors import DamagedState
from plangym_ext.states.graph.writer import imported, is_drawing, name_of
from plangym_ext.states.same_function import is_same

# Set by gymnasium or the constructor and never changed by a step.
_CONSTANT_NAMES = {
    "spec",
    "metadata",
    "render_mode",
    "_saved_kwargs",
    "_cached_spec",
    "_metadata",
    "_action_space",
    "_observation_space",
}
_CONSTANT_TYPES = (
    types.ModuleType,
    gym.Space,
    gym.envs.registration.EnvSpec,
)
# Mostly constant: state only where an attribute holds another one than at first.
_CODE_TYPES = (types.FunctionType, types.BuiltinFunctionType, type)
# What shows the state is None until the first picture is drawn, and an object then;
# neither may be part of the state.
_DRAWING_NAMES = {"viewer", "window", "screen", "clock", "surf", "renderer"}
# What a layer measures by the clock; a restored episode has its own time.
_CLOCKS = {gym.wrappers.RecordEpisodeStatistics: {"episode_start_time", "time_queue"}}


@functools.cache
def _is_constant(kind: Any) -> bool:
    drawing: bool = is_drawing(kind)
    return issubclass(kind, _CONSTANT_TYPES) or drawing


def _is_code(value: Any) -> bool:
    return isinstance(value, _CODE_TYPES)


def _is_weak_layer(value: Any) -> bool:
    """Return whether an attribute refers to an env without keeping it alive."""
    if type(value) is weakref.ReferenceType:
        value = value()
    elif type(value) not in weakref.ProxyTypes:
        return False
    return isinstance(value, gym.Env)


@functools.cache
def _is_value(kind: Any) -> bool:
    return kind.__module__ in ("builtins", "numpy", "collections")


def named_as_drawing(layer: Any) -> dict[str, Any]:
    """Return the objects that are left out for their names alone: a game may call its own so."""
    shown = {}
    for name in sorted(_DRAWING_NAMES & vars(layer).keys()):
        value = vars(layer)[name]
        kind: Any = type(value)
        named = value is not None and not _is_value(kind) and not is_drawing(kind)
        if named and hasattr(value, "__dict__"):
            shown[name] = value
    return shown


def _constant_names(layer: Any, ignored: Iterable[str]) -> set[str]:
    names = _CONSTANT_NAMES | set(_CLOCKS.get(type(layer), ())) | set(ignored)
    # A simulator may well call a part of itself `env`.
    return names | {"env"} if isinstance(layer, gym.Wrapper) else names


class LayerAttributes:
    """The attributes of one layer, divided into state and the rest."""

    def __init__(self, layer: Any, ignored: Iterable[str]) -> None:
        self.layer = layer
        self.name = type(layer).__qualname__
        self._constant = _constant_names(layer, ignored)
        #: Functions and classes that the attributes hold at first.
        self._code = {name: value for name, value in vars(layer).items() if _is_code(value)}

    def state(self) -> dict[str, Any]:
        """Return the attributes that are state, in an order that does not depend on the past."""
        found = vars(self.layer)
        return {name: found[name] for name in sorted(found) if self._is_state(name, found[name])}

    def _is_state(self, name: str, value: Any) -> bool:
        if _is_code(value) and is_same(value, self._code.get(name)):
            return False
        return self._may_be_state(name, value)

    def _may_be_state(self, name: str, value: Any) -> bool:
        kind: Any = type(value)
        if name in self._constant or _is_constant(kind) or _is_weak_layer(value):
            return False
        return name not in _DRAWING_NAMES or (value is not None and _is_value(kind))

    def code_names(self) -> dict[str, tuple[str, str]]:
        """Return the names of the functions and classes that the attributes hold at first."""
        return {name: name_of(value) for name, value in self._code.items()}

    def adopt_code(self, names: Mapping[str, tuple[str, str]]) -> None:
        """Compare with what an equal env's attributes held at first."""
        self._code = {name: value for name, value in self._code.items() if name in names}
        for name, found in names.items():
            if name not in self._code or name_of(self._code[name]) != found:
                # What is made inside of a function is each env's own.
                with contextlib.suppress(ImportError, AttributeError, ValueError):
                    self._code[name] = imported(*found)

    def check(self, attributes: Any) -> None:
        """Refuse attributes that `state` could not have returned.

        Raises:
            DamagedState: they hold something that is no state, such as a space.
        """
        if not (isinstance(attributes, dict) and all(isinstance(name, str) for name in attributes)):
            raise DamagedState(f"state: {self.name} must get its attributes by their names")
        for name, value in attributes.items():
            if not self._may_be_state(name, value):
                raise DamagedState(
                    f"state: {self.name}.{name} is no part of a state; got a "
                    f"{type(value).__qualname__}. Pass a row from get_state of this env."
                )

    def assign(self, attributes: dict[str, Any]) -> None:
        """Make the state exactly `attributes`; what it has gained since is dropped."""
        self.take_back([name for name in self.state() if name not in attributes])
        vars(self.layer).update(attributes)

    def take_back(self, names: Iterable[str]) -> None:
        """Make attributes what they are where a state does not name them."""
        found = vars(self.layer)
        for name in names:
            if name in self._code:
                found[name] = self._code[name]
            # Not deleted: code that draws asks whether it is None.
            elif name in _DRAWING_NAMES:
                found[name] = None
            else:
                del found[name]
