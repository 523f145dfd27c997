"""Recorded episode of an env for contract tests: replay and comparison of any part of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.arrays.nested import mapped, rows_of
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.workers.batch_env import ExternalProcess

#: Steps that are compared after each restore.
FOLLOW = 100
#: Steps taken past an ending before the env is reset.
PAST = 3
#: What is played instead of an action then.
RESET = object()
_LONG = 4096  # bytes from which a digest stands for an array


class Outcome(NamedTuple):
    """Result of one step or reset, as bytes and exact values."""

    obs: Any
    reward: bytes
    terminated: bool
    truncated: bool
    info: dict[Any, Any]
    state: Any


class Episode(NamedTuple):
    """`states[t]` is before `actions[t]`, an action or `RESET`, which led to `outcomes[t]`.

    Only the states of `points` are kept, and some around them. The first episode ends with
    `outcomes[end]`; it is stepped on, and others follow it.
    """

    states: dict[int, np.ndarray]
    actions: list[Any]
    outcomes: list[Outcome]
    end: int

    @property
    def points(self) -> list[int]:
        """Steps before which states are tried: after the reset, later, around the ending."""
        return sorted({0, 1, 17, 200, max(self.end - 1, 0), self.end, self.end + 1})


def flat(value: Any) -> Any:
    """Return arrays as (shape, dtype, bytes or their digest), inside any nesting."""
    if isinstance(value, dict):
        return {key: flat(value[key]) for key in sorted(value)}
    if isinstance(value, tuple | list):
        return [flat(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        content = value.tobytes()
        if len(content) > _LONG:
            content = hashlib.blake2b(content).digest()
        return value.shape, value.dtype.str, content
    return np.float64(value).tobytes() if isinstance(value, float) else value


def numbers(info: dict[str, Any]) -> dict[Any, Any]:
    """Return the numeric infos flat, not what measures time; nested ones by `(key, key)`."""
    kept: dict[Any, Any] = {}
    for key, value in info.items():
        if isinstance(value, dict):
            kept |= {(key, inner): found for inner, found in numbers(value).items()}
        elif isinstance(value, (bool, int, float, np.generic, np.ndarray)):
            kept[key] = flat(np.asarray(value))
    kept.pop(("episode", "t"), None)  # `RecordEpisodeStatistics`: seconds
    return kept


def outcome_of(transition: Any) -> Outcome:
    """Return a `StateTransition` as an `Outcome`."""
    state, obs, reward, terminated, truncated, info = transition
    paid, told = flat(float(reward)), numbers(info)
    return Outcome(flat(mapped(np.asarray, obs)), paid, terminated, truncated, told, flat(state))


def outcome_of_row(batch: Any, i: int) -> Outcome:
    """Return row `i` of `StateTransitions` as an `Outcome`."""
    states, obs, rewards, terminateds, truncateds, infos = batch
    ends = bool(terminateds[i]), bool(truncateds[i])
    return outcome_of((states[i], rows_of(obs, i), rewards[i], *ends, infos[i]))


def assert_same(got: Outcome, want: Outcome, where: str) -> None:
    """Fail with the name of the first field that differs."""
    for field in Outcome._fields:
        assert getattr(got, field) == getattr(want, field), f"{where}: {field} differs"


def take(env: PlanEnv, action: Any) -> Outcome:
    """Play an action or a reset."""
    return _outcome(env.reset() if action is RESET else env.step(action, return_state=True))


def taken(env: PlanEnv | ExternalProcess, actions: Sequence[Any]) -> Iterator[Outcome]:
    """Play actions and resets; a process is asked for all of them before any is waited for."""
    if isinstance(env, PlanEnv):
        yield from (take(env, action) for action in actions)
        return
    promises = [
        env.reset(blocking=False, return_states=True)
        if action is RESET
        else env.step(action, blocking=False, return_state=True)
        for action in actions
    ]
    yield from (_outcome(promise()) for promise in promises)


def _outcome(found: Any) -> Outcome:
    """Return what a step or a reset has returned as an `Outcome`."""
    if len(found) == 3:
        state, obs, info = found
        found = state, obs, 0.0, False, False, info
    return outcome_of(found)


def play(env: PlanEnv, seed: int, choose: Callable[[int], Any], max_steps: int) -> Episode:
    """Play a seed until `FOLLOW` steps follow each of the episode's points.

    Args:
        env: plays.
        seed: of its reset.
        choose: from a step to an action.
        max_steps: the first episode has to end within.
    """
    state, *_ = env.reset(seed=seed)
    states, outcomes, end, over = [state], [], -1, -1
    actions: list[Any] = []
    while end < 0 or len(actions) < max(200, end + 1) + FOLLOW:
        t = len(actions)
        assert end >= 0 or t < max_steps, f"no ending within {max_steps} steps of seed {seed}"
        resets = 0 <= over <= t - PAST - 1
        actions.append(RESET if resets else choose(t))
        outcomes.append(take(env, actions[-1]))
        states.append(env.get_state())
        if resets:
            over = -1
        elif over < 0 and (outcomes[-1].terminated or outcomes[-1].truncated):
            over = t
            end = t if end < 0 else end
    episode = Episode({}, actions, outcomes, end)
    kept = {*range(4), *range(max(end - 3, 0), end), *episode.points}
    episode.states.update((t, states[t]) for t in kept)
    return episode
