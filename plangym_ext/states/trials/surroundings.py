"""Change detection for data outside an env: globals, class attributes, closures.

Class attributes, module globals, attributes and closures of functions, context variables,
generators of the process. An env that changes one of them is told by its name.
"""

from __future__ import annotations

import contextlib
import contextvars
import copyreg
import ctypes
import functools
import os
import random
import sys
import threading
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.states import plain
from plangym_ext.states.codec import layers
from plangym_ext.states.families import hosted
from plangym_ext.states.layer_attributes import CLOCKS, LayerAttributes, named_as_drawing
from plangym_ext.states.outside import is_outside, module_of
from plangym_ext.states.trials.digests import (
    CODE,
    MOST_ITEMS,
    NO_DATA,
    SCALARS,
    Marking,
    Marks,
    attributes,
    cells,
    has_grown,
    held_by,
    is_own,
    is_own_module,
)
from plangym_ext.states.trials.settings import scalars, settings

#: Most objects that are walked through, and most modules that are marked.
_MOST_OBJECTS, _MOST_MODULES = 5_000, 300
#: Names of a class or module that Python sets itself, the last one where objects are copied.
_OF_PYTHON = frozenset(
    f"__{name}__"
    for name in (
        *("builtins", "warningregistry", "spec", "loader", "dict", "weakref", "file", "path"),
        *("doc", "module", "name", "package", "annotations", "abstractmethods", "slotnames"),
    )
) | {"_abc_impl"}
#: Attributes of a layer that are compared by themselves, or are layers.
_NAMED_ELSEWHERE = ("_np_random", "_np_random_seed", "env")


def generators() -> dict[str, int]:
    """Return a mark of each process-wide generator, which changes when it is used."""
    found = {"the generator of `random`": hash(random.getstate())}
    # Of the process, on purpose. By its address: as a value its state takes 50 times as long.
    numbers: Any = np.random.get_bit_generator()  # type: ignore[attr-defined]
    if isinstance(numbers, np.random.MT19937):
        words = ctypes.string_at(numbers.ctypes.state_address, 625 * 4)
        found["the generator of `numpy.random`"] = hash(words)
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator"):
        found["the generator of `torch`"] = hash(torch.get_rng_state().numpy().tobytes())
    return found


def _compiled_generators() -> dict[str, Any]:
    """Return the marks of numba's, which draw where compiled code calls `random`."""
    helper: Any = sys.modules.get("numba._helperlib")
    found: dict[str, Any] = {}
    # Private names of numba: where they are others, its generators are not looked at.
    with contextlib.suppress(AttributeError, TypeError):
        for name, module in (("np", "numpy.random"), ("py", "random")) if helper else ():
            index, words = helper.rnd_get_state(getattr(helper, f"rnd_get_{name}_state_ptr")())
            found[f"numba's generator of `{module}`"] = (index, *words)
    return found


def all_layers(env: gym.Env[Any, Any]) -> list[Any]:
    """Return the layers of an env, and those of what its simulator hosts."""
    found = layers(env)
    return [*found, *hosted(found[-1])]


def named_as_drawing_marks(env_layers: Iterable[Any]) -> dict[str, bytes]:
    """Return marks of attributes that states leave out for their names, such as `screen`."""
    found = {}
    for layer in env_layers:
        for attribute, value in named_as_drawing(layer).items():
            # Plain data only: what a picture is drawn with has none that counts.
            data = b"".join(_plain_attributes(value))
            name = f"{type(layer).__qualname__}.{attribute}"
            found[f"what {name} holds, which by its name is no part of a state,"] = data
    return found


def _plain_attributes(value: Any) -> Iterator[bytes]:
    for name, part in vars(value).items():
        with contextlib.suppress(plain.NotPlain):
            yield plain.encode((name, part))


def surroundings(env: gym.Env[Any, Any], *, deep: bool = False) -> Marks:
    """Return marks of the variables outside an env, by name.

    Args:
        env: whose surroundings.
        deep: also of what may change without deciding anything, and of the env's own attributes;
            see `Digests`. It takes many times as long.
    """
    classes, functions, _, _, held = _reached(layers(env))
    found = Marking(deep=deep)
    modules = _modules({module_of(one) for one in (*classes, *functions)}, held)
    if deep:
        found.found |= settings() | generators()
        apart = [one for module in modules.values() for one in vars(module).values()]
        kinds = [type(one) for one in classes]
        known = {one for one in (*apart, *kinds) if isinstance(one, type) and is_own(one)}
        classes = [*classes, *(known - {*classes})]
    for cls in classes:
        _mark_all(found, vars(cls), f"{cls.__qualname__}.", functions)
    for name, module in modules.items():
        _mark_all(found, vars(module), f"{name}.", functions)
    for function in functions:
        _mark_function(found, function)
    for layer in all_layers(env):
        _mark_left_out(found, layer)
        # A layer of this package, such as the recorder of a replay, is never what is left out.
        theirs = deep and not module_of(type(layer)).startswith("plangym_ext.")
        for name, value in LayerAttributes(layer, ()).state().items() if theirs else ():
            found.add(f"{type(layer).__qualname__}.{name}", value)
    for layer in hosted(layers(env)[-1]):
        # By agent: see the codec of such envs.
        for name, value in vars(layer).items():
            for space in value.values() if type(value) is dict else ():
                if isinstance(space, gym.Space):
                    _mark_space(found, layer, name, space)
    for variable, value in contextvars.copy_context().items():
        found.add(f"the context variable {variable.name}", value)
    for name, value in _compiled_generators().items():
        found.add(name, value)
    found.add("the current folder", _folder())
    found.add("os.environ", dict(os.environ))
    # What is looked at as a whole counts.
    return (scalars() if deep else {}) | found.found


def changed(before: Marks, after: Marks, *, grown: bool = False) -> list[str]:
    """Return the names of changed variables.

    Args:
        before: marks.
        after: marks, later.
        grown: name also what was made since, or has only gained entries. Examples are a cache, a
            log and lazily made objects; whether steps read them, futures in a process that lacks
            them tell.
    """
    return [
        name
        for name, mark in after.items()
        if mark != before.get(name) and (grown or not has_grown(before.get(name), mark))
    ]


def _folder() -> str:
    with contextlib.suppress(OSError):
        return os.getcwd()
    return ""


def what_no_state_holds(env: gym.Env[Any, Any]) -> list[str]:
    """Return the attributes of an env's layers that belong to the process, or lie in slots."""
    found = []
    for layer in layers(env):
        kind: Any = type(layer)
        held: list[tuple[str, Any]] = [(name, type(one)) for name, one in vars(layer).items()]
        found += [
            f"{kind.__qualname__}.{name} ({what.__qualname__})"
            for name, what in held
            if is_outside(what)
        ]
        if is_own(kind):
            slots = copyreg._slotnames(kind)  # type: ignore[attr-defined]
            found += [f"{kind.__qualname__}.{name} (in __slots__)" for name in slots]
    return found


def around_code(env: gym.Env[Any, Any]) -> tuple[list[Any], list[set[Any]]]:
    """Return the functions of an env's own code, and the sets that it can reach."""
    classes, functions, _, sets, held = _reached(layers(env))
    modules = _modules({module_of(one) for one in (*classes, *functions)}, held)
    for namespace in map(vars, (*classes, *modules.values())):
        for value in list(namespace.values()):
            if isinstance(value, types.FunctionType) and is_own(value):
                functions.append(value)
            elif type(value) is set:
                sets.append(value)
    return functions, [one for one in sets if one]


def sets_in(values: Iterable[Any]) -> list[set[Any]]:
    """Return the non-empty sets that can be reached from values."""
    return [one for one in _reached(values)[3] if one]


def is_by_address(value: Any) -> bool:
    """Return whether the hash of a set's element is that of its address."""
    if isinstance(value, weakref.ReferenceType):
        value = value()  # as those of a `WeakSet`
    if isinstance(value, tuple | frozenset):
        return any(map(is_by_address, value))
    kind: Any = type(value)
    return value is not None and kind.__hash__ is object.__hash__


# What there is ----------------------------------------------------------------------------


def _reached(
    values: Iterable[Any],
) -> tuple[list[type], list[Any], list[threading.Thread], list[set[Any]], list[types.ModuleType]]:
    """Return what can be reached from values, such as the layers of an env.

    Returns:
        Classes, Python functions, threads, sets, and modules.
    """
    threads: list[threading.Thread] = []
    sets: list[set[Any]] = []
    modules: list[types.ModuleType] = []
    classes: dict[type, None] = {}
    functions: dict[int, Any] = {}
    seen: set[int] = set()
    waiting: list[Any] = list(values)
    while waiting and len(seen) < _MOST_OBJECTS:
        value = waiting.pop()
        if type(value) in SCALARS or value is None or id(value) in seen:
            continue
        seen.add(id(value))
        kind: Any = type(value)
        if issubclass(kind, threading.Thread):
            threads.append(value)
        elif issubclass(kind, CODE):
            function = getattr(value, "__func__", value)
            # A method may be of any callable, such as what numpy.vectorize returns.
            if isinstance(function, types.FunctionType):
                functions[id(function)] = function
                waiting.extend(cells(function))
            else:
                waiting.append(function)
        elif issubclass(kind, functools.partial):
            waiting.extend((value.func, *value.args, *value.keywords.values()))
        elif issubclass(kind, NO_DATA) and not issubclass(kind, gym.Env):
            if issubclass(kind, type):
                classes.update(dict.fromkeys(filter(is_own, value.__mro__)))
            elif kind is types.ModuleType:
                modules.append(value)
        elif issubclass(kind, dict):
            waiting.extend([*value.values()][:MOST_ITEMS])
        elif issubclass(kind, list | tuple | set | frozenset | deque):
            waiting.extend([*value][:MOST_ITEMS])
            if kind is set:
                sets.append(value)
        else:
            classes.update(dict.fromkeys(filter(is_own, kind.__mro__)))
            waiting.extend(attributes(value).values())
    for cls in classes:
        for value in vars(cls).values():
            functions |= {
                id(one): one for one in held_by(value) if isinstance(one, types.FunctionType)
            }
    return list(classes), list(functions.values()), threads, sets, modules


def running_threads(env: gym.Env[Any, Any]) -> list[str]:
    """Return the names of running threads that an env holds."""
    return [thread.name for thread in _reached(layers(env))[2] if thread.is_alive()]


def _modules(names: set[str], held: Iterable[types.ModuleType]) -> dict[str, Any]:
    """Return the loaded modules of these names, and those that their code refers to.

    Of packages of the env's own. A module refers to another by an object that it holds, by names
    in its code, or as it lies in that package. Modules that no import has made are among them:
    code has, which may look for them under any name.
    """
    found: dict[str, Any] = {}
    made = (one for one in list(sys.modules.values()) if _is_made(one))
    waiting: list[Any] = [*names, *held, *made]
    while waiting and len(found) < _MOST_MODULES:
        one = waiting.pop()
        module = sys.modules.get(one) if isinstance(one, str) else one
        name = getattr(module, "__name__", None)
        if type(module) is not types.ModuleType or not isinstance(name, str):
            continue
        if name not in found and is_own_module(name):
            found[name] = module
            waiting.append(name.rpartition(".")[0])
            waiting.extend(_referred(module))
    return found


def _is_made(module: Any) -> bool:
    """Return whether code has made a module, not an import."""
    made = type(module) is types.ModuleType and getattr(module, "__spec__", None) is None
    return made and module.__name__ != "__main__"


def _referred(module: types.ModuleType) -> Iterator[Any]:
    """Yield names of modules that a module refers to, and those that no import has made."""
    named: set[str] = set()
    places = [module.__name__ if hasattr(module, "__path__") else module.__package__ or ""]
    for value in list(vars(module).values()):
        if isinstance(value, types.ModuleType):
            if _is_made(value):
                yield value
            places.append(value.__name__)
            continue
        home = module_of(value if isinstance(value, type | types.FunctionType) else type(value))
        yield home
        if home == module.__name__:
            for one in vars(value).values() if isinstance(value, type) else (value,):
                named |= _names_in(getattr(getattr(one, "__func__", one), "__code__", None))
    yield from named
    # A package has all its imported modules as attributes: those that the code names count.
    yield from (place for place in places if not place.startswith(f"{module.__name__}."))
    for place in filter(is_own_module, places):  # grows: a.b.c
        inside = [name for part in named if (name := f"{place}.{part}") in sys.modules]
        yield from inside
        places.extend(name for name in inside if name not in places)


def _names_in(code: Any) -> set[str]:
    """Return the names and texts in code."""
    if not isinstance(code, types.CodeType):
        return set()
    texts = {part for part in code.co_consts if isinstance(part, str)}
    return texts.union(code.co_names, *map(_names_in, code.co_consts))


def _mark_all(found: Marking, namespace: Any, prefix: str, functions: list[Any]) -> None:
    for name, value in list(namespace.items()):
        if name in _OF_PYTHON:
            continue
        for one in held_by(value):
            if isinstance(one, types.FunctionType):
                if is_own(one) and one not in functions:
                    _mark_function(found, one)
            elif not isinstance(one, NO_DATA):
                found.add(prefix + name, one)


def _mark_function(found: Marking, function: Any) -> None:
    """Mark what a function remembers from call to call."""
    name = f"{module_of(function)}.{function.__qualname__}"
    for attribute, value in vars(function).items():
        if not attribute.startswith("__"):
            found.add(f"{name}.{attribute}", value)
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for i, value in enumerate(defaults):
        if found.deep or not isinstance(value, (*SCALARS, types.NoneType)):
            found.add(f"the default {i} of {name}", value)
    for variable, value in zip(function.__code__.co_freevars, cells(function), strict=False):
        if not isinstance(value, (*NO_DATA, *CODE)):
            found.add(f"the variable {variable} around {name}", value)


def _mark_left_out(found: Marking, layer: Any) -> None:
    """Mark the attributes of a layer that states do not hold, as constants."""
    state = LayerAttributes(layer, ()).state()
    for name, value in vars(layer).items():
        if name in state or name in _NAMED_ELSEWHERE or name in CLOCKS.get(type(layer), ()):
            continue
        if isinstance(value, gym.Space):
            _mark_space(found, layer, name, value)
        elif not isinstance(value, (*NO_DATA, *CODE)):
            found.add(f"{type(layer).__qualname__}.{name}", value)


def _mark_space(found: Marking, layer: Any, name: str, space: gym.Space[Any]) -> None:
    """Mark how a space draws; a reset may put another one in its place."""
    of_space = f"{type(layer).__qualname__}.{name} at {id(space):x}"
    found.add(of_space, vars(space).get("_np_random"))
