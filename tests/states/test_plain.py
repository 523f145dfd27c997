from __future__ import annotations

import collections

import numpy as np
import pytest

from plangym_ext.errors import DamagedState
from plangym_ext.states import plain

VALUES = [
    None,
    True,
    -(2**70),
    255,
    1.5,
    float("inf"),
    "héllo",
    b"\x00\xff",
    (1, (2, [3, {"a": 4}])),
    {3, 1, 2},
    frozenset({"x"}),
    collections.deque([1, 2], maxlen=3),
    np.float32(0.1),
    np.bool_(True),
    np.arange(6, dtype=">i2").reshape(2, 3),
    np.zeros((0, 4)),
    {"nested": {"k": np.array(3)}},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_equal_and_of_the_same_type(value):
    back = plain.decode(plain.encode(value))
    assert type(back) is type(value)
    if isinstance(value, np.ndarray):
        assert back.dtype == value.dtype
        np.testing.assert_array_equal(back, value)
    else:
        assert repr(back) == repr(value)


def test_a_generator_goes_on_where_it_was():
    generator = np.random.default_rng(5)
    generator.integers(10, dtype=np.uint32)  # leaves half a word in the buffer
    back = plain.decode(plain.encode(generator))
    np.testing.assert_array_equal(
        back.integers(2**32, size=9, dtype=np.uint32),
        generator.integers(2**32, size=9, dtype=np.uint32),
    )


@pytest.mark.parametrize("value", [object(), [object()], np.array([None]), {1: {2: len}}])
def test_what_is_not_plain_is_named(value):
    with pytest.raises(plain.NotPlain, match="attributes"):
        plain.encode(value, "attributes")


def test_truncated_and_extended_bytes_are_refused():
    data = plain.encode({"a": [1, 2.5, np.arange(3)]})
    for end in range(len(data)):
        with pytest.raises(DamagedState):
            plain.decode(data[:end])
    with pytest.raises(DamagedState, match="too many"):
        plain.decode(data + b"N")
