"""Compiled env kernels: lookup of the kernel for a given env.

One file per env. `kernel_of` finds the right one by the env's class and imports no
other.
"""

from __future__ import annotations

import importlib
from typing import Any

from plangym_ext.errors import NoKernel

_CLASSIC, _TOY, _OWN = (
    "gymnasium.envs.classic_control",
    "gymnasium.envs.toy_text",
    "plangym_ext.envs",
)
#: Class of a simulator -> module of this package.
_KERNELS = {
    f"{_CLASSIC}.cartpole:CartPoleEnv": "cart_pole",
    f"{_CLASSIC}.pendulum:PendulumEnv": "pendulum",
    f"{_CLASSIC}.acrobot:AcrobotEnv": "acrobot",
    f"{_CLASSIC}.mountain_car:MountainCarEnv": "mountain_car",
    f"{_CLASSIC}.continuous_mountain_car:Continuous_MountainCarEnv": "continuous_mountain_car",
    f"{_TOY}.frozen_lake:FrozenLakeEnv": "toy_text",
    f"{_TOY}.cliffwalking:CliffWalkingEnv": "toy_text",
    f"{_TOY}.taxi:TaxiEnv": "toy_text",
    f"{_OWN}.sokoban.env:SokobanEnv": "sokoban",
}


def kernel_of(env: Any) -> Any:
    """Return the `Kernel` of an unwrapped env, made for its arguments.

    Raises:
        NoKernel: there is none for its class, or not for its arguments.
    """
    cls = type(env)
    # The class itself: a subclass may have changed any rule.
    module = _KERNELS.get(f"{cls.__module__}:{cls.__qualname__}")
    if module is None:
        raise NoKernel(f"{cls.__qualname__}: no kernel is known for this class")
    return importlib.import_module(f"plangym_ext.envs.kernels.{module}").kernel(env)
