"""Classic control: CartPole, Pendulum, Acrobot, MountainCar (both).

State: the vector `env.state`, the generator, CartPole's count of steps past the
end (it decides the reward there) and Pendulum's last torque (it is drawn).
"""

from __future__ import annotations

import struct
from typing import Any

import gymnasium
import numpy as np

from plangym_ext.core.part import StatePart
from plangym_ext.core.rng import RNG_BYTES, GeneratorBytes

# `state` is float64 after reset and, depending on the env, float32 or a tuple after
# a step. Later arithmetic runs in that type, so the type is part of the state.
_FLOAT64, _FLOAT32, _TUPLE = range(3)
# What the dynamics and rewards read and nobody changes between two steps. An env that
# was built without gymnasium's registry has no spec to tell its arguments from.
_CONSTANTS = (
    "_sutton_barto_reward",
    "book_or_nips",
    "dt",
    "force",
    "force_mag",
    "g",
    "goal_position",
    "goal_velocity",
    "gravity",
    "kinematics_integrator",
    "l",
    "length",
    "m",
    "masscart",
    "masspole",
    "max_action",
    "max_position",
    "max_speed",
    "max_torque",
    "min_action",
    "min_position",
    "power",
    "tau",
    "theta_threshold_radians",
    "torque_noise_max",
    "x_threshold",
)
# Which of the two optional fields hold a value rather than None.
_HAS_STEPS, _HAS_TORQUE = 1, 2


class ClassicControlPart(StatePart):
    """Codec of gymnasium's five classic control envs."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._size = len(env.state)
        self._layout = struct.Struct(f"<BBq{self._size + 1}d")
        self._rng = GeneratorBytes()
        self.width = self._layout.size + RNG_BYTES

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write vector, optional fields and generator."""
        env = self._env
        state = env.state
        if type(state) is tuple:
            kind, values = _TUPLE, state
        else:
            kind = _FLOAT64 if state.dtype == np.float64 else _FLOAT32
            values = state.tolist()
        steps = getattr(env, "steps_beyond_terminated", None)
        torque = getattr(env, "last_u", None)
        flags = (steps is not None) * _HAS_STEPS | (torque is not None) * _HAS_TORQUE
        self._layout.pack_into(buffer, offset, kind, flags, steps or 0, *values, torque or 0.0)
        return self._rng.capture(env.np_random, buffer, offset + self._layout.size)

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set vector, optional fields and generator."""
        env = self._env
        kind, flags, steps, *values, torque = self._layout.unpack_from(buffer, offset)
        if kind == _TUPLE:
            env.state = tuple(values)
        else:
            env.state = np.array(values, np.float64 if kind == _FLOAT64 else np.float32)
        env.steps_beyond_terminated = steps if flags & _HAS_STEPS else None
        env.last_u = torque if flags & _HAS_TORQUE else None
        return self._rng.restore(env.np_random, buffer, offset + self._layout.size)

    def identity(self) -> dict[str, Any]:
        """The dynamics are gymnasium's own code and the env's constants."""
        constants = {key: getattr(self._env, key) for key in _CONSTANTS if hasattr(self._env, key)}
        return {"gymnasium": gymnasium.__version__, **constants}
