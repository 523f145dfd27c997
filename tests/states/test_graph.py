"""Object graphs: written and read back, shared as they were, and nothing else built."""

from __future__ import annotations

import array
import datetime
import decimal
import enum
import fractions
import itertools
import pathlib
import random
import threading
import types
import uuid
import weakref
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

from plangym_ext.errors import DamagedState
from plangym_ext.states.graph.reader import GraphReader
from plangym_ext.states.graph.writer import GraphWriter
from plangym_ext.states.nameable import AnyThing
from plangym_ext.states.plain import NotPlain


class Box:
    """Holds what it is given."""

    def __init__(self, **held):
        vars(self).update(held)
        self.built = True

    def helper(self):
        return 1


class Color(enum.IntEnum):
    RED = 1


class Slotted:
    __slots__ = ("a",)


class Listing(list):
    pass


class Slotting(int):
    __slots__ = ()


Point = namedtuple("Point", "x y")


@dataclass(slots=True, frozen=True)
class Move:
    name: str
    to: tuple[int, int] = (0, 0)


def helper():
    return 2


def written(*values, named=None) -> bytes:
    writer = GraphWriter(named or {}, {})
    for value in values:
        writer.put(value)
    return writer.data()


def read(data, count=1, named=lambda *_: None, shared=lambda *_: None):
    reader = GraphReader(data, named, AnyThing({}), shared)
    values = reader.get()
    assert len(values) == count
    reader.end()
    return values


def copied(value):
    return read(written(value))[0]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -7,
        2**31 - 1,
        -(2**31),
        2**31,
        -(10**40),
        0.1,
        -0.0,
        float("inf"),
        "snö\ud800",
        b"\x00\xff",
        (),
        (1, ("a", 2.5)),
        [1, [2, []]],
        {"a": 1, 2: [3], (4, 5): None},
        OrderedDict([("b", 1), ("a", 2)]),
        {3, 1, 2},
        frozenset({"x"}),
        deque([1, 2, 3], maxlen=3),
        deque([1]),
        np.float32(0.1),
        np.int64(-3),
        np.str_("text"),
        np.bool_(True),
        Color.RED,
        Box,
        np.datetime64,
        helper,
        len,
        2**64,
        [2**63, 1],
        (-(2**63), 2**63 - 1),
        [1, True, 2.0],
        [(1, 2), (3, 4), (5, 6)] * 9,
        [(1, 2), (3, 4, 5)],
        [(1, 2), (3, 4.0)],
        [(1, 2), (3, 2**64)],
        [[1.0, 2.0], [3.0, 4.0]],
        [[1, 2], [3]],
        [[], []],
        [()],
        1 + 2j,
        range(3, 30, 4),
        slice(1, None, 2),
        ...,
        bytearray(b"ab"),
        array.array("h", [1, -2]),
        datetime.date(2026, 11, 27),
        datetime.datetime(2026, 11, 27, 1, 2, 3, 4, datetime.UTC, fold=1),
        datetime.time(1, 2, fold=1),
        datetime.timedelta(days=-1, microseconds=5),
        datetime.timezone(datetime.timedelta(hours=2), "here"),
        fractions.Fraction(-2, 3),
        decimal.Decimal("1.50"),
        uuid.UUID(int=2**100 + 1),
        pathlib.PurePosixPath("/a/b"),
        pathlib.Path("a"),
        defaultdict(list, {"a": [1], 2: []}),
        Counter("abca"),
        types.SimpleNamespace(a=1, b=[2]),
        Point(1, [2.5]),
        Move("up", (1, 2)),
        Listing([1, "a"]),
        {frozenset({"a", ("b", 1)}), frozenset()},
        {Color.RED, None},
        np.array([(1, 2.5), (3, 4.5)], [("a", "<i4"), ("b", "<f8")])[1],
    ],
    # No text of a set, which differs from process to process.
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_values_come_back_as_they_were(value):
    back = copied(value)
    assert back == value
    assert type(back) is type(value)
    assert repr(back) == repr(value)
    assert getattr(back, "maxlen", None) == getattr(value, "maxlen", None)
    assert written(back) == written(value)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 3), np.float32),
        np.array(5),
        np.array(["ab", "c"]),
        np.array([np.nan, -0.0]),
    ],
    ids=repr,
)
def test_arrays_keep_shape_type_and_order(value):
    assert_array_comes_back(value)


def test_arrays_of_records_and_of_objects_come_back():
    assert_array_comes_back(np.zeros(3, [("a", "<i4", (2,)), ("b", [("c", "S3")])]))
    back = copied(np.array([[None, [1]], ["x", (2.5,)]], object))
    assert back.tolist() == [[None, [1]], ["x", (2.5,)]]


def assert_array_comes_back(value):
    back = copied(value)
    assert (back.shape, back.dtype, back.tobytes()) == (value.shape, value.dtype, value.tobytes())
    assert back.flags.f_contiguous == value.flags.f_contiguous
    assert back.flags.writeable


def test_shared_objects_stay_shared_and_cycles_close():
    inner, numbers = Box(at=(1, 2)), np.zeros(2)
    outer = Box(first=inner, again=[inner, numbers, numbers])
    inner.owner = outer
    back = copied(outer)
    assert back.first is back.again[0]
    assert back.again[1] is back.again[2]
    assert back.first.owner is back
    assert back.first.at == (1, 2)


def test_rows_of_numbers_stay_the_lists_that_others_hold():
    board = [[0, 1], [2, 3]]
    for held in ([board, board[1]], [board[1], board], [board, [board[0], board[0]]]):
        back = copied(held)
        assert back == held
        back[0][-1], held[0][-1] = [9, 9], [9, 9]
        assert back == held
        assert written(back) == written(held)


def test_equal_graphs_give_equal_bytes_whatever_shares_their_values():
    # Pickle tells these apart: in one the texts are the same object, in the other not.
    once, twice = "a b"[:], "".join(["a", " ", "b"])
    assert written([once, once, (1.5,)]) == written([once, twice, (1.5,)])
    # But which mutable objects are shared is part of the state.
    one = [1]
    assert written([one, one]) != written([one, [1]])


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.Philox, np.random.MT19937])
def test_generators_go_on_where_they_were(bits):
    for generator in (np.random.Generator(bits(3)), np.random.RandomState(bits(3))):
        generator.normal(size=3)
        back = copied(generator)
        assert type(back) is type(generator)
        np.testing.assert_array_equal(back.normal(size=5), generator.normal(size=5))


def test_named_objects_are_found_and_named_generators_are_set_in_place():
    env, generator = Box(), np.random.default_rng(1)
    named = {id(env): (0, ""), id(generator): (0, "rng")}
    data = written({"env": env, "rng": generator, "box": Box(rng=generator)}, named=named)
    expected = np.random.default_rng(1).random(3)
    generator.random(10)
    (back,) = read(data, named=lambda layer, name: generator if name else env)
    assert back["env"] is env
    assert back["rng"] is back["box"].rng is generator
    np.testing.assert_array_equal(generator.random(3), expected)


def test_generators_of_one_source_are_refused():
    bits = np.random.Philox(3)
    pairs = [
        [np.random.Generator(bits), np.random.Generator(bits)],
        [np.random.Generator(bits), np.random.RandomState(bits)],
    ]
    for pair in pairs:
        writer = GraphWriter({}, {})
        writer.put(pair)
        with pytest.raises(NotPlain, match="from the same bits"):
            writer.data()


def test_bound_methods_come_back_bound_to_what_comes_back():
    box = Box(number=1)
    back = copied({"box": box, "method": box.helper})
    assert back["method"].__self__ is back["box"]
    assert back["method"].__func__ is Box.helper


def shared_through(live, value):
    writer = GraphWriter({}, {}, shared={id(value): (2, "held")})
    writer.put([value, value])
    (back,) = read(writer.data(), shared=lambda *name: live if name == (2, "held") else None)
    assert back[0] is back[1]
    return back[0]


@pytest.mark.parametrize(
    "value", [np.arange(3.0), [1, [2]], {"a": {1}}, Box(a=[1])], ids=lambda v: type(v).__name__
)
def test_what_another_layer_holds_is_that_layers_own_if_it_is_the_same(value):
    live = copied(value)
    assert shared_through(live, value) is live


def test_what_another_layer_has_lost_comes_back_as_it_was():
    value = np.arange(3.0)
    for live in (None, np.arange(3), np.zeros(3), [0.0, 1.0, 2.0]):
        back = shared_through(live, value)
        assert back is not live
        np.testing.assert_array_equal(back, value)


def iterators():
    numbers = [3, 1, 2]
    shared = iter(numbers)
    yield [shared, shared, numbers]
    yield [itertools.cycle(numbers), numbers]
    yield [itertools.cycle(shared), shared]
    yield itertools.islice(itertools.count(2, 3), 1, 20, 2)
    yield itertools.chain(numbers, (4, 5), range(3))
    yield itertools.repeat("a", 9)
    yield enumerate(iter(range(2, 9)))
    yield zip(itertools.count(), "abcdefgh", strict=False)
    yield reversed(numbers)
    yield itertools.product(range(3), "ab")
    yield itertools.permutations(numbers, 2)
    yield iter(range(2**70))


def drawn(value):
    """What follows from iterators, each told apart by where it is held."""
    held = value if type(value) is list else [value]
    return [list(itertools.islice(one, 2)) for one in held for _ in range(2)]


@pytest.mark.parametrize("used", [0, 1, 3, 9])
@pytest.mark.parametrize("number", range(12))
def test_iterators_go_on_where_they_were(number, used):
    value = list(iterators())[number]
    for _ in range(used):
        next(value[0] if type(value) is list else value, None)
    back = copied(value)
    assert written(back) == written(value)
    assert drawn(back) == drawn(value)


@pytest.mark.parametrize("used", [0, 1, 3, 5])
@pytest.mark.parametrize("number", range(12))
def test_iterators_that_went_on_from_a_copy_give_the_same_bytes(number, used):
    def first(value):
        return value[0] if type(value) is list else value

    value = list(iterators())[number]
    for _ in range(used):
        next(first(value), None)
    back = copied(value)
    for _ in range(9):
        next(first(value), None)
        next(first(back), None)
        assert written(back) == written(value)


def test_generators_of_the_standard_library_go_on_where_they_were():
    generator = random.Random(3)
    for _ in range(4):
        # The second of each two draws is kept from the first.
        generator.gauss(0, 1)
        back, again = copied([generator, generator])
        assert back is again
        assert back.getstate() == generator.getstate()
        assert type(back) is random.Random


def test_what_is_as_deep_as_it_is_long_comes_back():
    chain = None
    for number in range(5_000):
        chain = Box(number=number, after=chain)
    back, count = copied(chain), 0
    while back is not None:
        back, count = back.after, count + 1
    assert count == 5_000


def test_containers_that_hold_themselves_come_back():
    tree = types.SimpleNamespace(children=defaultdict(list), up=None)
    tree.children["a"].append(types.SimpleNamespace(up=tree))
    back = copied(tree)
    assert back.children["a"][0].up is back


def test_instances_are_built_without_their_constructors():
    assert "built" not in vars(copied(Box.__new__(Box)))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (threading.Lock(), "a _thread.lock"),
        ((i for i in range(3)), "a builtins.generator"),
        (lambda: 1, "<lambda>"),
        (types.MethodType(lambda box: box, Box()), "<lambda>"),
        ([].append, "built-in method append"),
        (object(), "a builtins.object"),
        (Slotting(1), "Slotting"),
        ({Box()}, "Box in a set, which has no order"),
        (np.ma.masked_array([1]), "MaskedArray"),
    ],
    ids=[
        "lock",
        "generator",
        "lambda",
        "bound lambda",
        "built-in",
        "sentinel",
        "slots without values of their own",
        "set of objects",
        "masked array",
    ],
)
def test_what_is_more_than_its_attributes_is_refused(value, message):
    with pytest.raises(NotPlain, match=message):
        written([value])


def test_damaged_bytes_raise_one_error():
    data = written({"a": [1, 2.5, "x", b"yz"], "b": np.arange(3), "c": Box(d=(1,))})
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(data[: rng.integers(len(data))] if rng.random() < 0.3 else data)
        if damaged:
            damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
        try:
            read(bytes(damaged))
        except DamagedState:
            refused += 1
    assert refused > 150


class Part:
    """Knows its whole weakly."""


def test_weak_references_refer_to_what_comes_back():
    whole = Part()
    whole.part = Part()
    whole.part.whole, whole.dead = weakref.ref(whole), weakref.ref(Part())
    again = read(written(whole))[0]
    assert again is not whole
    assert again.part.whole() is again
    assert again.dead() is None


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (lambda part: weakref.ref(part), "that no attribute holds"),
        (lambda part: [weakref.ref(part, print), part], "calls back"),
        (lambda part: weakref.proxy(part), "ProxyType"),
    ],
    ids=["held elsewhere", "callback", "proxy"],
)
def test_weak_references_of_which_a_graph_is_not_all_are_refused(reference, message):
    part = Part()
    with pytest.raises(NotPlain, match=message):
        written(reference(part))
