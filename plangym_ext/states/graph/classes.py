"""Layout of Python classes in object graphs: slots, base data, instance dict."""

from __future__ import annotations

import copyreg
import enum
import functools
import importlib
import types
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.states.outside import module_of
from plangym_ext.states.plain import NotPlain, in_fixed_order

#: A named object: the index of a layer and one of its attributes, "" for the layer.
Name = tuple[int, str]
#: What such a name begins with instead if it is that of an object of the env's code, with a digest
#: of its content; no attribute does.
MARK = "@"
#: A class and the names of the attributes that an instance of it has.
Shape = tuple[Any, tuple[str, ...]]

# Windows, surfaces and clocks show the state; they are no part of it.
_DRAWING_MODULES = ("pygame", "pyglet", "OpenGL", "glfw", "matplotlib", "moviepy", "cv2")
# Rectangles and vectors of such a module are data: a game may keep its players in them.
_DATA_MODULES = ("pygame.rect", "pygame.math", "pygame.color", "pygame.mask")
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: not of a fixed place in an extension
#: Of attributes and weak references, beside what the base and the slots take.
_PLAIN_SIZE = 16
_SLOT_SIZE = 8
#: Builtin types whose content is known, for classes that derive from one of them.
BASES = (list, dict, tuple)


class Layout(NamedTuple):
    """The storage of an instance beside its attribute dict.

    Attributes:
        base: the builtin type that it derives from; `object` if none.
        slots: the descriptors of its slots, by name.
    """

    base: type
    slots: dict[str, types.MemberDescriptorType]


@functools.cache
def is_drawing(kind: Any) -> bool:
    """Return whether instances of a class are only for rendering."""
    module = module_of(kind)
    return module.partition(".")[0] in _DRAWING_MODULES and module not in _DATA_MODULES


@functools.cache
def layout_of(kind: Any) -> Layout | None:
    """Return the layout of a class, or None if an extension may keep more in its instances."""
    found = [cls for cls in kind.__mro__[:-1] if cls in BASES]
    base: Any = found[0] if found else object
    # Of a bare `object()` its identity is all there is.
    if (
        kind is object
        or len(found) > 1
        or hidden_slot(kind)
        or not all(cls is base or _is_of_python(cls) for cls in kind.__mro__[:-1])
    ):
        return None
    slots: dict[str, types.MemberDescriptorType] = {}
    for name in copyreg._slotnames(kind):  # type: ignore[attr-defined]
        slot = next((vars(cls)[name] for cls in kind.__mro__ if name in vars(cls)), None)
        if slot is None:  # of a class that was pickled by value, whose slots are attributes
            continue
        if not isinstance(slot, types.MemberDescriptorType):  # a class attribute hides it
            return None
        slots[name] = slot
    # Data of an extension beside the attributes, such as the numbers of a `random.Random`.
    if kind.__basicsize__ > base.__basicsize__ + _PLAIN_SIZE + _SLOT_SIZE * len(slots):
        return None
    return Layout(base, slots) if kind.__itemsize__ == base.__itemsize__ else None


@functools.cache
def hidden_slot(kind: Any) -> str:
    """Return the name of a slot that another of the same name hides; "" for none.

    What it holds is found by its descriptor alone, and pickle does not look for it.
    """
    slots: set[str] = set()
    for cls in kind.__mro__:
        for name, slot in vars(cls).items():
            if isinstance(slot, types.MemberDescriptorType) and slot.__objclass__ is cls:
                if name in slots:
                    return str(name)
                slots.add(name)
    return ""


@functools.cache
def is_simple(kind: Any) -> bool:
    """Return whether an instance consists of its attributes only."""
    layout = layout_of(kind)
    return bool(layout and layout.base is object and not layout.slots and kind.__dictoffset__ != 0)


def _is_of_python(cls: Any) -> bool:
    """Return whether a class was made by a class statement; extensions make such types, too."""
    made = vars(cls).get("__new__")
    return (
        bool(cls.__flags__ & _HEAP_TYPE)
        and module_of(cls) != "builtins"
        and (made is None or isinstance(made, staticmethod | types.FunctionType))
    )


@functools.cache
def imported(module: str, name: str) -> Any:
    """Return the object of that qualified name.

    Raises:
        ImportError, AttributeError, ValueError: there is none.
    """
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def name_of(thing: Any) -> tuple[str, str]:
    """Return the module and qualified name of a class or function."""
    return str(getattr(thing, "__module__", "")), str(getattr(thing, "__qualname__", ""))


@functools.cache
def finaliser_of(kind: Any) -> Any:
    """Return the `__del__` of a class that Python code defines; None if there is none.

    It would run for a dropped copy, and free resources that the original still uses.
    """
    found = getattr(kind, "__del__", None)
    return found if isinstance(found, types.FunctionType) else None


# Sets -----------------------------------------------------------------------------

_ORDERED = frozenset((int, float, bool, str, bytes, type(None)))


def sorted_elements(value: Collection[Any]) -> list[Any]:
    """Return the elements of a set in an order that is the same in every process."""
    return in_fixed_order(value, _place_in_set)


def _place_in_set(element: Any) -> str:
    """Return a text of an element of a set that is the same in every process."""
    kind = type(element)
    if kind is tuple:
        return f"({','.join(map(_place_in_set, element))})"
    if kind is frozenset:
        return f"{{{','.join(sorted(map(_place_in_set, element)))}}}"
    if kind in _ORDERED or isinstance(element, enum.Enum | np.generic):
        return repr(element)
    raise NotPlain(f"a {kind.__module__}.{kind.__qualname__} in a set, which has no order")
