"""State codec of gymnasium's classic control envs: CartPole, Pendulum, Acrobot, MountainCar.

State: the vector `env.state`, the generator, CartPole's count of steps past the
end (it decides the reward there) and Pendulum's last torque (it is drawn).
"""

from __future__ import annotations

import struct
from typing import Any

import gymnasium
import numpy as np

from plangym_ext.errors import DamagedState
from plangym_ext.states.part import StatePart
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes
from plangym_ext.states.wrapper_parts import MOST_STEPS

# `state` is float64 after reset and, depending on the env, float32 or a tuple after
# a step. Later arithmetic runs in that type, so the type is part of the state.
FLOAT64, FLOAT32, TUPLE = range(3)
_VECTOR_AT = 2  # after two bytes
# What the dynamics and rewards read and no step changes. An env that
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
#: Greatest angle and speed of an Acrobot that is restored. It goes back turn by turn, and would not
#: end where a turn is less than the last digit of an angle. A step squares speeds three times: 100
#: come to ten million turns, and its own are 28 at most.
FARTHEST, FASTEST = 1e4, 1e2
# What an env may hold beside its vector, a number or None: its type in a state.
_OPTIONAL = {"steps_beyond_terminated": "q", "last_u": "d"}


class ClassicControlPart(StatePart):
    """Codec of gymnasium's five classic control envs."""

    fixes_fields = True

    def __init__(self, env: Any) -> None:
        self._env = env
        self._optional = next((name for name in _OPTIONAL if hasattr(env, name)), None)
        # Kind of the vector, whether the optional field holds a number, both.
        last = _OPTIONAL[self._optional] if self._optional else ""
        self._layout = struct.Struct(f"<BB{len(env.state)}d{last}")
        self._size = self._layout.size
        # The same without the vector, which is read as it lies in memory.
        self._vector = np.zeros(len(env.state), "<f8")
        self._bytes = self._vector.data.cast("B")
        self._around = struct.Struct(f"<BB{len(self._bytes)}x{last}")
        self._rng = GeneratorBytes()
        self.may_refuse = hasattr(env, "book_or_nips")
        self.width = self._size + RNG_BYTES

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        env = self._env
        state = env.state
        if type(state) is tuple:
            kind, values = TUPLE, state
        else:
            # Comparing the type itself takes four times as long.
            kind = FLOAT64 if state.itemsize == 8 else FLOAT32
            values = state.tolist()
        if self._optional is None:
            self._layout.pack_into(buffer, offset, kind, False, *values)
        else:
            value = getattr(env, self._optional)
            self._layout.pack_into(buffer, offset, kind, value is not None, *values, value or 0)
        return self._rng.capture(env.np_random, buffer, offset + self._size)

    def restore(self, buffer: memoryview, offset: int) -> int:
        env = self._env
        kind, is_held, *value = self._around.unpack_from(buffer, offset)
        start = offset + _VECTOR_AT
        self._bytes[:] = buffer[start : start + len(self._bytes)]
        if self.may_refuse:
            self._check_turns()
        if self._optional is not None:
            if is_held and abs(value[0]) > MOST_STEPS:
                raise DamagedState(
                    f"state: {self._optional} is at most {MOST_STEPS}; got {value[0]}."
                )
            setattr(env, self._optional, value[0] if is_held else None)
        if kind == FLOAT64:
            env.state = self._vector.copy()
        elif kind == FLOAT32:
            env.state = self._vector.astype(np.float32)
        else:
            env.state = tuple(self._vector.tolist())
        return self._rng.restore(env.np_random, buffer, offset + self._size)

    def _check_turns(self) -> None:
        """Refuse an Acrobot that no step would bring back to where angles are.

        Raises:
            DamagedState: an angle is beyond `FARTHEST`, a speed beyond `FASTEST`, or no number.
        """
        numbers = self._vector.tolist()
        bounds = (FARTHEST, FARTHEST, FASTEST, FASTEST)
        if not all(abs(number) <= most for number, most in zip(numbers, bounds, strict=True)):
            raise DamagedState(
                f"Acrobot: angles and speeds of a state must be at most {bounds}; got "
                f"{numbers}. Pass a row from get_state."
            )

    def covers(self, name: str, value: Any) -> bool:
        """Return whether it is the vector, the optional field or the generator."""
        return name in ("_np_random", "state", self._optional)

    def identity(self) -> dict[str, Any]:
        """Return gymnasium's version, whose code is the dynamics, and the env's constants."""
        constants = {key: getattr(self._env, key) for key in _CONSTANTS if hasattr(self._env, key)}
        return {"gymnasium": gymnasium.__version__, **constants}
