"""Object graphs: written and read back, shared as they were, and nothing else built."""

from __future__ import annotations

import enum
import threading
import types
from collections import OrderedDict, deque

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


def helper():
    return 2


def written(*values, named=None) -> bytes:
    writer = GraphWriter(named or {}, {})
    for value in values:
        writer.put(value)
    return writer.data()


def read(data, count=1, named=lambda *_: None, shared=lambda *_: None):
    reader = GraphReader(data, named, AnyThing({}), shared)
    values = [reader.get() for _ in range(count)]
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
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
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
        (Slotted(), "Slotted"),
        (Listing([1]), "Listing"),
        (np.array([None]), "an array of object"),
    ],
    ids=[
        "lock",
        "generator",
        "lambda",
        "bound lambda",
        "built-in",
        "slots",
        "list subclass",
        "object array",
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
