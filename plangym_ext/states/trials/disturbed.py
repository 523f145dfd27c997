"""Trial in a copied process with altered addresses and hashes, to expose order dependence.

Objects lie at other addresses in each process, so that a set of objects has another order there.
`hash("a")`, and the order of a set of texts, differ unless the environment variable PYTHONHASHSEED
is set. And the order of any set depends on what was put into it and taken out before, which its
elements do not tell: a state that holds these gives it some order.

What the system is asked for, the time and random bytes, differs as well: see `system_answers`.

A fork has all that of its original, so that a difference would show by chance, or not at all.
"""

from __future__ import annotations

import builtins
import random
import sys
import types
import weakref
from collections.abc import Collection, Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.states.codec import StateCodec, layers
from plangym_ext.states.trials.digests import is_own_module
from plangym_ext.states.trials.fork import Fork, Line
from plangym_ext.states.trials.round_trip import Trip
from plangym_ext.states.trials.subject import RemoteSubject, Subject
from plangym_ext.states.trials.surroundings import around_code, is_by_address, sets_in
from plangym_ext.states.trials.system_answers import SystemAnswers

#: What tells where an element lies in a set, also where `hash` is made another.
_true_hash = hash
#: Added to the hashes of texts.
_SHIFT = 1_000_003
#: Room that a set is given for others, to have its elements lie in another order.
_ROOMS = (64, 1024, 16384)
#: Others that take the place of its first element.
_IN_THE_WAY = (2, 6, 14, 30)
#: Bytes of the objects that are made to move addresses, and how many of each size.
_SIZES, _OF_A_SIZE = range(48, 1024, 16), 24
#: Bytes of an object of Python's beside those that it holds.
_HEAD = sys.getsizeof(b"")
#: Ways by which a restored set comes about as the first one did.
_PLAYED = ("replay", "approximate")


class DisturbedSubject(Subject):
    """A subject in another process, with new object addresses after each restore.

    Sets of objects then have another order. So have sets that the state holds, but for those
    that no step changes and a restore gives the order that they had.
    """

    def __init__(self, env: gym.Env[Any, Any], codec: StateCodec) -> None:
        super().__init__(env, codec)
        self._reorders = codec.method not in _PLAYED
        self._random = random.Random(0)
        self._kept: list[Any] = []
        self._first = {hash(frozenset(one)): list(one) for one in sets_in(layers(env))}
        self._run_through, self._system = "", SystemAnswers()

    def serve(self, line: Line) -> None:
        """Serve replay requests in this temporary process.

        Libraries keep weak sets, such as that of a body's shapes. Few steps show their order, so
        the code that iterates over one is noted instead.
        """
        plain = weakref.WeakSet.__iter__

        def watched(found: Any) -> Any:
            frame: Any = sys._getframe(1)
            callers = [one for one in (frame, frame.f_back) if one is not None]
            if any(is_own_module(one.f_globals.get("__name__", "")) for one in callers):
                elements = [*plain(found)]
                if len(elements) > 1 and any(map(is_by_address, elements)):
                    kind = type(elements[0])
                    where = ", called by ".join(one.f_code.co_name for one in callers)
                    self._run_through = f"{kind.__module__}.{kind.__qualname__} in {where}"
            return plain(found)

        weakref.WeakSet.__iter__ = watched  # type: ignore[method-assign]
        self._system.take_the_place()
        super().serve(line)

    def keep_sets(self, fixed: Collection[int]) -> None:
        self._first = {kept: self._first[kept] for kept in fixed if kept in self._first}

    def unordered(self) -> str:
        """Return the objects that the env has iterated in the order of their addresses."""
        if not self._run_through:
            return ""
        return (
            f"it runs through a set of {self._run_through}, in the order of their addresses, "
            "which no state holds; sort it, or keep a list or a dict"
        )

    def entropy_asked_by(self) -> str:
        return self._system.entropy_asked_by

    def restore(self, state: bytes) -> None:
        """Restore a saved state, then disturb addresses and orders."""
        self._move_addresses()
        super().restore(state)
        for found in sets_in(layers(self.env)):
            if self.may_differ(found):
                _reorder(found)
        # Not before: a replay has set deadlines.
        self._system.restored()

    def reason(self) -> str:
        """Return possible causes of a difference; see `Subject.reason`."""
        return self._system.reason() + super().reason()

    def _move_addresses(self) -> None:
        """Allocate memory so that the next objects lie at other addresses."""
        made: list[Any] = [bytes(size - _HEAD) for size in _SIZES for _ in range(_OF_A_SIZE)]
        # Compiled code has memory of another kind.
        made += [np.empty(size, np.uint8) for size in _SIZES for _ in range(_OF_A_SIZE)]
        self._random.shuffle(made)
        self._kept = made[::2]

    def may_differ(self, found: set[Any]) -> bool:
        if super().may_differ(found):
            return True
        # Of texts as well: where hashes are the same, there is still what was taken out before.
        return self._reorders and self._first.get(hash(frozenset(found))) != list(found)


def depends_on_texts(env: gym.Env[Any, Any], codec: StateCodec, trip: Trip) -> bool:
    """Return whether futures from an env's states depend on the hashes of texts.

    Args:
        env: of this process, which is thrown away.
        codec: bound to it, and proved exact here.
        trip: of that proof.
    """
    if not _may_depend_on_texts(env):
        return False
    subject = _OtherTexts(env, codec)
    with Fork(subject.serve) as other:
        there = RemoteSubject(other.line)
        # What asks for one may show it later than the proof has come.
        return bool(trip.again("a process with other hashes of texts", there) or there.unordered())


def _may_depend_on_texts(env: gym.Env[Any, Any]) -> bool:
    """Return whether an env's own code asks for hashes, or it holds sets of texts."""
    functions, sets = around_code(env)
    return bool(_of_texts(sets)) or any(_names_hash(function.__code__) for function in functions)


def _of_texts(sets: list[set[Any]]) -> list[set[Any]]:
    return [found for found in sets if any(map(_has_text, found))]


def _names_hash(code: types.CodeType) -> bool:
    inner = (one for one in code.co_consts if isinstance(one, types.CodeType))
    return "hash" in code.co_names or any(map(_names_hash, inner))


class _OtherTexts(Subject):
    """A subject in another process, with altered hashes of texts.

    A set of texts that the env can reach lies in another order after each restore.
    """

    _asked_by = ""

    def serve(self, line: Line) -> None:
        """Change what `hash` returns in this process, and replay what is asked for."""
        plain = hash

        def disturbed(value: Any) -> int:
            # Where `__hash__` asks, dicts and sets may hold what it has returned before.
            frame = sys._getframe(1)
            shifts = _has_text(value) and frame.f_code.co_name != "__hash__"
            if shifts and is_own_module(frame.f_globals.get("__name__", "")):
                self._asked_by = frame.f_code.co_qualname
            return plain(value) + _SHIFT if shifts else plain(value)

        builtins.hash = disturbed
        super().serve(line)

    def unordered(self) -> str:
        """Return the env's own code that has asked for the hash of a text; "" for none."""
        return self._asked_by

    def restore(self, state: bytes) -> None:
        """Bring the env to a saved state, with its sets of texts in another order."""
        super().restore(state)
        for found in _of_texts(around_code(self.env)[1]):
            _reorder(found)


def _has_text(value: Any) -> bool:
    if isinstance(value, tuple | frozenset):
        return any(map(_has_text, value))
    return isinstance(value, str | bytes)


def _reorder(found: set[Any]) -> None:
    """Give a set another order, in place, with another element first if there is such an order."""
    before = list(found)
    for order in _orders(before):
        found.clear()
        found.update(order)
        found.difference_update([one for one in order if type(one) is _Filler])
        if next(iter(found)) != before[0]:
            return


def _orders(elements: list[Any]) -> Iterator[list[Any]]:
    for room in _ROOMS:
        yield [*(_Filler() for _ in range(room)), *elements]
    yield elements[::-1]
    first, *rest = elements
    if is_by_address(first) or _has_text(first):
        # Whose hashes might be any others; whole numbers never give way to what is not there.
        for count in _IN_THE_WAY:
            yield [*rest, *(_Filler(_true_hash(first)) for _ in range(count)), first]


class _Filler:
    """Temporary set element that occupies a slot of the hash table."""

    def __init__(self, value: int | None = None) -> None:
        self._hash = id(self) // 16 if value is None else value

    def __hash__(self) -> int:
        return self._hash
