"""The round trip: does a restored state really lead to the same future?

Save, play, restore, play the same again, compare bytes; then the same in a second
instance of the env. It names the first field and step that differ.
"""

from __future__ import annotations

import copy
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.nested import content
from plangym_ext.core.codec import StateCodec
from plangym_ext.core.part import StateTooWide
from plangym_ext.core.spaces import SpaceLayout
from plangym_ext.errors import WrongKind


@dataclass(frozen=True)
class RoundTrip:
    """Outcome of a check.

    Attributes:
        exact: whether every transition came out the same.
        transitions: how many were compared.
        difference: first field, step, save point and instance that differ; "" if none.
        step_seconds: of an env step, the median of those that were played.
    """

    exact: bool
    transitions: int
    difference: str = ""
    step_seconds: float = 0.0


@dataclass
class Subject:
    """An env instance under check, with the codec bound to it."""

    env: gym.Env[Any, Any]
    codec: StateCodec
    #: Seconds of every step that was played.
    step_seconds: list[float] = field(default_factory=list)

    def save(self) -> bytes:
        """State as the codec writes it."""
        while True:
            row = bytearray(self.codec.width)
            try:
                return bytes(row[: self.codec.capture(memoryview(row), 0)])
            except StateTooWide as error:
                self.codec.width += error.excess

    def restore(self, state: bytes) -> None:
        """Bring the env to a saved state."""
        self.codec.restore(memoryview(bytearray(state)), 0)

    def play(self, action: Any) -> dict[str, Any]:
        """One transition, field by field as bytes; an episode that ends is reset."""
        action = copy.deepcopy(action)
        started = time.perf_counter()
        obs, reward, terminated, truncated, info = self._step(action)
        self.step_seconds.append(time.perf_counter() - started)
        fields = self._fields("observation", obs)
        fields |= {
            "reward": np.float64(reward).tobytes(),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
        }
        fields |= _numeric("info", info)
        if terminated or truncated:
            obs, _ = self.env.reset()
            fields |= self._fields("observation after the next reset", obs)
        if self.codec.canonical:
            fields["next state"] = self.save()
        return fields

    def _step(self, action: Any) -> tuple[Any, ...]:
        """Step the env, which must return five values.

        Raises:
            WrongKind: it returns four, as envs of the old Gym do.
        """
        try:
            found: tuple[Any, ...] = self.env.step(action)
        except ValueError as error:  # a wrapper of gymnasium's has unpacked them
            if str(error) != "not enough values to unpack (expected 5, got 4)":
                raise
            found = (None,) * 4
        if len(found) != 5:
            raise WrongKind(
                f"{type(self.env.unwrapped).__qualname__}: step must return (observation, reward, "
                f"terminated, truncated, info); got {len(found)} values. An env of the old Gym "
                "returns `done` for the two endings: return `done, False` instead."
            )
        return found

    def _fields(self, name: str, obs: Any) -> dict[str, Any]:
        layout = SpaceLayout(self.env.observation_space, objects=True)
        return {
            f"{name}{leaf.name}": content(part) if leaf.is_object else np.asarray(part).tobytes()
            for leaf, part in zip(layout.leaves, layout.split(obs), strict=True)
        }


def _numeric(name: str, info: dict[str, Any]) -> dict[str, bytes]:
    """Numbers in an info, but for those that measure time."""
    fields: dict[str, bytes] = {}
    for key, value in info.items():
        if isinstance(value, dict):
            fields |= _numeric(f"{name}[{key!r}]", value)
        elif isinstance(value, bool | int | float | np.number | np.ndarray | np.bool_):
            kept = np.asarray(value)
            if kept.dtype.kind in "biuf" and (name, key) != ("info['episode']", "t"):
                fields[f"{name}[{key!r}]"] = kept.tobytes()
    return fields


def check_round_trip(
    subject: Subject,
    others: list[tuple[str, Subject]],
    *,
    seed: int = 0,
    save_points: tuple[int, ...] = (0, 1, 17),
    num_steps: int = 40,
) -> RoundTrip:
    """Compare futures from restored states with the ones that really happened.

    The envs are reset and moved. Actions are random; an episode that ends goes on with
    the next one, so the random state is part of what is compared.

    Args:
        subject: the instance that plays first and is restored into.
        others: further instances to restore into, named for the message.
        seed: of the reset and the actions.
        save_points: steps after the reset at which states are saved.
        num_steps: steps that are compared behind each save point.
    """
    count = max(save_points) + num_steps
    space = copy.deepcopy(subject.env.action_space)
    space.seed(seed)
    actions = [space.sample() for _ in range(count)]
    subject.env.reset(seed=seed)
    saved: dict[int, bytes] = {}
    played: list[dict[str, Any]] = []
    for step, action in enumerate(actions):
        if step in save_points:
            saved[step] = subject.save()
        played.append(subject.play(action))
    compared = 0
    for which, instance in (("the same instance", subject), *others):
        for point, state in saved.items():
            instance.restore(state)
            for step in range(point, point + num_steps):
                again = instance.play(actions[step])
                compared += 1
                field = _first_difference(played[step], again)
                if field:
                    return RoundTrip(
                        False,
                        compared,
                        f"{field} differs at step {step + 1}, {step + 1 - point} after the "
                        f"state of step {point} was restored in {which}",
                    )
    return RoundTrip(True, compared, step_seconds=statistics.median(subject.step_seconds))


def _first_difference(expected: dict[str, Any], got: dict[str, Any]) -> str:
    if "next state" not in got:
        # Equal states need not be equal bytes, or need no longer: see `StatePart`.
        expected = {key: value for key, value in expected.items() if key != "next state"}
    if expected.keys() != got.keys():
        return f"the set of fields {sorted(expected.keys() ^ got.keys())}"
    return next((key for key in expected if expected[key] != got[key]), "")
