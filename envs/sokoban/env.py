"""SokobanEnv: Sokoban as a gymnasium env."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.envs.sokoban.cells import (
    BOX,
    BOX_ON_TARGET,
    MAX_SIDE,
    NUM_ACTIONS,
    NUM_CODES,
    PLAYER,
    PLAYER_ON_TARGET,
    coloured_cells,
    draw,
    find_fault,
    format_board,
    one_hot_planes,
    push,
)
from plangym_ext.envs.sokoban.levels import Levels, parse_levels, read_levels
from plangym_ext.errors import DamagedState, InvalidOption, NoSuchFile, ResetNeeded, WrongKind
from plangym_ext.native.kernel.rules_env import check_action, check_row
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes

_CURSOR_BYTES = 4
# After the cells: player's row and column, cursor, generator.
_TAIL_BYTES = 2 + _CURSOR_BYTES + RNG_BYTES

LevelSource: TypeAlias = Levels | str | os.PathLike[str] | Sequence[str]


class SokobanEnv(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """Push every box onto a target; ends when all are there.

    Actions: 0 up, 1 down, 2 left, 3 right. A move into a wall, or against a box that
    has no room beyond it, changes nothing. Solved boards are absorbing: a further
    step changes nothing and pays 0.

    Reward: `step_reward`, plus `box_reward` for a box pushed onto a target, minus it
    for one pushed off, plus `solved_reward` for the push that solves the level.

    Every reset starts a new level: generated, or from `levels`. There is no limit on
    steps here; add gymnasium's `TimeLimit`.

    Args:
        dim: rows and columns with the ring of walls; None means (10, 10), or the size
            of `levels`.
        num_boxes: boxes of a generated level; None means 4. Not with `levels`.
        levels: None to generate; else `Levels`, the path of a level file or a pattern of
            several ("train_*.txt"), or a list of level texts.
        level_order: "random" draws with `np_random`; "sequential" takes one after
            another, from the first again after the last and after a seed.
        observation: "planes" for `[H, W, 7]` uint8 of 0 and 1 (wall, floor, target,
            box on target, box, player, player on target), or "rgb" for
            `[H * s, W * s, 3]` uint8, one colour per cell.
        cell_pixels: s, side of a cell's square in "rgb" observations.
        step_reward: reward of every step; gym-sokoban's is -0.1.
        box_reward: see above.
        solved_reward: see above.
        render_mode: None, "rgb_array" (`[16 * H, 16 * W, 3]` uint8) or "ansi" (text).

    `info` has `boxes_on_target` (int) and `solved` (bool) after reset and step.
    `reset(options={"level": i})` plays level i of `levels`; "sequential" goes on after it.

    Raises:
        InvalidOption: an argument is out of range, or a level is not legal.
        NoSuchFile: there is no file of levels.

    Source: rules and rewards after gym-sokoban (Schrader 2018); step reward 0 as in
    "Shoot Tree Search".
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 4}  # noqa: RUF012 - as in gymnasium.Env

    @checking_arguments
    def __init__(
        self,
        dim: tuple[int, int] | None = None,
        num_boxes: int | None = None,
        *,
        levels: LevelSource | None = None,
        level_order: str = "random",
        observation: str = "planes",
        cell_pixels: int = 1,
        step_reward: float = 0.0,
        box_reward: float = 1.0,
        solved_reward: float = 10.0,
        render_mode: str | None = None,
    ) -> None:
        _check_choice("level_order", level_order, ("random", "sequential"))
        _check_choice("observation", observation, ("planes", "rgb"))
        _check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        if cell_pixels < 1:
            raise InvalidOption(f"SokobanEnv: cell_pixels must be >= 1; got {cell_pixels}.")
        self.levels = None if levels is None else _load(levels)
        self.dim = _resolve_dim(dim, self.levels)
        self.num_boxes = _resolve_boxes(num_boxes, self.levels)
        self.level_order = level_order
        self.observation = observation
        self.cell_pixels = cell_pixels
        self.step_reward = float(step_reward)
        self.box_reward = float(box_reward)
        self.solved_reward = float(solved_reward)
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self.observation_space = self._make_observation_space()
        # The board is a bytearray because Python reads and writes single cells of it
        # much faster than those of an array; empty until the first reset.
        self._cells = bytearray()
        self._player = 0
        self._cursor = 0
        self._rng = GeneratorBytes()

    @property
    def board(self) -> NDArray[np.uint8]:
        """`[H, W]` uint8 cell codes, a copy.

        Raises:
            ResetNeeded: before the first reset.
        """
        return self._board("board").copy()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start a new level.

        Args:
            seed: new start for `np_random` and for the sequential order.
            options: None or `{"level": i}` with i in [0, len(levels)).

        Raises:
            ValueError: an option is unknown or out of range, or the generator finds no
                level for this `dim` and `num_boxes`.
        """
        super().reset(seed=seed, options=options)
        # What a seed begins does not depend on the levels that were played before.
        if seed is not None:
            self._cursor = 0
        self._place(self._next_board(options or {}).tobytes())
        return self._observe(), self._info()

    def step(
        self, action: SupportsIndex
    ) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Move or push; `truncated` is always False.

        Raises:
            InvalidAction: `action` is not an integer in [0, 4).
            ResetNeeded: before the first reset.
        """
        move = check_action("SokobanEnv.step", action, NUM_ACTIONS)
        if not self._cells:
            raise ResetNeeded("step: SokobanEnv has no level yet; call reset() first.")
        # The code of a box off its targets: without one the level is solved.
        if BOX in self._cells:
            self._player, gained = push(self._cells, self.dim[1], self._player, move)
            solved = BOX not in self._cells
            reward = self.step_reward + self.box_reward * gained + self.solved_reward * solved
        else:
            solved, reward = True, 0.0
        return self._observe(), reward, solved, False, self._info()

    def render(self) -> Any:
        """Return a picture or text of the board, by `render_mode`; None without one."""
        if self.render_mode is None:
            gymnasium.logger.warn(
                "SokobanEnv.render: no render_mode was given; make the env with one."
            )
            return None
        board = self._board("render")
        return draw(board) if self.render_mode == "rgb_array" else format_board(board)

    @property
    def state_width(self) -> int:
        """Bytes of a state."""
        return self.dim[0] * self.dim[1] + _TAIL_BYTES

    def get_state(self) -> NDArray[np.uint8]:
        """Return everything that later steps and resets read, `[state_width]` uint8, fresh.

        H * W cell codes, player's row and column (a byte each), cursor of the
        sequential order (4 bytes, little-endian), `np_random` (40 bytes). Levels and
        arguments are not part of it: restore into an env made with the same ones.

        Raises:
            ResetNeeded: before the first reset.
            IncompleteState: `np_random` was replaced by one that is not over PCG64.
        """
        if not self._cells:
            raise ResetNeeded("get_state: SokobanEnv has no level yet; call reset() first.")
        data = bytearray().join(
            (
                self._cells,
                bytes(divmod(self._player, self.dim[1])),
                self._cursor.to_bytes(_CURSOR_BYTES, "little"),
                bytes(RNG_BYTES),
            )
        )
        self._rng.capture(self.np_random, memoryview(data), len(data) - RNG_BYTES)
        return np.frombuffer(data, np.uint8)

    def set_state(self, state: NDArray[np.uint8]) -> None:
        """Continue from `state`; nothing of the env is changed if it is refused.

        Args:
            state: `[state_width]` uint8 from `get_state`; copied. The env need not have
                been reset.

        Raises:
            DamagedState: wrong size or type, or no position of this env.
        """
        data = check_row("SokobanEnv.set_state", state, self.state_width).tobytes()
        size = self.dim[0] * self.dim[1]
        cells, player = data[:size], data[size : size + 2]
        cursor = int.from_bytes(data[size + 2 : -RNG_BYTES], "little")
        # All checks come before the first change, the generator's last.
        fault = find_fault(cells, self.dim[1])
        if fault is not None:
            raise DamagedState(f"SokobanEnv.set_state: {fault[1]}. Pass a row from get_state.")
        # The place is in the row for compiled code, which does not look for it: both must agree.
        if bytes(divmod(_find_player(cells), self.dim[1])) != player:
            raise DamagedState(
                f"SokobanEnv.set_state: the row puts the player at {tuple(player)}, its board at "
                f"{divmod(_find_player(cells), self.dim[1])}. Pass a row from get_state."
            )
        last = 0 if self.levels is None else len(self.levels) - 1
        if cursor > last:
            raise DamagedState(
                f"SokobanEnv.set_state: expected a level cursor in 0..{last}; got {cursor}. "
                "Restore into an env made with the same levels."
            )
        self._rng.check(self.np_random, data[-RNG_BYTES:], "SokobanEnv.set_state")
        self._rng.restore(self.np_random, memoryview(data), len(data) - RNG_BYTES)
        self._place(cells)
        self._cursor = cursor

    def _make_observation_space(self) -> spaces.Space[NDArray[np.uint8]]:
        height, width = self.dim
        if self.observation == "planes":
            return spaces.Box(0, 1, (height, width, NUM_CODES), np.uint8)
        side = self.cell_pixels
        return spaces.Box(0, 255, (height * side, width * side, 3), np.uint8)

    def _next_board(self, options: dict[str, Any]) -> NDArray[np.uint8]:
        """Return the board of the next level, by `options`, order or generator."""
        unknown = options.keys() - {"level"}
        if unknown:
            raise InvalidOption(
                f"SokobanEnv.reset: the only option is 'level'; got {sorted(unknown)}."
            )
        if self.levels is None:
            if "level" in options:
                raise InvalidOption(
                    "SokobanEnv.reset: option 'level' picks from the argument `levels`, and "
                    "this env generates its levels. Seed reset instead."
                )
            # numba is imported and the kernels load only where levels are generated.
            from plangym_ext.envs.sokoban.generator import generate_level

            # One draw, however many attempts a level takes: the generator does not depend on them.
            level_seed = int(self.np_random.integers(2**63))
            return generate_level(level_seed, self.dim, self.num_boxes)[0]
        count = len(self.levels)
        if "level" in options:
            index = operator.index(options["level"])
            if not 0 <= index < count:
                raise InvalidOption(
                    f"SokobanEnv.reset: level must be in [0, {count}); got {index}."
                )
        elif self.level_order == "random":
            return self.levels[int(self.np_random.integers(count))]
        else:
            index = self._cursor
        if self.level_order == "sequential":
            self._cursor = (index + 1) % count
        return self.levels[index]

    def _place(self, cells: bytes) -> None:
        self._cells = bytearray(cells)
        self._player = _find_player(cells)

    def _board(self, where: str) -> NDArray[np.uint8]:
        """Return an `[H, W]` view of the cells; never stored, so that copies of the env work."""
        if not self._cells:
            raise ResetNeeded(f"{where}: SokobanEnv has no level yet; call reset() first.")
        return np.frombuffer(self._cells, np.uint8).reshape(self.dim)

    def _observe(self) -> NDArray[np.uint8]:
        board = self._board("observation")
        if self.observation == "planes":
            return one_hot_planes(board)
        return coloured_cells(board, self.cell_pixels)

    def _info(self) -> dict[str, Any]:
        return {
            "boxes_on_target": self._cells.count(BOX_ON_TARGET),
            "solved": BOX not in self._cells,
        }


def _find_player(cells: bytes) -> int:
    """Return the cell of the one player; a missing code is found at -1."""
    return max(cells.find(PLAYER), cells.find(PLAYER_ON_TARGET))


def _check_choice(name: str, value: str | None, choices: tuple[str | None, ...]) -> None:
    if value not in choices:
        raise InvalidOption(f"SokobanEnv: {name} must be one of {choices}; got {value!r}.")


def _load(levels: LevelSource) -> Levels:
    if isinstance(levels, Levels):
        return levels
    if isinstance(levels, str | os.PathLike):
        try:
            return read_levels(levels)
        except FileNotFoundError:
            raise NoSuchFile(f"SokobanEnv: levels: there is no file {levels!r:.200}.") from None
    if not (isinstance(levels, list | tuple) and all(isinstance(one, str) for one in levels)):
        raise WrongKind(
            f"SokobanEnv: levels must be a path, Levels, or a list of texts; got {levels!r:.80}."
        )
    # A blank line ends a level.
    return parse_levels("\n\n".join(text.strip("\n") for text in levels), source="levels")


def _resolve_dim(dim: tuple[int, int] | None, levels: Levels | None) -> tuple[int, int]:
    """Return the size of the board from the argument or the levels, which must agree."""
    if levels is None:
        sides = (10, 10) if dim is None else tuple(dim)
        if len(sides) != 2:
            raise InvalidOption(f"SokobanEnv: dim must be (rows, columns); got {dim!r:.80}.")
        height, width = sides
        if not (5 <= height <= MAX_SIDE and 5 <= width <= MAX_SIDE):
            raise InvalidOption(f"SokobanEnv: dim must be 5 to {MAX_SIDE} each; got {dim}.")
        return height, width
    if dim is not None and tuple(dim) != levels.dim:
        raise InvalidOption(
            f"SokobanEnv: dim is {tuple(dim)}, but the levels are {levels.dim}. Leave dim out."
        )
    return levels.dim


def _resolve_boxes(num_boxes: int | None, levels: Levels | None) -> int:
    """Return the boxes of a generated level, or most boxes of any of `levels`."""
    if levels is None:
        if num_boxes is not None and num_boxes < 1:
            raise InvalidOption(f"SokobanEnv: num_boxes must be >= 1; got {num_boxes}.")
        return 4 if num_boxes is None else num_boxes
    if num_boxes is not None:
        raise InvalidOption(
            f"SokobanEnv: levels bring their own boxes, so leave out num_boxes; got {num_boxes}."
        )
    return max(
        board.tobytes().count(BOX) + board.tobytes().count(BOX_ON_TARGET) for board in levels
    )
