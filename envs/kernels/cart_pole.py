"""Compiled kernel of CartPole: step, reset and observation.

Source: gymnasium's `CartPoleEnv`, operation for operation, since floats do not associate.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.envs.classic_control import FLOAT64
from plangym_ext.errors import NoKernel
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.pcg64 import RNG, could_be_rng
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


# State record of the five classic control kernels -----------------------------


def classic_state(size: int, optional: tuple[str, str] | None = None) -> np.dtype[Any]:
    """Return the dtype of the state of an env whose vector has `size` numbers.

    Args:
        size: numbers in the vector.
        optional: name and type of the field beside it that may hold a number
            (`is_held`), if there is one.
    """
    return np.dtype(
        [
            ("kind", "u1"),  # FLOAT64, FLOAT32 or TUPLE: later arithmetic runs in this type
            ("is_held", "u1"),  # whether the optional field holds a number, or else None
            ("vector", "<f8", (size,)),
            *([] if optional is None else [optional]),
            ("rng", RNG),
        ]
    )


@compiled
def could_be_classic(state: Any, params: Any) -> bool:
    """Return whether there is such a generator."""
    return could_be_rng(state["rng"])


def number(env: Any, name: str) -> float:
    """Return a constant of the env, if it is a plain number: other types compute otherwise.

    Raises:
        NoKernel: it is something else, such as a numpy float32.
    """
    value = getattr(env, name)
    if type(value) not in (int, float):
        raise NoKernel(
            f"{type(env).__qualname__}: its kernel takes {name} as a Python number; got "
            f"{type(value).__qualname__}"
        )
    return float(value)
