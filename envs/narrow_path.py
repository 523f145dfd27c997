"""NarrowPath env: a corridor with a reward only at its far end."""

from __future__ import annotations

from typing import Any, SupportsIndex

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from plangym_ext.envs.arguments import check_action, check_row
from plangym_ext.errors import DamagedState

_STATE_BYTES = 4


class NarrowPathEnv(gymnasium.Env[Any, np.int64]):
    """Cells 0, 1, ..., n in a row; cell n is the end.

    Action 0 goes on to the next cell, action 1 jumps to the end. Entering cell n - 1
    pays 1, everything else 0, so the best return is 1, after n - 1 steps; one more
    ends the episode. Steps at the end change nothing, pay 0 and report it again.

    Nothing is random. The observation is the cell, an int in [0, n].

    Args:
        n: index of the end, >= 2.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: rlplay (I. Nazarov), `NarrowPath`.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - as in gymnasium.Env

    def __init__(self, n: int = 3, *, render_mode: str | None = None) -> None:
        if not 2 <= n < 2**31:
            raise ValueError(f"NarrowPathEnv: n must be in [2, 2**31); got {n}.")
        if render_mode not in (None, "ansi"):
            raise ValueError(
                f"NarrowPathEnv: render_mode must be None or 'ansi'; got {render_mode!r}."
            )
        self.n = n
        self.render_mode = render_mode
        self.observation_space = spaces.Discrete(n + 1)
        self.action_space = spaces.Discrete(2)
        self.cell = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Go back to cell 0; options are not used."""
        super().reset(seed=seed, options=options)
        self.cell = 0
        return self.cell, {}

    def step(self, action: SupportsIndex) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Step forward (0) or jump to the end (1); `truncated` is always False.

        Raises:
            InvalidAction: `action` is not 0 or 1.
        """
        move = check_action("NarrowPathEnv.step", action, 2)
        reward = 0.0
        if self.cell != self.n:
            self.cell = self.cell + 1 if move == 0 else self.n
            # With n = 2 a jump from cell 0 lands on n, not on the cell before it.
            reward = float(self.cell == self.n - 1)
        return self.cell, reward, self.cell == self.n, False, {}

    def render(self) -> str | None:
        """Return `@` on the player's cell, `x` on the end; None without a render mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("NarrowPathEnv.render: no render_mode was given.")
            return None
        line = ["."] * self.n + ["x"]
        line[self.cell] = "@"
        return "".join(line)

    def get_state(self) -> NDArray[np.uint8]:
        """Return the cell, `[4]` uint8, little-endian, fresh; no step reads `np_random`."""
        # Through a bytearray: an array over bytes could not be written to.
        return np.frombuffer(bytearray(self.cell.to_bytes(_STATE_BYTES, "little")), np.uint8)

    def set_state(self, state: NDArray[np.uint8]) -> None:
        """Continue from `state`, `[4]` uint8 from `get_state`; no reset is needed.

        Raises:
            DamagedState: wrong size or type, or a cell that this env has not.
        """
        data = check_row("NarrowPathEnv.set_state", state, _STATE_BYTES)
        cell = int.from_bytes(data, "little")
        if cell > self.n:
            raise DamagedState(
                f"NarrowPathEnv.set_state: expected a cell in [0, {self.n}]; got {cell}. "
                "Pass a row from get_state of an env with this n."
            )
        self.cell = cell
