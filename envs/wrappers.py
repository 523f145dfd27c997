"""Wrappers for planning: random noise on actions, cache of transitions.

State: that of the env inside; the noise is drawn from its `np_random`.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from plangym_ext.arrays.nested import content
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.numbers import at_least
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import DamagedState, InvalidOption, ResetNeeded, WrongKind


class ActionNoise(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Replaces actions by random ones with a probability; adds normal noise to those of a Box.

    `gymnasium.wrappers.StickyAction` repeats actions with a probability.

    Args:
        env: has a Discrete, MultiDiscrete, MultiBinary or Box of actions.
        probability: of a uniform action instead of a discrete one, 0 to 1.
        std: of the noise on each number of a Box, which is then rounded, if the Box has
            integers, and clipped to it.

    Raises:
        WrongKind: another space.
        InvalidOption: a number is out of range, or does not apply to the space.
    """

    @checking_arguments
    def __init__(
        self, env: gym.Env[Any, Any], probability: float = 0.0, *, std: float = 0.0
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, probability=probability, std=std)
        gym.Wrapper.__init__(self, env)
        space = env.action_space
        kinds = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
        if not isinstance(space, kinds):
            raise WrongKind(f"ActionNoise: expected a Discrete, Multi... or Box; got {space}.")
        unused = probability if isinstance(space, spaces.Box) else std
        if not (0 <= probability <= 1 and std >= 0 and unused == 0):
            raise InvalidOption(
                "ActionNoise: expected a probability in [0, 1] for discrete actions, and std >= 0 "
                f"for a Box; got probability={probability}, std={std} for {space}."
            )
        self._probability, self._std = probability, std

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step by the action, or by what noise makes of it."""
        rng, space = self.env.unwrapped.np_random, self.env.action_space
        if isinstance(space, spaces.Box):
            noisy = action + rng.normal(0.0, self._std, space.shape)
            if space.dtype.kind in "iu":
                noisy = np.rint(noisy)
            action = np.clip(noisy, space.low, space.high).astype(space.dtype)
        elif rng.random() < self._probability:
            if isinstance(space, spaces.Discrete):
                action = space.start + rng.integers(space.n)
            else:
                count: Any = space.nvec if isinstance(space, spaces.MultiDiscrete) else 2
                action = rng.integers(count, size=space.shape).astype(space.dtype)
        return self.env.step(action)


class StateCaching(gym.Env[Any, Any]):
    """Keeps the latest transitions of an env, and steps it only for others.

    A state holds all generators: the same action then leads to the same transition. It pays off
    where an env is slow and a planner comes to a state again.

    Args:
        make: returns a new env whose states are exact, as for `GymEnv`.
        capacity: transitions that are kept, at least 1; the one unused for longest goes first.

    Attributes:
        hits, misses: how many steps were kept ones, and others.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as in gymnasium.Env

    @checking_arguments
    def __init__(self, make: Callable[[], gym.Env[Any, Any]], capacity: int = 10_000) -> None:
        at_least("StateCaching: capacity", capacity, 1)
        self._env, self._capacity = GymEnv(make), capacity
        self.observation_space = self._env.observation_space
        self.action_space = self._env.action_space
        self.hits = self.misses = 0
        self._state: bytes | None = None
        self._kept: OrderedDict[tuple[bytes, bytes], tuple[Any, ...]] = OrderedDict()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the env from where it is, kept transitions included; these stay."""
        if self._state is not None:
            self._env.set_state(np.frombuffer(self._state, np.uint8))
        state, obs, info = self._env.reset(seed=seed, options=options)
        self._state = state.tobytes()
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return a kept transition, or step the env; arrays are fresh.

        Raises:
            ResetNeeded: before the first reset.
        """
        state = self._begun("step")
        key = state, content(action)
        kept = self._kept.get(key)
        if kept is None:
            after, *result = self._env.step(action, np.frombuffer(state, np.uint8))
            kept = self._kept[key] = after.tobytes(), tuple(result)
            self.misses += 1
        else:
            self.hits += 1
        self._kept.move_to_end(key)
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
        self._state, result = kept
        return copy.deepcopy(result)

    def get_state(self) -> NDArray[np.uint8]:
        """Return the env's state, `[S]` uint8, fresh."""
        return np.frombuffer(self._begun("get_state"), np.uint8).copy()

    def set_state(self, state: NDArray[np.uint8]) -> None:
        """Continue from `state`; what is wrong with it is told by the next step that is not kept.

        Raises:
            DamagedState: no `[S]` uint8.
        """
        given = np.asarray(state)
        if given.ndim != 1 or given.dtype != np.uint8:
            raise DamagedState(
                f"StateCaching.set_state: expected [S] uint8; got {given.shape} {given.dtype}."
            )
        self._state = given.tobytes()

    def close(self) -> None:
        """Close the env."""
        self._env.close()

    def _begun(self, where: str) -> bytes:
        if self._state is None:
            raise ResetNeeded(f"StateCaching.{where}: there is no state yet; call reset() first.")
        return self._state
