"""Round trip test: futures from restored states against the original futures.

Episodes are played and states saved. These are restored, here and in other processes, the same
actions played again, and the results compared as bytes. The first difference is named.
"""

from __future__ import annotations

import dataclasses
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from plangym_ext.errors import IncompleteState
from plangym_ext.states.codec import layers
from plangym_ext.states.trials.blame import blamed
from plangym_ext.states.trials.digests import Marks, Scalar
from plangym_ext.states.trials.sampling import Actions, checked_reset
from plangym_ext.states.trials.subject import (
    NEXT,
    OF_PROCESS,
    RANDOM,
    Fields,
    RemoteSubject,
    Subject,
)
from plangym_ext.states.trials.surroundings import changed, sets_in, surroundings

#: Of the time, playing takes a part; the rest is for what is played again.
_PLAYING = 0.3
#: Seconds that playing takes where nothing but the least is played again.
_BRIEF = 0.2
#: Steps that are played again after a restore, at most: a few, or some dozens.
_SHORT, _LONG = 8, 48
_MOST_STATES, _MOST_STATE_BYTES = 400, 64 << 20
#: Beginnings of episodes that are saved whenever they come.
_MOST_BEGINNINGS = 8
#: States that are restored in each instance, at most.
_MOST_POINTS = 64
_ACCOUNTED = (2, 8, 32, 128)  # save points at which all attributes are marked
#: Step up to which a state is saved whose row is timed; how often, and the share of the time.
_TIMED_STEP, _TIMED, _TIMED_SHARE = 32, 5, 0.05
#: Seconds that these may take at least: one row alone measures what else the machine does.
_TIMED_LEAST = 0.01
_NO_STATE_HOLDS = ", which no state holds (draw from self.np_random),"
_LEAVES_OUT_RANDOM = (
    ". After the restore {0} was not where it had been: the state leaves out {0}. Keep "
    "self.{0}.bit_generator.state in what get_state returns, and set it in set_state"
)


@dataclass(frozen=True)
class RoundTrip:
    """Outcome of a check.

    Attributes:
        exact: whether every transition came out the same.
        transitions: how many were compared.
        difference: first field, step, save point and process that differ; "" if none.
        steps: that were played, over which states were saved.
        episodes: that ended among them.
        instances: in how many states were restored.
        step_seconds: of an env step, the quartile of those that were played.
        notes: what states leave out that no result has shown.
    """

    exact: bool
    transitions: int
    difference: str = ""
    steps: int = 0
    episodes: int = 0
    instances: int = 1
    step_seconds: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass
class Plan:
    """Extent of a round trip.

    Attributes:
        seconds: of the processor that it may take, and twice as many by the clock, more on a busy
            machine. At least one step is played and compared in each instance.
        steps: that are played at most.
        least: steps that are played at least.
        seed: of the first reset and the actions.
        start: state to begin from, in place of a reset.
        around: whether what lies around the env is compared, too. Two instances that play side by
            side may each write their own data there.
        busy: called after every step with how many are done, and of how many at most.
    """

    seconds: float = 1.0
    steps: int = 1000
    least: int = 2
    seed: int = 1
    start: bytes | None = None
    around: bool = True
    busy: Callable[[int, int], None] = lambda _done, _total: None


def check_round_trip(
    subject: Subject, others: Sequence[tuple[str, Subject | RemoteSubject]], plan: Plan
) -> RoundTrip:
    """Compare futures from restored states with the original futures.

    The envs are reset and moved. Actions are random, held for some steps, or held for a whole
    episode; an episode that ends goes on with the next one, and the last step of all is
    followed by a reset, so what resets draw is compared too.
    """
    return Trip(subject, plan).outcome(others)


class Trip:
    """Episodes that an instance has played, with saved states.

    Attributes:
        actions: that were played; the last one is None, a reset.
        endings: steps that ended an episode.
        compared: transitions that were played again so far.
    """

    def __init__(self, subject: Subject, plan: Plan) -> None:
        self._plan, self._subject, self.compared = plan, subject, 0
        self.actions: list[Any] = []
        self.endings: list[int] = []
        self._played: list[Fields] = []
        self._saved: dict[int, bytes] = {}
        self._states: dict[int, Fields] = {}
        self._randoms: dict[int, tuple[tuple[str, bytes], ...]] = {}
        # What is captured as it is needs no such look.
        self._accounts = plan.seconds > 0 and subject.codec.method == "replay"
        #: Marks of the attributes at a save point, and of what lay around the env at first.
        self._attributes: tuple[int, Marks] = 0, {}
        self._before: Marks = {}
        # Beside others each second of work takes longer: the proof would end after fewer steps.
        self._patience = 2.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        self._begun = _now()
        sets = _sets(subject.env) if plan.seconds else []
        self._play(subject)
        now = {id(one) for one, _ in _sets(subject.env)} if sets else ()
        #: Hashes of what sets hold that no step has changed.
        self.fixed_sets = {
            hash(frozenset(one)) for one, had in sets if id(one) in now and [*one] == had
        }
        looks = plan.seconds and plan.around
        before, after = _now(), surroundings(subject.env) if looks else {}
        # The time that the marks take is not of the proof's, of which some is left to compare.
        self._begun = self._begun[0] + _now()[0] - before[0], self._begun[1] + _now()[1] - before[1]
        #: What the steps have changed of it, as they have left it.
        self._around = {name: after[name] for name in changed(self._before, after)}

    def _play(self, subject: Subject) -> None:
        plan = self._plan
        chooser = Actions(subject.env.action_space, plan.seed)
        if plan.start is None:
            subject.info = checked_reset(subject.env, subject.env.reset(seed=plan.seed))[1]
        else:
            subject.restore(plan.start)
        first = subject.outside()
        self._begun = _now()
        due, saved_bytes, worked = 0, 0, 0.0
        for step in range(plan.steps):
            # At least two: one of them from a state that a step has led to.
            if step == plan.least and plan.seconds and plan.around:
                # Not before: what the first steps import and make is there by now.
                self._before = surroundings(subject.env)
                self._begun = _now()
            if step >= plan.least and self._is_over(subject, _PLAYING * plan.seconds or _BRIEF):
                break
            ended = bool(self.endings) and self.endings[-1] == step - 1
            begins = ended and len(self.endings) <= _MOST_BEGINNINGS
            if step >= due or step < 3 or begins:
                self._randoms[step] = subject.random_state()
                self._saved[step] = subject.save()
                self._states[step] = subject.left_state(self._saved[step])
                if self._accounts and len(self._saved) in _ACCOUNTED:
                    self._attributes = step, subject.attributes()
                saved_bytes += len(self._saved[step])
                if step >= due:  # those at beginnings put none off: they may be as close
                    due = step + self._pause(subject, worked / max(step, 1), saved_bytes)
            action = chooser.next(subject.info, begins=ended)
            begun = time.process_time()
            try:
                played = subject.play(action)
            except IncompleteState:
                raise
            except Exception:
                # The env may refuse an action that was drawn blindly. What came before counts.
                if step < plan.least:
                    raise
                break
            worked += time.process_time() - begun
            self.actions.append(action)
            self._played.append(played)
            if played["terminated"] or played["truncated"]:
                self.endings.append(step)
            plan.busy(step, plan.steps)
        self.actions.append(None)
        self._played.append(subject.play_reset())
        self._fixed = self._never_changed(first)

    def _is_over(self, subject: Subject, seconds: float) -> bool:
        # The longest step may have imported or compiled something, once.
        longest = max(subject.step_seconds, default=0.0)
        worked, passed = (now - begun for now, begun in zip(_now(), self._begun, strict=True))
        # By the processor's time, which other processes do not change: the same is proved then.
        return max(worked, passed / self._patience) - longest >= seconds

    def _pause(self, subject: Subject, step: float, saved_bytes: int) -> int:
        """Return after how many steps, of `step` seconds (0: unknown), to save another state."""
        # Saving takes a third of the time.
        save = subject.capture_seconds[-1]
        room = max(len(self._saved) / _MOST_STATES, saved_bytes / _MOST_STATE_BYTES)
        return max(1, int(2 * save / (step or 1.0)), int(64 * room**2))

    def _never_changed(self, first: Fields) -> set[str]:
        """Return the fields that no step has changed, which may differ from process to process."""
        fixed = {
            name
            for name, value in first.items()
            if all(played.get(name, value) == value for played in self._played)
        }
        # A generator that is not drawn from is no part of the state.
        if len({*self._randoms.values(), *(played[RANDOM] for played in self._played)}) == 1:
            fixed.add(RANDOM)
        return fixed

    def left_around(self, instances: Sequence[tuple[str, Subject | RemoteSubject]]) -> str:
        """Return outside variables that steps change and a restore does not restore."""
        point = max(self._saved)
        for _, instance in instances if self._around else ():
            for _ in instance.replayed(self._saved[point], self.actions[point:]):
                self._plan.busy(point, self._plan.steps)
            got = instance.around([*self._around])
            names = [name for name, mark in self._around.items() if got[name] != mark]
            if names:
                return (
                    f"steps change {', '.join(names[:3])}, which no state holds; keep it in an "
                    "attribute of the env, which states do hold"
                )
        return ""

    def left_behind(self) -> tuple[list[str], list[str]]:
        """Return attributes that a replay does not bring back: numbers and texts, and others."""
        point, before = self._attributes
        self._subject.restore(self._saved[point])
        now = self._subject.attributes()
        names = changed(before, now)
        scalars = [name for name in names if type(now[name]) is Scalar]
        return scalars, [name for name in names if name not in scalars]

    def difference(self, instances: Sequence[tuple[str, Subject | RemoteSubject]]) -> str:
        """Play again from the states in each instance; return the first difference, or ""."""
        for turn, point in enumerate(self._points()):
            for which, instance in instances:
                over = self._is_over(self._subject, self._plan.seconds)
                # At least two states: restores alter the system's answers one way, then the other.
                if over and turn > 1:
                    return ""
                found = self._again(instance, point, self._stop(point, turn, over=over), which)
                if found:
                    return found
        return ""

    def outcome(self, others: Sequence[tuple[str, Subject | RemoteSubject]]) -> RoundTrip:
        """Return the outcome in the instance itself and in others; see `check_round_trip`."""
        subject = self._subject
        instances = [("the same process", subject), *others]
        for _, instance in instances:
            instance.keep_sets(self.fixed_sets)
        difference = self.difference(instances) or self.left_around(instances)
        for _, instance in instances:
            difference = difference or instance.unordered()
        notes: tuple[str, ...] = ()
        if self._attributes[1] and not difference:
            scalars, left = self.left_behind()
            notes = tuple(f"a replay does not bring back {name}" for name in scalars[:3])
            if left:  # in audits too: equal outcomes do not say that no later step reads it
                difference = (
                    f"a replay does not bring back {', '.join(left[:3])}, which resets do not "
                    "make anew. Let them do it, or give the env get_state and set_state"
                )
        for who in filter(None, (instance.entropy_asked_by() for _, instance in instances)):
            notes += (f"{who} asks the system for random numbers, which no state holds",)
        return RoundTrip(
            not difference,
            self.compared,
            difference,
            len(self.actions) - 1,
            len(self.endings),
            len(instances),
            # The quicker ones: in a fork the first ones copy the memory that they touch. Without
            # numpy's percentile, which imports numpy.ma: in every fork anew.
            sorted(subject.step_seconds)[len(subject.step_seconds) // 4],
            notes,
        )

    def row_seconds(self) -> float:
        """Return the least processor time of a capture and a restore of one state, in seconds.

        A busy machine changes neither the state, which every proof comes to, nor the least by much.
        """
        subject, found = self._subject, float("inf")
        state = self._saved[max(step for step in self._saved if step <= _TIMED_STEP)]
        begun = time.process_time()
        for _ in range(_TIMED):
            subject.restore(state)
            subject.save()
            found = min(found, subject.restore_seconds[-1] + subject.capture_seconds[-1])
            if time.process_time() - begun > max(_TIMED_LEAST, _TIMED_SHARE * self._plan.seconds):
                break
        return found

    def again(self, which: str, instance: Subject | RemoteSubject) -> str:
        """Return the first difference in one more instance, in half the time, or ""."""
        self._begun = _now()
        self._plan = dataclasses.replace(self._plan, seconds=self._plan.seconds / 2)
        return self.difference([(which, instance)])

    def _points(self) -> list[int]:
        """Return the steps of the states to restore: where faults show first, then the rest."""
        saved = sorted(self._saved)
        before = [max(s for s in saved if s <= ending) for ending in self.endings[:8]]
        after = [s for s in saved if s - 1 in self.endings[:4]]
        # Late ones first: what was restored before them is out of the way.
        first = [saved[min(1, len(saved) - 1)], *before, saved[-1], *after, *saved[:3]]
        rest = [*saved]
        random.Random(0).shuffle(rest)
        return list(dict.fromkeys([*first, *rest]))[:_MOST_POINTS]

    def _stop(self, point: int, turn: int, *, over: bool) -> int:
        if over:
            return point + 1
        ending = next((end for end in self.endings if end >= point), point)
        near = ending + 3 if ending - point < _LONG else point
        stop = max(near, point + (_SHORT if turn % 3 else _LONG))
        # At a state that was saved, which can be compared.
        return next((step for step in sorted(self._saved) if step >= stop), len(self.actions))

    def _again(self, instance: Subject | RemoteSubject, point: int, stop: int, which: str) -> str:
        moved, step = "", point
        try:
            fields = instance.replayed(self._saved[point], self.actions[point:stop])
            moved = _moved(self._randoms[point], next(fields)[RANDOM])
            for step, got in zip(range(point, stop), fields, strict=False):
                self.compared += self.actions[step] is not None
                self._plan.busy(step, self._plan.steps)
                name = _first_difference(self._played[step], got, self._fixed)
                if name:
                    break
            else:
                # What no observation has shown yet.
                name = _first_difference(self._states.get(stop, {}), next(fields), self._fixed)
                if not name:
                    return ""
        except Exception as error:  # the env had not raised it
            name = f"{type(error).__name__}: {str(error).rstrip('.')}; the env's future"
        when = "reset" if self.actions[step] is None else "step"
        why = _LEAVES_OUT_RANDOM.format(moved)
        if not moved:
            why = instance.reason()
            if not why or instance is self._subject:
                reset = when == "reset" or any(point <= end <= step for end in self.endings)
                why = blamed(self._subject, self.actions, self._plan.seed, reset) + why
        kept = _NO_STATE_HOLDS if name.startswith(OF_PROCESS[0]) else ""
        return (
            f"{name}{kept} differs at {when} {step + 1}, {step + 1 - point} after the state of "
            f"step {point} was restored in {which}{why}"
        )


def _moved(before: Sequence[tuple[str, bytes]], after: Sequence[tuple[str, bytes]]) -> str:
    """Return the first attribute whose generator is in another state; "" for none."""
    names = (name for name, state in before if (name, state) not in after)
    return next(names, "").rpartition(".")[2].replace("_np_random", "np_random")


def _now() -> tuple[float, float]:
    return time.process_time(), time.monotonic()


def _sets(env: Any) -> list[tuple[set[Any], list[Any]]]:
    """Return the sets that an env can reach, and their elements in order."""
    return [(one, list(one)) for one in sets_in(layers(env))]


def _first_difference(expected: Fields, got: Fields, passed: set[str]) -> str:
    # Equal states need not be equal bytes, or need no longer: see `StatePart`. And another
    # process has generators of its own.
    passed = passed | {
        key for key in expected.keys() ^ got.keys() if key == NEXT or key.startswith(OF_PROCESS)
    }
    mine, theirs = expected.keys() - passed, got.keys() - passed
    if mine != theirs:
        return f"the set of fields {sorted(mine ^ theirs)}"
    return next((key for key in expected if key in mine and expected[key] != got[key]), "")
