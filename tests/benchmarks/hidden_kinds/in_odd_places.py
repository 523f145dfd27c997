"""Places that a stranger may think of: identity, order, sharing, descriptors, spaces, clocks."""

# ruff: noqa: B006 - what classes and calls share is what is tried
from __future__ import annotations

import collections
import contextvars
import copy
import ctypes
import dataclasses
import enum
import functools
import gc
import heapq
import itertools
import json
import random
import string
import sys
import textwrap
import threading
import time
import types
import weakref
from typing import Any

import gymnasium as gym
import numpy as np

from hidden_kinds.base import Hidden, mixed
from hidden_kinds.in_attributes import Node, counter

HERE: Any = sys.modules[__name__]


# Generators -------------------------------------------------------------------------------


class SpawningNpRandom(Hidden):
    """A generator that begets others: how many, its state does not tell."""

    named = r"spawn"

    def turn(self, action: int) -> Any:
        return self.np_random.spawn(1)[0].random()


class SpawningOwn(Hidden):
    named = r"spawn"

    def begin(self) -> None:
        self.rng = np.random.default_rng(3)

    def turn(self, action: int) -> Any:
        return self.rng.spawn(1)[0].random()


class SeedsBySequence(Hidden):
    named = r"SeedSequence|spawn"

    def begin(self) -> None:
        self.seeds = np.random.SeedSequence(3)

    def turn(self, action: int) -> Any:
        return np.random.default_rng(self.seeds.spawn(1)[0]).random()


class Sfc(Hidden):
    def begin(self) -> None:
        self.rng = np.random.Generator(np.random.SFC64(3))

    def turn(self, action: int) -> Any:
        return self.rng.integers(99, dtype=np.uint32) + self.rng.standard_normal()


class TwoOnOneGenerator(Hidden):
    def begin(self) -> None:
        bits = np.random.Philox(3)
        self.one, self.two = np.random.Generator(bits), np.random.Generator(bits)

    def turn(self, action: int) -> Any:
        return self.one.random() if action else self.two.random()


class OldOverNew(Hidden):
    """A RandomState over the bits of `np_random`."""

    def turn(self, action: int) -> Any:
        if self.t <= 1:
            self.old = np.random.RandomState(self.np_random.bit_generator)
        return self.old.rand()


class RandomOfOwn(random.Random):
    extra = 0

    def random(self) -> float:
        self.extra += 1
        return super().random()


class SubclassOfRandom(Hidden):
    def begin(self) -> None:
        self.rng = RandomOfOwn(3)

    def turn(self, action: int) -> Any:
        return self.rng.random() + self.rng.gauss(0, 1) + self.rng.extra


class RareEntropy(Hidden):
    """Asks the system for a number in each step, and shows few of them."""

    named = "differs|urandom|entropy|asks the system"

    def begin(self) -> None:
        self.rng = random.SystemRandom()

    def turn(self, action: int) -> Any:
        return float(self.rng.random() < 0.002)


# Identity and order -----------------------------------------------------------------------

NOTHING = object()
EMPTY = Node(0)


class SentinelOfModule(Hidden):
    def begin(self) -> None:
        self.held: Any = NOTHING

    def turn(self, action: int) -> Any:
        if action:
            self.held = NOTHING if action == 1 else None
        return self.held is NOTHING


class ObjectOfModule(Hidden):
    """An object of the module that is held by identity."""

    def begin(self) -> None:
        self.held: Any = EMPTY

    def turn(self, action: int) -> Any:
        if action:
            self.held = EMPTY if action == 1 else Node(0)
        return self.held is EMPTY


class ObjectOfClass(Hidden):
    empty = Node(0)

    def begin(self) -> None:
        self.cells: Any = [self.empty] * 3

    def turn(self, action: int) -> Any:
        self.cells[self.t % 3] = self.empty if action else Node(0)
        return self.cells.count(self.empty)


class SentinelOfClosure(Hidden):
    def begin(self) -> None:
        nothing = object()

        def is_nothing(value: Any) -> bool:
            return value is nothing

        self.is_nothing, self.held = is_nothing, nothing
        self.other: Any = None

    def turn(self, action: int) -> Any:
        if action:
            self.held, self.other = self.other, self.held
        return self.is_nothing(self.held)


class SharedWithModule(Hidden):
    """A list that the module refers to as well, and through which it is read."""

    named = "REGISTERED|differs"

    def begin(self) -> None:
        self.cells = [1]
        REGISTERED[0] = self.cells

    def turn(self, action: int) -> Any:
        self.cells[0] = mixed(self.cells[0], action)
        return REGISTERED[0][0]


REGISTERED: dict[int, Any] = {}
BOARD = np.zeros(64, np.int64)


class ViewOfModuleArray(Hidden):
    named = "BOARD|differs"

    def begin(self) -> None:
        self.cells = BOARD[4:9]

    def turn(self, action: int) -> Any:
        self.cells[0] = mixed(int(self.cells[0]), action)
        return BOARD[4]


class OrderOfAttributes(Hidden):
    named = "differs"

    def turn(self, action: int) -> Any:
        if action:
            for name in ("a", "b", "c")[: action + self.t % 2]:
                vars(self).pop(name, None)
                setattr(self, name, 0)
        names = [name for name in vars(self) if len(name) == 1 and name in "abc"]
        return int("0" + "".join(str("abc".index(name) + 1) for name in names))


class OrderOfPart(OrderOfAttributes):
    """The order of the attributes of an object."""

    def begin(self) -> None:
        self.part = types.SimpleNamespace()
        self.own = Node()

    def turn(self, action: int) -> Any:
        for part in (self.part, self.own):
            if action:
                for name in ("a", "b", "c")[: action + self.t % 2]:
                    vars(part).pop(name, None)
                    setattr(part, name, 0)
        found = [name for part in (self.own, self.part) for name in vars(part) if name in "abc"]
        return int("0" + "".join(str("abc".index(name) + 1) for name in found))


class OrderOfDict(Hidden):
    def begin(self) -> None:
        self.d = dict.fromkeys(range(9))

    def turn(self, action: int) -> Any:
        key = (self.t * 5 + action) % 9
        self.d[key] = self.d.pop(key)
        return next(iter(self.d)) * 10 + [*self.d][-2]


class OrderOfFrozenSet(Hidden):
    named = r"\.s\b|differs"

    def begin(self) -> None:
        self.s = frozenset({0, 8})

    def turn(self, action: int) -> Any:
        if action:
            self.s = frozenset([8, 0] if action == 1 else [0, 8])
        return next(iter(self.s))


class SortedByIdentity(Hidden):
    named = "differs|address|id"

    def begin(self) -> None:
        self.parts = [Node(i) for i in range(5)]

    def turn(self, action: int) -> Any:
        if action == 1:
            self.parts[self.t % 5] = Node(self.t % 7)
        return min(self.parts, key=id).v


class IdentityOfNumbers(Hidden):
    """Whether two equal texts are one object."""

    named = "differs"

    def begin(self) -> None:
        self.one = self.two = "a b"

    def turn(self, action: int) -> Any:
        self.two = self.one if action else "".join(["a", " b"])
        return self.one is self.two


class NotANumber(Hidden):
    named = "differs"

    def begin(self) -> None:
        self.values: list[Any] = [float("nan"), -0.0, 0]

    def turn(self, action: int) -> Any:
        self.values.append(self.values[0] if action else float("nan"))
        self.values = self.values[-9:]
        return self.values.count(self.values[0])


# Sharing of memory ------------------------------------------------------------------------


class ArrayOverBytes(Hidden):
    named = "numbers"

    def begin(self) -> None:
        self.bytes = bytearray(8)
        self.numbers = np.frombuffer(self.bytes, np.uint16)

    def turn(self, action: int) -> Any:
        self.numbers[0] = mixed(int(self.numbers[0]), action)
        return self.bytes[0] + 256 * self.bytes[1]


class ArrayOverCells(Hidden):
    named = "cells|numbers"

    def begin(self) -> None:
        self.cells = (ctypes.c_int * 4)()
        self.numbers = np.ctypeslib.as_array(self.cells)

    def turn(self, action: int) -> Any:
        self.numbers[0] = mixed(int(self.numbers[0]), action)
        return self.cells[0]


class ArrayOfOtherOrder(Hidden):
    """How an array lies in memory, which its items do not tell."""

    def begin(self) -> None:
        self.grid = np.arange(6).reshape(2, 3)

    def turn(self, action: int) -> Any:
        make = np.asfortranarray if action == 1 else np.ascontiguousarray
        if action:
            self.grid = make(self.grid)
        return self.grid.ravel("K")[1]


class OverlappingViews(Hidden):
    def begin(self) -> None:
        base = np.arange(12)
        self.backward, self.even, self.grid = base[::-1], base[::2], base.reshape(3, 4).T

    def turn(self, action: int) -> Any:
        self.backward[self.t % 12] = mixed(int(self.even[action]), action)
        return self.grid[1, 2] + self.even[3]


class OtherTypeOfView(Hidden):
    def begin(self) -> None:
        self.numbers = np.zeros(3)
        self.words = self.numbers.view(np.uint32)

    def turn(self, action: int) -> Any:
        self.words[1] = mixed(int(self.words[1]), action)
        self.numbers[2] += self.numbers[0]
        return self.numbers[2] * 1e300 + self.words[1]


class SlidingWindow(Hidden):
    def begin(self) -> None:
        self.base = np.zeros(9)
        self.windows = np.lib.stride_tricks.sliding_window_view(self.base, 4)

    def turn(self, action: int) -> Any:
        self.base[self.t % 9] = mixed(int(self.base[1]), action)
        return self.windows.sum()


class ArrayOfOwn(np.ndarray):
    extra = 0

    def __array_finalize__(self, other: Any) -> None:
        self.extra = getattr(other, "extra", 0)


class SubclassOfArray(Hidden):
    def begin(self) -> None:
        self.cells: Any = np.ones(3).view(ArrayOfOwn)

    def turn(self, action: int) -> Any:
        self.cells.extra = mixed(self.cells.extra, action)
        return self.cells.extra


class MaskedArray(Hidden):
    def begin(self) -> None:
        self.cells = np.ma.masked_array(np.arange(5.0), mask=[0, 1, 0, 0, 1])

    def turn(self, action: int) -> Any:
        self.cells.mask[self.t % 5] = action == 1
        return float(self.cells.sum() if self.cells.count() else -1.0)


class Records(Hidden):
    def begin(self) -> None:
        self.rows = np.zeros(3, [("v", "<i4"), ("w", ">f8", (2,)), ("s", "U4")])

    def turn(self, action: int) -> Any:
        row = self.rows[self.t % 3]
        row["v"] = mixed(int(row["v"]), action)
        row["w"][1] += row["v"]
        row["s"] = str(row["v"])
        return row["w"][1] % 1e6 + int("0" + self.rows["s"][0])


class TensorViews(Hidden):
    named = "tensor"

    def begin(self) -> None:
        import torch

        self.base = torch.zeros(6)
        self.view = self.base[2:]

    def turn(self, action: int) -> Any:
        self.view[0] = mixed(int(self.view[0]), action)
        return float(self.base[2])


class Optimizer(Hidden):
    named = "tensor"

    def begin(self) -> None:
        import torch

        torch.manual_seed(0)
        self.net = torch.nn.Linear(1, 1)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def turn(self, action: int) -> Any:
        import torch

        self.optimizer.zero_grad()
        self.net(torch.tensor([float(action)])).sum().backward()
        self.optimizer.step()
        return float(self.net.weight)


class Frame(Hidden):
    """A table whose index and attributes count."""

    def begin(self) -> None:
        import pandas as pd

        self.table = pd.DataFrame({"a": [1, 2, 3], "b": list("xyz")})
        self.table.attrs["v"] = 1

    def turn(self, action: int) -> Any:
        self.table.attrs["v"] = mixed(self.table.attrs["v"], action)
        return self.table.attrs["v"]


class ArrayInTable(Hidden):
    """A memory that is larger than what is looked at."""

    named = "WORLD|differs"

    def begin(self) -> None:
        if WORLD is None:
            HERE.WORLD = np.zeros(5 << 20, np.int64)

    def turn(self, action: int) -> Any:
        WORLD[-1] = mixed(int(WORLD[-1]), action)
        return WORLD[-1]


#: Made with the env that is tried: all others would be slower for them.
WORLD: Any = None
POOL: Any = None


class LongTable(Hidden):
    named = "POOL|differs"

    def begin(self) -> None:
        if POOL is None:
            HERE.POOL = [[n] for n in range(300_000)]

    def turn(self, action: int) -> Any:
        POOL[-1][0] = mixed(POOL[-1][0], action)
        return POOL[-1][0]


class ManyObjects(Hidden):
    """More objects than are walked through, and the last one has a class that counts."""

    named = r"Last\.count|differs"

    def begin(self) -> None:
        self.parts: Any = [Node(i) for i in range(6000)]
        self.parts[0].last = Last()

    def turn(self, action: int) -> Any:
        type(self.parts[0].last).count = mixed(Last.count, action)
        return Last.count


class Last:
    count = 1


# Objects of Python's ----------------------------------------------------------------------


class Below:
    __slots__ = ("v",)


class Above(Below):
    """A slot that hides one of the same name."""

    __slots__ = ("v",)


class HiddenSlot(Hidden):
    named = "slot"

    def begin(self) -> None:
        self.part = Above()
        self.part.v = 0
        Below.v.__set__(self.part, 1)  # type: ignore[attr-defined]

    def turn(self, action: int) -> Any:
        below: Any = Below.v  # type: ignore[attr-defined]
        below.__set__(self.part, mixed(below.__get__(self.part), action))
        return below.__get__(self.part)


class ChainOfSlots(Hidden):
    class Base:
        __slots__ = ("a",)

    class Middle(Base):
        pass

    class Part(Middle):
        __slots__ = ("__b",)

        def __init__(self) -> None:
            self.a, self.__b, self.c = 1, 1, 1

        def turn(self, action: int) -> int:
            self.a = mixed(self.a + self.c, action)
            self.__b = mixed(self.a, action)
            self.c = self.__b
            return self.c

    def begin(self) -> None:
        self.part = self.Part()

    def turn(self, action: int) -> Any:
        return self.part.turn(action)


class ClassOfEnv(Hidden):
    """Which class the env has."""

    named = "class|differs"

    def turn(self, action: int) -> Any:
        if action:
            self.__class__ = ClassOfEnv if action == 1 else OtherClassOfEnv
        return type(self).__name__ == "ClassOfEnv"


class OtherClassOfEnv(ClassOfEnv):
    pass


class ClassOfPart(Hidden):
    def begin(self) -> None:
        self.part: Any = Node()

    def turn(self, action: int) -> Any:
        if action:
            self.part.__class__ = Node if action == 1 else OtherNode
        return type(self.part) is Node


class OtherNode(Node):
    pass


class ClassMadeAnew(Hidden):
    """A class that each step makes."""

    named = "Made|differs|class"

    def begin(self) -> None:
        self.kind: Any = type("Made", (), {"v": 1})

    def turn(self, action: int) -> Any:
        self.kind = type("Made", (), {"v": mixed(self.kind.v, action)})
        return self.kind.v


class MethodOfInstance(Hidden):
    """A function that each step puts in the place of another."""

    def begin(self) -> None:
        self.chosen: Any = self.up

    def up(self) -> int:
        return 1

    def down(self) -> int:
        return 2

    def turn(self, action: int) -> Any:
        if action:
            self.chosen = self.up if action == 1 else self.down
        return self.chosen()


class StateMachine(Hidden):
    """A function of the module that is the state."""

    def begin(self) -> None:
        self.state: Any = standing

    def turn(self, action: int) -> Any:
        self.state, found = self.state(action)
        return found


def standing(action: int) -> Any:
    return (walking if action == 1 else standing), 1


def walking(action: int) -> Any:
    return (standing if action == 2 else walking), 2


class AttributeOfPartial(Hidden):
    named = "partial|differs|act"

    def begin(self) -> None:
        self.act: Any = functools.partial(mixed, 3)
        self.act.v = 1

    def turn(self, action: int) -> Any:
        self.act.v = mixed(self.act.v, action)
        return self.act.v


class Heap(Hidden):
    @functools.total_ordering
    class Event:
        def __init__(self, at: int, tag: int) -> None:
            self.at, self.tag = at, tag

        def __lt__(self, other: Any) -> bool:
            return self.at < other.at

    def begin(self) -> None:
        self.events: Any = [self.Event(n, n) for n in range(5)]

    def turn(self, action: int) -> Any:
        found = heapq.heappop(self.events)
        heapq.heappush(self.events, self.Event(found.at + action, found.tag))
        return found.tag


class MappingsInRow(Hidden):
    def begin(self) -> None:
        self.first: Any = collections.defaultdict(list, {0: [1]})
        self.chain = collections.ChainMap(self.first, {1: [5]})
        self.counts: Any = collections.Counter("abca")

    def turn(self, action: int) -> Any:
        self.chain[action] = [mixed(self.chain[0][0], action)]
        self.first[0][0] = mixed(self.first[0][0], action)
        self.counts["abc"[action]] += 1
        return self.chain[0][0] + self.counts.most_common(1)[0][1]


class FactoryOfDict(Hidden):
    """A dict that counts what it is asked for."""

    named = "default_factory|count|differs|defaultdict"

    def begin(self) -> None:
        self.names: Any = collections.defaultdict(itertools.count(1).__next__)

    def turn(self, action: int) -> Any:
        return self.names[(self.t % 50, action)]


class Cached(Hidden):
    @functools.cached_property
    def drawn(self) -> float:
        return float(self.np_random.random())

    def turn(self, action: int) -> Any:
        if action == 1:
            vars(self).pop("drawn", None)
        return self.drawn


class Exceptions(Hidden):
    def begin(self) -> None:
        self.error: Any = ValueError(1)

    def turn(self, action: int) -> Any:
        self.error.args = (mixed(self.error.args[0], action),)
        return self.error.args[0]


class Mode(enum.Flag):
    A, B, C = 1, 2, 4


class Flags(Hidden):
    def begin(self) -> None:
        self.mode = Mode.A

    def turn(self, action: int) -> Any:
        self.mode ^= (Mode.A, Mode.B, Mode.C)[action]
        return self.mode.value


class ItemsOfEnv(Hidden):
    """An env that keeps what it has in `__getattr__`."""

    def begin(self) -> None:
        self.kept = {"v": 1}

    def __getattr__(self, name: str) -> Any:
        kept = self.__dict__.get("kept", {})
        if name not in kept:
            raise AttributeError(name)
        return kept[name]

    def turn(self, action: int) -> Any:
        self.kept["v"] = mixed(self.v, action)
        return self.v


class SlotOfEnv(Hidden):
    named = r"\.v\b"
    __slots__ = ("v",)

    def begin(self) -> None:
        self.v = 1

    def turn(self, action: int) -> Any:
        self.v = mixed(self.v, action)
        return self.v


class GuardedAttributes(Hidden):
    """An env that refuses to have its attributes set from outside."""

    def begin(self) -> None:
        vars(self)["kept"] = 1

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "kept":
            raise AttributeError(f"{name} is read-only")
        super().__setattr__(name, value)

    def turn(self, action: int) -> Any:
        vars(self)["kept"] = mixed(self.kept, action)
        return self.kept


class CountsWrites(Hidden):
    """An env that counts how often an attribute is set."""

    def __setattr__(self, name: str, value: Any) -> None:
        vars(self)["writes"] = vars(self).get("writes", 0) + 1
        super().__setattr__(name, value)

    def turn(self, action: int) -> Any:
        if action:
            self.kept = action
        return self.writes % 1009


# What classes and functions keep ------------------------------------------------------------


class PropertyWithMemory(Hidden):
    """A property whose function remembers."""

    named = "variable v|turned|differs"
    next_one = property(lambda self, turned=counter(): turned(1))  # noqa: B008

    def turn(self, action: int) -> Any:
        return self.next_one


class PropertyOfClosure(Hidden):
    named = "variable v|turned|differs"
    next_one = property((lambda turned: lambda self: turned(1))(counter()))

    def turn(self, action: int) -> Any:
        return self.next_one


class StaticWithMemory(Hidden):
    named = "variable v|turned|differs"
    turned = staticmethod(functools.partial(counter()))

    def turn(self, action: int) -> Any:
        return self.turned(action)


class ClassMethodWithMemory(Hidden):
    named = "default|variable|differs"

    @classmethod
    def turned(cls, action: int, kept: Any = [1]) -> int:
        kept[0] = mixed(kept[0], action)
        return int(kept[0])

    def turn(self, action: int) -> Any:
        return self.turned(action)


class PartialMethod(Hidden):
    named = "partial|cells|differs|turned"

    def pushed(self, kept: list[int], action: int) -> int:
        kept[0] = mixed(kept[0], action)
        return kept[0]

    turned = functools.partialmethod(pushed, [1])

    def turn(self, action: int) -> Any:
        return self.turned(action)


class DefaultCount(Hidden):
    """A count in a default of a method."""

    named = "default|differs"

    def turn(self, action: int, numbers: Any = itertools.count()) -> Any:  # noqa: B008
        return next(numbers) % 1009


class CachedHelper(Hidden):
    """A cache around a method, by whose age values differ."""

    named = "cache|made|differs"

    @functools.lru_cache(maxsize=4)  # noqa: B019
    def made(self, key: int) -> float:
        return float(self.np_random.random())

    def turn(self, action: int) -> Any:
        return self.made(action + self.t % 4)


class ClassDescriptor(Hidden):
    """A descriptor that keeps one value for all."""

    named = r"Counted|\.kept|differs"

    class Counted:
        def __init__(self) -> None:
            self.v = 1

        def __get__(self, env: Any, owner: Any = None) -> Any:
            self.v = mixed(self.v, 1)
            return self.v

    kept = Counted()

    def turn(self, action: int) -> Any:
        return self.kept


class DunderOfClass(Hidden):
    named = r"__count__|differs"
    __count__ = 1

    def turn(self, action: int) -> Any:
        type(self).__count__ = mixed(type(self).__count__, action)
        return type(self).__count__


class DunderOfModule(Hidden):
    named = r"__count__|differs"

    def turn(self, action: int) -> Any:
        HERE.__count__ = mixed(getattr(HERE, "__count__", 1), action)
        return HERE.__count__


class Annotations(Hidden):
    named = r"annotations|differs"
    kept: Any

    def turn(self, action: int) -> Any:
        notes = Annotations.__annotations__
        notes["v"] = mixed(int(notes.get("v", 1)), action)
        return notes["v"]


class DocOfFunction(Hidden):
    named = "__doc__|doc|differs"

    def turn(self, action: int) -> Any:
        standing.__doc__ = str(mixed(int(standing.__doc__ or 1), action))
        return int(standing.__doc__)


class Dispatch(Hidden):
    """A function by type, that learns."""

    named = "registry|drawn|differs"

    def turn(self, action: int) -> Any:
        if action:
            shape.register(int, standing if action == 1 else walking)
        found: Any = shape(0)
        return found[1] if isinstance(found, tuple) else found


@functools.singledispatch
def shape(value: Any) -> Any:
    return 0


class OnStandardClass(Hidden):
    """A name that a class of the standard library is given."""

    named = r"Template\.count|string|differs"

    def turn(self, action: int) -> Any:
        kind: Any = string.Template
        kind.count = mixed(getattr(kind, "count", 1), action)
        return kind.count


class OnStandardObject(Hidden):
    """An attribute of an object that the standard library holds."""

    named = r"json|_default_encoder|differs"

    def turn(self, action: int) -> Any:
        encoder: Any = json._default_encoder  # type: ignore[attr-defined]
        encoder.hidden = mixed(getattr(encoder, "hidden", 1), action)
        return encoder.hidden


class OnStandardFunction(Hidden):
    named = r"dedent|textwrap|differs"

    def turn(self, action: int) -> Any:
        function: Any = textwrap.dedent
        function.v = mixed(getattr(function, "v", 1), action)
        return function.v


class OnThread(Hidden):
    named = r"thread|differs"

    def turn(self, action: int) -> Any:
        thread: Any = threading.current_thread()
        thread.v = mixed(getattr(thread, "v", 1), action)
        return thread.v


class HeldContext(Hidden):
    """A context of variables that is an attribute."""

    named = "ontext|differs"

    def begin(self) -> None:
        self.context = contextvars.copy_context()

    def turn(self, action: int) -> Any:
        def turned() -> int:
            HELD.set(mixed(HELD.get(), action))
            return HELD.get()

        return self.context.run(turned)


HELD: contextvars.ContextVar[int] = contextvars.ContextVar("held", default=1)


class CollectorCalls(Hidden):
    """How often the collector has run, by a function that it calls."""

    named = "COLLECTED|gc|differs"

    def begin(self) -> None:
        if collected not in gc.callbacks:
            gc.callbacks.append(collected)

    def turn(self, action: int) -> Any:
        self.ring = Node()
        self.ring.next = self.ring
        return COLLECTED[0] % 1009


COLLECTED = [0]


def collected(phase: str, info: Any) -> None:
    COLLECTED[0] += phase == "stop"


class WeakTable(Hidden):
    """How many objects of a kind there are."""

    named = "ALIVE|differs"

    def begin(self) -> None:
        self.parts: Any = []

    def turn(self, action: int) -> Any:
        if action:
            part = Node()
            ALIVE.add(part)
            self.parts.append(part)
            if action == 2:
                del self.parts[:2]
        return len(ALIVE) % 1009


ALIVE: Any = weakref.WeakSet()


class RandomOfC(Hidden):
    """The generator of the C library."""

    named = "differs"

    def turn(self, action: int) -> Any:
        return ctypes.CDLL(None).rand() % 1009


class RandomOfPermutation(Hidden):
    """The hash seed of a set of bytes."""

    named = "differs|hash"

    def begin(self) -> None:
        self.keys = {bytes([n]) for n in range(40)}

    def turn(self, action: int) -> Any:
        return next(iter(self.keys))[0]


# Time -------------------------------------------------------------------------------------


class TimeIsUp(Hidden):
    """Shows when five seconds have passed."""

    named = "asks for the time"

    def begin(self) -> None:
        self.begun = time.monotonic()

    def turn(self, action: int) -> Any:
        return float(time.monotonic() - self.begun > 5)


class TimeOfDay(Hidden):
    """Shows the hour."""

    named = "asks for the time"

    def turn(self, action: int) -> Any:
        return int(time.time() / 3) % 1009


class Deadline(Hidden):
    """An episode that takes too long is shown to."""

    named = "asks for the time"

    def turn(self, action: int) -> Any:
        if self.t == 1:
            self.ends = time.perf_counter() + 3.0
        return float(time.perf_counter() > getattr(self, "ends", 0.0))


# Spaces, envs and what gymnasium holds ------------------------------------------------------


class SizeOfSpace(Hidden):
    """A space that grows."""

    named = "space|differs"

    def begin(self) -> None:
        self.other_space = gym.spaces.Discrete(3)

    def turn(self, action: int) -> Any:
        self.other_space.n = np.int64(mixed(int(self.other_space.n), action) + 1)
        return int(self.other_space.n)


class BoundsOfSpace(Hidden):
    named = "space|differs"

    def begin(self) -> None:
        self.box = gym.spaces.Box(-1, 1, (2,), np.float64)

    def turn(self, action: int) -> Any:
        self.box.low[0] = mixed(int(self.box.low[0]), action)
        return self.box.low[0]


class SpaceReplaced(Hidden):
    named = "space|differs"

    def begin(self) -> None:
        self.other_space = gym.spaces.Discrete(3)

    def turn(self, action: int) -> Any:
        n = int(self.other_space.n)
        self.other_space = gym.spaces.Discrete(mixed(n, action) + 1)
        return n


class Options(Hidden):
    """A dict that the spec holds."""

    named = "spec|differs"

    def begin(self) -> None:
        self.spec = gym.envs.registration.EnvSpec("Options-v0", entry_point="nothing:Nothing")

    def turn(self, action: int) -> Any:
        kwargs: Any = self.spec.kwargs  # type: ignore[union-attr]
        kwargs["v"] = mixed(kwargs.get("v", 1), action)
        return kwargs["v"]


class EnvInside(Hidden):
    """An env that holds another one, of gymnasium's."""

    def begin(self) -> None:
        self.inner = gym.make("CartPole-v1")
        self.inner.reset(seed=3)

    def turn(self, action: int) -> Any:
        obs, _, terminated, truncated, _ = self.inner.step(min(action, 1))
        if terminated or truncated:
            obs, _ = self.inner.reset()
        return float(obs[1])


class EnvsInside(Hidden):
    """Two of the env's own, of which one plays."""

    def begin(self) -> None:
        self.inner: list[Any] = [Counted(), Counted()]

    def turn(self, action: int) -> Any:
        return self.inner[action % 2].step(action)[0][0]


class Counted(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def __init__(self) -> None:
        self.v = 1

    def step(self, action: Any) -> Any:
        self.v = mixed(self.v, int(action))
        return np.array([float(self.v)]), 0.0, False, False, {}


class WrapperInside(Hidden):
    """An env that puts a wrapper around its inner one, and takes it away."""

    def begin(self) -> None:
        self.inner: Any = Counted()

    def turn(self, action: int) -> Any:
        if action:
            base = self.inner.unwrapped
            self.inner = gym.wrappers.TimeLimit(base, 99) if action == 1 else base
            if action == 1:
                self.inner.reset = base.reset
                self.inner._elapsed_steps = self.t
        self.inner.unwrapped.step(action)
        return self.inner.unwrapped.v + 2000 * isinstance(self.inner, gym.Wrapper)


class SeedShown(Hidden):
    """The seed of the last reset."""

    def turn(self, action: int) -> Any:
        return float((self.np_random_seed or 0) % 1009)


class RandomReplaced(Hidden):
    """A step that makes a new `np_random`."""

    def turn(self, action: int) -> Any:
        if action == 1:
            self.np_random = np.random.default_rng(self.t)
        return self.np_random.random()


class RandomShared(Hidden):
    """A part that was given `np_random`, and a draw of it."""

    def turn(self, action: int) -> Any:
        if self.t == 1:
            self.part: Any = Node()
            self.part.rng, self.part.draw = self.np_random, self.np_random.normal
        elif self.t == 0:
            return 0
        return self.part.rng.random() + self.part.draw()


class CopyOfSelf(Hidden):
    """Goes back by itself: keeps a copy of an earlier part."""

    def begin(self) -> None:
        self.part, self.saved = Node(), Node()

    def turn(self, action: int) -> Any:
        self.part.v = mixed(self.part.v, action)
        if action == 1:
            self.saved = copy.deepcopy(self.part)
        elif action == 2:
            self.part = copy.copy(self.saved)
        return self.part.v


class FrozenParts(Hidden):
    @dataclasses.dataclass(frozen=True, slots=True)
    class Part:
        v: int
        before: Any = None

    def begin(self) -> None:
        self.part = self.Part(1)

    def turn(self, action: int) -> Any:
        self.part = self.Part(mixed(self.part.v, action), dataclasses.replace(self.part, before=0))
        return self.part.v + self.part.before.v
