"""Compiled kernel of CartPole: step, reset and observation.

Source: gymnasium's `CartPoleEnv`, operation for operation, since floats do not associate.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from plangym_ext.envs.classic_control import FLOAT64
from plangym_ext.envs.kernels.classic_state import classic_state, could_be_classic, number
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel


class CartPole(NamedTuple):
    """The env's constants, by its own names."""

    gravity: float
    masspole: float
    total_mass: float
    length: float
    polemass_length: float
    force_mag: float
    tau: float
    theta_threshold_radians: float
    x_threshold: float
    is_euler: bool
    sutton_barto_reward: bool


def kernel(env: Any) -> Kernel:
    """Return the kernel of a `CartPoleEnv`."""
    constants = [number(env, name) for name in CartPole._fields[:-2]]
    is_euler = env.kinematics_integrator == "euler"
    params = CartPole._make([*constants, is_euler, bool(env._sutton_barto_reward)])
    return Kernel(
        classic_state(4, ("steps", "<i8")), step, reset, observe, params, check=could_be_classic
    )


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Take one time step of `tau` seconds."""
    p, vector = params, state["vector"]
    x, x_dot, theta, theta_dot = vector[0], vector[1], vector[2], vector[3]
    force = p.force_mag if action == 1 else -p.force_mag
    cosine, sine = math.cos(theta), math.sin(theta)
    # Products for the env's `np.square`: a power may round otherwise.
    temp = (force + p.polemass_length * (theta_dot * theta_dot) * sine) / p.total_mass
    theta_acc = (p.gravity * sine - cosine * temp) / (
        p.length * (4.0 / 3.0 - p.masspole * (cosine * cosine) / p.total_mass)
    )
    x_acc = temp - p.polemass_length * theta_acc * cosine / p.total_mass
    if p.is_euler:
        x = x + p.tau * x_dot
        x_dot = x_dot + p.tau * x_acc
        theta = theta + p.tau * theta_dot
        theta_dot = theta_dot + p.tau * theta_acc
    else:
        # Semi-implicit: places follow from the new velocities.
        x_dot = x_dot + p.tau * x_acc
        x = x + p.tau * x_dot
        theta_dot = theta_dot + p.tau * theta_acc
        theta = theta + p.tau * theta_dot
    vector[0], vector[1], vector[2], vector[3] = x, x_dot, theta, theta_dot
    limit = p.theta_threshold_radians
    terminated = x < -p.x_threshold or x > p.x_threshold or theta < -limit or theta > limit
    if not terminated:
        return 0.0 if p.sutton_barto_reward else 1.0, False, False
    # `is_held`: the env's `steps_beyond_terminated` is a number, and no longer None.
    if not state["is_held"]:  # it falls now
        state["is_held"] = 1
        state["steps"] = 0
        return -1.0 if p.sutton_barto_reward else 1.0, True, False
    state["steps"] += 1
    return -1.0 if p.sutton_barto_reward else 0.0, True, False


def reset(state: Any, params: Any) -> None:
    """Draw the four numbers from [-0.05, 0.05)."""
    for k in range(4):
        state["vector"][k] = pcg64.uniform(state["rng"], -0.05, 0.05)
    state["kind"], state["is_held"], state["steps"] = FLOAT64, 0, 0


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the vector, as float32."""
    for k in range(4):
        obs[k] = state["vector"][k]
