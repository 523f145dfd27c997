"""Registry of simulator families, with the location of each one's state codec.

A family is named by the module of the simulator's class, so that it is found
whatever id, wrapper or factory the env came from. The table holds names, not
objects: an env family's file is imported when one of its envs is first met.
"""

from __future__ import annotations

import difflib
import fnmatch
import importlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from plangym_ext.errors import IncompleteState, MissingExtra, UnknownName, installing


@dataclass(frozen=True)
class Family:
    """One simulator family: names and locations of its hooks.

    Attributes:
        name: short name for reports, such as "atari".
        module: module of the simulator's class, or a package that it lies in.
        codec: "module:name" of a callable from the unwrapped env to its `StatePart`, or
            the callable itself; None where a general way of the ladder serves.
        frameskip_argument: keyword of the env's constructor that repeats an action
            inside the simulator, or None when the library has to repeat it.
        approximate: like `codec`, for a way that is not exact; used only when asked for.
        playback: "module:name" of the `Playback` with which the family's episodes are
            played again, or the class itself. With one, the simulator's attributes are
            not tried as its state, and `approximate` is given the `ResetRecorder` on
            the env instead of the env.
        wrap: "module:name" of a callable (or itself) that `make` gives the env it made,
            with those of the caller's `options`; it returns the env to use.
        options: keywords of `make` that are for `wrap`, not for the env's constructor.
        names: patterns (as of `fnmatch`) of ids that gymnasium may not know by itself.
        resolve: "module:name" of a callable from such an id to its gymnasium `EnvSpec`,
            or the callable itself. It raises `MissingExtra` or `UnknownName`.
        registers: module that registers ids with gymnasium when it is imported, for a
            simulator that is always installed and whose ids have no pattern.
        prepare: "module:name" of a callable (or itself) that does to a new simulator what the
            codec would do to it later, where that spares work in its first reset.
        prepared: an entry point that `make` replaces where the codec will be used, and
            another one that builds the same simulator, prepared from the start.
        building: "module:name" of a context manager (or itself) in which `make` builds
            an env: to keep a simulator quiet, or to import it in a certain way.
        native: the backend that runs the family's rows without processes, and the
            "module:name" of a callable (or itself) from the unwrapped env to what it
            runs: for "kernel" a compiled `Kernel` (it raises `NoKernel` where there is
            none), for "mujoco" a `MujocoTask` (or None).
        frames: "module:name" of a callable (or itself) of the unwrapped env and a function, which
            is called after every frame that the simulator draws within an env step, until
            the callable is given None for it; it returns how many frames make a second, and
            whether it calls: else each env step is a frame.
        extra: of this library that installs what the envs need, and what they draw with.
        hosts: attributes of its envs, and of what these hold in turn, that may hold an env of other
            people's; the codec then proves itself in each env.
        deterministic: whether seed and actions decide an episode, whatever its spec says.
        headless: environment variables, with their values, that let the envs draw where
            there is no display.
    """

    name: str
    module: str
    codec: str | Callable[[Any], Any] | None
    frameskip_argument: str | None = None
    approximate: str | Callable[[Any], Any] | None = None
    playback: str | Callable[[Any], Any] | None = None
    wrap: str | Callable[..., Any] | None = None
    options: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    resolve: str | Callable[[str], Any] | None = None
    registers: str | None = None
    prepare: str | Callable[[Any], object] | None = None
    prepared: tuple[str, str] | None = None
    building: str | Callable[[], AbstractContextManager[Any]] | None = None
    native: tuple[str, str | Callable[[Any], Any]] | None = None
    frames: str | Callable[[Any, Callable[[], None] | None], tuple[float, bool]] | None = None
    extra: str | None = None
    hosts: tuple[str, ...] = ()
    deterministic: bool = False
    headless: tuple[tuple[str, str], ...] = ()

    def load_codec(self, *, approximate: bool = False) -> Callable[[Any], Any]:
        """Return the constructor of the exact or the approximate codec, imported on first use.

        Raises:
            IncompleteState: the family has none of that kind.
        """
        codec = self.approximate if approximate else self.codec
        if codec is None:
            kind = "approximate" if approximate else "exact"
            raise IncompleteState(f"{self.name}: this family has no {kind} codec")
        return load_named(codec)

    def load(self, hook: str) -> Any:
        """Return the value of an attribute such as "wrap", imported on first use, or None."""
        found = getattr(self, hook)
        return None if found is None else load_named(found)

    def is_run_by(self, backend: str) -> bool:
        """Return whether a backend is the family's native backend."""
        return self.native is not None and self.native[0] == backend

    def load_native(self, backend: str) -> Callable[[Any], Any] | None:
        """Return the function that finds an env's native task or kernel, or None."""
        if self.native is None or self.native[0] != backend:
            return None
        return load_named(self.native[1])

    def spec(self, name: str) -> Any:
        """Return the gymnasium `EnvSpec` of an id that matches `names`.

        Raises:
            MissingExtra: the simulator is not installed.
            UnknownName: the family has no such env.
        """
        assert self.resolve is not None
        return load_named(self.resolve)(name)


def load_named(what: Any) -> Any:
    """Return the object of a "module:name" text, importing it; other values unchanged."""
    if not isinstance(what, str):
        return what
    module, _, name = what.partition(":")
    return getattr(importlib.import_module(module), name)


def simulator(module: str, extra: str, *, name: str) -> Any:
    """Import the package of a simulator.

    Args:
        module: what to import.
        extra: of this library that installs it.
        name: id of the env that needs it, for the message.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{name}: needs the package {module!r}, which is not installed ({error}). "
            f"{installing(extra)}"
        ) from error


def registered_spec(name: str) -> Any:
    """Return the spec of an id that importing its simulator has registered.

    Raises:
        UnknownName: there is none; the message has the closest one.
    """
    import gymnasium as gym

    try:
        return gym.spec(name)
    except gym.error.Error as error:
        close = _closest_id(name, gym.registry)
        hint = (
            f" (did you mean {close!r}?)"
            if close
            else ". An env of your own is named with the module that registers it, such as "
            f"'my_module:{name}'."
        )
        raise UnknownName(
            f"environment: expected a registered gymnasium id; got {name!r}{hint}"
        ) from error


def _closest_id(name: str, known: Iterable[str]) -> str | None:
    """Return the id that is most like a name, versions aside; None if none is."""
    # Later versions are registered after earlier ones and replace them here.
    newest = {_unversioned(one): one for one in known}
    close = difflib.get_close_matches(_unversioned(name), newest, n=1, cutoff=0.6)
    return newest[close[0]] if close else None


def _unversioned(name: str) -> str:
    stem, _, _ = name.lower().rpartition("-v")
    return stem or name.lower()


_families: list[Family] = []
_custom: list[Family] = []


def register_family(family: Family, *, builtin: bool = False) -> None:
    """Make `family` known; of two for the same module the later one counts."""
    _families.insert(0, family)
    if not builtin:
        _custom.append(family)


def custom_families() -> tuple[Family, ...]:
    """Return families registered by users, which have to be sent to workers."""
    return tuple(_custom)


def all_families() -> tuple[Family, ...]:
    """Return every family that is known, the one registered last first."""
    importlib.import_module("plangym_ext.envs")
    return tuple(_families)


def _find(module: str) -> Family | None:
    # The built-in families register themselves when their package is imported;
    # naming it here, not importing it above, keeps `core` below `envs`.
    importlib.import_module("plangym_ext.envs")
    found = [
        family
        for family in _families
        if module == family.module or module.startswith(family.module + ".")
    ]
    # The one that says most; of two for the same module, the one registered last.
    return max(found, key=lambda family: len(family.module), default=None)


def family_of(base: Any) -> Family | None:
    """Return the family of an unwrapped env: of its class, or of the nearest ancestor with one."""
    # Nearest first. An ancestor's codec serves, as what a subclass adds is captured beside it.
    for cls in type(base).__mro__:
        found = _find(cls.__module__)
        if found is not None:
            return found
    return None


def hosted(base: Any) -> list[Any]:
    """Return the layers of another library's env inside an unwrapped env, outermost first."""
    family, found = family_of(base), [base]
    names = family.hosts if family is not None else ()
    while inner := [vars(found[-1])[name] for name in names if name in vars(found[-1])]:
        if not hasattr(inner[0], "__dict__"):
            break
        found.append(inner[0])
    return found[1:]


def family_of_name(name: str) -> Family | None:
    """Return the family that resolves an id, by the patterns of its names."""
    importlib.import_module("plangym_ext.envs")
    for family in _families:
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in family.names):
            return family
    return None


def register_all_ids() -> None:
    """Import the simulators that register their ids with gymnasium when they are imported."""
    importlib.import_module("plangym_ext.envs")
    for family in _families:
        if family.registers is not None:
            importlib.import_module(family.registers)


def is_own_class(base: Any) -> bool:
    """Return whether a family names exactly the class of `base`."""
    return _find(type(base).__module__) is not None


def family_of_entry_point(entry_point: Any) -> Family | None:
    """Return the family of an env that is not built yet, from its gymnasium entry point."""
    if isinstance(entry_point, str):
        return _find(entry_point.partition(":")[0])
    return _find(getattr(entry_point, "__module__", "") or "")
