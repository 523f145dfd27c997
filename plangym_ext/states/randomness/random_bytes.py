"""Serialisation of numpy generators of any kind to bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence

from plangym_ext.errors import DamagedState, IncompleteState
from plangym_ext.states import plain
from plangym_ext.states.randomness import random_state, rng

RANDOM_TYPES = (np.random.Generator, np.random.RandomState)
_LEGACY_KEYS = 624
#: First byte of the state of a generator that has spawned others.
SPAWNED = b"S"
#: Bytes of the short form of a PCG64.
SHORT = 41


def bits_of(generator: Any) -> Any:
    """Return the bit generator that a numpy generator draws from; several may have one."""
    if isinstance(generator, np.random.RandomState):
        return generator._bit_generator  # private: it has no public name
    return generator.bit_generator


def num_spawned(generator: Any) -> int:
    """Return how many others a numpy generator has spawned since it was made."""
    seed = getattr(bits_of(generator), "seed_seq", None)
    return int(getattr(seed, "n_children_spawned", 0))


def random_bytes(generator: Any) -> bytes:
    """Return a numpy generator's state; those of gymnasium and `RandomState` in short form.

    Of one that has spawned others it begins with `SPAWNED`, and can be compared, but not restored:
    what the next child draws depends on their number and on the seed.
    """
    spawned = num_spawned(generator)
    if spawned:
        return SPAWNED + b"%d " % spawned + _state_bytes(generator)
    return _state_bytes(generator)


def _state_bytes(generator: Any) -> bytes:
    if isinstance(generator, np.random.RandomState):
        state = generator.get_state(legacy=False)
        # A RandomState may be over any bit generator; only the usual one has a short form.
        if state["bit_generator"] != "MT19937":
            return b"?" + plain.encode(state, "random state")
        keys, position = state["state"]["key"], state["state"]["pos"]
        numbers = struct.pack("<iid", position, state["has_gauss"], state["gauss"])
        return b"M" + numbers + keys.tobytes()
    bit_generator: Any = generator.bit_generator
    if type(bit_generator) is not np.random.PCG64:
        return b"?" + plain.encode(bit_generator.state, "random state")
    memory = rng.bound(generator)
    return _words(bit_generator) if memory is None else b"P" + memory.read()


def _words(bit_generator: Any) -> bytes:
    """Return the state of a PCG64 in short form."""
    state = bit_generator.state
    inner = state["state"]
    return b"".join(
        (
            b"P",
            inner["state"].to_bytes(16, "little"),
            inner["inc"].to_bytes(16, "little"),
            # The half of a 64-bit draw that a 32-bit draw keeps for the next one.
            state["has_uint32"].to_bytes(4, "little"),
            state["uinteger"].to_bytes(4, "little"),
        )
    )


def state_of(data: bytes) -> dict[str, Any]:
    """Return the state that `random_bytes` wrote, as numpy has it.

    Raises:
        DamagedState, or one of `plain.MALFORMED`: the bytes are not what it wrote.
    """
    if data[:1] == b"P":
        if len(data) != SHORT:
            raise ValueError(f"a generator of {len(data)} bytes, expected {SHORT}")
        words = [int.from_bytes(data[a:b], "little") for a, b in ((1, 17), (17, 33))]
        state = {
            "bit_generator": "PCG64",
            "state": {"state": words[0], "inc": words[1]},
            "has_uint32": int.from_bytes(data[33:37], "little"),
            "uinteger": int.from_bytes(data[37:41], "little"),
        }
    elif data[:1] == b"M":
        position, has_gauss, gauss = struct.unpack_from("<iid", data, 1)
        state = {
            "bit_generator": "MT19937",
            # 1 tag byte and 16 of numbers; not aligned, and numpy copies the key when it is set.
            "state": {"key": np.frombuffer(data, np.uint32, _LEGACY_KEYS, 17), "pos": position},
            "has_gauss": has_gauss,
            "gauss": gauss,
        }
    elif data[:1] == SPAWNED:
        raise ValueError("a generator that has spawned others")
    else:
        state = plain.decode(data[1:])
    # In every case: the bytes may come from anywhere, and numpy trusts what it is given.
    random_state.check(state)
    return state


def is_usual(generator: Any) -> bool:
    """Return whether a generator is of the kind that gymnasium makes."""
    return type(generator) is np.random.Generator and (
        type(generator.bit_generator) is np.random.PCG64
    )


def is_short(data: bytes) -> bool:
    """Return whether bytes are the state of a PCG64 in short form, one that could come about."""
    return data[:1] == b"P" and len(data) == SHORT and bool(data[17] & 1)


def set_short(live: Any, data: bytes) -> None:
    """Set a generator over a PCG64 to a state for which `is_short`."""
    memory = rng.bound(live)
    if memory is None:
        live.bit_generator.state = state_of(data)
    else:
        memory.write(data[1:])


class _NoSeed(ISpawnableSeedSequence):
    """In the place of a seed where the state is set at once."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        """Return ones: some generators accept no zeros."""
        return np.ones(n_words, dtype)

    def spawn(self, n_children: int) -> Any:  # noqa: ARG002 - of numpy
        """Refuse: what the children would draw was no part of the state.

        Raises:
            IncompleteState: always.
        """
        raise IncompleteState(
            "random state: a restored generator cannot spawn others, since states do not hold "
            "its seed. Draw seeds from it instead, or keep the children in attributes of the env."
        )


_SEED: Any = _NoSeed()  # numpy takes any `ISeedSequence`, its types name one class


def _is_legacy(state: dict[str, Any]) -> bool:
    return "has_gauss" in state


def holds(live: Any, state: dict[str, Any]) -> bool:
    """Return whether a generator has the right kind for a state."""
    kind: Any = RANDOM_TYPES[_is_legacy(state)]
    return isinstance(live, kind) and type(bits_of(live)).__name__ == state["bit_generator"]


def generator(state: dict[str, Any]) -> Any:
    """Return fresh generator of that kind, not in that state yet."""
    # Any seed will do, as the state replaces it; most of the time would go into drawing it.
    bits = getattr(np.random, state["bit_generator"])(_SEED)
    return RANDOM_TYPES[_is_legacy(state)](bits)


def _usual() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(_SEED))


def set_state(live: Any, state: dict[str, Any]) -> None:
    """Set a generator of that kind to the state."""
    if _is_legacy(state):
        live.set_state(state)
    else:
        live.bit_generator.state = state


def generator_of(
    named: Callable[[int, str], Any], layer: int, name: str, data: bytes
) -> tuple[Any, Any]:
    """Return the generator for a state, the one of that name if it is of the kind, and the state.

    Raises:
        one of `plain.MALFORMED`: it is no state.
    """
    live = named(layer, name) if name else None
    if is_short(data):
        usual = is_usual(live) and not num_spawned(live)
        return live if usual else rng.unheld(_usual), data
    state = state_of(data)
    return live if holds(live, state) and not num_spawned(live) else generator(state), state


def set_all(generators: Iterable[tuple[Any, Any]]) -> None:
    """Set generators to states.

    Raises:
        DamagedState: a generator cannot be in such a state.
    """
    try:
        for live, state in generators:
            if type(state) is bytes:
                set_short(live, state)
            else:
                set_state(live, state)
    except plain.MALFORMED as error:
        raise DamagedState(f"random state: {error}") from error
