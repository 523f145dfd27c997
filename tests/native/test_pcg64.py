"""The generator in compiled code draws what numpy's draws, whatever went before."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.native.compiled import build
from plangym_ext.native.kernel import pcg64
from plangym_ext.states.randomness.rng import GeneratorBytes

RANDOM, UNIFORM, INTEGERS, CHOICE = range(4)


def draw_all(rngs, kinds, counts, cumulated, floats, ints):
    for k in range(kinds.size):
        rng = rngs[0]
        if kinds[k] == RANDOM:
            floats[k] = pcg64.random(rng)
        elif kinds[k] == UNIFORM:
            floats[k] = pcg64.uniform(rng, -0.05, 0.05)
        elif kinds[k] == INTEGERS:
            ints[k] = pcg64.integers(rng, counts[k])
        else:
            ints[k] = pcg64.categorical(rng, cumulated)


def record(generator):
    rng = np.zeros(1, pcg64.RNG)
    GeneratorBytes().capture(generator, rng.view(np.uint8).data, 0)
    return rng


def script(num_draws, seed):
    """Kinds of draws, and upper bounds of every magnitude up to 2**63."""
    rng = np.random.default_rng(seed)
    small = rng.integers(1, 10, num_draws)
    large = rng.integers(1, 2**63, num_draws, np.uint64) >> rng.integers(0, 62, num_draws).astype(
        np.uint64
    )
    edges = rng.choice(
        np.array([1, 2, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63], np.uint64), num_draws
    )
    which = rng.integers(0, 3, num_draws)
    counts = np.where(which == 0, small.astype(np.uint64), np.where(which == 1, large, edges))
    return rng.integers(0, 4, num_draws), np.maximum(counts, np.uint64(1))


def expected(generator, kinds, counts, cumulated):
    floats, ints = np.zeros(len(kinds)), np.zeros(len(kinds), np.int64)
    for k, (kind, count) in enumerate(zip(kinds.tolist(), counts.tolist(), strict=True)):
        if kind == RANDOM:
            floats[k] = generator.random()
        elif kind == UNIFORM:
            floats[k] = generator.uniform(-0.05, 0.05)
        elif kind == INTEGERS:
            ints[k] = generator.integers(count)
        else:
            ints[k] = np.argmax(cumulated > generator.random())
    return floats, ints


@pytest.mark.slow
@pytest.mark.parametrize("num_draws", [1_000_000])
def test_a_million_mixed_draws_equal_numpys(num_draws):
    generator = np.random.default_rng(11)
    rng = record(generator)
    kinds, counts = script(num_draws, seed=1)
    cumulated = np.cumsum([0.1, 0.2, 0.0, 0.3, 0.1])  # the last sum is far below 1
    floats, ints = np.zeros(num_draws), np.zeros(num_draws, np.int64)
    arguments = (rng, kinds, counts, cumulated, floats, ints)
    build("test draws", draw_all, arguments)(*arguments)
    want = expected(generator, kinds, counts, cumulated)
    assert floats.tobytes() == want[0].tobytes()
    assert ints.tobytes() == want[1].tobytes()
    # The state too, with the half that waits: of so many draws some leave one.
    assert rng.tobytes() == record(generator).tobytes()


def test_as_python_it_draws_the_same():
    generator = np.random.default_rng(3)
    rng = record(generator)
    kinds, counts = script(2000, seed=2)
    cumulated = np.cumsum([0.25] * 4)
    floats, ints = np.zeros(2000), np.zeros(2000, np.int64)
    with np.errstate(over="ignore"):  # numpy minds that a product wraps, compiled code does not
        draw_all(rng, kinds, counts, cumulated, floats, ints)
    want = expected(generator, kinds, counts, cumulated)
    assert floats.tobytes() == want[0].tobytes()
    assert ints.tobytes() == want[1].tobytes()
    assert rng.tobytes() == record(generator).tobytes()


def test_a_generator_that_cannot_be_is_told():
    rng = record(np.random.default_rng(0))[0]
    assert pcg64.could_be_rng(rng)
    rng["inc_low"] ^= np.uint64(1)
    assert not pcg64.could_be_rng(rng)
    rng["inc_low"] ^= np.uint64(1)
    rng["has_half"] = 2
    assert not pcg64.could_be_rng(rng)
