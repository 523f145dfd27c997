"""PCG64 random numbers in compiled code, identical to numpy's `Generator`.

A generator is a record of type `RNG` inside a state row: 40 bytes, as the library's
codecs write them. Each function reads and advances it in place.

Source: O'Neill 2014, "PCG" (XSL-RR 128/64); Lemire 2019, "Fast Random Integer
Generation in an Interval"; numpy's `pcg64.h` and `distributions.c` for which draw
takes which bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.native.compiled import compiled
from plangym_ext.states.randomness.rng import GeneratorBytes

#: 128-bit state and increment, low words first, and the half of a draw that waits.
RNG = np.dtype(
    [
        ("low", "<u8"),
        ("high", "<u8"),
        ("inc_low", "<u8"),
        ("inc_high", "<u8"),
        ("has_half", "<u4"),
        ("half", "<u4"),
    ]
)

# Constants are uint64 one and all: numba turns a mixture with int64 into floats.
_MULTIPLIER_LOW = np.uint64(4865540595714422341)
_MULTIPLIER_HIGH = np.uint64(2549297995355413924)
_LOW32 = np.uint64(0xFFFFFFFF)
_ALL64 = np.uint64(0xFFFFFFFFFFFFFFFF)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_11, _32, _58, _63, _64 = (np.uint64(n) for n in (11, 32, 58, 63, 64))
_PER_53_BITS = 1.0 / 9007199254740992.0


@compiled
def _high_product(a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the 128-bit product of two uint64."""
    a_low, a_high = a & _LOW32, a >> _32
    b_low, b_high = b & _LOW32, b >> _32
    middle = a_high * b_low + ((a_low * b_low) >> _32)
    other = a_low * b_high + (middle & _LOW32)
    return a_high * b_high + (middle >> _32) + (other >> _32)


@compiled
def next64(rng: Any) -> Any:
    """Draw the next 64 random bits, uint64."""
    low, high = rng["low"], rng["high"]
    product = low * _MULTIPLIER_LOW
    carried = _high_product(low, _MULTIPLIER_LOW)
    new_low = product + rng["inc_low"]
    new_high = low * _MULTIPLIER_HIGH + high * _MULTIPLIER_LOW + carried + rng["inc_high"]
    # The sum of the low words has wrapped.
    if new_low < product:
        new_high += _ONE
    rng["low"], rng["high"] = new_low, new_high
    # XSL-RR: both halves folded, then turned right by the top six bits.
    mixed, turn = new_high ^ new_low, new_high >> _58
    # Masked: to shift by 64, as for no turn at all, is undefined.
    return (mixed >> turn) | (mixed << ((_64 - turn) & _63))


@compiled
def next32(rng: Any) -> Any:
    """Draw the next 32 random bits, as uint64; half of a 64-bit draw is kept for the next call."""
    if rng["has_half"] != 0:
        rng["has_half"] = 0
        return np.uint64(rng["half"])
    word = next64(rng)
    rng["has_half"] = 1
    rng["half"] = np.uint32(word >> _32)
    return word & _LOW32


@compiled
def random(rng: Any) -> Any:
    """Draw as `Generator.random()`: float64 in [0, 1)."""
    return np.float64(next64(rng) >> _11) * _PER_53_BITS


@compiled
def uniform(rng: Any, low: float, high: float) -> Any:
    """Draw as `Generator.uniform(low, high)`: float64."""
    return low + (high - low) * random(rng)


@compiled
def integers(rng: Any, count: Any) -> Any:
    """Draw as `Generator.integers(count)`: int64.

    Args:
        rng: the generator.
        count: int64 >= 1, or uint64 up to 2**63.
    """
    size = np.uint64(count)
    last = size - _ONE
    if last == _ZERO:
        return np.int64(0)  # nothing is drawn
    if last < _LOW32:
        product = next32(rng) * size
        if product & _LOW32 < size:
            # Draws whose low half lies below this would make some numbers likelier than others.
            fewest = (_LOW32 - last) % size
            while product & _LOW32 < fewest:
                product = next32(rng) * size
        return np.int64(product >> _32)
    if last == _LOW32:
        # All 32 bits are wanted: a draw is a number already.
        return np.int64(next32(rng))
    word = next64(rng)
    if word * size < size:
        fewest = (_ALL64 - last) % size
        while word * size < fewest:
            word = next64(rng)
    return np.int64(_high_product(word, size))


@compiled
def categorical(rng: Any, cumulated: Any) -> Any:
    """Draw as gymnasium's `categorical_sample`: the first index whose sum exceeds a `random()`.

    Args:
        rng: the generator.
        cumulated: `[n]` float64, `numpy.cumsum` of the probabilities.
    """
    drawn = random(rng)
    first, stop = 0, cumulated.size
    while first < stop:  # the sums never fall
        middle = (first + stop) // 2
        if cumulated[middle] > drawn:
            stop = middle
        else:
            first = middle + 1
    # Rounding may leave the last sum below 1; argmax of all False is 0.
    return first if first < cumulated.size else 0


@compiled
def could_be_rng(rng: Any) -> bool:
    """Return whether a PCG64 can be in this state: odd increment, flag 0 or 1."""
    return rng["inc_low"] & _ONE == _ONE and rng["has_half"] <= 1


def record_of(generator: np.random.Generator) -> np.ndarray:
    """Return a numpy generator as a fresh `[]` record of type `RNG`; Python only.

    Raises:
        IncompleteState: it is not over PCG64.
    """
    record = np.zeros((), RNG)
    GeneratorBytes().capture(generator, record.reshape(1).view(np.uint8).data, 0)
    return record


def set_generator(generator: np.random.Generator, record: Any) -> None:
    """Set a numpy generator to the state in a record; Python only.

    Raises:
        IncompleteState: it is not over PCG64.
    """
    row = np.array(record, RNG).reshape(1).view(np.uint8)
    GeneratorBytes().restore(generator, row.data, 0)
