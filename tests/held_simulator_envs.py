"""Envs that hold a MuJoCo model somewhere, for tests: nothing of them is a family's."""

import functools
import logging

import gymnasium as gym
import mujoco
import numpy as np

_MODEL = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <geom type="plane" size="3 3 .1"/>
    <body name="aim" mocap="true" pos="0 0 .5"/>
    <body name="box" pos="0 0 .3"><freejoint/><geom size=".1 .1 .1" type="box" mass="1"/></body>
    <body name="arm" pos="1 0 1">
      <joint name="hinge" axis="0 1 0" damping=".1"/>
      <geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/>
      <site name="tip" pos=".5 0 0"/>
    </body>
  </worldbody>
  <actuator><motor joint="hinge"/></actuator>
</mujoco>
"""


class Simulator:
    """A wrapper of MuJoCo's objects, as robosuite and dm_control have one."""

    def __init__(self, mass: float) -> None:
        self.model = mujoco.MjModel.from_xml_string(_MODEL)
        self.model.body_mass[2] = mass
        self.data = mujoco.MjData(self.model)


class Memory:
    """What an episode has shown, in a class of its own."""

    def __init__(self) -> None:
        self.last = self.newest = np.zeros(3)

    def push(self, value: np.ndarray) -> None:
        self.last, self.newest = self.newest, value


class HeldSimulatorEnv(gym.Env):
    """A task whose simulator lies two objects deep, which edits its model, and keeps closures."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (24,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float64)

    def __init__(self, mass: float = 1.0, jitter: bool = False) -> None:
        self.parts = {"simulator": Simulator(mass)}
        self.log = logging.getLogger("held")
        self.memories = [Memory(), Memory()]
        # A view of the simulator's memory, and functions that look into it.
        self.velocity = self.simulator.data.qvel[:3]
        self.sensors = {"tip": self._tip(), "hinge": functools.partial(self._hinge, 2.0)}
        self.drawn = np.random.default_rng().normal(size=2) if jitter else np.zeros(2)

    @property
    def simulator(self) -> Simulator:
        return self.parts["simulator"]

    def _tip(self):
        calls = 0

        def tip() -> np.ndarray:
            nonlocal calls
            calls += 1
            return self.simulator.data.site("tip").xpos + 1e-3 * calls

        return tip

    def _hinge(self, factor: float) -> float:
        return factor * float(self.simulator.data.joint("hinge").qpos[0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        model, data = self.simulator.model, self.simulator.data
        mujoco.mj_resetData(model, data)
        model.geom_friction[0, 0] = self.np_random.uniform(0.2, 1.0)
        model.opt.gravity[2] = -9 - self.np_random.uniform()
        data.qpos[:2] += self.np_random.uniform(-0.2, 0.2, 2)
        data.qvel[:3] = self.np_random.normal(size=3)
        self.drawn = self.np_random.normal(size=2)
        self.memories = [Memory(), Memory()]
        mujoco.mj_forward(model, data)
        return self._shown(), {}

    def _shown(self) -> np.ndarray:
        data = self.simulator.data
        found = [data.qpos, self.velocity, self.sensors["tip"](), self.drawn]
        found += [self.memories[0].last, [self.sensors["hinge"]()], data.mocap_pos[0]]
        shown = np.concatenate([np.ravel(x) for x in found])
        return np.concatenate([shown, np.zeros(24 - len(shown))])

    def step(self, action):
        data = self.simulator.data
        # Reads what lags the positions by a substep.
        data.ctrl[:] = action - 0.1 * data.site("tip").xpos[0]
        data.mocap_pos[0] += 0.01 * self.velocity
        mujoco.mj_step(self.simulator.model, data, 3)
        self.memories[0].push(data.xpos[2].copy())
        return self._shown(), float(data.qpos[2]), False, False, {}
