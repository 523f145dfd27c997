"""Places among the attributes of the env: data, objects, functions and iterators."""

from __future__ import annotations

import collections
import copy
import csv
import dataclasses
import functools
import io
import itertools
import re
import struct
import types
import weakref
from typing import Any

import numpy as np

from hidden_kinds.base import Hidden, mixed


class Attribute(Hidden):
    def begin(self) -> None:
        self.v = 1

    def turn(self, action: int) -> Any:
        self.v = mixed(self.v, action)
        return self.v


class PrivateName(Hidden):
    def begin(self) -> None:
        self.__v = 1

    def turn(self, action: int) -> Any:
        self.__v = mixed(self.__v, action)
        return self.__v


class PropertyOver(Hidden):
    def begin(self) -> None:
        self._kept = 1

    @property
    def v(self) -> int:
        return self._kept

    @v.setter
    def v(self, value: int) -> None:
        self._kept = value

    def turn(self, action: int) -> Any:
        self.v = mixed(self.v, action)
        return self.v


class NestedDict(Hidden):
    def begin(self) -> None:
        self.d: Any = {"a": {"b": [(1, [1])]}}

    def turn(self, action: int) -> Any:
        inner = self.d["a"]["b"][0][1]
        inner[0] = mixed(inner[0], action)
        return inner[0]


class Node:
    def __init__(self, v: int = 1) -> None:
        self.v, self.next = v, self


class NestedObject(Hidden):
    def begin(self) -> None:
        self.nodes = [Node(), Node()]
        self.nodes[0].next, self.nodes[1].next = self.nodes[1], self.nodes[0]

    def turn(self, action: int) -> Any:
        node = self.nodes[0].next.next.next
        node.v = mixed(node.v, action)
        return node.v


class Slotted:
    __slots__ = ("__weakref__", "v")


class Slots(Hidden):
    def begin(self) -> None:
        self.slotted = Slotted()
        self.slotted.v = 1

    def turn(self, action: int) -> Any:
        self.slotted.v = mixed(self.slotted.v, action)
        return self.slotted.v


class ListOfOwn(list):  # type: ignore[type-arg]
    v = 1


class SubclassOfList(Hidden):
    def begin(self) -> None:
        self.own = ListOfOwn()

    def turn(self, action: int) -> Any:
        self.own.v = mixed(self.own.v, action)
        return self.own.v


class IntOfOwn(int):
    pass


class SubclassOfInt(Hidden):
    def begin(self) -> None:
        self.own: Any = IntOfOwn(3)
        self.own.v = 1

    def turn(self, action: int) -> Any:
        self.own.v = mixed(self.own.v, action)
        return self.own.v


class Deque(Hidden):
    def begin(self) -> None:
        self.d = collections.deque([1, 2, 3], maxlen=3)

    def turn(self, action: int) -> Any:
        self.d.append(mixed(self.d[0], action))
        return self.d[-1]


class OrderOfKeys(Hidden):
    def begin(self) -> None:
        self.d = collections.OrderedDict.fromkeys(range(9))

    def turn(self, action: int) -> Any:
        first = next(iter(self.d))
        self.d.move_to_end(first)
        if action:
            self.d.move_to_end((first + 4) % 9)
        return next(iter(self.d))


class OrderOfSet(Hidden):
    named = r"OrderOfSet\.s\b"

    def begin(self) -> None:
        self.s = {0, 8}

    def turn(self, action: int) -> Any:
        if action:
            self.s = {8, 0} if action == 1 else {0, 8}
        return next(iter(self.s))


class SharedList(Hidden):
    def begin(self) -> None:
        self.a = self.b = [1]

    def turn(self, action: int) -> Any:
        self.a[0] = mixed(self.b[0], action)
        return self.b[0]


class SharedOnlyLater(Hidden):
    def begin(self) -> None:
        self.a, self.b = [1], [1]

    def turn(self, action: int) -> Any:
        self.a[0] = mixed(self.a[0], action)
        self.b = self.a if action else list(self.a)
        return (self.a is self.b) + self.b[0]


class ByIdentity(Hidden):
    named = "KeyError"

    def begin(self) -> None:
        self.keys = [Node(), Node()]
        self.values = {id(key): 1 for key in self.keys}

    def turn(self, action: int) -> Any:
        key = id(self.keys[action % 2])
        self.values[key] = mixed(self.values[key], action)
        return self.values[key]


class Frozen(Hidden):
    @dataclasses.dataclass(frozen=True)
    class Kept:
        v: int = 1

    def begin(self) -> None:
        self.kept = self.Kept()

    def turn(self, action: int) -> Any:
        object.__setattr__(self.kept, "v", mixed(self.kept.v, action))
        return self.kept.v


class Namespace(Hidden):
    def begin(self) -> None:
        self.kept = types.SimpleNamespace(v=types.MappingProxyType({"v": [1]}))

    def turn(self, action: int) -> Any:
        inner = self.kept.v["v"]
        inner[0] = mixed(inner[0], action)
        return inner[0]


class Copied:
    """Says of itself that it need not be copied, nor written."""

    def __init__(self) -> None:
        self.v = 1

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __copy__(self) -> Any:
        return self


class NeverCopied(Hidden):
    def begin(self) -> None:
        self.kept = Copied()

    def turn(self, action: int) -> Any:
        self.kept.v = mixed(self.kept.v, action)
        return self.kept.v


class Forgetful(Copied):
    def __reduce__(self) -> Any:
        return (Forgetful, ())


class ForgetfulPickle(NeverCopied):
    def begin(self) -> None:
        self.kept = Forgetful()


class HalfState(Copied):
    def __getstate__(self) -> Any:
        return {"v": 1}


class ForgetfulGetstate(NeverCopied):
    def begin(self) -> None:
        self.kept = HalfState()


class EqualToAll(Copied):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class AlwaysEqual(NeverCopied):
    def begin(self) -> None:
        self.kept = EqualToAll()


TABLE: dict[int, int] = {}


class Tricky:
    """Keeps its attributes in a table of the module, by its own address."""

    def __getattr__(self, name: str) -> int:
        if name != "v":
            raise AttributeError(name)
        return TABLE.get(id(self), 1)

    def __setattr__(self, name: str, value: int) -> None:
        TABLE[id(self)] = value


class GetattrTrick(NeverCopied):
    named = "TABLE|Tricky"

    def begin(self) -> None:
        self.kept: Any = Tricky()


class PerInstance:
    def __init__(self) -> None:
        self.values: Any = weakref.WeakKeyDictionary()

    def __get__(self, env: Any, owner: Any = None) -> Any:
        return self.values.get(env, 1)

    def __set__(self, env: Any, value: int) -> None:
        self.values[env] = value


class DescriptorByInstance(Attribute):
    named = r"DescriptorByInstance\.v"
    v: Any = PerInstance()


class WeakReference(Hidden):
    named = r"WeakReference\.weak"

    def begin(self) -> None:
        self.strong: Any = Slotted()
        self.strong.v, self.weak = 1, weakref.ref(self.strong)

    def turn(self, action: int) -> Any:
        kept: Any = self.weak()
        kept.v = mixed(kept.v, action)
        return self.strong.v


class DroppedReference(Hidden):
    """Whether something still lives, which nothing but a weak reference tells."""

    named = r"DroppedReference\.weak"

    def begin(self) -> None:
        self.strong: Any = Slotted()
        self.weak = weakref.ref(self.strong)

    def turn(self, action: int) -> Any:
        if action == 1:
            self.strong = None
        elif action == 2 and self.strong is None:
            self.begin()
        return self.weak() is None


class Child:
    """Knows what holds it by a weak reference, as parts of a tree do."""

    def __init__(self, parent: Any) -> None:
        self.parent, self.v = weakref.ref(parent), 1


class WeakParent(Hidden):
    named = r"WeakParent\.node"

    def begin(self) -> None:
        self.node: Any = Node()
        self.node.next = Child(self.node)

    def turn(self, action: int) -> Any:
        parent = self.node.next.parent()
        parent.v = mixed(parent.v, action)
        return self.node.v


class WeakElsewhere(WeakParent):
    """What it refers to is held by a table of the module alone."""

    named = r"WeakElsewhere\.(weak|v)\b|ELSEWHERE"

    def begin(self) -> None:
        ELSEWHERE[0] = Node()
        self.weak = weakref.ref(ELSEWHERE[0])

    def turn(self, action: int) -> Any:
        kept: Any = self.weak()
        kept.v = mixed(kept.v, action)
        return kept.v


ELSEWHERE: dict[int, Any] = {}


# Functions --------------------------------------------------------------------------------


def counter() -> Any:
    v = 1

    def turned(action: int) -> int:
        nonlocal v
        v = mixed(v, action)
        return v

    return turned


class Closure(Hidden):
    named = "variable v|turned"

    def begin(self) -> None:
        self.turned = counter()

    def turn(self, action: int) -> Any:
        return self.turned(action)


class ClosureInList(Closure):
    def begin(self) -> None:
        self.parts = {"f": [counter()]}

    def turn(self, action: int) -> Any:
        return self.parts["f"][0](action)


class WrappedClosure(Closure):
    def begin(self) -> None:
        self.turned = functools.wraps(counter)(functools.partial(counter()))


def pushed(kept: list[int], action: int) -> int:
    kept[0] = mixed(kept[0], action)
    return kept[0]


class Partial(Closure):
    def begin(self) -> None:
        self.turned = functools.partial(pushed, [1])


class BoundMethod(Closure):
    def begin(self) -> None:
        self.turned = Holder().turned


class Holder:
    def __init__(self) -> None:
        self.v = 1

    def turned(self, action: int) -> int:
        self.v = mixed(self.v, action)
        return self.v

    __call__ = turned


class CallableObject(Closure):
    def begin(self) -> None:
        self.turned = Holder()


class DefaultOfLambda(Closure):
    named = "default|lambda"

    def begin(self) -> None:
        self.turned = lambda action, kept=[1]: pushed(kept, action)


class AttributeOfFunction(Closure):
    named = r"\.v|turned"

    def begin(self) -> None:
        def turned(action: int) -> int:
            turned.v = mixed(turned.v, action)  # type: ignore[attr-defined]
            return int(turned.v)  # type: ignore[attr-defined]

        turned.v = 1  # type: ignore[attr-defined]
        self.turned = turned


class CachedMethod(Closure):
    """A cache whose hits show."""

    named = "cache|seen|turned"

    def begin(self) -> None:
        self.seen = functools.lru_cache(8)(Node)

    def turn(self, action: int) -> Any:
        self.seen(action + self.t % 7)
        return self.seen.cache_info().hits


class MutableInCache(CachedMethod):
    def turn(self, action: int) -> Any:
        node = self.seen(1)
        node.v = mixed(node.v, action)
        return node.v


# Iterators --------------------------------------------------------------------------------


def numbers() -> Any:
    v = 1
    while True:
        v = mixed(v, (yield v) or 0)


class Generator(Hidden):
    named = "generator|numbers"

    def begin(self) -> None:
        self.numbers = numbers()
        next(self.numbers)

    def turn(self, action: int) -> Any:
        return self.numbers.send(action)


class Coroutine(Generator):
    def begin(self) -> None:
        @types.coroutine
        def asked(v: int) -> Any:
            return (yield v)

        async def run() -> None:
            v = 1
            while True:
                v = mixed(v, await asked(v))

        self.numbers = run()
        self.numbers.send(None)


class Expression(Hidden):
    named = "generator|iterator"

    def begin(self) -> None:
        self.iterator: Any = (n * n % 97 for n in itertools.count())

    def turn(self, action: int) -> Any:
        return next(self.iterator)


class Count(Expression):
    def begin(self) -> None:
        self.iterator = itertools.count()


class Cycle(Expression):
    def begin(self) -> None:
        self.iterator = itertools.cycle([3, 1, 4, 1, 5, 9, 2])


class Chain(Expression):
    def begin(self) -> None:
        self.iterator = itertools.chain(range(9), itertools.count(100, 3))


class Slice(Expression):
    def begin(self) -> None:
        self.iterator = itertools.islice(itertools.count(), 0, None, 3)


class Accumulate(Expression):
    def begin(self) -> None:
        self.iterator = itertools.accumulate(itertools.count(), lambda a, b: (a + b) % 1009)


class Tee(Expression):
    def begin(self) -> None:
        self.iterator, self.other = itertools.tee(itertools.count())


class Map(Expression):
    def begin(self) -> None:
        self.iterator = map(functools.partial(pow, 3), itertools.count(), itertools.repeat(1009))


class MapOfClosure(Expression):
    def begin(self) -> None:
        self.iterator = map(counter(), itertools.count())


class OfList(Expression):
    def begin(self) -> None:
        self.iterator = iter([*range(20_000)])


class Enumerated(Hidden):
    def begin(self) -> None:
        self.iterator = enumerate(zip(itertools.count(), itertools.count(7), strict=False))

    def turn(self, action: int) -> Any:
        return next(self.iterator)[1][1]


class Sentinel(Expression):
    def begin(self) -> None:
        self.iterator = iter(functools.partial(pushed, [1], 2), -1)


class Regex(Hidden):
    named = r"Regex\.iterator"

    def begin(self) -> None:
        self.iterator = re.finditer("a", "ab" * 300_000)

    def turn(self, action: int) -> Any:
        return next(self.iterator).start()


class Unpacked(Hidden):
    named = r"Unpacked\.iterator"

    def begin(self) -> None:
        self.iterator = struct.iter_unpack("<i", bytes(range(256)) * 4096)

    def turn(self, action: int) -> Any:
        return next(self.iterator)[0] % 1009


class CsvReader(Hidden):
    named = r"CsvReader\.iterator"

    def begin(self) -> None:
        self.iterator = csv.reader(f"{n},2" for n in itertools.count())

    def turn(self, action: int) -> Any:
        return int(next(self.iterator)[0])


class BytesPosition(Hidden):
    def begin(self) -> None:
        self.io = io.BytesIO(bytes(range(251)) * 2000)

    def turn(self, action: int) -> Any:
        return self.io.read(1 + action)[0]


class TextPosition(Hidden):
    def begin(self) -> None:
        self.io = io.StringIO("0123456789" * 50_000)

    def turn(self, action: int) -> Any:
        return int(self.io.read(1 + action)[0])


class IteratorOfArray(Hidden):
    named = r"IteratorOfArray\.iterator"

    def begin(self) -> None:
        self.iterator = np.nditer(np.arange(1 << 18))

    def turn(self, action: int) -> Any:
        return next(self.iterator)


class CopyOfIterator(Expression):
    def begin(self) -> None:
        self.iterator = copy.copy(iter(range(1 << 20)))
