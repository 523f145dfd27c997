"""Choice of an env's capture method: the first one that passes its trial on a copy.

Every way is tried in a fork of this process, on its copy of the env. The env itself is not
reset, stepped or looked into, and stays as its constructor made it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from plangym_ext.errors import IncompleteState, InvalidOption, UnknownName, suggestion
from plangym_ext.states.binding import Binding, Exactness
from plangym_ext.states.codec import METHODS, StateCodec, candidate_methods, layers, with_recorder
from plangym_ext.states.costs import cost_note
from plangym_ext.states.extra_fields import plain_fields
from plangym_ext.states.families import custom_families, family_of, is_own_class
from plangym_ext.states.in_place.part import remember
from plangym_ext.states.outside import module_of
from plangym_ext.states.trials.digests import digest
from plangym_ext.states.trials.disturbed import DisturbedSubject, depends_on_texts
from plangym_ext.states.trials.fork import SILENCE, Fork, ForkFailed, Line
from plangym_ext.states.trials.fresh import class_name, tried
from plangym_ext.states.trials.round_trip import Plan, RoundTrip, check_round_trip
from plangym_ext.states.trials.sampling import step_info
from plangym_ext.states.trials.sandbox import LIMITS
from plangym_ext.states.trials.second import second_differs
from plangym_ext.states.trials.sendable import reason_of, sendable
from plangym_ext.states.trials.subject import RemoteSubject, Subject
from plangym_ext.states.wrapper_parts import STATELESS, wrapper_part

#: Seconds that the proof of a way may take, but for a step in each process: the default.
PROOF_SECONDS = float(os.environ.get("PLANGYM_EXT_PROOF_SECONDS", "1"))
#: Steps of a simulator whose codec comes with the library, and is tested with it.
_CERTIFIED_STEPS = 8
#: Seconds beside it for constructing the env, and for all ways together.
_PATIENCE = 90.0

#: Modules that read and write states: an error that they raise is theirs, not the env's.
_OURS = "plangym_ext.states."
_OF_TEXTS = (
    "its futures depend on the hashes of texts, or on the order of a set of texts, which differ "
    "from process to process: its states hold in processes with this one's hashes alone. Set the "
    "environment variable PYTHONHASHSEED before Python starts, or sort the set"
)

#: What was proved in this process, by kind of env, and how often for each stack of classes.
_proved: dict[tuple[Any, ...], Binding] = {}
_times: dict[tuple[Any, ...], int] = {}


def check_way(state: str, *others: str) -> None:
    """Refuse what names no way to capture a state.

    Args:
        state: the name.
        others: that are taken as well.

    Raises:
        UnknownName: it is none of "auto", `METHODS`, "approximate" and the others.
    """
    known = ("auto", *METHODS, "approximate", *others)
    if not isinstance(state, str) or state not in known:
        raise UnknownName(
            f"state must be one of {', '.join(known)}; got {state!r}{suggestion(state, known)}"
        )


def prepare(env: gym.Env[Any, Any], state: str) -> None:
    """Prepare a new simulator as its family's codec needs, before the first reset."""
    simulator = layers(env)[-1]
    if state in ("auto", "simulator"):
        remember(layers(env))
    family = family_of(simulator)
    found = family.load_prepare() if family is not None else None
    if found is not None and state in ("auto", "codec"):
        found(simulator)


def prove(
    env: gym.Env[Any, Any],
    state: str,
    *,
    check: bool | float,
    trusted: bool,
    make: Callable[[], Any] | None = None,
) -> Binding:
    """Return how the states of an env are captured; the env stays as it is.

    Args:
        env: as its constructor made it.
        state: "auto", one of `METHODS`, or "approximate".
        check: whether a way must prove itself, or the seconds that this may take; not asked of
            "approximate".
        trusted: open pickles that another session made.
        make: constructor of the env, which is called in a fork for a second instance, and in a
            new process where a fork of this one cannot try it; None for neither.

    Raises:
        IncompleteState: no way applies and passes; the message says what differs.
        UnknownName: `state` is none of the above.
        Exception: what the env raises however its state is captured.
    """
    check_way(state)
    if not isinstance(check, bool | int | float) or not 0 <= check < math.inf:
        raise InvalidOption(f"check must be True, False or a number of seconds; got {check!r}.")
    if not isinstance(trusted, bool):
        raise InvalidOption(f"trust must be True or False; got {trusted!r}.")
    stack = (str(env.spec), *map(class_name, layers(env)), state, check, trusted)
    kind = (*stack, *(digest(vars(layer)) for layer in layers(env)))
    if kind not in _proved:
        # Envs of one class that differ in their attributes mostly differ in nothing that counts.
        _times[stack] = _times.get(stack, 0) + 1
        seconds = PROOF_SECONDS if check is True else float(check)
        plan = Plan(seconds / _times[stack])
        if is_certified(env):
            plan = Plan(0.0, _CERTIFIED_STEPS, _CERTIFIED_STEPS)
        trial = _Trial(state, plan if check else None, trusted, make=make)
        _proved[kind] = _first_way(trial, env, make)
    return _proved[kind]


def prove_unbuilt(
    make: Callable[[], Any], state: str, *, check: bool | float, trusted: bool
) -> Binding:
    """Return how the states of an env are captured that is constructed in a fork, not here.

    Args:
        make: constructor of the env.
        state: as for `prove`.
        check: as for `prove`.
        trusted: as for `prove`.

    Raises:
        Exception: what the constructor raises there, and as `prove`.
        ForkFailed: the fork hung or died.
    """

    def run(line: Line) -> None:
        try:
            found: Any = prove(make(), state, check=check, trusted=trusted, make=make)
            # For the env proper, when that is constructed.
            found = next((kind, one) for kind, one in _proved.items() if one is found)
        except (Exception, SystemExit) as error:
            found = sendable(error)
        line.send(found)

    with Fork(run) as fork:
        found = fork.line.receive(SILENCE + _PATIENCE)
    if isinstance(found, BaseException):
        raise found
    kind, binding = found
    return _proved.setdefault(kind, binding)


def is_certified(env: gym.Env[Any, Any]) -> bool:
    """Return whether codecs that come with the library, and are tested with it, know all of it."""
    *above, simulator = layers(env)
    family = family_of(simulator)
    if family is None or family in custom_families() or not is_own_class(simulator):
        return False
    return all(
        module_of(type(layer)).partition(".")[0] in ("gymnasium", "plangym_ext")
        and (type(layer) in STATELESS or wrapper_part(layer) is not None)  # type: ignore[arg-type]
        for layer in above
    )


def _first_way(trial: _Trial, env: gym.Env[Any, Any], make: Callable[[], Any] | None) -> Binding:
    failures: list[str] = []
    raised: list[BaseException] = []
    faults: list[str] = []
    if trial.state in ("auto", "simulator"):
        remember(layers(env))  # by which a simulator is known that the env holds
    for method in candidate_methods(env) if trial.state == "auto" else (trial.state,):
        found = _outcome(dataclasses.replace(trial, method=method), env, make)
        if isinstance(found, Binding):
            # Another way works, which is slower or holds more: the cause would not be looked for.
            for fault in faults:
                warnings.warn(f"{fault}. The way {method!r} is taken instead.", stacklevel=2)
            return found
        failures.append(f"{method}: {found}")
        if isinstance(found, _Raised):
            raised.append(found.error)
            if found.place:
                faults.append(f"{method}: a fault of plangym_ext, please report it: {found}")
    if len(raised) == len(failures):
        # The same with each way: it is the env that cannot be stepped.
        raise raised[0]
    name = env.spec.id if env.spec else type(env.unwrapped).__qualname__
    tried = "\n  ".join(failures)
    raise IncompleteState(
        f"{name}: its state cannot be captured exactly.\n  {tried}\n"
        "Give the env get_state and set_state, leave out the wrapper that differs, or register "
        "a codec; state='approximate' takes a family's inexact way if it has one."
    )


def _outcome(
    trial: _Trial, env: gym.Env[Any, Any], make: Callable[[], Any] | None
) -> Binding | _Failed:
    """Return what came of a trial: in a fork, or in a new process where a fork cannot do it."""
    found: Binding | _Failed
    try:
        found, reason = tried(env, lambda line: trial.outcome(env, line), make, trial.outcome)
    except ForkFailed as error:
        return _Failed(str(error))
    if not reason or isinstance(found, _Failed):
        return found
    exactness = dataclasses.replace(
        found.exactness, proved=found.exactness.proved and "worker", notes=(reason,)
    )
    return dataclasses.replace(found, exactness=exactness)


# In the fork ------------------------------------------------------------------------------


@dataclass
class _Failed:
    """A way failed its trial; the message says why."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass
class _Raised(_Failed):
    """An error that is not about states: of the env, or a fault of ours.

    Attributes:
        place: in the code of this library; empty if code of others has raised it.
    """

    error: BaseException
    place: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.place})" if self.place else self.reason


def _raised(error: BaseException) -> _Raised:
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    module = frame.f_globals.get("__name__", "")
    place = f"{module}:{line}" if module.startswith(_OURS) else ""
    return _Raised(f"{type(error).__name__}: {error}", sendable(error), place)


@dataclass(frozen=True)
class _Trial:
    """The trial of one way, in another process.

    Attributes:
        state: as for `prove`.
        plan: how far it is proved; None for not at all.
        trusted: as for `prove`.
        method: the way.
        make: constructor of the env, for a second instance; None for none.
    """

    state: str
    plan: Plan | None
    trusted: bool
    method: str = ""
    make: Callable[[], Any] | None = None

    def outcome(self, env: gym.Env[Any, Any], line: Line | None = None) -> Binding | _Failed:
        """Try the way on a copy of an env.

        Args:
            env: as its constructor made it; it is the trial's own.
            line: to whom it is told that the trial goes on.
        """
        try:
            return self._tried(env, line)
        # An env that was restored wrongly may not be able to step on.
        except (Exception, SystemExit) as error:
            reason = reason_of(error)
            return _Failed(reason) if reason else _raised(error)

    def _tried(self, env: gym.Env[Any, Any], line: Line | None) -> Binding | _Failed:
        begun = time.monotonic()
        env, codec, before = self._bound(env, seed=0)
        # Before it grows in the proof: how far that goes depends on the machine.
        width = codec.width
        plan = self.plan if self.method != "approximate" else None
        trip: RoundTrip | None = None
        notes: tuple[str, ...] = ()
        of_texts = False
        if plan is not None:
            trip, notes, of_texts = _proof(env, codec, plan, line)
            difference = trip.difference
            if not difference and plan.seconds and line is not None and self.make is not None:
                construct = functools.partial(self._second, codec.learned(before))
                difference = second_differs(Subject(env, codec), construct, plan.seconds)
            if difference:
                return _Failed(difference)
        info = step_info(env)
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
            cost_note(codec),
            of_texts,
        )

    def _bound(
        self, env: gym.Env[Any, Any], *, seed: int
    ) -> tuple[gym.Env[Any, Any], StateCodec, dict[str, bytes]]:
        """Return an env that was reset, its codec, and its plain fields from before."""
        # Before the fields are read: what it sets is not what a reset has changed.
        prepare(env, self.state)
        before = plain_fields(layers(env)[-1])
        if self.method in ("replay", "approximate"):
            env = with_recorder(env, self.method)
        # Bound after a reset: a codec looks at what the simulator holds by then.
        env.reset(seed=seed)
        return env, StateCodec(env, self.method, trusted=self.trusted), before

    def _second(self, learned: tuple[Any, ...]) -> Subject:
        """Return a second instance, which writes states as the first one does."""
        assert self.make is not None
        # By another seed: what the first reset draws is part of the state.
        env, codec, before = self._bound(self.make(), seed=1)
        codec.adopt(learned, before)
        return Subject(env, codec)


def _proof(
    env: gym.Env[Any, Any], codec: StateCodec, plan: Plan, line: Line | None
) -> tuple[RoundTrip, tuple[str, ...], bool]:
    """Return the outcome of a round trip in two processes, and what else was seen.

    The last is whether futures depend on the hashes of texts.
    """
    subject = Subject(env, codec)
    if line is None:
        return check_round_trip(subject, [], plan), (), False
    # What comes with the library is tested with it, and is not disturbed.
    there = DisturbedSubject(env, codec) if plan.seconds else subject
    # Forked before anything is played: whatever steps leave behind here is missing there.
    with Fork(there.serve) as other:
        plan = dataclasses.replace(plan, busy=lambda *_: line.busy())
        trip = check_round_trip(subject, [("another process", RemoteSubject(other.line))], plan)
    if LIMITS.read_back:
        reason = (
            f"it writes the file {min(LIMITS.read_back)} and reads it again, and no state holds "
            "files; keep its content in an attribute of the env"
        )
        if trip.difference:
            reason = f"{trip.difference}; {reason}"
        trip = dataclasses.replace(trip, exact=False, difference=reason)
    notes = [f"writes {path}" for path in sorted(LIMITS.files)[:3]]
    of_texts = trip.exact and depends_on_texts(env, codec, plan)
    if of_texts:
        notes.insert(0, _OF_TEXTS)
    return trip, tuple(notes), of_texts
