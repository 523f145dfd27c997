"""Pickles of env attributes, with references for the env's own layers and spaces."""

from __future__ import annotations

import contextlib
import enum
import functools
import gc
import io
import pickle
import random
import types
from collections.abc import Callable, Iterable
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np

from plangym_ext.errors import IncompleteState
from plangym_ext.states.graph.array_views import Ties, place_of, view_at
from plangym_ext.states.graph.classes import Name, finaliser_of, hidden_slot
from plangym_ext.states.outside import module_of
from plangym_ext.states.randomness.random_bytes import RANDOM_TYPES
from plangym_ext.states.trials.digests import is_own


def dumps(attributes: Any, names: dict[int, Name], tied: Iterable[int] = ()) -> bytes:
    """Pickle attributes.

    Classes of the caller's own script go by value: workers have no such module.

    Args:
        attributes: what to pickle.
        names: of the objects that are named, by their `id`.
        tied: arrays, by `id`, whose views are pickled as views.

    Raises:
        IncompleteState: one of them would come back as something else, such as an unplayed env.
        Exception: whatever an attribute's own reduction raises.
    """
    file = io.BytesIO()
    pickler = _Pickler(file, names, tied)
    pickler.dump(attributes)
    if pickler.ties.found:
        file = io.BytesIO()
        _Pickler(file, names, (*tied, *pickler.ties.found)).dump(attributes)
    return file.getvalue()


def check_sets(attributes: Any) -> None:
    """Refuse sets of objects that are hashed by their address.

    A set is run through in the order of the hashes: of a copy in another one, whatever is
    drawn from it.

    Raises:
        IncompleteState: there is one.
    """
    seen: set[int] = set()
    todo = [attributes]
    while todo and len(seen) < _MOST_SEEN:
        value = todo.pop()
        if id(value) in seen or isinstance(value, type | types.ModuleType | gym.Env | gym.Space):
            continue
        seen.add(id(value))
        if isinstance(value, set | frozenset):
            for item in value:
                kind: Any = type(item)
                if kind.__hash__ is object.__hash__ and not isinstance(item, type):
                    raise IncompleteState(
                        f"a set of {kind.__module__}.{kind.__qualname__}, which are run through in "
                        "the order of their addresses: keep them in a list or a dict"
                    )
        # Of a function only its closure, not its whole module.
        is_function = isinstance(value, types.FunctionType)
        todo += value.__closure__ or () if is_function else gc.get_referents(value)


def size(attribute: Any, names: dict[int, Name]) -> int:
    """Return the pickle size of an attribute, or of its writable part."""
    file = io.BytesIO()
    with contextlib.suppress(Exception):  # of its own reduction
        _Pickler(file, names).dump(attribute)
    return file.tell()


def loads(data: bytes, named: Callable[[int, str], Any]) -> Any:
    """Return the value that `dumps` pickled.

    Args:
        data: a pickle that may be opened; it can run any code.
        named: from the parts of a name to the object here.
    """
    return _Unpickler(io.BytesIO(data), named).load()


#: How many objects are looked at for sets.
_MOST_SEEN = 100_000
#: Packages whose objects can be pickled and come back without some of what steps read.
_LOSSY = {"pymunk": "the impulses of contacts, from which the next step goes on"}


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, names: dict[int, Name], tied: Iterable[int] = ()) -> None:
        super().__init__(file, protocol=5)
        self._names = names
        self.ties = Ties(tied)
        self._memories: dict[int, Any] = {}

    def persistent_id(self, obj: Any) -> Name | None:
        # A generator is state: by its name it would come back as it is by then.
        return None if isinstance(obj, RANDOM_TYPES) else self._names.get(id(obj))

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, gym.utils.EzPickle):
            raise IncompleteState(
                f"{type(obj).__qualname__}: its pickle is a fresh, unplayed one (EzPickle)"
            )
        if isinstance(obj, memoryview):
            # cloudpickle writes its bytes, which come back as bytes.
            raise IncompleteState("a memoryview, whose pickle is a copy of what it shows")
        kind: Any = type(obj)
        if finaliser_of(kind):
            raise IncompleteState(
                f"a {kind.__module__}.{kind.__qualname__}, whose __del__ would run for a copy "
                "too and free what the original holds"
            )
        if slot := hidden_slot(kind):
            raise IncompleteState(
                f"a {kind.__module__}.{kind.__qualname__}, of which a slot {slot!r} hides another; "
                "give them two names"
            )
        left_out = _LOSSY.get(module_of(kind).partition(".")[0])
        if left_out is not None:
            raise IncompleteState(
                f"a {kind.__module__}.{kind.__qualname__}, whose pickle leaves out {left_out}"
            )
        if module_of(kind).partition(".")[0] == "torch" and hasattr(obj, "untyped_storage"):
            # Each is pickled with memory of its own.
            at = obj.untyped_storage().data_ptr()
            if at and self._memories.setdefault(at, obj) is not obj:
                raise IncompleteState("two tensors of one memory, which a pickle parts")
        owner = self.ties.owner(obj) if type(obj) is np.ndarray else None
        if owner is not None:
            return view_at, (owner, obj.dtype, place_of(obj, owner))
        if _reduced_by_base(kind):
            return _with_attributes(obj, obj.__reduce_ex__(5))
        return super().reducer_override(obj)


def _with_attributes(obj: Any, reduced: Any) -> Any:
    """Return a reduction that also holds attributes which the class of a base leaves out.

    Those of the standard library and of numpy write what they know: a subclass of `random.Random`
    or of `datetime` comes back without the attributes that its own code has set.
    """
    held = getattr(obj, "__dict__", None)
    if type(held) is not dict or not held or not isinstance(reduced, tuple):
        return reduced
    make, arguments, state, items, pairs, *_ = *reduced, None, None, None
    if _holds(state, held):
        return reduced
    return make, arguments, (state, held), items, pairs, _set_both


def _holds(state: Any, held: dict[str, Any]) -> bool:
    if isinstance(state, dict):
        return held.keys() <= state.keys()
    return isinstance(state, tuple) and any(_holds(part, held) for part in state)


def _set_both(made: Any, states: tuple[Any, dict[str, Any]]) -> None:
    state, held = states
    if state is not None:
        made.__setstate__(state)
    vars(made).update(held)


@functools.cache
def _reduced_by_base(kind: Any) -> bool:
    """Return whether a class leaves its pickle to a base from another package than its own."""
    if issubclass(kind, type | enum.Enum | types.FunctionType | types.ModuleType):
        return False
    names = ("__reduce_ex__", "__reduce__")
    above = next(cls for cls in kind.__mro__ if any(name in vars(cls) for name in names))
    return above is not object and not is_own(above) and (is_own(kind) or kind is random.Random)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, named: Callable[[int, str], Any]) -> None:
        super().__init__(file)
        self._named = named

    def persistent_load(self, pid: Name) -> Any:
        return self._named(*pid)
