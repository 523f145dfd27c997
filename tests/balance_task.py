"""A MuJoCo task of a test's own: it reads, compares and ends on derived fields."""

import numpy as np

from plangym_ext.envs.mujoco_tasks import ModelTask


class BalanceTask(ModelTask):
    model = """
    <mujoco>
      <option timestep="0.01" integrator="RK4"/>
      <worldbody>
        <geom type="plane" size="5 5 .1"/>
        <body name="cart" pos="0 0 .2">
          <joint name="slide" type="slide" axis="1 0 0" damping="1"/>
          <geom type="box" size=".1 .1 .05" mass="1"/>
          <body name="pole" pos="0 0 .1">
            <joint name="hinge" type="hinge" axis="0 1 0"/>
            <geom type="capsule" fromto="0 0 0 0 0 .3" size=".02" mass=".1"/>
          </body>
        </body>
      </worldbody>
      <actuator><motor joint="slide" gear="20" ctrllimited="true" ctrlrange="-1 1"/></actuator>
    </mujoco>"""
    frame_skip = 2
    reset_noise = 0.05
    reads = ("qpos", "qvel", "xpos", "cfrc_ext", "ctrl")
    reads_before = ("qpos", "xpos")
    contact_forces = True

    def observation(self, after):
        forces = after.cfrc_ext.reshape(len(after.qpos), -1)
        return np.concatenate((after.qpos, after.qvel, forces), axis=1)

    def reward(self, before, after, actions):
        way = after.xpos[:, 2, 0] - before.xpos[:, 2, 0]
        pushed = np.square(actions).sum(axis=-1)
        infos = {"way": way, "place": after.xpos[:, 1, :2], "moved": after.qpos != before.qpos}
        return way - 0.1 * pushed, infos

    def terminated(self, after):
        return np.abs(after.qpos[:, 1]) > 0.3
