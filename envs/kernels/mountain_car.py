"""Compiled kernel of MountainCar: step, reset and observation.

Source: gymnasium's `MountainCarEnv`, operation for operation, since floats do not associate.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from plangym_ext.envs.classic_control import FLOAT64, TUPLE
from plangym_ext.envs.kernels.cart_pole import classic_state, could_be_classic, number
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel


class MountainCar(NamedTuple):
    """The env's constants, by its own names."""

    min_position: float
    max_position: float
    max_speed: float
    goal_position: float
    goal_velocity: float
    force: float
    gravity: float


def kernel(env: Any) -> Kernel:
    """Return the kernel of a `MountainCarEnv`."""
    params = MountainCar(*(number(env, name) for name in MountainCar._fields))
    return Kernel(classic_state(2), step, reset, observe, params, check=could_be_classic)


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Take one time step."""
    p, vector = params, state["vector"]
    position, velocity = vector[0], vector[1]
    velocity += (action - 1) * p.force + math.cos(3 * position) * (-p.gravity)
    velocity = min(max(velocity, -p.max_speed), p.max_speed)
    position += velocity
    position = min(max(position, p.min_position), p.max_position)
    if position == p.min_position and velocity < 0:
        velocity = 0.0
    vector[0], vector[1] = position, velocity
    # A step of the env leaves a tuple of numbers where its reset leaves an array.
    state["kind"] = TUPLE
    return -1.0, position >= p.goal_position and velocity >= p.goal_velocity, False


def reset(state: Any, params: Any) -> None:
    """Draw the position from [-0.6, -0.4); the car stands."""
    vector = state["vector"]
    vector[0], vector[1] = pcg64.uniform(state["rng"], -0.6, -0.4), 0.0
    state["kind"] = FLOAT64


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write position and velocity, as float32."""
    obs[0], obs[1] = state["vector"][0], state["vector"][1]
