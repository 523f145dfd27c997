"""TMaze env: a memory task whose first observation gives the turn at the corridor's end."""

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
_SIDE_BYTES = 1
_STATE_BYTES = _CELL_BYTES + _SIDE_BYTES + RNG_BYTES

_NORTH, _EAST, _SOUTH, _WEST = range(4)
_GOAL_REWARD, _OTHER_REWARD = 4.0, -0.1
#: What is shown at the start, by the side of the goal; in the corridor; and at the junction.
_SIGNS = np.array([[0, 1, 1], [1, 1, 0]], np.float32)
_CORRIDOR = np.array([1, 0, 1], np.float32)
_JUNCTION = np.array([0, 1, 0], np.float32)


class TMazeEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Cells 0, ..., n in a row: a corridor from the start to the junction, cell n.

    Actions are 0 north, 1 east, 2 south and 3 west. At the junction, north and south end the
    episode: where the goal lies that pays 4, on the other side -0.1. A reset draws the side,
    each as likely as the other. The start alone shows it, so that only those who remember find
    the goal more than every other time. A step that moves pays 0, one against a wall -0.1.

    The observation is `[3]` float32, fresh: at the start (0, 1, 1) if the goal lies north and
    (1, 1, 0) if south, (1, 0, 1) in the corridor, (0, 1, 0) at the junction.

    The best return is 4, after n + 1 steps. Without memory the best expected one is 1.95.

    Args:
        n: steps from the start to the junction, >= 1.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: Bakker 2002, "Reinforcement learning with long short-term memory".
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - as in gymnasium.Env

    def __init__(self, n: int = 20, *, render_mode: str | None = None) -> None:
        if not 1 <= n < 2**31:
            raise ValueError(f"TMazeEnv: n must be in [1, 2**31); got {n}.")
        if render_mode not in (None, "ansi"):
            raise ValueError(f"TMazeEnv: render_mode must be None or 'ansi'; got {render_mode!r}.")
        self.n = n
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._rng = GeneratorBytes()
        self.cell = -1  # until the first reset
        self.goal_is_south = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Go to the start and draw the side of the goal; return the observation. No options."""
        super().reset(seed=seed, options=options)
        self.goal_is_south = bool(self.np_random.integers(2))
        self.cell = 0
        return self._observe(), {}

    def step(
        self, action: SupportsIndex
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Move north (0), east (1), south (2) or west (3); `truncated` is always False.

        Raises:
            InvalidAction: `action` is none of these.
            ResetNeeded: before the first reset.
        """
        move = check_action("TMazeEnv.step", action, 4)
        self._check_ready("step")
        # Anywhere but at the junction these are walls, and cost as much as the wrong side.
        if move in (_NORTH, _SOUTH):
            ended = self.cell == self.n
            # Both sides as bools: they agree where the move goes to the goal's side.
            found = ended and (move == _SOUTH) == self.goal_is_south
            return self._observe(), _GOAL_REWARD if found else _OTHER_REWARD, ended, False, {}
        before = self.cell
        self.cell = min(max(before + (1 if move == _EAST else -1), 0), self.n)
        reward = 0.0 if self.cell != before else _OTHER_REWARD
        return self._observe(), reward, False, False, {}

    def render(self) -> str | None:
        """Return three lines: the corridor with `@`, and `G` where the goal lies.

        None without a render mode.
        """
        if self.render_mode is None:
            gymnasium.logger.warn("TMazeEnv.render: no render_mode was given.")
            return None
        self._check_ready("render")
        corridor = ["."] * (self.n + 1)
        corridor[self.cell] = "@"
        north, south = (".", "G") if self.goal_is_south else ("G", ".")
        wall = "#" * self.n
        return "\n".join((wall + north, "".join(corridor), wall + south))

    def get_state(self) -> NDArray[np.uint8]:
        """Return cell (4 bytes, little-endian), side (1) and `np_random`, `[45]` uint8, fresh.

        Raises:
            ResetNeeded: before the first reset.
            IncompleteState: `np_random` was replaced by one that is not over PCG64.
        """
        self._check_ready("get_state")
        data = bytearray(_STATE_BYTES)
        data[:_CELL_BYTES] = self.cell.to_bytes(_CELL_BYTES, "little")
        data[_CELL_BYTES] = self.goal_is_south
        self._rng.capture(self.np_random, memoryview(data), _CELL_BYTES + _SIDE_BYTES)
        return np.frombuffer(data, np.uint8)

    def set_state(self, state: NDArray[np.uint8]) -> None:
        """Continue from `state`, `[45]` uint8 from `get_state`; no reset is needed.

        Raises:
            DamagedState: wrong size or type, or no state of this env; nothing is changed.
        """
        where = "TMazeEnv.set_state"
        data = check_row(where, state, _STATE_BYTES)
        cell, side = int.from_bytes(data[:_CELL_BYTES], "little"), data[_CELL_BYTES]
        if cell > self.n or side > 1:
            raise DamagedState(
                f"{where}: expected a cell in [0, {self.n}] and a side of 0 or 1; got {cell} and "
                f"{side}. Pass a row from get_state of an env with this n."
            )
        self._rng.check(self.np_random, data[_CELL_BYTES + _SIDE_BYTES :], where)
        self._rng.restore(self.np_random, memoryview(data), _CELL_BYTES + _SIDE_BYTES)
        self.cell, self.goal_is_south = cell, bool(side)

    def _check_ready(self, where: str) -> None:
        if self.cell < 0:
            raise ResetNeeded(f"{where}: TMazeEnv has no cell yet; call reset() first.")

    def _observe(self) -> NDArray[np.float32]:
        if self.cell == 0:
            # A copy, as all of these are constants of the module that callers could write to.
            return _SIGNS[int(self.goal_is_south)].copy()
        return (_JUNCTION if self.cell == self.n else _CORRIDOR).copy()
