"""LifePenalty: Atari wrapper that subtracts a penalty from the reward per lost life."""

from __future__ import annotations

import math
import struct
from typing import Any

import gymnasium as gym

from plangym_ext.errors import InvalidOption
from plangym_ext.states.part import StatePart


class LifePenalty(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Takes `penalty` off the reward for each life that a step loses.

    Most games pay nothing for a lost life, so a search of a few seconds walks into the
    ghost after the next pill. `info["score_reward"]` is the reward without penalties.

    Args:
        env: its infos have `lives`; games without lives never lose one.
        penalty: for each life, in the game's points; at least 0.

    Raises:
        InvalidOption: the penalty is not a finite number, or negative.

    Source: the risk aversion of Bandres, Bonet & Geffner 2018, section 5.
    """

    def __init__(self, env: gym.Env[Any, Any], penalty: float) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, penalty=penalty)
        super().__init__(env)
        if not (isinstance(penalty, (int, float)) and math.isfinite(penalty) and penalty >= 0):
            raise InvalidOption(f"life_penalty must be a finite number >= 0; got {penalty!r}.")
        self.penalty = float(penalty)
        self.lives = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a game."""
        obs, info = self.env.reset(seed=seed, options=options)
        self.lives = info["lives"]
        return obs, {**info, "score_reward": 0.0}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step; cheaper by the lives that it lost."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        # Games give extra lives, too: those are not paid for.
        lost = max(0, self.lives - info["lives"])
        self.lives = info["lives"]
        info = {**info, "score_reward": float(reward)}
        return obs, float(reward) - self.penalty * lost, terminated, truncated, info

    def state_part(self) -> StatePart:
        """Return the codec of the wrapper's field."""
        return LifePenaltyPart(self)


class LifePenaltyPart(StatePart):
    """`LifePenalty`: lives left."""

    _layout = struct.Struct("<q")
    width = _layout.size

    def __init__(self, layer: LifePenalty) -> None:
        self._layer = layer

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write the lives."""
        self._layout.pack_into(buffer, offset, self._layer.lives)
        return offset + self.width

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set the lives."""
        (self._layer.lives,) = self._layout.unpack_from(buffer, offset)
        return offset + self.width

    def identity(self) -> dict[str, Any]:
        """Return the penalty: with another one, rewards would be others."""
        return {"penalty": self._layer.penalty}
