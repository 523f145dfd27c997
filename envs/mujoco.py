"""State codec of gymnasium's MuJoCo envs (v4, v5) and of other envs built like `MujocoEnv`.

State: MuJoCo's integration vector (time, positions, velocities, controls, applied
forces, the solver's warm start, ...), the generator, and the derived arrays that a
task reads before it simulates: they lag the positions by one substep, so neither the
vector holds them nor `mj_forward` brings them back.

Nothing else is written on a restore, and `mj_forward` is never called: it would
overwrite the warm start, and the future with it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import mujoco
import numpy as np

from plangym_ext.errors import IncompleteState
from plangym_ext.states.part import StatePart
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes

_SIGNATURE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
_PACKAGE = "gymnasium.envs.mujoco."
# Derived arrays that `step` of gymnasium's own tasks reads before it simulates: most
# read none, and look at positions for their progress.
_READ_BEFORE: dict[str, tuple[str, ...]] = {
    **{
        f"{task}_v{version}": ()
        for version in (4, 5)
        for task in (
            *("half_cheetah", "hopper", "humanoidstandup", "inverted_double_pendulum"),
            *("inverted_pendulum", "pusher", "reacher", "swimmer", "walker2d"),
        )
    },
    "ant_v4": ("xpos",),
    "ant_v5": ("xpos",),
    "humanoid_v4": ("xipos",),
    "humanoid_v5": ("xipos",),
    "pusher_v4": ("xpos",),  # v4 of these two pays for the position that is left
    "reacher_v4": ("xpos",),
}
# What a foreign task may read before it simulates. Contacts and constraint
# forces are missing: they have no place of their own to be put back to.
_ALL_DERIVED = (
    *("xpos", "xquat", "xmat", "xipos", "ximat", "xanchor", "xaxis"),
    *("geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "cam_xpos", "cam_xmat"),
    *("subtree_com", "subtree_linvel", "subtree_angmom", "cinert", "cvel", "cacc"),
    *("cfrc_int", "cfrc_ext", "ten_length", "ten_velocity", "sensordata", "energy"),
    *("actuator_length", "actuator_velocity", "actuator_force", "act_dot", "qacc"),
    *("qfrc_bias", "qfrc_passive", "qfrc_actuator", "qfrc_constraint", "qfrc_inverse"),
)
# Vectors that a reset of these tasks draws and keeps. Their own steps read the joints
# instead, but a wrapper may look here.
_DRAWN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("reacher_v4", "reacher_v5"), ("goal",)),
    **dict.fromkeys(("pusher_v4", "pusher_v5"), ("cylinder_pos",)),
}
#: Stands for fields that this version of MuJoCo lacks.
_NONE = np.zeros(0)
_DRAWN_BYTES = 16  # two float64 each
# Attributes of every `MujocoEnv` that this codec answers for.
_COVERED = {"_np_random", "model", "data", "mujoco_renderer"}
# Private attributes that are no arguments, or all of them with those of the pictures.
_NOT_ARGUMENTS = ("_np_random", "_ezpickle_", "_cached_", "_saved_")


class MujocoPart(StatePart):
    """Codec of an env that derives from gymnasium's `MujocoEnv`, or is built like one.

    Args:
        env: with `model`, `data`, `frame_skip`, `render_mode` and `np_random`.
        derived: fields beside the integration vector that its step reads before it
            simulates; None for what is known of gymnasium's tasks, or else all.
        thorough: look for edits anywhere in the model, unless the env is gymnasium's own.

    Raises:
        IncompleteState: the env has no MuJoCo model and data, or its model puts bodies
            to sleep, which is not part of MuJoCo's state vector.
    """

    fixes_fields = True

    def __init__(
        self, env: Any, derived: tuple[str, ...] | None = None, *, thorough: bool = True
    ) -> None:
        model = getattr(env, "model", None)
        if not isinstance(model, mujoco.MjModel) or not isinstance(env.data, mujoco.MjData):
            raise IncompleteState(
                f"{type(env).__qualname__}: expected `model` and `data` of mujoco; "
                f"got {type(model)}. Give the env get_state and set_state."
            )
        if model.opt.enableflags & getattr(mujoco.mjtEnableBit, "mjENBL_SLEEP", 0):
            raise IncompleteState(
                f"{type(env).__qualname__}: its model lets bodies sleep, which MuJoCo's state "
                "vector leaves out. Clear the sleep flag, or use capture='replay'."
            )
        self._env = env
        module = type(env).__module__
        task = module.removeprefix(_PACKAGE) if module.startswith(_PACKAGE) else ""
        self._is_own = task in _READ_BEFORE
        self._derived_names = _READ_BEFORE.get(task, _ALL_DERIVED) if derived is None else derived
        self._drawn = _DRAWN.get(task, ())
        self._rng = GeneratorBytes()
        self.guard = ModelGuard(model, thorough=thorough and not self._is_own)
        self._bind(model, env.data)
        carried = sum(len(view) for view in self._derived)
        self.width = len(self._bytes) + carried + len(self._drawn) * _DRAWN_BYTES + RNG_BYTES

    @property
    def carried(self) -> tuple[str, ...]:
        """Fields of `mjData` that a state holds after the integration vector, in order."""
        return tuple(self._carried)

    @property
    def kept_bytes(self) -> int:
        """Bytes after those of vectors that a reset draws and keeps."""
        return len(self._drawn) * _DRAWN_BYTES

    def _bind(self, model: Any, data: Any) -> None:
        """Take hold of the memory of `data`, which is copied from and to as it is."""
        self._model, self._data = model, data
        # One vector for all calls: a view of each row costs more than this copy, and a
        # row need not start where a float may.
        self._vector = np.zeros(mujoco.mj_stateSize(model, _SIGNATURE))
        self._bytes = self._vector.data.cast("B")
        arrays: dict[str, Any] = {
            name: getattr(data, name, np.zeros(0)) for name in self._derived_names
        }
        self._carried = [name for name, array in arrays.items() if array.size]
        self._derived = [arrays[name].reshape(-1).data.cast("B") for name in self._carried]

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        env = self._env
        if env.data is not self._data:
            self._rebind()
        self.guard.check()
        mujoco.mj_getState(self._model, self._data, self._vector, _SIGNATURE)
        stop = offset + len(self._bytes)
        buffer[offset:stop] = self._bytes
        for view in self._derived:
            offset, stop = stop, stop + len(view)
            buffer[offset:stop] = view
        for name in self._drawn:
            offset, stop = stop, stop + _DRAWN_BYTES
            buffer[offset:stop] = getattr(env, name).tobytes()
        return self._rng.capture(env.np_random, buffer, stop)

    def restore(self, buffer: memoryview, offset: int) -> int:
        env = self._env
        if env.data is not self._data:
            self._rebind()
        stop = offset + len(self._bytes)
        self._bytes[:] = buffer[offset:stop]
        mujoco.mj_setState(self._model, self._data, self._vector, _SIGNATURE)
        if env.render_mode is not None:
            self._pose()
        for view in self._derived:
            offset, stop = stop, stop + len(view)
            view[:] = buffer[offset:stop]
        for name in self._drawn:
            offset, stop = stop, stop + _DRAWN_BYTES
            # Drawn once an episode: as a rule it is the same, which is found out faster.
            if getattr(env, name).tobytes() != buffer[offset:stop]:
                setattr(env, name, np.frombuffer(buffer, np.float64, 2, offset).copy())
        return self._rng.restore(env.np_random, buffer, stop)

    def _pose(self) -> None:
        """Place what is drawn. The next step does it again, whatever is there."""
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        mujoco.mj_flex(self._model, self._data)
        mujoco.mj_tendon(self._model, self._data)

    def _rebind(self) -> None:
        if self._env.model is not self._model:
            raise IncompleteState(
                f"{type(self._env).__qualname__}: it replaced its model since it was made. "
                f"{ModelGuard.REMEDY}"
            )
        self._bind(self._model, self._env.data)

    def covers(self, name: str, value: Any) -> bool:
        """Return whether the vector or this part has it: also arrays that show MuJoCo's memory."""
        if name in _COVERED:
            return True
        base = value.base if isinstance(value, np.ndarray) else None
        while isinstance(base, np.ndarray):
            base = base.base
        return type(base).__name__ == "PyCapsule"

    def identity(self) -> dict[str, Any]:
        """Return the simulator's version, the model's bytes, and the task's weights and ranges."""
        found = {
            "mujoco": mujoco.__version__,
            "gymnasium": gymnasium.__version__,
            "model": hashlib.blake2b(_saved(self._model), digest_size=16).hexdigest(),
            "frame_skip": self._env.frame_skip,
        }
        if self._is_own:
            # An env that was built without gymnasium's registry has no spec to tell its
            # arguments from. Fields of other classes may change; they are in the state.
            for name, value in vars(self._env).items():
                if name.startswith("_") and not name.startswith(_NOT_ARGUMENTS):
                    found[name] = value
        return found


class ModelGuard:
    """Notices that a model was edited since the guard was made.

    A state does not hold the model, but some envs and wrappers draw new masses, friction or gravity
    at every reset. Their states would be restored into another world.

    Args:
        model: an `MjModel`.
        thorough: compare everything but textures and names, rather than what is
            commonly edited: options, bodies, joints, geoms, sites and actuators.
    """

    REMEDY = "Use capture='snapshot' or capture='replay', which capture or repeat such changes."
    # First and last of fields that follow each other in MuJoCo's memory.
    _SPANS = (
        ("body_pos", "body_gravcomp"),
        ("jnt_pos", "dof_damping"),
        ("geom_size", "geom_friction"),
        ("site_pos", "site_quat"),
        ("actuator_gainprm", "actuator_gear"),
    )
    # The options' integers after `o_friction`: integrator, solver, flags, ...
    _OPTION_INTEGERS = 44

    def __init__(self, model: Any, *, thorough: bool) -> None:
        self._model, self._options = model, model.opt
        self._timestep = model.opt.timestep
        ends = self._all(model) if thorough else self._edited(model)
        self._spans = [_span(first, last, 0, model) for first, last in ends]
        self._spans.append(
            _span(model.opt.gravity, model.opt.o_friction, self._OPTION_INTEGERS, model)
        )
        self._before = b"".join(self._spans)

    def _edited(self, model: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for first, last in self._SPANS:
            if getattr(model, first).size:
                yield getattr(model, first), getattr(model, last)

    def _all(self, model: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        # Half a megabyte of texture lies between the other fields of most models.
        if model.ntex:
            yield model.qpos0, model.tex_adr
            yield model.tex_pathadr, model.name_bodyadr
        else:
            yield model.qpos0, model.name_bodyadr

    def check(self) -> None:
        """Refuse to go on with an edited model.

        Raises:
            IncompleteState: the model is not what it was.
        """
        # Copying all spans and comparing once is faster than comparing each in place.
        if b"".join(self._spans) != self._before or self._options.timestep != self._timestep:
            raise IncompleteState(
                "MuJoCo model: it was edited since the env was made (by a wrapper, or at reset), "
                f"and the codec does not capture the model. {self.REMEDY} If you edit it once, "
                "do so in the callable that makes the env."
            )


def _span(first: np.ndarray, last: np.ndarray, beyond: int, model: Any) -> memoryview:
    """Return the model's memory from one of its arrays to `beyond` bytes after another."""
    start = first.__array_interface__["data"][0]
    size = last.__array_interface__["data"][0] + last.nbytes + beyond - start
    if not 0 < size <= model.nbuffer:
        raise IncompleteState(
            f"MuJoCo model: version {mujoco.__version__} orders its fields in an unknown way; "
            "please report it, with this version."
        )
    flat = first.reshape(-1).view(np.uint8)
    # The array's base keeps the model alive, and is kept by the view.
    seen: np.ndarray = np.lib.stride_tricks.as_strided(flat, (size,), (1,), writeable=False)
    return seen.data


def _saved(model: Any) -> bytes:
    """Return the model as MuJoCo writes it to a file."""
    saved = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, saved)
    return saved.tobytes()


@contextmanager
def quiet_compiler() -> Iterator[None]:
    """Keep MuJoCo from telling users what gymnasium's model files should not contain.

    It would print to stderr and write a file into the working directory. Other
    warnings take their usual way.
    """
    outer = mujoco.get_mju_user_warning()

    def warn(message: str) -> None:
        if "'settotalmass' is deprecated" in message:
            return
        if outer is not None:
            outer(message)
        else:
            print(f"WARNING: {message}", file=sys.stderr)

    mujoco.set_mju_user_warning(warn)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(outer)
