"""Places in the process: classes, modules, functions, contexts, settings, time; and in wrappers."""

# ruff: noqa: RUF012 - what classes share is what is tried
from __future__ import annotations

import builtins
import calendar
import contextvars
import ctypes
import decimal
import enum
import functools
import importlib
import itertools
import locale
import logging
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
import types
import uuid
import warnings
from typing import Any

import gymnasium as gym
import numpy as np

from hidden_kinds.base import Hidden, mixed
from hidden_kinds.in_attributes import Node, counter, numbers

HERE: Any = sys.modules[__name__]


# Classes ----------------------------------------------------------------------------------


class ClassNumber(Hidden):
    named = r"ClassNumber\.count"
    count = 1

    def turn(self, action: int) -> Any:
        type(self).count = mixed(type(self).count, action)
        return type(self).count


class ClassList(Hidden):
    named = r"ClassList\.cells"
    cells = [1]

    def turn(self, action: int) -> Any:
        self.cells[0] = mixed(self.cells[0], action)
        return self.cells[0]


class ClassIterator(Hidden):
    named = r"ClassIterator\.numbers"
    numbers: Any = itertools.count()

    def turn(self, action: int) -> Any:
        return next(self.numbers) % 1009


class ClassGenerator(Hidden):
    named = r"ClassGenerator\.rng"
    rng = np.random.default_rng(3)

    def turn(self, action: int) -> Any:
        return self.rng.random()


class ClassSuspended(Hidden):
    named = r"ClassSuspended\.numbers"
    numbers = numbers()

    def turn(self, action: int) -> Any:
        return next(self.numbers)


class Counting(type):
    made = 1


class CountingPart(metaclass=Counting):
    pass


class Metaclass(Hidden):
    named = r"Counting\.made|CountingPart"

    def begin(self) -> None:
        self.part = CountingPart()

    def turn(self, action: int) -> Any:
        Counting.made = mixed(Counting.made, action)
        return Counting.made


class OfOtherClass(Hidden):
    """An attribute of a class of which the env has no instance."""

    named = r"Apart\.count"

    def turn(self, action: int) -> Any:
        Apart.count = mixed(Apart.count, action)
        return Apart.count


class Apart:
    count = 1


class ClassSlots(Hidden):
    """An object with slots that the class has."""

    named = r"ClassSlots\.kept"

    class Kept:
        __slots__ = ("v",)

    kept = Kept()
    kept.v = 1  # type: ignore[attr-defined]

    def turn(self, action: int) -> Any:
        kept: Any = self.kept
        kept.v = mixed(kept.v, action)
        return kept.v


class Metadata(Hidden):
    named = r"metadata"
    metadata: Any = {"render_modes": [], "v": 1}

    def turn(self, action: int) -> Any:
        self.metadata["v"] = mixed(self.metadata["v"], action)
        return self.metadata["v"]


class MadeSoFar(Hidden):
    """A registry that grows with every object made."""

    named = r"Numbered\.made|MADE"

    def turn(self, action: int) -> Any:
        MADE.append(action)
        return len(MADE) % 1009


MADE: list[int] = []


class SharedPool(Hidden):
    named = "POOL"

    def turn(self, action: int) -> Any:
        found = POOL.pop(action)
        POOL.append(found)
        return found


POOL = [*range(7)]


class Single:
    only: Any = None

    def __new__(cls) -> Any:
        if cls.only is None:
            cls.only = super().__new__(cls)
            cls.only.v = 1
        return cls.only


class Singleton(Hidden):
    named = r"Single\.only"

    def turn(self, action: int) -> Any:
        found = Single()
        found.v = mixed(found.v, action)
        return found.v


class Level(enum.Enum):
    LOW = 1


class OnEnum(Hidden):
    named = "Level"

    def begin(self) -> None:
        self.level: Any = Level.LOW
        self.level.v = 1

    def turn(self, action: int) -> Any:
        self.level.v = mixed(self.level.v, action)
        return self.level.v


# Modules and functions --------------------------------------------------------------------

NUMBER = 1
KEPT: Any = {"v": [1]}
OBJECT = Node()
SLOTTED = ClassSlots.Kept()
SLOTTED.v = 1  # type: ignore[attr-defined]
CLOSURE = counter()
ARRAY = np.ones(3, np.int64)
BUFFER = bytearray(b"\1")
C_CELL = ctypes.c_int(1)
ITERATOR = itertools.count()
LOCAL = threading.local()
VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("hidden", default=1)
NAMESPACE = types.SimpleNamespace(v=1)
OWN_MODULE: Any = types.ModuleType("hidden_own")
OWN_MODULE.v = 1
PYTHON_RANDOM = random.Random(3)


class ModuleNumber(Hidden):
    named = "NUMBER"

    def turn(self, action: int) -> Any:
        HERE.NUMBER = mixed(HERE.NUMBER, action)
        return HERE.NUMBER


class ModuleDict(Hidden):
    named = "KEPT"

    def turn(self, action: int) -> Any:
        KEPT["v"][0] = mixed(KEPT["v"][0], action)
        return KEPT["v"][0]


class InModule(Hidden):
    """Any object of the module that has an attribute `v`."""

    def kept(self) -> Any:
        return None

    def turn(self, action: int) -> Any:
        kept = self.kept()
        kept.v = mixed(kept.v, action)
        return kept.v


class ModuleObject(InModule):
    named = "OBJECT"

    def kept(self) -> Any:
        return OBJECT


class ModuleSlots(InModule):
    named = "SLOTTED"

    def kept(self) -> Any:
        return SLOTTED


class ModuleNamespace(InModule):
    named = "NAMESPACE"

    def kept(self) -> Any:
        return NAMESPACE


class ModuleMade(InModule):
    """A module that no import has made."""

    named = "OWN_MODULE|hidden_own"

    def kept(self) -> Any:
        return OWN_MODULE


class ModuleHeld(InModule):
    """A module that is an attribute of the env."""

    named = "hidden_held"

    def begin(self) -> None:
        self.module: Any = types.ModuleType("hidden_held")
        self.module.v = 1

    def kept(self) -> Any:
        return self.module


class ModuleListed(InModule):
    """A module that the env has put into `sys.modules`, and imports in each step."""

    named = "hidden_listed"

    def begin(self) -> None:
        module: Any = types.ModuleType("hidden_listed")
        module.v = 1
        sys.modules["hidden_listed"] = module

    def kept(self) -> Any:
        import hidden_listed  # type: ignore[import-not-found]

        return hidden_listed


class ModuleLooked(ModuleListed):
    """The same, under a name that is put together when it is looked for."""

    named = "hidden_looked"

    def begin(self) -> None:
        module: Any = types.ModuleType("hidden_looked")
        module.v = 1
        sys.modules["_".join(("hidden", "looked"))] = module

    def kept(self) -> Any:
        return sys.modules["_".join(("hidden", "looked"))]


class ModuleOfPackage(ModuleListed):
    """The same within a package of its own, which a step makes anew."""

    named = r"hidden_package\.part"

    def begin(self) -> None:
        package: Any = types.ModuleType("hidden_package")
        package.__path__ = []
        sys.modules["hidden_package"] = package
        self.renew(1)

    def renew(self, v: int) -> None:
        part: Any = types.ModuleType("hidden_package.part")
        part.v = v
        sys.modules["hidden_package.part"] = sys.modules["hidden_package"].part = part

    def kept(self) -> Any:
        self.renew(sys.modules["hidden_package"].part.v)
        return importlib.import_module("hidden_package.part")


class ModuleLocal(InModule):
    named = "LOCAL"

    def kept(self) -> Any:
        if not hasattr(LOCAL, "v"):
            LOCAL.v = 1
        return LOCAL


class ModuleLogger(InModule):
    """A logger, which is taken for something outside."""

    named = "logger|LOGGER|Logger"

    def kept(self) -> Any:
        if not hasattr(LOGGER, "v"):
            LOGGER.v = 1  # type: ignore[attr-defined]
        return LOGGER


LOGGER = logging.getLogger("hidden")


class ModuleClosure(Hidden):
    named = "CLOSURE|variable v|turned"

    def turn(self, action: int) -> Any:
        return CLOSURE(action)


class ModuleArray(Hidden):
    named = "ARRAY"

    def turn(self, action: int) -> Any:
        ARRAY[0] = mixed(int(ARRAY[0]), action)
        return ARRAY[0]


class ModuleBytes(Hidden):
    named = "BUFFER"

    def turn(self, action: int) -> Any:
        BUFFER[0] = mixed(BUFFER[0], action) % 251
        return BUFFER[0]


class ModuleCtypes(Hidden):
    named = "C_CELL"

    def turn(self, action: int) -> Any:
        C_CELL.value = mixed(C_CELL.value, action)
        return C_CELL.value


class ModuleIterator(Hidden):
    named = "ITERATOR"

    def turn(self, action: int) -> Any:
        return next(ITERATOR) % 1009


class ModuleRandom(Hidden):
    named = "PYTHON_RANDOM"

    def turn(self, action: int) -> Any:
        return PYTHON_RANDOM.random()


class ContextVariable(Hidden):
    named = "hidden"

    def turn(self, action: int) -> Any:
        VARIABLE.set(mixed(VARIABLE.get(), action))
        return VARIABLE.get()


def counted(action: int) -> int:
    counted.v = mixed(getattr(counted, "v", 1), action)  # type: ignore[attr-defined]
    return int(counted.v)  # type: ignore[attr-defined]


class FunctionAttribute(Hidden):
    named = r"counted\.v"

    def turn(self, action: int) -> Any:
        return counted(action)


def defaulted(action: int, kept: Any = {"v": 1}) -> int:  # noqa: B006
    kept["v"] = mixed(kept["v"], action)
    return int(kept["v"])


class FunctionDefault(Hidden):
    named = "default 0 of .*defaulted"

    def turn(self, action: int) -> Any:
        return defaulted(action)


class MethodDefault(Hidden):
    named = "default 0 of .*MethodDefault"

    def turn(self, action: int, kept: Any = [1]) -> Any:  # noqa: B006
        kept[0] = mixed(kept[0], action)
        return kept[0]


class FunctionSwapped(Hidden):
    """Defaults that are numbers, and are replaced."""

    named = "stepped"

    def turn(self, action: int) -> Any:
        v = stepped()
        stepped.__defaults__ = (mixed(v, action),)
        return v


def stepped(v: int = 1) -> int:
    return v


@functools.lru_cache
def remembered(name: str) -> Node:
    return Node()


class ModuleCache(Hidden):
    """An object that a cache of the module returns."""

    named = "remembered|cache"

    def turn(self, action: int) -> Any:
        node = remembered("a")
        node.v = mixed(node.v, action)
        return node.v


class ModuleCacheHits(Hidden):
    named = "remembered|cache"

    def turn(self, action: int) -> Any:
        remembered(str(action))
        return remembered.cache_info().hits % 1009


class PureCache(Hidden):
    """A cache that changes nothing but the time: exact, and ordinary."""

    def turn(self, action: int) -> Any:
        return squared(self.t % 30)


@functools.lru_cache
def squared(n: int) -> int:
    return n * n


class PureTable(Hidden):
    """The same by hand."""

    def turn(self, action: int) -> Any:
        key = (self.t % 30, action)
        if key not in SEEN:
            SEEN[key] = key[0] * 3 + action
        return SEEN[key]


SEEN: dict[Any, int] = {}


# Settings of the process ------------------------------------------------------------------


class Environ(Hidden):
    named = "environ"

    def turn(self, action: int) -> Any:
        os.environ["HIDDEN"] = str(mixed(int(os.environ.get("HIDDEN", "1")), action))
        return int(os.environ["HIDDEN"])


class EnvironOfC(Hidden):
    """The environment past `os.environ`."""

    named = "environ|differs"

    def turn(self, action: int) -> Any:
        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_char_p
        v = mixed(int(libc.getenv(b"HIDDEN_C") or b"1"), action)
        os.putenv("HIDDEN_C", str(v))
        return v


class Folder(Hidden):
    named = "folder"

    def turn(self, action: int) -> Any:
        if action:
            os.chdir("/usr" if action == 1 else "/")
        return len(os.getcwd())


class Umask(Hidden):
    named = "umask|differs"

    def turn(self, action: int) -> Any:
        v = os.umask(0)
        os.umask(mixed(v, action) % 64)
        return v


class RecursionLimit(Hidden):
    named = "recursion|differs"

    def turn(self, action: int) -> Any:
        sys.setrecursionlimit(3000 + mixed(sys.getrecursionlimit(), action))
        return sys.getrecursionlimit() - 3000


class DecimalPrecision(Hidden):
    named = "decimal|differs"

    def turn(self, action: int) -> Any:
        context = decimal.getcontext()
        context.prec = 20 + mixed(context.prec, action) % 40
        return context.prec


class NumpyErrors(Hidden):
    named = "numpy|err|differs"

    def turn(self, action: int) -> Any:
        if action:
            np.seterr(divide="ignore" if action == 1 else "warn")
        return len(np.geterr()["divide"])


class NumpyBuffers(Hidden):
    named = r"size of its buffers"

    def turn(self, action: int) -> Any:
        found = mixed(np.getbufsize() // 16 - 1, action)
        np.setbufsize(16 * (found + 1))
        return found


class SignalMask(Hidden):
    named = "mask of signals"

    def turn(self, action: int) -> Any:
        numbers = [40, 41, 42]
        blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        found = (len(blocked.intersection(numbers)) * 3 + action + 1) % 4
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers[:found])
        return found


class OnLibrary(Hidden):
    """A name that the module of a library is given."""

    named = r"gymnasium\.count"

    def turn(self, action: int) -> Any:
        library: Any = gym
        library.count = mixed(getattr(library, "count", 1), action)
        return library.count


class ThreadName(Hidden):
    named = "name of the thread"

    def turn(self, action: int) -> Any:
        thread = threading.current_thread()
        found = mixed(int(f"0{thread.name}") if thread.name.isdigit() else 1, action)
        thread.name = str(found)
        return found


class SignalHandler(Hidden):
    named = "signal|differs"

    def turn(self, action: int) -> Any:
        if action:
            signal.signal(signal.SIGUSR2, signal.SIG_IGN if action == 1 else signal.SIG_DFL)
        return signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN


class OfCalendar(Hidden):
    """A setting of the standard library."""

    named = "calendar|differs"

    def turn(self, action: int) -> Any:
        calendar.setfirstweekday((calendar.firstweekday() + action) % 7)
        return calendar.firstweekday()


class Builtin(Hidden):
    named = "builtins|differs"

    def turn(self, action: int) -> Any:
        builtins.hidden = mixed(getattr(builtins, "hidden", 1), action)  # type: ignore[attr-defined]
        return builtins.hidden  # type: ignore[attr-defined]


class Warnings(Hidden):
    """How many filters there are."""

    named = "warnings|differs"

    def turn(self, action: int) -> Any:
        if action == 1 and len(warnings.filters) < 200:
            warnings.filters.append(warnings.filters[0])  # type: ignore[attr-defined]
        elif action == 2 and len(warnings.filters) > 3:
            warnings.filters.pop()  # type: ignore[attr-defined]
        return len(warnings.filters)


class Locale(Hidden):
    named = "locale|differs"

    def turn(self, action: int) -> Any:
        if action:
            locale.setlocale(locale.LC_NUMERIC, "C" if action == 1 else "C.UTF-8")
        return len(locale.setlocale(locale.LC_NUMERIC))


class SharedMemory(Hidden):
    """Shared memory without a second process."""

    named = "Synchronized|value|Value"

    def begin(self) -> None:
        self.value = multiprocessing.Value("i", 1)

    def turn(self, action: int) -> Any:
        self.value.value = mixed(self.value.value, action)
        return self.value.value


class Clock(Hidden):
    named = "differs"

    def turn(self, action: int) -> Any:
        return time.perf_counter_ns() % 1009


class WallClock(Hidden):
    named = "differs"

    def turn(self, action: int) -> Any:
        return time.time() % 1000


class CpuClock(Hidden):
    named = "differs"

    def turn(self, action: int) -> Any:
        return time.process_time_ns() % 1009


class Addresses(Hidden):
    named = "differs"

    def turn(self, action: int) -> Any:
        self.part = Node(action)
        return id(self.part) // 16 % 1009


class HashOfText(Hidden):
    """Another in each session: exact in this one alone."""

    def turn(self, action: int) -> Any:
        return hash(str(self.t)) % 1009


class OrderOfNames(Hidden):
    """The order of a set of texts, which is another in each session."""

    def begin(self) -> None:
        self.names = {str(n) for n in range(30)}

    def turn(self, action: int) -> Any:
        return int(next(iter(self.names)))


class ProcessNumber(Hidden):
    named = "differs"

    def turn(self, action: int) -> Any:
        return os.getpid() % 1009


class Entropy(Hidden):
    named = "differs"

    def turn(self, action: int) -> Any:
        return os.urandom(1)[0] + uuid.uuid4().int % 7


# Wrappers ---------------------------------------------------------------------------------


class Inner(Hidden):
    def turn(self, action: int) -> Any:
        return 0


class HiddenWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Adds what it keeps to the last number of observations, and to rewards."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.begin()

    def begin(self) -> None:
        self.v = 1

    def turn(self, action: int) -> int:
        self.v = mixed(self.v, action)
        return self.v

    def step(self, action: Any) -> Any:
        obs, reward, *rest = self.env.step(action)
        value = self.turn(int(action))
        if self.env.unwrapped.t >= self.env.unwrapped.from_step:  # type: ignore[attr-defined]
            obs = obs + np.array([0, 0, value])
        return (obs, reward, *rest)


class WrapperClosure(HiddenWrapper):
    named = "variable v|turned"

    def begin(self) -> None:
        self.turned = counter()

    def turn(self, action: int) -> int:
        return int(self.turned(action))


class WrapperCount(HiddenWrapper):
    named = "iterator"

    def begin(self) -> None:
        self.iterator = itertools.count()

    def turn(self, action: int) -> int:
        return next(self.iterator)


class WrapperGenerator(HiddenWrapper):
    named = "numbers|generator"

    def begin(self) -> None:
        self.numbers = numbers()
        next(self.numbers)

    def turn(self, action: int) -> int:
        return int(self.numbers.send(action))


class WrapperClass(HiddenWrapper):
    named = r"WrapperClass\.count"
    count = 1

    def begin(self) -> None:
        pass

    def turn(self, action: int) -> int:
        type(self).count = mixed(type(self).count, action)
        return type(self).count


class WrapperRandom(HiddenWrapper):
    def begin(self) -> None:
        self.rng = np.random.default_rng(5)

    def turn(self, action: int) -> int:
        return int(self.rng.integers(99))


def transformed(env: Any) -> Any:
    """Return an env below a wrapper of gymnasium's that calls a closure."""
    turned = counter()
    return gym.wrappers.TransformObservation(
        env,
        lambda obs: obs + np.array([0, 0, turned(1) if obs[0] >= env.from_step else 0]),
        env.observation_space,
    )


class LastHistory(HiddenWrapper):
    """Keeps what it has been shown, and shows what is five steps old."""

    def begin(self) -> None:
        self.history: list[Any] = []

    def turn(self, action: int) -> int:
        self.history.append(action)
        return int(self.history[-5:][0])


transformed.named = "variable v around"  # type: ignore[attr-defined]

WRAPPERS: dict[str, Any] = {
    "HiddenWrapper": HiddenWrapper,
    "WrapperClosure": WrapperClosure,
    "WrapperCount": WrapperCount,
    "WrapperGenerator": WrapperGenerator,
    "WrapperClass": WrapperClass,
    "WrapperRandom": WrapperRandom,
    "LastHistory": LastHistory,
    "transformed": transformed,
}


def wrapped(name: str, when: str) -> Any:
    """Return an env whose wrapper keeps the number."""
    env: Any = Inner("always")
    env.from_step = {"step 20": 20, "step 200": 200, "step 2,000": 2000}.get(when, 0)
    env.length = {"step 20": 60, "step 200": 400, "step 2,000": 3000}.get(when, 60)
    return WRAPPERS[name](env)
