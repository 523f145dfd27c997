"""ChainMDP env: a chain of cells with an exit at both ends, one exit paying more."""

from __future__ import annotations

from typing import Any, SupportsIndex

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from plangym_ext.envs.arguments import check_action, check_row
from plangym_ext.errors import DamagedState, ResetNeeded
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes

_CELL_BYTES = 4
_STATE_BYTES = _CELL_BYTES + RNG_BYTES

_LEFT_REWARD, _RIGHT_REWARD = 0.7, 1.0


class ChainMDPEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Cells 0, ..., n - 1 in a row, and the absorbing cell n beyond both ends.

    Action 0 moves left, action 1 right, each with probability p; else the player
    stays. Leaving on the left pays 0.7, on the right 1.0, everything else 0. A reset
    draws the cell uniformly from all n + 1, the absorbing one included: such an
    episode ends with its first step, which pays 0.

    With n = 3, p = 1 and discount 0.5 the values Q(cell, action) are
    (0.7, 0.25), (0.35, 0.5), (0.25, 1.0), (0, 0).

    The observation is the cell as `[n + 1]` float32, one-hot, fresh.

    Args:
        n: cells of the chain, >= 1.
        p: probability that a move happens, in [0, 1].
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: rlplay (I. Nazarov), `ChainMDP`, after deep_q_rl (N. Sprague).
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - as in gymnasium.Env

    def __init__(self, n: int = 3, p: float = 1.0, *, render_mode: str | None = None) -> None:
        if not 1 <= n < 2**31:
            raise ValueError(f"ChainMDPEnv: n must be in [1, 2**31); got {n}.")
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"ChainMDPEnv: p must be a probability, in [0, 1]; got {p}.")
        if render_mode not in (None, "ansi"):
            raise ValueError(
                f"ChainMDPEnv: render_mode must be None or 'ansi'; got {render_mode!r}."
            )
        self.n = n
        self.p = float(p)
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0.0, 1.0, (n + 1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._rng = GeneratorBytes()
        self.cell = -1  # until the first reset

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Draw the first cell; return it one-hot, `[n + 1]` float32, fresh. No options are used."""
        super().reset(seed=seed, options=options)
        # Python's int, whose `to_bytes` states are made by.
        self.cell = int(self.np_random.integers(self.n + 1))
        return self._observe(), {}

    def step(
        self, action: SupportsIndex
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Try to move left (0) or right (1); `truncated` is always False.

        Draws one number unless the cell is absorbing, also where p is 0 or 1.

        Raises:
            InvalidAction: `action` is not 0 or 1.
            ResetNeeded: before the first reset.
        """
        move = check_action("ChainMDPEnv.step", action, 2)
        self._check_ready("step")
        reward = 0.0
        # In this order: the absorbing cell draws nothing.
        if self.cell != self.n and self.np_random.random() < self.p:
            self.cell += 2 * move - 1
            if self.cell < 0:
                self.cell, reward = self.n, _LEFT_REWARD
            elif self.cell == self.n:
                reward = _RIGHT_REWARD
        return self._observe(), reward, self.cell == self.n, False, {}

    def render(self) -> str | None:
        """Return `@` on the player's cell, the absorbing one last; None without a render mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("ChainMDPEnv.render: no render_mode was given.")
            return None
        self._check_ready("render")
        line = ["."] * self.n + ["x"]
        line[self.cell] = "@"
        return "".join(line)

    def get_state(self) -> NDArray[np.uint8]:
        """Return the cell (4 bytes, little-endian) and `np_random` (40), `[44]` uint8, fresh.

        Raises:
            ResetNeeded: before the first reset.
            IncompleteState: `np_random` was replaced by one that is not over PCG64.
        """
        self._check_ready("get_state")
        data = bytearray(_STATE_BYTES)
        data[:_CELL_BYTES] = self.cell.to_bytes(_CELL_BYTES, "little")
        self._rng.capture(self.np_random, memoryview(data), _CELL_BYTES)
        return np.frombuffer(data, np.uint8)

    def set_state(self, state: NDArray[np.uint8]) -> None:
        """Continue from `state`, `[44]` uint8 from `get_state`; no reset is needed.

        Raises:
            DamagedState: wrong size or type, or no state of this env; nothing is changed.
        """
        data = check_row("ChainMDPEnv.set_state", state, _STATE_BYTES)
        cell = int.from_bytes(data[:_CELL_BYTES], "little")
        if cell > self.n:
            raise DamagedState(
                f"ChainMDPEnv.set_state: expected a cell in [0, {self.n}]; got {cell}. "
                "Pass a row from get_state of an env with this n."
            )
        # The last check, before anything is changed.
        self._rng.check(self.np_random, data[_CELL_BYTES:], "ChainMDPEnv.set_state")
        self._rng.restore(self.np_random, memoryview(data), _CELL_BYTES)
        self.cell = cell

    def _check_ready(self, where: str) -> None:
        if self.cell < 0:
            raise ResetNeeded(f"{where}: ChainMDPEnv has no cell yet; call reset() first.")

    def _observe(self) -> NDArray[np.float32]:
        obs = np.zeros(self.n + 1, np.float32)
        obs[self.cell] = 1.0
        return obs
