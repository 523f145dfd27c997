"""Compiled seeding of numpy generators inside state rows, as `reset(seed=...)` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.native.compiled import built_once, compiled
from plangym_ext.native.kernel.pcg64 import RNG, next64
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes

_POOL = 4
_LOW = np.uint64(0xFFFFFFFF)
_INIT_A, _MULT_A = np.uint64(0x43B0D7E5), np.uint64(0x931E8875)
_INIT_B, _MULT_B = np.uint64(0x8B51F9DD), np.uint64(0x58F38DED)
_MIX_L, _MIX_R = np.uint64(0xCA01F9DD), np.uint64(0x4973F715)
_0, _1, _16, _32, _63 = (np.uint64(n) for n in (0, 1, 16, 32, 63))


@compiled
def _hashed(value: Any, constant: Any, factor: Any) -> tuple[Any, Any]:
    """Return a hashed word of 32 bits, and the constant for the next one."""
    value = value ^ constant
    constant = (constant * factor) & _LOW
    value = (value * constant) & _LOW
    return value ^ (value >> _16), constant


@compiled
def seed_streams(seeds: Any, streams: Any, pool: Any, words: Any) -> None:
    """Write the generator that `numpy.random.default_rng(seed)` is, for each seed.

    Source: numpy's `SeedSequence`, after O'Neill 2015, "Developing a seed_seq alternative";
    O'Neill 2014, "PCG".

    Args:
        seeds: `[B]` uint64.
        streams: `[B]` records of type `RNG`, written.
        pool: `[4]` uint64, to write on.
        words: `[8]` uint64, to write on.
    """
    for row in range(len(seeds)):
        constant = _INIT_A
        for k in range(_POOL):
            # numpy pads a seed with words of 0 to the size of the pool.
            entropy = _0
            if k == 0:
                entropy = seeds[row] & _LOW
            elif k == 1:
                entropy = seeds[row] >> _32
            pool[k], constant = _hashed(entropy, constant, _MULT_A)
        # Every word is mixed into every other one, so that each depends on the whole seed.
        for source in range(_POOL):
            for k in range(_POOL):
                if k != source:
                    mixed, constant = _hashed(pool[source], constant, _MULT_A)
                    mixed = (_MIX_L * pool[k] - _MIX_R * mixed) & _LOW
                    pool[k] = mixed ^ (mixed >> _16)
        constant = _INIT_B
        for k in range(2 * _POOL):
            words[k], constant = _hashed(pool[k % _POOL], constant, _MULT_B)
        begin_stream(
            streams[row],
            # numpy pairs its words low half first, and 128 bits of these pairs high half first.
            words[2] | (words[3] << _32),
            words[0] | (words[1] << _32),
            words[6] | (words[7] << _32),
            words[4] | (words[5] << _32),
        )


@compiled
def begin_stream(rng: Any, low: Any, high: Any, inc_low: Any, inc_high: Any) -> None:
    """Seed a generator as PCG's `srandom` does: with its state and its increment."""
    rng["inc_low"] = (inc_low << _1) | _1
    rng["inc_high"] = (inc_high << _1) | (inc_low >> _63)
    rng["low"], rng["high"] = _0, _0
    rng["has_half"], rng["half"] = 0, 0
    # As `srandom`: a step from 0, the state is added, and a step again.
    next64(rng)
    before = rng["low"]
    rng["low"] = before + low
    # An unsigned sum that is less than a part of it has wrapped.
    carried = _1 if rng["low"] < before else _0
    rng["high"] += high + carried
    next64(rng)


def generator_at(state: np.ndarray, generator: np.random.Generator) -> int | None:
    """Return at which byte of a state `[S]` uint8 a generator lies; None if not at one place."""
    record = np.zeros(RNG_BYTES, np.uint8)
    GeneratorBytes().capture(generator, record.data, 0)
    data, sought = state.tobytes(), record.tobytes()
    # Found by its bytes: where a part puts its generator is its own affair.
    at = data.find(sought)
    return None if at < 0 or data.find(sought, at + 1) >= 0 else at


def streams_of(seeds: Sequence[int]) -> np.ndarray:
    """Return `[B]` records of type `RNG`, the generators of seeds of at most 64 bits."""
    streams = np.zeros(len(seeds), RNG)
    notes = np.empty(_POOL, np.uint64), np.empty(2 * _POOL, np.uint64)
    arguments = np.array(seeds, np.uint64), streams, *notes
    fill, _ = built_once("seed streams", seed_streams, arguments)
    fill(*arguments)
    return streams


def put_streams(states: np.ndarray, at: int, seeds: Sequence[int]) -> None:
    """Set the generators in state rows `[B, S]` uint8 by seeds `[B]` of at most 64 bits."""
    streams = streams_of(seeds).view(np.uint8)
    states[:, at : at + RNG_BYTES] = streams.reshape(-1, RNG_BYTES)
