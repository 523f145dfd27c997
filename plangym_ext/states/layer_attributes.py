"""LayerAttributes: classification of an env layer's attributes as state or not."""

from __future__ import annotations

import contextlib
import functools
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import gymnasium as gym

from plangym_ext.errors import DamagedState
from plangym_ext.states.graph.writer import imported, is_drawing, name_of
from plangym_ext.states.outside import is_outside, module_of

_VALUES = (bool, int, float, complex, str, bytes, type(None))


def is_same(one: Any, two: Any) -> bool:
    """Return whether two functions or classes are one, or were made by one line of equal values.

    Each reset may make a new function that does the same as the one before it.
    """
    if one is two:
        return True
    # A builtin function and a class are each their own.
    if not (type(one) is type(two) is types.FunctionType) or one.__code__ != two.__code__:
        return False
    held, others = list(_held(one)), list(_held(two))
    return len(held) == len(others) and all(
        # A function may refer to itself.
        _is_equal(value, other) or (value is one and other is two)
        for value, other in zip(held, others, strict=True)
    )


def _held(function: types.FunctionType) -> Iterator[Any]:
    """Yield what a function was made with: defaults, and variables from around it."""
    yield function.__defaults__
    yield tuple((function.__kwdefaults__ or {}).items())
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not set yet
            yield None


def _is_equal(one: Any, two: Any) -> bool:
    # Only what cannot change: two equal lists may differ later.
    if one is two:
        return True
    if type(one) is not type(two):
        return False
    if type(one) is tuple:
        return len(one) == len(two) and all(map(_is_equal, one, two))
    return type(one) in _VALUES and bool(one == two)


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
_CONSTANT_TYPES = (types.ModuleType, gym.Space, gym.envs.registration.EnvSpec)
# Mostly constant: state only where an attribute holds another one than at first.
_CODE_TYPES = (types.FunctionType, types.BuiltinFunctionType, type)
_DECIDED_BY_VALUE = (*_CODE_TYPES, weakref.ReferenceType, *weakref.ProxyTypes)
# What shows the state is None until the first picture is drawn, and an object then;
# neither may be part of the state.
_DRAWING_NAMES = {"viewer", "window", "screen", "clock", "surf", "renderer"}
# What a layer measures by the clock; a restored episode has its own time.
CLOCKS = {gym.wrappers.RecordEpisodeStatistics: {"episode_start_time", "time_queue"}}


#: Sets of attributes that are remembered: an env has few, but where types come and go.
_MOST_PLANS = 256


@functools.cache
def _is_constant(kind: Any) -> bool:
    drawing: bool = is_drawing(kind)
    outside: bool = is_outside(kind)
    return issubclass(kind, _CONSTANT_TYPES) or drawing or outside


def _is_weak_layer(value: Any) -> bool:
    """Return whether an attribute refers to an env without keeping it alive."""
    if type(value) is weakref.ReferenceType:
        value = value()
    elif type(value) not in weakref.ProxyTypes:
        return False
    return isinstance(value, gym.Env)


@functools.cache
def _is_value(kind: Any) -> bool:
    return module_of(kind) in ("builtins", "numpy", "collections")


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


def _values_of(names: tuple[str, ...]) -> Any:
    """Return a function from attributes to the values of some."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda found: tuple(found[name] for name in names)


class AttributePlan:
    """Classification of attributes with certain names and types as state or not.

    Attributes:
        names: of those that are.
        types: of their values.
        take: from the attributes to the values of these.
        open_names: of those of which the values decide; they are taken to be none.
    """

    __slots__ = ("names", "open_names", "take", "types")

    def __init__(
        self,
        names: tuple[str, ...],
        types: tuple[type, ...],
        take: Any,
        open_names: tuple[str, ...],
    ) -> None:
        self.names, self.types, self.take, self.open_names = names, types, take, open_names


class LayerAttributes:
    """The attributes of one layer, divided into state and the rest."""

    def __init__(self, layer: Any, ignored: Iterable[str]) -> None:
        self.layer = layer
        self.name = type(layer).__qualname__
        names = _CONSTANT_NAMES | set(CLOCKS.get(type(layer), ())) | set(ignored)
        # A simulator may well call a part of itself `env`.
        self._constant = names | {"env"} if isinstance(layer, gym.Wrapper) else names
        #: Functions and classes that the attributes hold at first.
        self._code = {
            name: value for name, value in vars(layer).items() if isinstance(value, _CODE_TYPES)
        }
        #: By names and types of all attributes.
        self._plans: dict[Any, AttributePlan] = {}
        self._checked: set[Any] = set()

    def state(self) -> dict[str, Any]:
        """Return the attributes that are state, in an order that does not depend on the past."""
        found = vars(self.layer)
        plan = self.plan(found)
        if plan is not None:
            return dict(zip(plan.names, plan.take(found), strict=True))
        return {name: found[name] for name in sorted(found) if self._is_state(name, found[name])}

    def plan(self, found: dict[str, Any]) -> AttributePlan | None:
        """Return which of the attributes that there are now are state; None: look at each."""
        key = (tuple(found), tuple(map(type, found.values())))
        plan = self._plans.get(key)
        if plan is None:
            open_names = tuple(
                name for name, kind in zip(*key, strict=True) if issubclass(kind, _DECIDED_BY_VALUE)
            )
            names = tuple(
                name
                for name in sorted(found)
                if name not in open_names and self._may_be_state(name, found[name])
            )
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = AttributePlan(
                names, tuple(type(found[name]) for name in names), _values_of(names), open_names
            )
        if plan.open_names and any(self._is_state(name, found[name]) for name in plan.open_names):
            return None
        return plan

    def _is_state(self, name: str, value: Any) -> bool:
        if isinstance(value, _CODE_TYPES) and is_same(value, self._code.get(name)):
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
        """Refuse attributes that `state` cannot return.

        Raises:
            DamagedState: they hold something that is no state, such as a space.
        """
        if not (isinstance(attributes, dict) and all(isinstance(name, str) for name in attributes)):
            raise DamagedState(f"state: {self.name} must get its attributes by their names")
        key = (tuple(attributes), tuple(map(type, attributes.values())))
        if key in self._checked:
            return
        for name, value in attributes.items():
            if not self._may_be_state(name, value):
                raise DamagedState(
                    f"state: {self.name}.{name} is no part of a state; got a "
                    f"{type(value).__qualname__}"
                )
        if len(self._checked) >= _MOST_PLANS:
            self._checked.clear()
        if not any(issubclass(kind, weakref.ReferenceType) for kind in key[1]):
            self._checked.add(key)

    def assign(self, attributes: dict[str, Any]) -> None:
        """Make the state exactly `attributes`; other attributes are dropped."""
        found = vars(self.layer)
        plan = self.plan(found)
        if plan is None or plan.names != tuple(attributes):
            self.take_back([name for name in self.state() if name not in attributes])
        found.update(attributes)

    def take_back(self, names: Iterable[str]) -> None:
        """Restore attributes that a state does not name."""
        found = vars(self.layer)
        for name in names:
            if name in self._code:
                found[name] = self._code[name]
            # Not deleted: code that draws asks whether it is None.
            elif name in _DRAWING_NAMES:
                found[name] = None
            else:
                del found[name]


# Binding ----------------------------------------------------------------------


@dataclass(frozen=True)
class Exactness:
    """Extent of the proof that restored states lead to the same future.

    Attributes:
        method: how the simulator's state is captured: "codec", "own", "snapshot", "replay", or
            "approximate", which is not exact.
        proved: where: "fork", in a copy of this process; "worker", in a new one, where the env
            was constructed once more; "library", for a simulator whose codec comes with this
            library and is tested with it, beside a short trial here; "" if nothing was tried.
        steps: that were played, over which states were saved.
        episodes: that ended in these steps.
        transitions: that were played again from saved states and came out the same.
        seconds: that it took.
        audits: futures that were played again since, from states in use. See
            `PlanEnv.exactness`.
        notes: what was found beside it: data outside its state that the env changes without reading
            it again, as far as trials have shown.
    """

    method: str
    proved: str
    steps: int = 0
    episodes: int = 0
    transitions: int = 0
    seconds: float = 0.0
    audits: int = 0
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool | None:
        """True if it was proved so far, None if nothing was tried, False for inexact ways."""
        if self.method == "approximate":
            return False
        return True if self.proved else None

    def __str__(self) -> str:
        if self.method == "approximate":
            return "not exact: an approximate way was asked for"
        if not self.proved:
            return f"{self.method}, not tried"
        where = {
            "fork": "in a copy of this process",
            "worker": "in a new process, with an env constructed there",
            "library": "with a codec that is tested with this library",
        }[self.proved]
        return (
            f"{self.method}: {self.transitions:,} transitions from restored states came out the "
            f"same ({self.steps:,} steps, {self.episodes:,} episodes, {where}); "
            f"{self.audits:,} audits since"
        )


#: Seconds that a byte of a row takes where rows are sealed, checked and copied.
_BYTE_SECONDS = 1e-9


@dataclass(frozen=True)
class Cost:
    """Measured cost of a row.

    Attributes:
        seconds: of a capture and a restore together.
        bytes: of its payload.
        length: steps of an episode, as far as it was played.
        episodes: that ended.
    """

    seconds: float = 0.0
    bytes: int = 0
    length: float = 0.0
    episodes: int = 0

    @property
    def row(self) -> float:
        """Seconds in all."""
        return self.seconds + self.bytes * _BYTE_SECONDS

    def __str__(self) -> str:
        return f"{self.seconds * 1e6:,.0f} us and {self.bytes:,} bytes"


@dataclass(frozen=True)
class Binding:
    """Proved capture method of an env, applicable to equal envs.

    Attributes:
        method: as of `Exactness`.
        width: bytes of a payload.
        learned: what each part took from the moment at which it was bound.
        parts: what the states of each part depend on, for the fingerprint.
        info: of a step, with None for what is no number.
        exactness: how it was proved.
        step_seconds: of an env step; None if none was timed.
        note: what is dear about the states, in words; "" if nothing is.
        of_texts: whether futures depend on the hashes of texts, so that states fit processes
            with the same ones alone.
        cost: of a row, as the proof has measured it.
    """

    method: str
    width: int
    learned: tuple[Any, ...]
    parts: dict[str, Any]
    info: dict[str, Any]
    exactness: Exactness
    step_seconds: float | None = None
    note: str = field(default="")
    of_texts: bool = False
    cost: Cost = field(default=Cost())
