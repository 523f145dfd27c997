"""The round trip: does a restored state really lead to the same future?

Save, play, restore, play the same again, compare bytes; then the same in a second
instance of the env. It names the first field and step that differ.
"""

from __future__ import annotations

import copy
import itertools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.nested import content
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import WrongKind
from plangym_ext.states.codec import StateCodec
from plangym_ext.states.part import StateTooWide
from plangym_ext.states.random_bytes import RANDOM_TYPES, random_bytes
from plangym_ext.states.trials.left_out import left_out
from plangym_ext.states.trials.sampling import info_of, sampled

#: What Python says where four values of a step are unpacked as five.
FOUR_VALUES = "not enough values to unpack (expected 5, got 4)"


def wrong_step(env: gym.Env[Any, Any], num_values: int) -> str:
    """Return what to say of an env whose step returns another number of values than five."""
    return (
        f"{type(env.unwrapped).__qualname__}: step must return (observation, reward, "
        f"terminated, truncated, info); got {num_values} values. An env of the old Gym "
        "returns `done` for the two endings: return `done, False` instead."
    )


@dataclass(frozen=True)
class RoundTrip:
    """Outcome of a check.

    Attributes:
        exact: whether every transition came out the same.
        transitions: how many were compared.
        difference: first field, step, save point and instance that differ; "" if none.
        step_seconds: of an env step, the median of those that were played.
        complete: whether all was compared that there was time for only in part.
    """

    exact: bool
    transitions: int
    difference: str = ""
    step_seconds: float = 0.0
    complete: bool = True


@dataclass
class Subject:
    """An env instance under check, with the codec bound to it."""

    env: gym.Env[Any, Any]
    codec: StateCodec
    #: Seconds of every step that was played.
    step_seconds: list[float] = field(default_factory=list)
    #: Of the last step, or of the reset that followed it.
    info: dict[str, Any] = field(default_factory=dict)

    def save(self) -> bytes:
        """Return state as the codec writes it."""
        while True:
            row = bytearray(self.codec.width)
            try:
                # Without the padding: rows of two instances may be of different widths.
                return bytes(row[: self.codec.capture(memoryview(row), 0)])
            except StateTooWide as error:
                self.codec.width += error.excess

    def restore(self, state: bytes) -> None:
        """Bring the env to a saved state."""
        self.codec.restore(memoryview(bytearray(state)), 0)

    def play(self, action: Any) -> dict[str, Any]:
        """Play one transition; return it field by field as bytes. An episode that ends is reset."""
        # Each instance is given its own: an env may write into an action, and it is played again.
        action = copy.deepcopy(action)
        started = time.perf_counter()
        obs, reward, terminated, truncated, info = self._step(action)
        self.step_seconds.append(time.perf_counter() - started)
        fields: dict[str, Any] = self._fields("observation", obs)
        fields |= {
            "reward": np.float64(reward).tobytes(),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
        }
        fields |= _numeric("info", info)
        self.info = info
        if terminated or truncated:
            # Without a seed: what this reset draws has to be part of the state.
            fields |= self._after_reset()
        return fields | self._left()

    def play_reset(self) -> dict[str, Any]:
        """Reset without a seed; see `play`."""
        return self._after_reset() | self._left()

    def _after_reset(self) -> dict[str, Any]:
        obs, self.info = self.env.reset()
        return self._fields("observation after the next reset", obs)

    def _left(self) -> dict[str, Any]:
        """Return what a transition leaves, beside what it shows."""
        left: dict[str, Any] = {RANDOM: self.random_state(), **left_out(self.env)}
        # Finds what no observation has shown yet, within the few steps that are compared.
        if self.codec.canonical:
            left["next state"] = self.save()
        return left

    def random_state(self) -> bytes:
        """Return the state of the simulator's `np_random`; empty if it was never asked for."""
        # The property itself would make one.
        generator = vars(self.env.unwrapped).get("_np_random")
        return random_bytes(generator) if isinstance(generator, RANDOM_TYPES) else b""

    def _step(self, action: Any) -> tuple[Any, ...]:
        """Step the env, which must return five values.

        Raises:
            WrongKind: it returns four, as envs of the old Gym do.
        """
        try:
            found: tuple[Any, ...] = self.env.step(action)
        except ValueError as error:  # a wrapper of gymnasium's has unpacked them
            if str(error) != FOUR_VALUES:
                raise
            found = (None,) * 4
        if len(found) != 5:
            raise WrongKind(wrong_step(self.env, len(found)))
        return found

    def _fields(self, name: str, obs: Any) -> dict[str, Any]:
        layout = SpaceLayout(self.env.observation_space, objects=True)
        return {
            f"{name}{leaf.name}": content(part) if leaf.is_object else np.asarray(part).tobytes()
            for leaf, part in zip(layout.leaves, layout.split(obs), strict=True)
        }


def _numeric(name: str, info: dict[str, Any]) -> dict[str, bytes]:
    """Return the numbers in an info, but for those that measure time."""
    fields: dict[str, bytes] = {}
    for key, value in info.items():
        if isinstance(value, dict):
            fields |= _numeric(f"{name}[{key!r}]", value)
        elif isinstance(value, bool | int | float | np.number | np.ndarray | np.bool_):
            kept = np.asarray(value)
            if kept.dtype.kind in "biuf" and (name, key) != ("info['episode']", "t"):
                fields[f"{name}[{key!r}]"] = kept.tobytes()
    return fields


#: Field that holds the state of `np_random`.
RANDOM = "np_random"
_LEAVES_OUT_RANDOM = (
    ". After the restore np_random was not where it had been: the state leaves out np_random. Keep "
    "self.np_random.bit_generator.state in what get_state returns, and set it in set_state"
)


def check_round_trip(
    subject: Subject,
    others: list[tuple[str, Subject]],
    *,
    seed: int = 0,
    save_points: tuple[int, ...] = (0, 1, 17),
    num_steps: int = 40,
    progress: Callable[[int, int], None] | None = None,
    time_limit: float = math.inf,
) -> RoundTrip:
    """Compare futures from restored states with the ones that really happened.

    The envs are reset and moved. Actions are random; an episode that ends goes on with
    the next one, and the last step of all is followed by a reset, so what resets draw is
    compared too. So is the random generator itself, if the env draws from it.

    Args:
        subject: the instance that plays first and is restored into.
        others: further instances to restore into, named for the message.
        seed: of the reset and the actions.
        save_points: steps after the reset at which states are saved.
        num_steps: steps that are compared after each save point.
        progress: called after every step with how many are done, and of how many.
        time_limit: seconds after which it ends early, once a step was compared for each
            state that was saved.
    """
    total = max(save_points) + num_steps * (1 + len(save_points) * (1 + len(others)))
    done = itertools.count(1)

    def step_done() -> None:
        if progress is not None:
            progress(next(done), total)

    begun = time.monotonic()
    # Of the time, playing takes its part of the steps.
    play_until = begun + time_limit * (max(save_points) + num_steps) / total
    trip = _Trip(subject, seed, save_points, num_steps, step_done, play_until)
    for which, instance in (("the same instance", subject), *others):
        for point in trip.saved:
            difference = trip.again(instance, point, which, begun + time_limit)
            if difference:
                return RoundTrip(False, trip.compared, difference)
    seconds = statistics.median(subject.step_seconds)
    return RoundTrip(True, trip.compared, step_seconds=seconds, complete=trip.complete)


class _Trip:
    """An episode or more that an instance has played, with states on the way.

    Attributes:
        saved: states by step.
        compared: transitions that were played again so far.
        complete: whether no time limit has ended anything.
    """

    def __init__(
        self,
        subject: Subject,
        seed: int,
        save_points: tuple[int, ...],
        num_steps: int,
        step_done: Callable[[], None],
        play_until: float,
    ) -> None:
        self._num_steps, self.compared, self._step_done = num_steps, 0, step_done
        count = max(save_points) + num_steps
        # A copy, as seeding the env's own space would change what its user samples.
        space = copy.deepcopy(subject.env.action_space)
        space.seed(seed)
        subject.info = info_of(subject.env.reset(seed=seed))
        first = left_out(subject.env)
        self.saved: dict[int, bytes] = {}
        self._randoms: dict[int, bytes] = {}
        self._played: list[dict[str, Any]] = []
        self._actions: list[Any] = []
        for step in range(count):
            # Not before the first save point, without which there would be nothing to restore.
            if self.saved and time.monotonic() >= play_until:
                break
            if step in save_points:
                self.saved[step] = subject.save()
                self._randoms[step] = subject.random_state()
            # Of what the env says may be played now, if it does.
            self._actions.append(sampled(space, subject.info))
            self._played.append(subject.play(self._actions[-1]))
            step_done()
        self.complete = len(self._actions) == count
        # One longer than `actions`: the last entry is the reset.
        self._played.append(subject.play_reset())
        # A generator that is not drawn from is no part of the state.
        randoms = {*self._randoms.values(), *(played[RANDOM] for played in self._played)}
        #: Fields that no step has changed, which may differ from instance to instance.
        self._fixed = {
            name
            for name, value in first.items()
            if all(played.get(name, value) == value for played in self._played)
        }
        if len(randoms) == 1:
            self._fixed.add(RANDOM)

    def again(self, instance: Subject, point: int, which: str, until: float) -> str:
        """Restore the state of step `point` and play on; return the first difference, or ""."""
        instance.restore(self.saved[point])
        # Before anything is played: later it may differ for other reasons.
        moved = instance.random_state() != self._randoms[point]
        stop = min(point + self._num_steps, len(self._actions))
        if stop == len(self._actions):
            stop += 1  # the reset after the last step
        for step in range(point, stop):
            # At least one step for each state, however slow they are.
            if step > point and time.monotonic() >= until:
                self.complete = False
                break
            is_reset = step == len(self._actions)
            got = instance.play_reset() if is_reset else instance.play(self._actions[step])
            if not is_reset:
                self.compared += 1
                self._step_done()
            field = _first_difference(self._played[step], got, self._fixed)
            if field:
                when = "reset" if is_reset else "step"
                return (
                    f"{field} differs at {when} {step + 1}, {step + 1 - point} after the "
                    f"state of step {point} was restored in {which}"
                    f"{_LEAVES_OUT_RANDOM if moved else ''}"
                )
        return ""


def _first_difference(expected: dict[str, Any], got: dict[str, Any], passed: set[str]) -> str:
    if "next state" not in got:
        # Equal states need not be equal bytes, or need no longer: see `StatePart`.
        passed = {*passed, "next state"}
    expected, got = (_without(passed, fields) for fields in (expected, got))
    if expected.keys() != got.keys():
        return f"the set of fields {sorted(expected.keys() ^ got.keys())}"
    return next((key for key in expected if expected[key] != got[key]), "")


def _without(names: set[str], fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}
