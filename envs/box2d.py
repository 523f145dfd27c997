"""Box2D envs (LunarLander, BipedalWalker, CarRacing): states as replayed episodes.

Box2D has no copy of a world: the impulses that its joints and contacts keep from one
step to the next can be neither read nor set. So the exact state is an episode that is
played again (`Box2DPlayback`). `KinematicPart` restores what can be read, at a cost
that does not grow with the depth; the first step after it already differs in the last
digits. It is approximate, and used only where `capture="approximate"` asks for it.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np

from plangym_ext.errors import DamagedState, IncompleteState, MissingExtra, installing
from plangym_ext.states import plain
from plangym_ext.states.part import StatePart, get_block, put_block
from plangym_ext.states.playback import Playback
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes
from plangym_ext.states.replay import ResetRecorder


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Import without pygame's greeting, which every worker would print, and without warnings.

    Box2D's binding raises DeprecationWarnings inside its C code, and crashes the
    interpreter where warnings are errors.
    """
    shown = os.environ.get("PYGAME_HIDE_SUPPORT_PROMPT")
    os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "1"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if shown is None:
            del os.environ["PYGAME_HIDE_SUPPORT_PROMPT"]
        else:
            os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = shown


try:
    with quiet_import():
        import Box2D
        from gymnasium.envs.box2d import bipedal_walker, car_racing, lunar_lander
except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
    raise MissingExtra(
        "LunarLander, BipedalWalker and CarRacing need Box2D and pygame. " + installing("box2d")
    ) from error


def playback(env: Any) -> Playback:
    """Return how the episodes of an env of this family are begun and played again."""
    for kind, made in (
        (bipedal_walker.BipedalWalker, WalkerPlayback),
        (car_racing.CarRacing, CarPlayback),
    ):
        if isinstance(env, kind):
            return made(env)
    return Box2DPlayback(env)


class Box2DPlayback(Playback):
    """LunarLander, which makes a new world in every reset by itself."""

    # A replay leaves out what costs most, such as pictures.
    repeats_observations = False

    @contextlib.contextmanager
    def unseen(self) -> Iterator[None]:
        """Play without drawing, and without LunarLander's engine particles.

        The particles touch the ground alone and do not change the flight; unless every
        step is drawn they would only grow in number. Those of the steps before a
        restore are not on its pictures.
        """
        mode, self._env.render_mode = self._env.render_mode, None
        try:
            yield
        finally:
            self._env.render_mode = mode

    def show(self) -> None:
        """Draw in the window, if there is one."""
        if self._env.render_mode == "human":
            self._env.render()

    def identity(self) -> dict[str, Any]:
        """Return the versions of gymnasium's code and Box2D, which are the dynamics."""
        return _versions()


def _versions() -> dict[str, Any]:
    return {"gymnasium": gymnasium.__version__, "Box2D": Box2D.__version__}


def _new_world(env: Any) -> None:
    """Give the env an empty world with the settings of its present one.

    BipedalWalker and CarRacing build every episode in the same world, which does not
    forget all of the episodes before: on a used instance, gymnasium's own walker does
    not repeat a seed to the last digit. In a new world an episode is bit for bit the
    one that a new instance plays.
    """
    old = env.world
    # The listener must not see the contacts that end with the bodies.
    old.contactListener = None
    env._destroy()
    env.world = Box2D.b2World(gravity=old.gravity, doSleep=old.allowSleeping)
    for setting in ("warmStarting", "continuousPhysics", "subStepping", "autoClearForces"):
        setattr(env.world, setting, getattr(old, setting))


class WalkerPlayback(Box2DPlayback):
    """BipedalWalker: a new world for every episode, and no lidar on the way."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        # An overridden step may depend on what `_drive` leaves out.
        self._is_plain = type(env).step is bipedal_walker.BipedalWalker.step

    def prepare(self, carried: Any) -> None:
        """Put an empty world in place."""
        _new_world(self._env)

    def play(self, actions: Sequence[Any]) -> None:
        """Move the motors and the world only, in a quarter of the time, but for the last.

        The rest of a step computes observation and reward. The fields that it leaves
        (`prev_shaping`, `scroll`, the lidar) depend on where the walker is and
        not on how it came there, so the last step, a full one, sets them.
        """
        if self._is_plain:
            for action in actions[:-1]:
                self._drive(action)
            actions = actions[-1:]
        super().play(actions)

    def _drive(self, action: np.ndarray) -> None:
        """Run the first part of `BipedalWalker.step`, up to and with the world's step."""
        env = self._env
        signs, strengths = np.sign(action), np.clip(np.abs(action), 0, 1)
        for joint, speed, sign, strength in zip(
            env.joints, _JOINT_SPEEDS, signs.tolist(), strengths.tolist(), strict=True
        ):
            joint.motorSpeed = float(speed * sign)
            joint.maxMotorTorque = float(bipedal_walker.MOTORS_TORQUE * strength)
        # With as many iterations of the solver as the env's step: they decide the last digits.
        env.world.Step(1.0 / bipedal_walker.FPS, 6 * 30, 2 * 30)


_JOINT_SPEEDS = (bipedal_walker.SPEED_HIP, bipedal_walker.SPEED_KNEE) * 2
_CAR_COLOURS = ("road_color", "bg_color", "grass_color")


class CarPlayback(Box2DPlayback):
    """CarRacing: a new world for every episode, and no picture on the way."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._is_plain = type(env).step is car_racing.CarRacing.step

    def carried(self, options: dict[str, Any] | None) -> Any:
        """Return the colours, which a reset with `randomize=False` keeps."""
        if not self._env.domain_randomize or (options or {}).get("randomize", True):
            return None
        return tuple(getattr(self._env, name).copy() for name in _CAR_COLOURS)

    def prepare(self, carried: Any) -> None:
        """Put an empty world in place, and the colours of the episode before."""
        _new_world(self._env)
        # None are carried where the reset draws them.
        for name, colour in zip(_CAR_COLOURS, carried or (), strict=False):
            setattr(self._env, name, colour)

    @contextlib.contextmanager
    def unseen(self) -> Iterator[None]:
        """Play without drawing, which is all but a fiftieth of a step of CarRacing.

        `env.state`, the last picture as pixels, is None after a replay; nothing but the
        step that draws it reads it.
        """
        with super().unseen():
            if not self._is_plain:
                yield
                return
            self._env._render = lambda _: None
            try:
                yield
            finally:
                # The method of the class is seen again.
                del self._env._render


class KinematicPart(StatePart):
    """Approximate codec: positions and velocities of the bodies, at constant cost.

    Restored are transforms, velocities, awake flags, motors, the random state and the
    env's own fields; terrain or track is rebuilt by its reset when it is another one.
    Not restored, for Box2D does not expose them: impulses of joints and contacts, and
    how long a body has been at rest. They then depend on the env's steps before the restore, so two
    restores of the same state may differ as well.

    Args:
        recorder: right on the env.
    """

    method = "approximate"
    exact = False

    def __init__(self, recorder: ResetRecorder) -> None:
        self._recorder = recorder
        self._env: Any = recorder.unwrapped
        self._rng = GeneratorBytes()
        kind = next((kind for kind in _KINDS if isinstance(self._env, kind)), None)
        if kind is None:
            raise IncompleteState(
                f"{type(self._env).__qualname__}: no approximate state is known for this class"
            )
        self._scene = _KINDS[kind](self._env)
        # The origin may come to hold a generator, a number more digits.
        self.width = RNG_BYTES + 256 + len(plain.encode(self._scene.read()))

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write generator, origin and what can be read of the scene."""
        offset = self._rng.capture(self._env.np_random, buffer, offset)
        offset = put_block(buffer, offset, end, self._recorder.known_origin())
        return put_block(buffer, offset, end, plain.encode(self._scene.read(), "scene"))

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Rebuild the terrain if it is another one, then put everything in its place."""
        generator_at = offset
        origin, offset = get_block(buffer, offset + RNG_BYTES)
        scene, offset = get_block(buffer, offset)
        # After the same reset the terrain is this very one.
        if origin != self._recorder.origin:
            with self._recorder.playback.unseen():
                self._recorder.begin(origin)
        self._scene.write(plain.decode(scene))
        self._recorder.playback.show()
        # Last, as the reset that rebuilds the terrain draws from it.
        self._rng.restore(self._env.np_random, buffer, generator_at)
        return offset

    def identity(self) -> dict[str, Any]:
        """Return the versions of gymnasium's code and Box2D, which are the dynamics."""
        return _versions()


class _Scene:
    """The readable and settable parts of an env's world and fields; one class for each env.

    Attributes:
        fields: attributes of the env that its steps change.
    """

    fields: tuple[str, ...]

    def __init__(self, env: Any) -> None:
        self.env = env

    def bodies(self) -> list[Any]:
        """Return the bodies that move, in a fixed order."""
        raise NotImplementedError

    def motors(self) -> list[Any]:
        """Return the joints that actions drive."""
        return []

    def own(self) -> Any:
        """Return further plain data of this kind of env."""
        return None

    def set_own(self, own: Any) -> None:
        """Restore what `own` returned."""

    def read(self) -> tuple[Any, ...]:
        """Return everything, as plain data."""
        bodies = self.bodies()
        return (
            [[*body.position, body.angle] for body in bodies],
            [[*body.linearVelocity, body.angularVelocity, body.awake] for body in bodies],
            [[motor.motorSpeed, motor.GetMaxMotorTorque()] for motor in self.motors()],
            {name: vars(self.env)[name] for name in self.fields if name in vars(self.env)},
            self.own(),
        )

    def write(self, scene: tuple[Any, ...]) -> None:
        """Restore what `read` returned, as far as there is one."""
        places, movements, motors, fields, own = scene
        if not fields.keys() <= set(self.fields):
            raise DamagedState(
                f"state: it has the fields {sorted(map(str, fields))}; expected of "
                f"{', '.join(self.fields)}. Pass a row from get_state."
            )
        # Box2D asserts, and ends the process, where a place or a speed is no number.
        numbers = [number for row in (*places, *movements, *motors) for number in row]
        if not np.isfinite(np.array(numbers, np.float64)).all():
            raise DamagedState(
                "state: positions and speeds must be finite. Pass a row from get_state."
            )
        bodies = self.bodies()
        for body, (x, y, angle) in zip(bodies, places, strict=True):
            body.transform = ((x, y), angle)
        # Without time this only finds the contacts of the new places and reports them
        # to the env's listener; whatever that counts is set right after it.
        self.env.world.Step(0.0, 0, 0)
        for body, (vx, vy, spin, awake) in zip(bodies, movements, strict=True):
            body.awake = True  # a sleeping body would drop its velocities
            body.linearVelocity, body.angularVelocity = (vx, vy), spin
            body.awake = awake
        for motor, (speed, torque) in zip(self.motors(), motors, strict=True):
            motor.motorSpeed, motor.maxMotorTorque = speed, torque
        vars(self.env).update(fields)
        self.set_own(own)


class _LanderScene(_Scene):
    fields = ("game_over", "prev_shaping", "prev_reward", "wind_idx", "torque_idx")

    def bodies(self) -> list[Any]:
        return [self.env.lander, *self.env.legs]

    def own(self) -> Any:
        return [leg.ground_contact for leg in self.env.legs]

    def set_own(self, own: Any) -> None:
        # Particles are bodies of the world, of steps that the restored state knows nothing of.
        self.env._clean_particles(True)
        for leg, contact in zip(self.env.legs, own, strict=True):
            leg.ground_contact = contact


class _WalkerScene(_Scene):
    fields = ("game_over", "prev_shaping", "scroll", "lidar_render")

    def bodies(self) -> list[Any]:
        return [self.env.hull, *self.env.legs]

    def motors(self) -> list[Any]:
        return self.env.joints

    def own(self) -> Any:
        # Upper and lower legs in turn; the lower ones alone note their contacts.
        return [leg.ground_contact for leg in self.env.legs[1::2]]

    def set_own(self, own: Any) -> None:
        for leg, contact in zip(self.env.legs[1::2], own, strict=True):
            leg.ground_contact = contact


_WHEEL_FIELDS = ("gas", "brake", "steer", "phase", "omega")


class _CarScene(_Scene):
    """The wheels' tiles are those that they touch; skid marks are wiped away."""

    fields = ("reward", "prev_reward", "tile_visited_count", "t", "new_lap")

    def bodies(self) -> list[Any]:
        return [self.env.car.hull, *self.env.car.wheels]

    def motors(self) -> list[Any]:
        return [wheel.joint for wheel in self.env.car.wheels]

    def own(self) -> Any:
        car = self.env.car
        wheels = [[getattr(wheel, name) for name in _WHEEL_FIELDS] for wheel in car.wheels]
        visited = np.packbits([tile.road_visited for tile in self.env.road])
        return car.fuel_spent, wheels, visited

    def set_own(self, own: Any) -> None:
        env, car = self.env, self.env.car
        car.fuel_spent, wheels, visited = own
        for wheel, values in zip(car.wheels, wheels, strict=True):
            wheel.__dict__.update(zip(_WHEEL_FIELDS, values, strict=True))
            wheel.skid_start = wheel.skid_particle = None
        car.particles.clear()
        # Not strict: `packbits` has filled the last byte up.
        for tile, seen in zip(env.road, np.unpackbits(visited).tolist(), strict=False):
            tile.road_visited = bool(seen)
            # As the env draws a tile before and after the first wheel on it.
            tile.color[:] = env.road_color + (0.0 if seen else 0.01 * (tile.idx % 3) * 255)


_KINDS: dict[type, type[_Scene]] = {
    lunar_lander.LunarLander: _LanderScene,
    bipedal_walker.BipedalWalker: _WalkerScene,
    car_racing.CarRacing: _CarScene,
}
