"""Recursive search of an object for arrays, tensors, numbers and random generators.

Needs numpy alone; torch is looked at where something has brought it.
"""

from __future__ import annotations

import functools
import random
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

#: What is a number, or stands for one: equal ones are the same.
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
#: How far a generator has come is no number that is learned.
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
#: Attributes of any `torch.nn.Module` that say how it is used.
_OF_MODULES = frozenset({"training", "_is_full_backward_hook", "_non_persistent_buffers_set"})
#: Packages whose classes and functions keep nothing that is learned.
_OTHERS = frozenset({"plangym_ext", "torch", "numpy", "gymnasium", "numba", "cloudpickle"})


def held_numbers(value: Any) -> dict[str, Any]:
    """Return arrays, tensors, plain values and generators by their path, such as ".net[0]".

    Containers, attributes, slots, closures and arguments of partial functions are gone through,
    and of a function that pickles carry whole the globals that it names. An object that is met
    again is passed over, as are optimisers, which no copy needs.
    """
    return {where: one for where, one in objects_of(value) if _is_number(one)}


def generators_of(value: Any) -> dict[str, Any]:
    """Return the random generators that a value holds, by their path."""
    return {where: one for where, one in objects_of(value) if isinstance(one, _GENERATORS)}


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes in an object's own dict and slots."""
    own = getattr(value, "__dict__", None)
    found = dict(own) if isinstance(own, dict) else {}
    for one in type(value).__mro__:
        names = one.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            # A private slot is kept by a name that has the class in front.
            private = name.startswith("__") and not name.endswith("__")
            own = f"_{one.__name__.lstrip('_')}{name}" if private else name
            if name not in ("__dict__", "__weakref__") and hasattr(value, own):
                found[own] = getattr(value, own)
    return found


def same_number(one: Any, other: Any) -> bool:
    """Return whether two of `held_numbers` are equal, with NaN equal to itself."""
    if isinstance(one, _GENERATORS):
        return isinstance(other, type(one))
    if isinstance(one, _PLAIN) or isinstance(other, _PLAIN):
        return type(one) is type(other) and (one == other or (one != one and other != other))
    mine, theirs = _as_array(one), _as_array(other)
    if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
        return False
    # Quick where nothing has changed; NaN, and dtypes that have no ==, by their bytes.
    return bool(np.array_equal(mine, theirs)) or mine.tobytes() == theirs.tobytes()


def is_module(value: Any) -> bool:
    """Return whether a value is a module of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_optimizer(value: Any) -> bool:
    """Return whether a value is an optimiser of torch, or a schedule of one."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return isinstance(value, torch.optim.Optimizer | torch.optim.lr_scheduler.LRScheduler)


def is_by_name(value: Any) -> bool:
    """Return whether a pickle holds only the name of a class or function."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    if module is None or module.__name__ == "__main__":
        return False
    found: Any = module
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def is_own(value: Any) -> bool:
    """Return whether a class or function is the user's, not of Python or a known package."""
    return _is_own_module(getattr(value, "__module__", None) or "builtins")


def named_globals(function: types.FunctionType) -> dict[str, Any]:
    """Return the globals that a function names, and the attributes of modules among them."""
    names = _names_in(function.__code__)
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for module in [one for one in found.values() if isinstance(one, types.ModuleType)]:
        if _is_own_module(module.__name__):
            told = {name: vars(module)[name] for name in names if name in vars(module)}
            found |= {f"{module.__name__}.{name}": one for name, one in told.items()}
    return {name: one for name, one in found.items() if not isinstance(one, types.ModuleType)}


def _is_own_module(name: str) -> bool:
    package = name.partition(".")[0]
    return package not in _OTHERS and package not in sys.stdlib_module_names


def objects_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all objects that a value holds, itself first, with their paths."""
    # With a stack, as chains of objects may be longer than Python's calls may nest. What was met
    # is held, so that no other object comes to have its id.
    met: dict[int, Any] = {}
    stack = [("", value)]
    while stack:
        where, one = stack.pop()
        if not isinstance(one, _PLAIN):
            if id(one) in met:
                continue
            met[id(one)] = one
        yield where, one
        parts = [] if _is_number(one) else list(_parts(one))
        stack.extend((where + name, part) for name, part in reversed(parts))


def _is_number(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    return isinstance(value, (*_PLAIN, *_GENERATORS)) or is_tensor(value)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Go through what an object is made of."""
    if isinstance(value, type | types.ModuleType) or is_optimizer(value) or _is_compiled(value):
        return
    if isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    else:
        items, attributes = list(_items(value)), attributes_of(value)
        left_out = _OF_MODULES if is_module(value) else ()
        yield from items
        yield from ((f".{name}", one) for name, one in attributes.items() if name not in left_out)
        if not items and not is_module(value):
            yield from _saved(value, bool(attributes))


def _is_compiled(value: Any) -> bool:
    """Return whether a value is code, or of what compiles it."""
    return type(value).__module__.startswith(("numba.core.", "numba.np.", "llvmlite."))


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping | types.MappingProxyType):
        for i, (key, one) in enumerate(list(value.items())):
            named = isinstance(key, _PLAIN)
            yield f"[{key!r}]" if named else f"[{i}]", one
            if not named:
                yield f"[{i}].key", key
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{i}]", one) for i, one in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from ((f"[{i}]", one) for i, one in enumerate(sorted(value, key=repr)))
    elif isinstance(value, np.ndarray):  # of objects
        yield from ((f"[{i}]", one) for i, one in enumerate(value.ravel().tolist()))


def _saved(value: Any, has_attributes: bool) -> Iterator[tuple[str, Any]]:
    """Go through what an object's own pickle has, of which attributes say nothing, or not all."""
    own = getattr(type(value), "__getstate__", None) is not getattr(object, "__getstate__", None)
    try:
        if own and hasattr(value, "__getstate__"):
            yield ".__getstate__()", value.__getstate__()
        elif not has_attributes and not callable(value):
            yield from ((f".__reduce__()[{i}]", one) for i, one in enumerate(_reduced(value)))
    except Exception:
        return


def _reduced(value: Any) -> list[Any]:
    found = value.__reduce_ex__(4)
    return [] if isinstance(found, str) else [one for one in found[1:3] if one is not None]


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Go through the closure and the defaults of a function, and its globals if they go along."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        try:
            yield f".<{name}>", cell.cell_contents
        except ValueError:  # it is empty as yet
            continue
    yield ".__defaults__", function.__defaults__
    yield ".__kwdefaults__", function.__kwdefaults__
    if is_own(function) and not is_by_name(function):
        yield from ((f".<{name}>", one) for name, one in named_globals(function).items())


def _names_in(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            found |= _names_in(one)
    return found


def _as_array(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, np.ndarray):
        return value
    torch = sys.modules["torch"]
    lazy = torch.nn.parameter.is_lazy(value)
    if value.is_sparse or value.is_quantized or value.is_meta or lazy:
        return np.frombuffer(repr(value).encode(), np.uint8)
    plain = value.detach().cpu().resolve_conj().resolve_neg()
    try:
        found: np.ndarray[Any, Any] = plain.numpy()
    except TypeError:  # a dtype that numpy has not, such as bfloat16
        found = plain.contiguous().view(torch.uint8).numpy()
    return found
