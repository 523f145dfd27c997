"""Compiled kernel of Pendulum: step, reset and observation.

Source: gymnasium's `PendulumEnv`, operation for operation, since floats do not associate.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.envs.classic_control import FLOAT64
from plangym_ext.envs.kernels.cart_pole import classic_state, could_be_classic, number
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel


class Pendulum(NamedTuple):
    """The env's constants, some of them combined as the env's expressions do."""

    max_speed: float
    dt: float
    gravity_gain: float  # 3 g / (2 l)
    torque_gain: np.float32  # 3 / (m l²), which meets a float32 torque
    cost_of_torque: np.float32
    # The exponents are no constants: compilers turn a square into a product, but the
    # env calls pow, which now and then rounds otherwise.
    square: float
    square32: np.float32


def kernel(env: Any) -> Kernel:
    """Return the kernel of a `PendulumEnv`."""
    g, m, length = number(env, "g"), number(env, "m"), number(env, "l")
    number(env, "max_torque")  # actions are checked against the same bound
    params = Pendulum(
        max_speed=number(env, "max_speed"),
        dt=number(env, "dt"),
        gravity_gain=3 * g / (2 * length),
        torque_gain=np.float32(3.0 / (m * length**2)),
        cost_of_torque=np.float32(0.001),
        square=2.0,
        square32=np.float32(2.0),
    )
    return Kernel(
        classic_state(2, ("torque", "<f8")), step, reset, observe, params, check=could_be_classic
    )


@compiled
def _normalized(angle: float) -> float:
    return (angle + math.pi) % (2 * math.pi) - math.pi


def step(state: Any, params: Any, action: Any, info: Any) -> tuple[float, bool, bool]:
    """Take one time step of `dt` seconds."""
    p, vector = params, state["vector"]
    angle, speed, torque = vector[0], vector[1], action[0]
    costs = (
        _normalized(angle) ** p.square
        + 0.1 * speed**p.square
        + np.float64(p.cost_of_torque * torque**p.square32)
    )
    push = np.float64(p.torque_gain * torque)
    speed = speed + (p.gravity_gain * math.sin(angle) + push) * p.dt
    speed = min(max(speed, -p.max_speed), p.max_speed)
    vector[0], vector[1] = angle + speed * p.dt, speed
    state["kind"], state["is_held"] = FLOAT64, 1
    # The codec writes 0 for -0, too.
    state["torque"] = torque if torque != 0 else 0.0
    return -costs, False, False


def reset(state: Any, params: Any) -> None:
    """Draw angle and speed from [-pi, pi) and [-1, 1)."""
    vector = state["vector"]
    vector[0] = pcg64.uniform(state["rng"], -math.pi, math.pi)
    vector[1] = pcg64.uniform(state["rng"], -1.0, 1.0)
    state["kind"], state["is_held"], state["torque"] = FLOAT64, 0, 0.0


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write cosine and sine of the angle, and the speed."""
    vector = state["vector"]
    obs[0], obs[1], obs[2] = math.cos(vector[0]), math.sin(vector[0]), vector[1]
