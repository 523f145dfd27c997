"""Audit: ongoing checks in forked processes that states in use restore exactly.

From time to time a state in use is kept, with the env's next results. A fork of this process
restores the state, plays the same again and plays on. At most a hundredth of the time is spent so.
"""

from __future__ import annotations

import copy
import random
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.nested import content, reward_of
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import IncompleteState, InexactState, UnknownName, suggestion
from plangym_ext.states.codec import StateCodec
from plangym_ext.states.layer_attributes import Binding
from plangym_ext.states.trials.fork import Fork, ForkFailed, Line
from plangym_ext.states.trials.round_trip import Plan, check_round_trip
from plangym_ext.states.trials.sandbox import OutsideReached
from plangym_ext.states.trials.subject import Subject

POLICIES = ("raise", "warn", "off")
#: Of the time since the env was made, audits take this part at most: of that of the processor
#: that this process has taken, and of that of the clock.
SHARE = 0.01
#: Seconds of the processor that a fork of a process with all extras takes beside what is played
#: in it.
_FORK = 0.03
#: Seconds that an audit may take by the clock. Many: on a busy machine it waits for a processor,
#: and audits end when several have come to no result.
_LONGEST = 30.0
#: Calls of the env that are kept after a state, and seconds and steps for playing on from them.
_CALLS, _SECONDS, _STEPS = 24, 0.02, 60
#: What the next audit is expected to take, in times of the last one; and states that are written
#: and read, and steps that are played, beside those that are kept.
_MORE, _OTHERS = 1.25, 8
#: Audits that came to no result, one after the other, after which there are no more.
_MOST_FAILED = 3


def checked_audit(policy: str, where: str) -> str:
    """Return an audit policy after a check."""
    if not isinstance(policy, str) or policy not in POLICIES:
        raise UnknownName(
            f"{where}: audit must be one of {', '.join(POLICIES)}; got {policy!r}"
            f"{suggestion(policy, POLICIES)}"
        )
    return policy


@dataclass
class Sample:
    """A state in use, and the env's results after it.

    Attributes:
        state: payload of a row.
        actions: that were played; None is a reset without a seed.
        shown: what came of each: observation leaves, reward and endings.
    """

    state: bytes
    actions: list[Any] = field(default_factory=list)
    shown: list[tuple[Any, ...]] = field(default_factory=list)


class Audit:
    """Audits of one env.

    Args:
        name: of the env, for messages.
        policy: "raise" `InexactState` when a difference was found, "warn", or "off".
        bindings: of the envs that may be audited, from which the cost of the first audit is
            estimated: it waits until it is less than its part of the time.

    Attributes:
        passed: futures that came out the same.
        sample: what is being kept, or None.
    """

    def __init__(self, name: str, policy: str, bindings: Sequence[Binding] = ()) -> None:
        self.passed = 0
        self.sample: Sample | None = None
        self._name, self._policy = name, policy
        self._begun, self._worked = time.monotonic(), time.process_time()
        self._spent, self._expected = 0.0, max(map(_estimated, bindings), default=_FORK)
        #: By the clock; the processor's time is looked at after that, as it takes longer to ask.
        self._next = self._begun + self._expected / SHARE if policy != "off" else float("inf")
        self._failed, self._since = 0, self._begun
        self._fork: Fork | None = None
        self._started = self._before = 0.0

    def is_due(self) -> bool:
        """Return whether an audit is due; raise if an earlier one has found a difference.

        Raises:
            InexactState: the last audit found one.
        """
        if time.monotonic() < self._next:
            return False
        if self._fork is not None:
            self._collect()
        if self._fork is not None or time.monotonic() < self._next:
            return False
        # With the one that would begin: its time is told when it has been spent.
        needed = (self._spent + self._expected) / SHARE - (time.process_time() - self._worked)
        if needed > 0.0:
            # Not asked again before one thread can have worked for so long.
            self._next = time.monotonic() + needed
        return needed <= 0.0

    def open(self, state: Any) -> None:
        """Store the payload of a state as the sample, whose next results `note` records."""
        self.sample = Sample(bytes(state))

    def note(self, action: Any, shown: tuple[Any, ...]) -> bool:
        """Record the result of an action after the sample's state; return if these are enough."""
        assert self.sample is not None
        self.sample.actions.append(action)
        self.sample.shown.append(shown)
        return len(self.sample.actions) >= _CALLS

    def start(self, env: gym.Env[Any, Any], codec: StateCodec) -> None:
        """Begin the audit of the sample, in a fork."""
        sample, self.sample = self.sample, None
        assert sample is not None
        self._started, self._before = time.monotonic(), self._spent
        begun = time.process_time()
        try:
            self._fork = Fork(lambda line: _audit(env, codec, sample, line))
        except (ForkFailed, OSError):
            self._settle(0.0, failed=True)
            return
        # Looked at when it is expected to have ended.
        self._spent += time.process_time() - begun
        self._next = self._started + _SECONDS

    def _collect(self) -> None:
        """Take the result of a fork if it is there, or end one that takes too long."""
        assert self._fork is not None
        if not self._fork.line.has_come():
            if time.monotonic() - self._started > _LONGEST:
                self._settle(self._end(), failed=True)
            return
        try:
            difference = self._fork.line.receive(_LONGEST)
        except ForkFailed:
            difference = None
        # With what it took to copy this process, and to end the copy.
        self._settle(self._end(), failed=difference is None)
        if difference:
            self._tell(difference)
        elif difference == "":
            self.passed, self._since = self.passed + 1, self._started

    def _settle(self, seconds: float, *, failed: bool) -> None:
        self._spent += seconds
        self._expected = _MORE * (self._spent - self._before)
        self._failed = self._failed + 1 if failed else 0
        self._next = self._begun + (self._spent + self._expected) / SHARE
        if self._failed >= _MOST_FAILED:
            self._next = float("inf")

    def _tell(self, difference: str) -> None:
        message = (
            f"{self._name}: its states are not exact. An audit played again what followed a state "
            f"in use, in a copy of this process: {difference}. Results of the last "
            f"{time.monotonic() - self._since:.0f} s cannot be trusted; {self.passed} audits had "
            "passed before. Keep what is missing in attributes of the env, give it get_state and "
            "set_state, or choose another way, such as capture='replay'. audit='warn' goes on."
        )
        if self._policy == "raise":
            raise InexactState(message)
        warnings.warn(message, RuntimeWarning, stacklevel=4)

    def _end(self) -> float:
        """End the fork, if there is one; return the seconds of the processor that it took."""
        fork, self._fork = self._fork, None
        if fork is None:
            return 0.0
        fork.end()
        return fork.seconds or time.monotonic() - self._started

    def close(self) -> None:
        """End the running audit."""
        self._next = float("inf")
        self._end()


def _estimated(binding: Binding) -> float:
    """Return the processor seconds that an audit of an env takes, as far as its proof knows."""
    steps = (_CALLS + _OTHERS) * (binding.step_seconds or 0.0)
    return _FORK + _MORE * (_SECONDS + steps + _OTHERS * binding.cost.seconds)


def shown(
    layout: SpaceLayout,
    obs: Any,
    reward: Any = 0.0,
    terminated: Any = False,
    truncated: Any = False,
) -> tuple[Any, ...]:
    """Return the result of an action or a reset, in comparable form."""
    parts = [
        content(part) if leaf.is_object else np.asarray(part, leaf.dtype).tobytes()
        for leaf, part in zip(layout.leaves, layout.split(obs), strict=True)
    ]
    return (*parts, reward_of(reward), bool(terminated), bool(truncated))


def _audit(env: gym.Env[Any, Any], codec: StateCodec, sample: Sample, line: Line) -> None:
    """Send the first difference, "" for none, or None if nothing could be said."""
    difference: str | None
    try:
        difference = _difference(Subject(env, codec), sample)
    except (IncompleteState, OutsideReached):
        difference = None
    except Exception as error:
        # The env raised: where the sample was taken it had not.
        difference = f"{type(error).__name__}: {error}" if sample.actions else None
    line.send(difference)


def _difference(subject: Subject, sample: Sample) -> str:
    layout = SpaceLayout(subject.env.observation_space, objects=True)
    subject.restore(sample.state)
    for k, (action, expected) in enumerate(zip(sample.actions, sample.shown, strict=True)):
        got = _played(subject.env, layout, action)
        if got != expected:
            at = next(i for i, (a, b) in enumerate(zip(expected, got, strict=True)) if a != b)
            what = ("observation", "reward", "terminated", "truncated")[max(0, at - len(got) + 4)]
            return f"{what} differs {k + 1} steps after the state was restored"
    try:
        seed = random.SystemRandom().getrandbits(31)
        plan = Plan(_SECONDS, _STEPS, seed=seed, start=subject.save())
        return check_round_trip(subject, [], plan).difference
    except Exception:  # the env refuses an action that is drawn blindly; what was in use is right
        return ""


def _played(env: gym.Env[Any, Any], layout: SpaceLayout, action: Any) -> tuple[Any, ...]:
    if action is None:
        return shown(layout, env.reset()[0])
    return shown(layout, *env.step(copy.deepcopy(action))[:4])
