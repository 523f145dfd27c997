"""Compiled kernel of Acrobot: step, reset and observation.

Source: gymnasium's `AcrobotEnv`, operation for operation, since floats do not associate.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.envs.classic_control import FARTHEST, FASTEST, FLOAT32, FLOAT64
from plangym_ext.envs.kernels.cart_pole import classic_state, could_be_classic, number
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel

_GRAVITY = 9.8
# Angles that take no time to wrap. Beyond, the env itself would be busy for minutes or for ever;
# from a number that is none, the row goes to it and is judged there.
_MOST_WRAPPED = 1e9


class Acrobot(NamedTuple):
    """The env's constants, those of one expression combined as Python does."""

    dt: float
    max_velocity_1: float
    max_velocity_2: float
    torques: np.ndarray  # [3] float64
    torque_noise: float
    is_book: bool
    inertia_1: float  # m1 lc1²
    arms: float  # l1² + lc2²
    twice_arm: float  # 2 l1 lc2
    mass_2: float
    com_2_squared: float  # lc2²
    arm: float  # l1 lc2
    moment: float  # of either link
    weight_2: float  # m2 lc2 g
    weight_1: float  # (m1 lc1 + m2 l1) g
    coupling: float  # m2 l1 lc2
    twice_coupling: float  # 2 m2 l1 lc2
    inertia_2: float  # m2 lc2² + I2
    square: float  # no constant, so that pow is called as in the env


def kernel(env: Any) -> Kernel:
    """Return the kernel of an `AcrobotEnv`."""
    m1, m2 = number(env, "LINK_MASS_1"), number(env, "LINK_MASS_2")
    l1, lc1 = number(env, "LINK_LENGTH_1"), number(env, "LINK_COM_POS_1")
    lc2, moment = number(env, "LINK_COM_POS_2"), number(env, "LINK_MOI")
    params = Acrobot(
        dt=number(env, "dt"),
        max_velocity_1=number(env, "MAX_VEL_1"),
        max_velocity_2=number(env, "MAX_VEL_2"),
        torques=np.array(env.AVAIL_TORQUE, np.float64),
        torque_noise=number(env, "torque_noise_max"),
        is_book=env.book_or_nips != "nips",
        inertia_1=m1 * lc1**2,
        arms=l1**2 + lc2**2,
        twice_arm=2 * l1 * lc2,
        mass_2=m2,
        com_2_squared=lc2**2,
        arm=l1 * lc2,
        moment=moment,
        weight_2=m2 * lc2 * _GRAVITY,
        weight_1=(m1 * lc1 + m2 * l1) * _GRAVITY,
        coupling=m2 * l1 * lc2,
        twice_coupling=2 * m2 * l1 * lc2,
        inertia_2=m2 * lc2**2 + moment,
        square=2.0,
    )
    return Kernel(classic_state(4), step, reset, observe, params, check=check)


def check(state: Any, params: Any) -> bool:
    """Return whether the next angles can be wrapped by as many turns as take no time."""
    for k in range(4):
        # So that a NaN is none, too.
        if not abs(state["vector"][k]) <= (FARTHEST if k < 2 else FASTEST):
            return False
    return could_be_classic(state, params)


@compiled
def _accelerations(
    p: Any, torque: float, angle_1: float, angle_2: float, speed_1: float, speed_2: float
) -> tuple[float, float]:
    """Return the angular accelerations of both links."""
    cosine, sine = math.cos(angle_2), math.sin(angle_2)
    d1 = p.inertia_1 + p.mass_2 * (p.arms + p.twice_arm * cosine) + p.moment + p.moment
    d2 = p.mass_2 * (p.com_2_squared + p.arm * cosine) + p.moment
    phi2 = p.weight_2 * math.cos(angle_1 + angle_2 - math.pi / 2.0)
    phi1 = (
        -p.coupling * speed_2**p.square * sine
        - p.twice_coupling * speed_2 * speed_1 * sine
        + p.weight_1 * math.cos(angle_1 - math.pi / 2)
        + phi2
    )
    push = torque + d2 / d1 * phi1
    if p.is_book:
        push = push - p.coupling * speed_1**p.square * sine
    second = (push - phi2) / (p.inertia_2 - d2**p.square / d1)
    return -(d2 * second + phi1) / d1, second


@compiled
def _wrapped(angle: float) -> float:
    if not abs(angle) < _MOST_WRAPPED:
        return math.nan
    while angle > math.pi:
        angle = angle - 2 * math.pi
    while angle < -math.pi:
        angle = angle + 2 * math.pi
    return angle


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Take one time step of `dt` seconds: a Runge-Kutta step of fourth order."""
    p, vector = params, state["vector"]
    torque = p.torques[action]
    if p.torque_noise > 0:
        torque += pcg64.uniform(state["rng"], -p.torque_noise, p.torque_noise)
    a, b, c, d = vector[0], vector[1], vector[2], vector[3]
    half, sixth = p.dt / 2.0, p.dt / 6.0
    c1, d1 = _accelerations(p, torque, a, b, c, d)
    va2, vb2 = c + half * c1, d + half * d1
    c2, d2 = _accelerations(p, torque, a + half * c, b + half * d, va2, vb2)
    va3, vb3 = c + half * c2, d + half * d2
    c3, d3 = _accelerations(p, torque, a + half * va2, b + half * vb2, va3, vb3)
    va4, vb4 = c + p.dt * c3, d + p.dt * d3
    c4, d4 = _accelerations(p, torque, a + p.dt * va3, b + p.dt * vb3, va4, vb4)
    a = _wrapped(a + sixth * (c + 2 * va2 + 2 * va3 + va4))
    b = _wrapped(b + sixth * (d + 2 * vb2 + 2 * vb3 + vb4))
    c = c + sixth * (c1 + 2 * c2 + 2 * c3 + c4)
    d = d + sixth * (d1 + 2 * d2 + 2 * d3 + d4)
    vector[0], vector[1] = a, b
    vector[2] = min(max(c, -p.max_velocity_1), p.max_velocity_1)
    vector[3] = min(max(d, -p.max_velocity_2), p.max_velocity_2)
    state["kind"] = FLOAT64
    terminated = -math.cos(a) - math.cos(b + a) > 1.0
    return 0.0 if terminated else -1.0, terminated, False


def reset(state: Any, params: Any) -> None:
    """Draw the four numbers from [-0.1, 0.1), as float32."""
    for k in range(4):
        state["vector"][k] = np.float32(pcg64.uniform(state["rng"], -0.1, 0.1))
    state["kind"] = FLOAT32


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write cosine and sine of both angles, and the speeds."""
    vector = state["vector"]
    obs[0], obs[1] = math.cos(vector[0]), math.sin(vector[0])
    obs[2], obs[3] = math.cos(vector[1]), math.sin(vector[1])
    obs[4], obs[5] = vector[2], vector[3]
