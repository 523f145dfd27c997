"""Sokoban: the env, its level files and its cell codes.

The generator is in `plangym_ext.envs.sokoban.generator`; it needs numba, so it is
imported when a level is first generated.
"""

from plangym_ext.envs.sokoban.cells import format_board
from plangym_ext.envs.sokoban.env import SokobanEnv
from plangym_ext.envs.sokoban.levels import Levels, parse_levels, read_levels

__all__ = ["Levels", "SokobanEnv", "format_board", "parse_levels", "read_levels"]
