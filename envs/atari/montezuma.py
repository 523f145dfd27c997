"""MontezumaInfo: wrapper that reads room, position and inventory from the game's RAM.

Room, level, position and score are at the addresses of Atari ARI (Anand et al. 2019);
what is carried is a bit each: setting one draws the thing below the lives.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.states.part import StatePart

_ROOM, _LEVEL, _X, _Y, _CARRIED = 3, 57, 42, 43, 65
_SCORE = (19, 20, 21)  # two decimal digits each, highest first
_KEYS, _SWORDS, _TORCH, _MALLET = 0b0001_1110, 0b0110_0000, 0b1000_0000, 0b0000_0001
_ROOMS_A_LEVEL = 24
_MOST_ROOMS = 256  # of ten levels; those beyond count as visited before


class MontezumaInfo(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Adds the player's room, position and inventory to every info.

    As ints: `room` (0 to 23, the game starts in 1), `level`, `x`, `y`, `score`, `keys`,
    `swords`, `torch`, `mallet`, and `rooms_visited`, how many rooms this game has shown.
    The emulator's own infos have `lives` and the frame numbers.

    Args:
        env: a Montezuma's Revenge of `ale_py`, wrapped or not.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self.visited = 0  # bit set

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a game; no room has been visited yet."""
        obs, info = self.env.reset(seed=seed, options=options)
        self.visited = 0
        return obs, self._extended(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step of the game."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, self._extended(info)

    def _extended(self, info: dict[str, Any]) -> dict[str, Any]:
        memory: np.ndarray = self.unwrapped.ale.getRAM()  # type: ignore[attr-defined]
        room, level, carried = int(memory[_ROOM]), int(memory[_LEVEL]), int(memory[_CARRIED])
        self.visited |= 1 << min(level * _ROOMS_A_LEVEL + room, _MOST_ROOMS - 1)
        score = 0
        for address in _SCORE:
            # Binary-coded decimals: a digit in each half of a byte.
            tens, ones = divmod(int(memory[address]), 16)
            score = 100 * score + 10 * tens + ones
        return {
            **info,
            "room": room,
            "level": level,
            "x": int(memory[_X]),
            "y": int(memory[_Y]),
            "score": score,
            "keys": (carried & _KEYS).bit_count(),
            "swords": (carried & _SWORDS).bit_count(),
            "torch": int(bool(carried & _TORCH)),
            "mallet": int(bool(carried & _MALLET)),
            "rooms_visited": self.visited.bit_count(),
        }

    def state_part(self) -> StatePart:
        """Return the codec of the set of visited rooms; all else is in the game's memory."""
        return MontezumaPart(self)


class MontezumaPart(StatePart):
    """`MontezumaInfo`: the rooms visited."""

    width = _MOST_ROOMS // 8

    def __init__(self, layer: MontezumaInfo) -> None:
        self._layer = layer

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        stop = offset + self.width
        buffer[offset:stop] = self._layer.visited.to_bytes(self.width, "little")
        return stop

    def restore(self, buffer: memoryview, offset: int) -> int:
        stop = offset + self.width
        self._layer.visited = int.from_bytes(buffer[offset:stop], "little")
        return stop
