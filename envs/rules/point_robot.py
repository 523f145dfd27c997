"""PointRobot env for meta-learning: a point in the plane moves to a goal that is not observed."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.envs.trials import checked_task
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

_STATE = np.dtype([("place", "f8", (2,)), ("goal", "f8", (2,)), ("rng", pcg64.RNG)])
#: How near the goal the sparse reward begins.
_RADIUS = 0.2


class PointRobot(NamedTuple):
    """The env's argument."""

    sparse: bool


class PointRobotEnv(RulesEnv):
    """A point that moves by its action, `[2]` in [-0.1, 0.1]; episodes begin at (0, 0).

    The task is the place of the goal, `[2]`; see `plangym_ext.envs.Trials`. The reward is minus
    the distance to it; with `sparse` 1 minus the distance within 0.2 of it, and 0 elsewhere.
    Dense goals are drawn from the square [-1, 1]^2, sparse ones from the upper half of the unit
    circle. Before a task is set the goal is (0, 1).

    The observation is the place, `[2]` float32, fresh.

    Args:
        sparse: which of the two rewards it pays.
        render_mode: None or "ansi".

    Source: Rakelly et al. 2019, "Efficient off-policy meta-reinforcement learning via probabilistic
    context variables".
    """

    def __init__(self, sparse: bool = False, *, render_mode: str | None = None) -> None:
        kernel = Kernel(_STATE, step, reset, observe, PointRobot(bool(sparse)), check=check)
        seen = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        acts = spaces.Box(-0.1, 0.1, (2,), np.float32)
        super().__init__(kernel, seen, acts, render_mode=render_mode)
        self.sparse = bool(sparse)
        self.set_task((0.0, 1.0))

    def sample_tasks(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n goals, `[n, 2]` float64."""
        if self.sparse:
            angle = rng.uniform(0.0, math.pi, n)
            return np.stack((np.cos(angle), np.sin(angle)), axis=1)
        return rng.uniform(-1.0, 1.0, (n, 2))

    def set_task(self, task: Any) -> None:
        """Set the goal, `[2]`; episodes have it until another one is set."""
        self.state["goal"][:] = checked_task(self, task, 2)

    def get_task(self) -> np.ndarray:
        """Return the goal, `[2]` float64, fresh."""
        goal: np.ndarray = self.state["goal"].copy()
        return goal

    def text(self) -> str:
        """Return the place and the goal."""
        names = ("place", "goal")
        return "\n".join(f"{name}: {self.state[name].round(3).tolist()}" for name in names)


def step(state: Any, params: Any, action: Any, info: Any) -> tuple[float, bool, bool]:
    """Move, and pay for the distance that is left."""
    place, goal = state["place"], state["goal"]
    for axis in range(2):
        place[axis] += np.float64(action[axis])
    x, y = place[0] - goal[0], place[1] - goal[1]
    distance = math.sqrt(x * x + y * y)
    if params.sparse:
        return 1.0 - distance if distance <= _RADIUS else 0.0, False, False
    return -distance, False, False


def reset(state: Any, params: Any) -> None:
    """Go back to (0, 0); the goal stays."""
    state["place"][0] = 0.0
    state["place"][1] = 0.0


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the place."""
    obs[0] = state["place"][0]
    obs[1] = state["place"][1]


def check(state: Any, params: Any) -> bool:
    """Return whether the numbers are finite, and there is such a generator."""
    for axis in range(2):
        if not (math.isfinite(state["place"][axis]) and math.isfinite(state["goal"][axis])):
            return False
    return pcg64.could_be_rng(state["rng"])
