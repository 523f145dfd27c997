"""Trial of one capture method of an env's states, in a temporary process."""

from __future__ import annotations

import dataclasses
import errno
import functools
import pickle
import re
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from plangym_ext.errors import IncompleteState, add_note, text_of
from plangym_ext.states.codec import StateCodec, layers, with_recorder
from plangym_ext.states.constants import made_by_constructor
from plangym_ext.states.costs import cost_note
from plangym_ext.states.families import family_of
from plangym_ext.states.fixed_fields import plain_fields
from plangym_ext.states.in_place.part import remember
from plangym_ext.states.layer_attributes import Binding, Cost, Exactness
from plangym_ext.states.trials.disturbed import DisturbedSubject, depends_on_texts
from plangym_ext.states.trials.fork import SILENCE, Fork, ForkFailed, Line
from plangym_ext.states.trials.round_trip import Plan, RoundTrip, Trip, check_round_trip
from plangym_ext.states.trials.sampling import step_info
from plangym_ext.states.trials.sandbox import LIMITS, OutsideReached
from plangym_ext.states.trials.subject import RemoteSubject, Subject

#: What calls on descriptors raise that a fork has closed or replaced; the last is of `epoll`.
_OF_DESCRIPTORS = (errno.EBADF, errno.ENOTSOCK, errno.EPIPE, errno.EINVAL)
_FRAME = re.compile(r'File "(.+)", line (\d+)')


def reason_of(error: BaseException) -> str:
    """Return why a trial failed with an error; "" if the error is not about states."""
    if isinstance(error, IncompleteState):
        return str(error)
    if isinstance(error, MemoryError):
        return f"there is no memory for it{f': {error}' if str(error) else ''}"
    if isinstance(error, OutsideReached):
        return f"it reaches another process or machine, which no state holds: {error}"
    if isinstance(error, OSError) and error.errno in _OF_DESCRIPTORS:
        return (
            "it reads a pipe, a socket or an event loop, which no state holds, or talks to another "
            f"process through it ({error})"
        )
    return ""


def place_of(error: BaseException) -> str:
    """Return class and text of an error, and the line of code that raised it, here or in a fork."""
    frames = "".join([*traceback.format_tb(error.__traceback__), *getattr(error, "__notes__", ())])
    # Those of the fork are in a note; its last line raised the error.
    *_, (file, line) = _FRAME.findall(frames) or [("unknown", 0)]
    return f"{text_of(error)} ({file}:{line})"


def sendable(error: BaseException) -> BaseException:
    """Return an error, or the nearest one that can be sent, with the traceback as a note."""
    add_note(error, "".join(traceback.format_tb(error.__traceback__)))
    for kind in type(error).__mro__:
        found: Any = error
        if kind is not type(error):
            found = kind(f"{type(error).__qualname__}: {error}")
            for note in getattr(error, "__notes__", ()):
                add_note(found, note)
        try:
            pickle.loads(pickle.dumps(found))
        except Exception:  # whatever its own reduction raises
            continue
        sendable: BaseException = found
        return sendable
    raise AssertionError("BaseException itself can be sent")


#: Seconds for its constructor and the comparison: of an env that takes longer there is none.
_PATIENCE = SILENCE / 3
#: Its share of the time of a proof, and steps that are played at most.
_SHARE, _STEPS = 0.1, 64


def second_differs(subject: Subject, construct: Callable[[], Subject], seconds: float) -> str:
    """Return the first difference in a second instance.

    It is "" if it does not, or if no second instance can be constructed in a fork.

    Args:
        subject: the first one, which is not moved.
        construct: returns the second one.
        seconds: that the proof may take in all.
    """

    def run(line: Line) -> None:
        try:
            second = construct()
        except IncompleteState as error:  # it is made of other parts
            line.send(f"a second instance: {error}")
            return
        plan = Plan(_SHARE * seconds, _STEPS, seed=2, around=False)
        line.send(check_round_trip(subject, [("a second instance", second)], plan).difference)

    try:
        with Fork(run) as fork:
            found: str = fork.line.receive(_PATIENCE)
            return found
    except ForkFailed:
        # Its constructor raised, hung, or reached outside: there may be one instance alone.
        return ""


#: Seconds and steps of a play in which a row's cost is measured.
_COSTS_SECONDS, _COSTS_STEPS = 0.06, 200
#: Modules that read and write states: an error that they raise is theirs, not the env's.
_OURS = "plangym_ext.states."
_OF_TEXTS = (
    "its futures depend on the hashes of texts, or on the order of a set of texts, which differ "
    "from process to process: its states hold in processes with this one's hashes alone. Set the "
    "environment variable PYTHONHASHSEED before Python starts, or sort the set"
)


def prepare(env: gym.Env[Any, Any], capture: str) -> None:
    """Prepare a new simulator as its family's codec needs, before the first reset."""
    simulator = layers(env)[-1]
    if capture in ("auto", "simulator"):
        remember(layers(env))
    family = family_of(simulator)
    found = family.load("prepare") if family is not None else None
    if found is not None and capture in ("auto", "codec"):
        found(simulator)


@dataclass
class Failed:
    """A capture method failed its trial; the message says why."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass
class Raised(Failed):
    """An error that is not about states: of the env, or a fault of ours.

    Attributes:
        place: in the code of this library; empty if code of others has raised it.
    """

    error: BaseException
    place: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.place})" if self.place else self.reason


def raised_by(error: BaseException) -> Raised:
    """Return an error as a `Failed` or `Raised`, with its place if that is in this package."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    module = frame.f_globals.get("__name__", "")
    place = f"{module}:{line}" if module.startswith(_OURS) else ""
    return Raised(f"{type(error).__name__}: {error}", sendable(error), place)


@dataclass(frozen=True)
class Trial:
    """The trial of one capture method, in another process.

    Attributes:
        capture: as for `prove`.
        plan: how far it is proved; None for not at all.
        trusted: as for `prove`.
        method: the way.
        make: constructor of the env, for a second instance; None for none.
    """

    capture: str
    plan: Plan | None
    trusted: bool
    method: str = ""
    make: Callable[[], Any] | None = None

    def outcome(self, env: gym.Env[Any, Any], line: Line | None = None) -> Binding | Failed:
        """Try the method on a copy of an env."""
        try:
            return self._tried(env, line)
        # An env that was restored wrongly may not be able to step on.
        except (Exception, SystemExit) as error:
            reason = reason_of(error)
            return Failed(reason) if reason else raised_by(error)

    def _tried(self, env: gym.Env[Any, Any], line: Line | None) -> Binding | Failed:
        begun = time.monotonic()
        env, codec, before = self._bound(env, seed=0)
        # Before it grows in the proof: how far that goes depends on the machine.
        width = codec.width
        plan = self.plan if self.method != "approximate" else None
        trip: RoundTrip | None = None
        notes: tuple[str, ...] = ()
        of_texts, row_seconds = False, 0.0
        if plan is not None:
            trip, notes, of_texts, row_seconds = _proof(env, codec, plan, line)
            difference = trip.difference
            if not difference and plan.seconds and line is not None and self.make is not None:
                learned = codec.learned(before)
                # Both write alike: what a step has changed is no constant any more.
                codec.adopt(learned, before)
                construct = functools.partial(self._second, learned)
                difference = second_differs(Subject(env, codec), construct, plan.seconds)
            if difference:
                return Failed(difference)
        info = step_info(env)
        cost = Cost()
        # The proof of a codec of the library restores twice or so: the first time takes longest.
        if trip is not None and plan is not None and plan.seconds:
            cost = Cost(row_seconds, width, trip.steps / max(trip.episodes, 1), trip.episodes)
        exactness = Exactness(
            self.method,
            "" if trip is None or plan is None else "fork" if plan.seconds else "library",
            *((0, 0, 0) if trip is None else (trip.steps, trip.episodes, trip.transitions)),
            seconds=time.monotonic() - begun,
            notes=notes,
        )
        return Binding(
            self.method,
            width,
            codec.learned(before),
            codec.identity(),
            info,
            exactness,
            None if trip is None else trip.step_seconds,
            cost_note(codec, cost.seconds, trip.step_seconds if trip is not None else 0.0),
            of_texts,
            cost,
        )

    def cost(self, env: gym.Env[Any, Any], line: Line) -> Cost | Failed:
        """Return the cost of a row, measured in a short play without a proof of exactness."""
        try:
            env, codec, _ = self._bound(env, seed=0)
            width = codec.width
            plan = Plan(_COSTS_SECONDS, _COSTS_STEPS, around=False, busy=lambda *_: line.busy())
            played = Trip(Subject(env, codec), plan)
            difference = played.outcome([]).difference
            return Failed(difference) if difference else Cost(played.row_seconds(), width)
        except Exception as error:
            return raised_by(error)

    def _bound(
        self, env: gym.Env[Any, Any], *, seed: int
    ) -> tuple[gym.Env[Any, Any], StateCodec, dict[str, bytes]]:
        """Return an env that was reset, its codec, and its plain fields from before."""
        # Before the fields are read: what it sets is not what a reset has changed.
        prepare(env, self.capture)
        before = plain_fields(layers(env)[-1])
        made = made_by_constructor(layers(env)) if self.method == "snapshot" else {}
        if self.method in ("replay", "approximate"):
            env = with_recorder(env, self.method)
        # Bound after a reset: a codec looks at what the simulator holds by then.
        env.reset(seed=seed)
        codec = StateCodec(env, self.method, trusted=self.trusted)
        codec.leave_out(made)
        return env, codec, before

    def _second(self, learned: tuple[Any, ...]) -> Subject:
        """Return a second instance, which writes states as the first one does."""
        assert self.make is not None
        # By another seed: what the first reset draws is part of the state.
        env, codec, before = self._bound(self.make(), seed=1)
        codec.adopt(learned, before)
        return Subject(env, codec)


def _proof(
    env: gym.Env[Any, Any], codec: StateCodec, plan: Plan, line: Line | None
) -> tuple[RoundTrip, tuple[str, ...], bool, float]:
    """Return the outcome of a round trip in two processes, and what else was seen.

    The last are whether futures depend on the hashes of texts, and the seconds of a row.
    """
    subject = Subject(env, codec)
    if line is None:
        played = Trip(subject, plan)
        trip = played.outcome([])
        return trip, (), False, 0.0 if trip.difference else played.row_seconds()
    # What comes with the library is tested with it, and is not disturbed.
    there = DisturbedSubject(env, codec) if plan.seconds else subject
    # Forked before anything is played: whatever steps leave behind here is missing there.
    with Fork(there.serve) as other:
        plan = dataclasses.replace(plan, busy=lambda *_: line.busy())
        played = Trip(subject, plan)
        trip = played.outcome([("another process", RemoteSubject(other.line))])
    if LIMITS.read_back:
        reason = (
            f"it writes the file {min(LIMITS.read_back)} and reads it again, and no state holds "
            "files; keep its content in an attribute of the env"
        )
        if trip.difference:
            reason = f"{trip.difference}; {reason}"
        trip = dataclasses.replace(trip, exact=False, difference=reason)
    notes = [*trip.notes, *(f"writes {path}" for path in sorted(LIMITS.files)[:3])]
    of_texts = trip.exact and plan.seconds > 0 and depends_on_texts(env, codec, played)
    if of_texts:
        notes.insert(0, _OF_TEXTS)
    return trip, tuple(notes), of_texts, played.row_seconds() if trip.exact else 0.0
