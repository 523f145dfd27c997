"""Allow-list of classes and functions that an untrusted state may refer to.

A snapshot names classes, whose instances a reader builds, and things that attributes
hold: classes, functions, enumerations. A row can come from anywhere, so a name in it is
a wish, not an order. `Nameable` grants it only if

*   a class to build was met in this env's own first state, or is defined in a loaded
    module that the env's own modules refer to. It is looked up as a definition: no
    import, no attribute of a module that came from another one;
*   building it, dropping it and using it as a key runs none of its code (`hook_of`);
*   none of its attributes takes the place of a method, so that data is never called, or is
    looked up by libraries on any object (`protocols`);
*   a thing to refer to was met in the first state and is the env's own, or is a
    builtin or numpy type, or an enumeration of the env's own modules.

A state that needs more carries the session's digest (see `trust`) and is read by `AnyThing`.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

from plangym_ext.errors import DamagedState, UntrustedState
from plangym_ext.states.graph.classes import BASES, Shape, imported, name_of
from plangym_ext.states.part import is_protocol, misplaced

_NOT_OWN = {"builtins", "gymnasium", "typing", "abc"}
#: Packages whose classes do nothing when they are called with data.
_TYPES = ("builtins", "numpy")
#: Methods that run without being called by name, or that say that an instance is more
#: than its attributes.
_HOOKS = (
    "__del__",
    "__getattr__",
    "__getattribute__",
    "__setattr__",
    "__delattr__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__class__",
)
#: What a frozen dataclass brings along: its two hooks raise.
_OF_FROZEN = ("__setattr__", "__delattr__")
_OF_SLOTS = ("__getstate__", "__setstate__")
_MOST_REMEMBERED = 4096


@functools.cache
def hook_of(cls: Any) -> str:
    """Return the first special method of a class that could run implicitly; "" if none."""
    # Without `object`, which has most of these methods.
    for above in cls.__mro__[:-1]:
        found = vars(above)
        if above in BASES:  # whose own methods are C
            continue
        frozen = getattr(found.get("__dataclass_params__"), "frozen", False)
        for name in _HOOKS:
            if name in found and not (frozen and name in _OF_FROZEN) and not _is_made(found, name):
                return name
        # A property in its place would run when the attributes are set.
        if not isinstance(found.get("__dict__"), types.GetSetDescriptorType | None):
            return "__dict__"
    return ""


def _is_made(found: Mapping[str, Any], name: str) -> bool:
    """Return whether a method was added by `dataclasses` for slots, or by `namedtuple`."""
    # Both for pickle alone, which asks for no more than slots and items.
    if name == "__getnewargs__":
        return "_fields" in found and "_make" in found
    made = found[name]
    return name in _OF_SLOTS and getattr(made, "__module__", "") == "dataclasses"


@functools.cache
def hashing(cls: Any) -> str:
    """Return how instances are hashed: "" in C, "fields" by a dataclass, "own" by other code."""
    above = next(above for above in cls.__mro__ if "__hash__" in vars(above))
    found = vars(above)["__hash__"]
    if not isinstance(found, types.FunctionType) or issubclass(cls, enum.Enum):
        return ""
    # dataclasses compile the text of the methods that they add.
    added = "__dataclass_params__" in vars(above) and found.__code__.co_filename == "<string>"
    return "fields" if added else "own"


def defined(module: str, name: str) -> type | None:
    """Return the class that a loaded module defines under that qualified name, or None.

    Nothing is imported, and no code of a module or a class runs.
    """
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        try:
            found = vars(found).get(part)
        except TypeError:  # no attributes: no such module, or something put in its place
            return None
        if not isinstance(found, type):
            return None
    return found if name_of(found) == (module, name) else None


class Nameable:
    """Classes and functions that an untrusted state of one env may refer to.

    Attributes:
        known: classes and functions by `name_of`, as the first state had them.
        referable: names of those among them that attributes held, as the first state did.
    """

    careful = True

    def __init__(self, stack: list[Any]) -> None:
        classes = [cls for layer in stack for cls in type(layer).__mro__]
        self._packages = {_package(cls.__module__) for cls in classes} - _NOT_OWN
        self._own_modules = {cls.__module__ for cls in classes if self._is_own(cls.__module__)}
        self.known: dict[tuple[str, str], Any] = {}
        self.referable: set[tuple[str, str]] = set()
        self._granted: dict[tuple[str, ...], type] = {}
        self._plain: dict[Shape, bool] = {}

    def built(self, row: tuple[str, ...]) -> type:
        """Return the class of which an instance is to be built.

        Args:
            row: its module and qualified name, and the names of the instance's attributes.

        Raises:
            UntrustedState: states of this env have no use for it.
        """
        found = self._granted.get(row)
        if found is None:
            module, name, *attributes = row
            found = self._found(module, name)
            self._check(found, tuple(attributes))
            # States from elsewhere may name as many combinations as they like.
            if len(self._granted) >= _MOST_REMEMBERED:
                self._granted.clear()
            self._granted[row] = found
        return found

    def referred(self, module: str, name: str) -> Any:
        """Return the class, enumeration or function of that name, which an attribute holds.

        Raises:
            UntrustedState: states of this env have no use for it.
        """
        found = self.known.get((module, name))
        if (module, name) in self.referable:
            is_type = isinstance(found, type) and _package(module) in _TYPES
            if is_type or self._is_own(module):
                return found
        # Not met so far: an enumeration whose first member came up later, if anything.
        elif found is None and module in self.modules:
            found = defined(module, name)
        if isinstance(found, type) and issubclass(found, enum.Enum):
            return found
        raise _untrusted(f"{module}.{name}", "which this env's states have no use for")

    def needs_no_word(self, shapes: Iterable[Shape], references: Iterable[Any]) -> bool:
        """Return whether a state that names these is read in every session.

        Args:
            shapes: classes whose instances it holds, with the names of their attributes.
            references: what else it refers to.
        """
        return all(map(self._is_plain, shapes)) and all(map(self._is_referred, references))

    def check_layer(self, layer: Any, attributes: tuple[str, ...]) -> None:
        """Refuse attributes of a layer that are more than data; see `protocols`.

        Raises:
            UntrustedState: one does.
        """
        kind: Any = type(layer)
        wrong = misplaced(kind, attributes)
        if wrong:
            raise _untrusted(f"{kind.__qualname__}.{wrong}")

    def learned(self) -> tuple[frozenset[tuple[str, str]], ...]:
        """Return the names of `known` and `referable` objects, for `adopt`."""
        return frozenset(self.known), frozenset(self.referable)

    def adopt(self, learned: tuple[frozenset[tuple[str, str]], ...]) -> None:
        """Add the names of an equal env, whose first state may have held other objects."""
        known, referable = learned
        for name in self.known.keys() - known:
            del self.known[name]
        for name in known - self.known.keys():
            # A class that was made inside of a function is each env's own.
            with contextlib.suppress(ImportError, AttributeError, ValueError):
                self.known[name] = imported(*name)
        self.referable = set(referable & self.known.keys())
        # All three were decided by what was known before.
        for memory in (self._granted, self._plain):
            memory.clear()
        self.__dict__.pop("modules", None)

    @functools.cached_property
    def modules(self) -> frozenset[str]:
        """Modules whose classes a later state may use: the env's own and those they name."""
        known = {module for module, _ in self.known if self._is_own(module)}
        named = {
            str(value.__name__ if isinstance(value, types.ModuleType) else value.__module__)
            for module in self._own_modules
            for value in list(vars(sys.modules.get(module, object)).values())
            if isinstance(value, type | types.ModuleType)
        }
        return frozenset(self._own_modules | known | {name for name in named if self._is_own(name)})

    def _is_own(self, module: str) -> bool:
        return _package(module) in self._packages

    def _found(self, module: str, name: str) -> type:
        found = self.known.get((module, name))
        if found is None and module in self.modules:
            found = defined(module, name)
        if not isinstance(found, type):
            raise _untrusted(f"{module}.{name}", "which this env's states have no use for")
        return found

    def _check(self, cls: type, attributes: tuple[str, ...]) -> None:
        text = ".".join(name_of(cls))
        hook = hook_of(cls)
        if hook:
            raise _untrusted(text, f"whose {hook} could run")
        wrong = misplaced(cls, attributes)
        if wrong:
            raise _untrusted(f"{text}.{wrong}")

    def _is_plain(self, shape: Shape) -> bool:
        found = self._plain.get(shape)
        if found is None:
            cls, attributes = shape
            # What came later is vouched for too: another process may not have loaded it.
            found = name_of(cls) in self.known and hashing(cls) != "own"
            found = found and not hook_of(cls) and not misplaced(cls, attributes)
            if len(self._plain) >= _MOST_REMEMBERED:
                self._plain.clear()
            self._plain[shape] = found
        return found

    def _is_referred(self, thing: Any) -> bool:
        name = name_of(thing)
        if name not in self.known:
            return False
        try:
            return self.referred(*name) is thing
        except UntrustedState:
            return False


class AnyThing:
    """Resolves every name of a trusted state.

    Args:
        known: as of `Nameable`.
    """

    careful = False

    def __init__(self, known: dict[tuple[str, str], Any]) -> None:
        self._known = known

    def built(self, row: tuple[str, ...]) -> Any:
        """Return the class as `Nameable` does; import it if necessary."""
        return self.referred(row[0], row[1])

    def referred(self, module: str, name: str) -> Any:
        """Return the object as `Nameable` does; import it if necessary.

        Raises:
            DamagedState: there is no such thing.
        """
        found = self._known.get((module, name))
        if found is not None:
            return found
        try:
            return imported(module, name)
        except (ImportError, AttributeError, ValueError) as error:
            raise DamagedState(
                f"state: it holds {module}.{name}, which cannot be found here: {error}"
            ) from error


def is_method(function: types.FunctionType, owner: Any) -> bool:
    """Return whether an object's class has the function as the method of that name."""
    name = function.__name__
    above = next((above for above in type(owner).__mro__ if name in vars(above)), None)
    return above is not None and vars(above)[name] is function


def check_key(key: Any) -> None:
    """Refuse a dict key that is more than data.

    That is one for which code of a class would run to hash it, or `__x__`: an env may well make
    attributes of a dict.

    Raises:
        UntrustedState: it would.
    """
    kind: Any = type(key)
    if kind is str:
        if is_protocol(key):
            raise _untrusted(f"{key}, a name that libraries look up on any object")
        return
    if kind is tuple:
        for item in key:
            check_key(item)
        return
    how = hashing(kind)
    if how == "own":
        raise _untrusted(".".join(name_of(kind)), "whose __hash__ would run, as a key")
    if how == "fields":
        for item in vars(key).values():
            check_key(item)


def _package(module: str) -> str:
    return module.partition(".")[0]


def _untrusted(what: str, why: str = "") -> UntrustedState:
    return UntrustedState(
        f"state: it holds {what}{why and ', '}{why}. "
        "If you trust where it comes from, make the env with trust=True."
    )
