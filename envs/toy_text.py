"""State codecs of gymnasium's toy text envs: FrozenLake, CliffWalking, Taxi, Blackjack.

State: the square or the hands, what a picture shows of the last action, and the
generator. The tables of transitions are constants and part of the env's identity:
a FrozenLake without a map draws one when it is made.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.toy_text.blackjack import BlackjackEnv

from plangym_ext.errors import DamagedState, IncompleteState
from plangym_ext.states.part import StatePart, StateTooWide
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes

# Of a square: gymnasium's envs hold it as numpy's integer after a reset and as either
# kind after a step. Of Taxi: whether the passenger may still change their mind.
_IS_NUMPY, _IS_FICKLE = 1, 2
_NO_ACTION = -1


def toy_text_part(env: Any) -> StatePart:
    """Return the codec of one of the four envs."""
    return BlackjackPart(env) if isinstance(env, BlackjackEnv) else SquarePart(env)


class SquarePart(StatePart):
    """Codec of the envs with a table of transitions: FrozenLake, CliffWalking, Taxi.

    Raises:
        IncompleteState: the env has no such table.
    """

    fixes_fields = True

    # Flags, last action, the way a drawn taxi faces, square.
    _layout = struct.Struct("<BbBq")
    width = _layout.size + RNG_BYTES

    def __init__(self, env: Any) -> None:
        if not hasattr(env, "P") or not hasattr(env, "s"):
            raise IncompleteState(
                f"{type(env).__qualname__}: expected a table `P` and a square `s`, as gymnasium's "
                "toy text envs have them. Give the env get_state and set_state."
            )
        self._env = env
        self._table = env.P
        self._is_taxi = hasattr(env, "taxi_orientation")
        self._has_fickle_step = hasattr(env, "fickle_step")
        self._rng = GeneratorBytes()

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        env = self._env
        square, action = env.s, env.lastaction
        flags = 0 if type(square) is int else _IS_NUMPY
        if self._has_fickle_step and env.fickle_step:
            flags |= _IS_FICKLE
        self._layout.pack_into(
            buffer,
            offset,
            flags,
            _NO_ACTION if action is None else action,
            env.taxi_orientation if self._is_taxi else 0,
            square,
        )
        return self._rng.capture(env.np_random, buffer, offset + self._layout.size)

    def restore(self, buffer: memoryview, offset: int) -> int:
        env = self._env
        flags, action, facing, square = self._layout.unpack_from(buffer, offset)
        if square not in env.P:
            raise DamagedState(f"state: there are {len(env.P)} squares; got square {square}.")
        env.s = np.int64(square) if flags & _IS_NUMPY else square
        env.lastaction = None if action == _NO_ACTION else action
        if self._is_taxi:
            env.taxi_orientation = facing
        if self._has_fickle_step:
            env.fickle_step = bool(flags & _IS_FICKLE)
        return self._rng.restore(env.np_random, buffer, offset + self._layout.size)

    def covers(self, name: str, value: Any) -> bool:
        """Return whether it is covered: pictures too, and the table unless a subclass has one."""
        mine = ("_np_random", "s", "lastaction", "fickle_step", "taxi_orientation")
        return name in mine or value is self._table or name.endswith(("_img", "_imgs"))

    def identity(self) -> dict[str, Any]:
        """Return the table of transitions, where episodes start, and Taxi's probability."""
        env = self._env
        # The table is a dict of lists; the text of a float says it to the last bit.
        table = hashlib.blake2b(repr(env.P).encode(), digest_size=16)
        table.update(np.asarray(env.initial_state_distrib).tobytes())
        constants = ("fickle_passenger", "fickle_probability")
        return {
            "gymnasium": gymnasium.__version__,
            "table": table.hexdigest(),
            **{name: getattr(env, name) for name in constants if hasattr(env, name)},
        }


_CARDS = {*range(1, 11)}
_SUITS, _FACES = {*"CDHS"}, {*"A23456789JQK"}


class BlackjackPart(StatePart):
    """Codec of Blackjack: both hands in the order of their cards, the card that is drawn.

    A hand that goes on past its end keeps growing, and the row with it.
    """

    fixes_fields = True
    may_refuse = True

    # Number of the player's and the dealer's cards, suit and face of the dealer's first.
    _layout = struct.Struct("<HHcc")
    # More than an episode can deal: 22 aces, and 17 for the dealer.
    _USUAL_CARDS = 40
    width = _layout.size + RNG_BYTES + _USUAL_CARDS

    def __init__(self, env: Any) -> None:
        self._env = env
        self._rng = GeneratorBytes()

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        env = self._env
        # 1 to 10, a byte each.
        cards = bytes(env.player + env.dealer)
        start = offset + self._layout.size + RNG_BYTES
        stop = start + len(cards)
        # Before anything is written: the row is captured again with more room.
        if stop > end:
            raise StateTooWide(stop - end)
        self._layout.pack_into(
            buffer,
            offset,
            len(env.player),
            len(env.dealer),
            env.dealer_top_card_suit.encode(),
            env.dealer_top_card_value_str.encode(),
        )
        self._rng.capture(env.np_random, buffer, offset + self._layout.size)
        buffer[start:stop] = cards
        return stop

    def restore(self, buffer: memoryview, offset: int) -> int:
        env = self._env
        player, dealer, *shown = self._layout.unpack_from(buffer, offset)
        start = offset + self._layout.size + RNG_BYTES
        middle, stop = start + player, start + player + dealer
        # Before anything is set: what is refused leaves the env where it was.
        hands = list(buffer[start:middle]), list(buffer[middle:stop])
        suit, face = (letter.decode("latin-1") for letter in shown)
        whole = stop <= len(buffer) and all(hands) and {*hands[0], *hands[1]} <= _CARDS
        if not whole or suit not in _SUITS or face not in _FACES:
            raise DamagedState(
                f"Blackjack: a state must have cards of 1 to 10 on both hands, and a suit and a "
                f"face; got {hands}, {suit!r} and {face!r}. Pass a row from get_state."
            )
        self._rng.restore(env.np_random, buffer, offset + self._layout.size)
        env.player, env.dealer = hands
        env.dealer_top_card_suit, env.dealer_top_card_value_str = suit, face
        return stop

    def covers(self, name: str, value: Any) -> bool:
        """Return the hands and the card that is drawn."""
        mine = ("_np_random", "player", "dealer")
        return name in mine or name.startswith("dealer_top_card_")

    def identity(self) -> dict[str, Any]:
        """Return the rules that are played by."""
        env = self._env
        return {"gymnasium": gymnasium.__version__, "natural": env.natural, "sab": env.sab}
