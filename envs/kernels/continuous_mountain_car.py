"""Compiled kernel of MountainCarContinuous: step, reset and observation.

The env computes in float64 in the first step of an episode and in float32 later, for a
step leaves a float32 vector and Python's floats take the type of numpy's beside them.

Source: gymnasium's `Continuous_MountainCarEnv`, operation for operation.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.envs.classic_control import FLOAT32
from plangym_ext.envs.kernels.cart_pole import classic_state, could_be_classic, number
from plangym_ext.envs.kernels.mountain_car import observe, reset
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel.row_kernel import Kernel


class ContinuousMountainCar(NamedTuple):
    """The env's constants, by its own names."""

    min_position: float
    max_position: float
    max_speed: float
    goal_position: float
    goal_velocity: float
    power: float
    square: float  # no constant, so that pow is called as in the env


def kernel(env: Any) -> Kernel:
    """Return the kernel of a `Continuous_MountainCarEnv`."""
    constants = [number(env, name) for name in ContinuousMountainCar._fields[:-1]]
    params = ContinuousMountainCar._make([*constants, 2.0])
    return Kernel(classic_state(2), step, reset, observe, params, check=could_be_classic)


@compiled
def _gain(force: Any, tripled: float, power: float) -> Any:
    """Return the change of the velocity, float32, from three times the position."""
    return force * np.float32(power) - np.float32(0.0025 * math.cos(tripled))


@compiled
def _later_step(vector: Any, force: Any, p: Any) -> Any:
    """Compute the step in float32; return whether the goal is reached."""
    position, velocity = np.float32(vector[0]), np.float32(vector[1])
    # The product is a float32 in the env; its cosine is taken as of a double.
    velocity += _gain(force, np.float64(np.float32(3) * position), p.power)
    # Where a bound takes the value's place it is compared as the Python float it is.
    fast_enough = velocity >= np.float32(p.goal_velocity)
    if velocity > np.float32(p.max_speed):
        velocity, fast_enough = np.float32(p.max_speed), p.max_speed >= p.goal_velocity
    if velocity < np.float32(-p.max_speed):
        velocity, fast_enough = np.float32(-p.max_speed), -p.max_speed >= p.goal_velocity
    position += velocity
    far_enough = position >= np.float32(p.goal_position)
    if position > np.float32(p.max_position):
        position, far_enough = np.float32(p.max_position), p.max_position >= p.goal_position
    if position < np.float32(p.min_position):
        position, far_enough = np.float32(p.min_position), p.min_position >= p.goal_position
    if position == np.float32(p.min_position) and velocity < np.float32(0):
        velocity, fast_enough = np.float32(0), p.goal_velocity <= 0.0
    vector[0], vector[1] = position, velocity
    return far_enough and fast_enough


@compiled
def _first_step(vector: Any, force: Any, p: Any) -> bool:
    """Compute position and velocity in float64, rounded at the end; return whether at the goal."""
    position, velocity = vector[0], vector[1]
    velocity += np.float64(_gain(force, 3 * position, p.power))
    velocity = max(min(velocity, p.max_speed), -p.max_speed)
    position += velocity
    position = max(min(position, p.max_position), p.min_position)
    if position == p.min_position and velocity < 0:
        velocity = 0.0
    vector[0], vector[1] = np.float32(position), np.float32(velocity)
    return position >= p.goal_position and velocity >= p.goal_velocity


def step(state: Any, params: Any, action: Any, info: Any) -> tuple[float, bool, bool]:
    """Take one time step."""
    vector, force = state["vector"], action[0]
    if state["kind"] == FLOAT32:
        terminated = _later_step(vector, force, params)
    else:
        terminated = _first_step(vector, force, params)
    state["kind"] = FLOAT32
    reward = 100.0 if terminated else 0.0
    return reward - np.float64(force) ** params.square * 0.1, terminated, False
