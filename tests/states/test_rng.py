"""The 40 bytes of a generator against numpy's documented `bit_generator.state`."""

import copy

import numpy as np
import pytest

from plangym_ext.errors import DamagedState, IncompleteState
from plangym_ext.states.randomness import rng
from plangym_ext.states.randomness.random_bytes import generator_of, random_bytes, set_all
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes


def drawn(generator, count):
    """Draws of several kinds; an odd number of 32-bit ones leaves a half buffered."""
    generator.random(count)
    generator.integers(0, 2**20, size=count, dtype=np.int32)
    generator.standard_normal(count)
    return generator


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("seed", [0, 12345])
def test_restored_generator_has_the_documented_state_of_the_captured_one(seed, count):
    source = drawn(np.random.default_rng(seed), count)
    target = np.random.default_rng(99)
    row = memoryview(bytearray(RNG_BYTES + 8))
    assert GeneratorBytes().capture(source, row, 8) == 8 + RNG_BYTES
    assert GeneratorBytes().restore(target, row, 8) == 8 + RNG_BYTES
    assert target.bit_generator.state == source.bit_generator.state
    assert target.integers(0, 5, 9).tobytes() == source.integers(0, 5, 9).tobytes()
    assert target.random(9).tobytes() == source.random(9).tobytes()


def test_buffered_half_of_a_draw_is_kept():
    # A 32-bit draw takes 64 bits and keeps half of them for the next one.
    source = np.random.default_rng(3)
    source.integers(0, 2**20, dtype=np.int32)
    assert source.bit_generator.state["has_uint32"] == 1
    row = memoryview(bytearray(RNG_BYTES))
    GeneratorBytes().capture(source, row, 0)
    expected = source.integers(0, 2**20, size=3, dtype=np.int32).tolist()
    source.random(5)
    GeneratorBytes().restore(source, row, 0)
    assert source.integers(0, 2**20, size=3, dtype=np.int32).tolist() == expected


def test_replaced_generator_is_noticed():
    # A reset with a seed gives an env a new generator object.
    view = GeneratorBytes()
    row, other = memoryview(bytearray(RNG_BYTES)), memoryview(bytearray(RNG_BYTES))
    for seed in (1, 2, 1):
        generator = np.random.default_rng(seed)
        view.capture(generator, row, 0)
        GeneratorBytes().capture(generator, other, 0)
        assert bytes(row) == bytes(other)


@pytest.mark.parametrize(
    ("generator", "name"),
    [
        (np.random.RandomState(0), "RandomState"),
        (np.random.Generator(np.random.MT19937(0)), "MT19937"),
        (np.random.Generator(np.random.PCG64DXSM(0)), "PCG64DXSM"),
        (None, "NoneType"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_generators_are_refused_by_name(generator, name):
    with pytest.raises(IncompleteState, match=rf"expected.*PCG64.*got.*{name}"):
        GeneratorBytes().capture(generator, memoryview(bytearray(RNG_BYTES)), 0)


def test_bytes_that_no_generator_can_hold_are_refused():
    view, generator = GeneratorBytes(), np.random.default_rng(0)
    row = bytearray(RNG_BYTES)
    view.capture(generator, memoryview(row), 0)
    view.check(generator, bytes(row), "there")
    flagged = bytes(row[:32]) + b"\2" + bytes(row[33:])
    for damaged in (bytes(RNG_BYTES), flagged):
        with pytest.raises(DamagedState, match="there: the random state must have an odd incr"):
            view.check(generator, damaged, "there")


def test_a_copy_looks_at_the_generator_of_its_own_env():
    view, first, second = GeneratorBytes(), np.random.default_rng(0), np.random.default_rng(1)
    rows = [bytearray(RNG_BYTES) for _ in range(2)]
    view.capture(first, memoryview(rows[0]), 0)
    copy.deepcopy(view).capture(second, memoryview(rows[1]), 0)
    assert rows[0] != rows[1]


def restored(data):
    """Return a generator in that state, as a restore makes it."""
    generator, state = generator_of(lambda *_: None, -1, "", data)
    set_all([(generator, state)])
    return generator


def test_a_restore_takes_only_generators_that_nothing_else_holds():
    source = drawn(np.random.default_rng(5), 7)
    data, expected = random_bytes(source), source.random(3).tolist()
    held = [restored(data) for _ in range(4)]
    draw = held.pop().random  # a bound method holds it
    bits = held.pop().bit_generator
    before = bits.state
    assert len({*map(id, held)}) == 2
    for _ in range(8):
        other = restored(data)
        assert other not in held
        assert other.bit_generator is not bits
        assert other.random(3).tolist() == expected
    assert bits.state == before
    assert draw(3).tolist() == expected
    assert all(one.random(3).tolist() == expected for one in held)


def test_a_restore_takes_a_free_generator_again(monkeypatch):
    # Those that other tests of this process still hold would be looked at first.
    monkeypatch.setattr(rng, "_made", type(rng._made)(maxlen=rng._made.maxlen))
    data = random_bytes(np.random.default_rng(5))
    kept = restored(data)
    numbers = set()
    for _ in range(20):
        kept = restored(data)
        numbers.add(id(kept))
    assert len(numbers) < 10
