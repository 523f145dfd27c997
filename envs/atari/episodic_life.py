"""Atari wrappers for lost lives: EpisodicLife ends the episode, LifePenalty costs reward.

As the players of DQN learned: an agent that may not lose a life values each one, and
the next episode begins where the life was lost. Only a game that is over is reset.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.errors import InvalidOption
from plangym_ext.states.part import StatePart


class EpisodicLife(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Ends an episode when `info["lives"]` goes down.

    Every info says whether this step lost a life: `info["lost_life"]`. A step that does
    is terminal; `info["game_over"]` tells whether the game ended too. The reset after
    a lost life plays one no-op, whose reward is dropped, to have an observation. A
    reset with a seed or options, or after the game ended, starts a game.

    Args:
        env: its infos have `lives`; games without lives never lose one.

    Source: Mnih et al. 2015; `EpisodicLifeEnv` of OpenAI Baselines.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self.lives = 0
        # So that the first reset starts a game, with a seed or without.
        self.game_over = True
        space = env.action_space
        self._noop: Any = 0
        if not isinstance(space, gym.spaces.Discrete):
            # Of continuous actions: the stick in its middle, and no fire.
            self._noop = np.zeros(space.shape or (), space.dtype)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Continue after a lost life, or start a game."""
        if not self.game_over and seed is None and not options:
            obs, _, terminated, truncated, info = self.env.step(self._noop)
            self.game_over = terminated or truncated
        # Not an `else`: the no-op may have ended the game, and then the next one has to begin.
        if self.game_over or seed is not None or options:
            obs, info = self.env.reset(seed=seed, options=options)
            self.game_over = False
        self.lives = info["lives"]
        return obs, {**info, "lost_life": False, "game_over": False}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step; terminal if it lost a life."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.game_over = terminated or truncated
        # Less, not other: games give extra lives, too.
        lost = info["lives"] < self.lives
        self.lives = info["lives"]
        info = {**info, "lost_life": lost, "game_over": self.game_over}
        return obs, reward, terminated or lost, truncated, info

    def state_part(self) -> StatePart:
        """Return the codec of the wrapper's two fields."""
        return EpisodicLifePart(self)


class EpisodicLifePart(StatePart):
    """`EpisodicLife`: lives left, and whether the next reset starts a game."""

    _layout = struct.Struct("<q?")
    width = _layout.size

    def __init__(self, layer: EpisodicLife) -> None:
        self._layer = layer

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        self._layout.pack_into(buffer, offset, self._layer.lives, self._layer.game_over)
        return offset + self.width

    def restore(self, buffer: memoryview, offset: int) -> int:
        layer = self._layer
        layer.lives, layer.game_over = self._layout.unpack_from(buffer, offset)
        return offset + self.width


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
        self._layout.pack_into(buffer, offset, self._layer.lives)
        return offset + self.width

    def restore(self, buffer: memoryview, offset: int) -> int:
        (self._layer.lives,) = self._layout.unpack_from(buffer, offset)
        return offset + self.width

    def identity(self) -> dict[str, Any]:
        """Return the penalty: with another one, rewards would be others."""
        return {"penalty": self._layer.penalty}
