"""MuJoCo: the contract on every task, and what others add to a task."""

import functools
import os
import subprocess
import sys
from typing import ClassVar

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from contract.env_contract import EnvContract
from gymnasium.envs.mujoco.ant_v5 import AntEnv
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv
from gymnasium.envs.mujoco.hopper_v5 import HopperEnv
from gymnasium.envs.mujoco.reacher_v4 import ReacherEnv as ReacherV4
from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv

import plangym_ext
from plangym_ext.errors import ForeignState, IncompleteState

# The contract ----------------------------------------------------------------------


class MujocoContract(EnvContract):
    """Tasks that never terminate have a limit after step 200."""

    renders = False  # needs a driver: see the test of pictures below
    terminates = False

    def test_an_episode_terminates(self, episodes):
        endings = [episode.outcomes[episode.end] for episode in episodes.values()]
        assert any(last.terminated for last in endings) == self.terminates


@pytest.mark.slow
class TestAnt(MujocoContract):
    """Reads derived positions before it simulates."""

    name = "Ant-v5"
    options: ClassVar = {"max_episode_steps": 205}
    terminates = True


@pytest.mark.slow
class TestHalfCheetah(MujocoContract):
    name = "HalfCheetah-v5"
    options: ClassVar = {"max_episode_steps": 205}


@pytest.mark.slow
class TestHopper(MujocoContract):
    name = "Hopper-v5"
    terminates = True


@pytest.mark.slow
class TestHumanoid(MujocoContract):
    """Reads derived positions, too."""

    name = "Humanoid-v5"
    terminates = True


@pytest.mark.slow
class TestHumanoidStandup(MujocoContract):
    name = "HumanoidStandup-v5"
    options: ClassVar = {"max_episode_steps": 205}


@pytest.mark.slow
class TestInvertedPendulum(MujocoContract):
    name = "InvertedPendulum-v5"
    terminates = True

    @classmethod
    def harmless_action(cls, env):
        return np.zeros(1, np.float32)


@pytest.mark.slow
class TestInvertedDoublePendulum(MujocoContract):
    name = "InvertedDoublePendulum-v5"
    terminates = True

    @classmethod
    def harmless_action(cls, env):
        return np.zeros(1, np.float32)


@pytest.mark.slow
class TestPusher(MujocoContract):
    name = "Pusher-v5"


@pytest.mark.slow
class TestReacher(MujocoContract):
    name = "Reacher-v5"


@pytest.mark.slow
class TestSwimmer(MujocoContract):
    name = "Swimmer-v5"
    options: ClassVar = {"max_episode_steps": 205}


@pytest.mark.slow
class TestWalker2d(MujocoContract):
    name = "Walker2d-v5"
    terminates = True


# Tasks by other means --------------------------------------------------------------


def test_targets_that_a_reset_draws_come_back():
    with plangym_ext.make("Reacher-v5", backend="serial") as env, env.clone() as other:
        state, *_ = env.reset(seed=0)
        other.reset(seed=1)
        other.set_state(state)
        assert other.gym_env.unwrapped.goal.tobytes() == env.gym_env.unwrapped.goal.tobytes()


def test_older_version_is_exact_too():
    # Reacher-v4 pays for the position that it leaves, a derived one.
    with plangym_ext.GymEnv(ReacherV4) as env:
        assert env.codec.method == "codec"
        report = plangym_ext.check_env(env, num_steps=20)
        assert report.exact, str(report)


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (HopperEnv, functools.partial(HopperEnv, ctrl_cost_weight=0.5)),
        (HopperEnv, functools.partial(HopperEnv, frame_skip=5)),
        (HopperEnv, functools.partial(HopperEnv, healthy_z_range=(0.5, 2.0))),
    ],
)
def test_state_of_an_env_built_with_other_weights_is_refused(make, other):
    with plangym_ext.GymEnv(make) as one, plangym_ext.GymEnv(other) as two:
        state, *_ = one.reset(seed=0)
        with pytest.raises(ForeignState):
            two.set_state(state)


def _heavy_hopper():
    env = HopperEnv()
    env.model.body_mass[1] *= 2
    return env


def test_state_of_another_model_is_refused():
    with (
        plangym_ext.GymEnv(HopperEnv, name="Hopper") as one,
        plangym_ext.GymEnv(_heavy_hopper, name="Hopper") as two,
    ):
        state, *_ = one.reset(seed=0)
        with pytest.raises(ForeignState):
            two.set_state(state)
        assert plangym_ext.check_env(two, num_steps=5).exact


# What a subclass adds --------------------------------------------------------------


class Tired(HopperEnv):
    """Pays less from the tenth step on, and for what it did in the last three."""

    def reset(self, **kwargs):
        self.num_steps, self.recent = 0, []
        return super().reset(**kwargs)

    def step(self, action):
        self.num_steps += 1
        self.recent = [*self.recent, float(action[0])][-3:]
        obs, reward, *rest = super().step(action)
        return obs, reward - (self.num_steps >= 10) - sum(self.recent), *rest


class LooksBack(AntEnv):
    """Pays for derived quantities of the state that it leaves."""

    def step(self, action):
        data = self.data
        before = [data.geom_xpos, data.site_xpos, data.cvel, data.cfrc_ext, data.qfrc_constraint]
        paid = sum(float(array.sum()) for array in before)
        obs, reward, *rest = super().step(action)
        return obs, reward + paid, *rest


class Viewing(HalfCheetahEnv):
    """Keeps an array that shows the simulator's own memory."""

    def __init__(self):
        super().__init__()
        self.legs = self.data.qpos[3:]

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, reward + float(self.legs.sum()), *rest


class OtherTarget(ReacherEnv):
    """Fields of the class it derives from may change as well."""

    def step(self, action):
        self.goal = self.goal * 1.01
        obs, reward, *rest = super().step(action)
        return obs, reward + float(self.goal.sum()), *rest


@pytest.mark.slow
@pytest.mark.parametrize("make", [Tired, LooksBack, Viewing, OtherTarget])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_a_subclass_adds_is_restored(make):
    with plangym_ext.GymEnv(make) as env:
        assert env.codec.method == "codec"
        report = plangym_ext.check_env(env, num_steps=25)
        assert report.exact, str(report)


class Drawn(HopperEnv):
    """Draws its gravity in every episode."""

    def reset_model(self):
        self.model.opt.gravity[2] = -9 - self.np_random.random()
        return super().reset_model()


class DrawnMass(gym.Wrapper):
    """Draws a mass in every episode of a foreign env."""

    def reset(self, *, seed=None, options=None):
        obs, info = self.env.reset(seed=seed, options=options)
        base = self.unwrapped
        base.model.body_mass[1] = 3 + base.np_random.random()
        return obs, info


@pytest.mark.slow
@pytest.mark.parametrize("make", [Drawn, lambda: DrawnMass(HopperEnv())], ids=["task", "wrapper"])
def test_model_that_is_drawn_anew_is_left_to_the_next_way(make):
    with plangym_ext.GymEnv(make) as env:
        assert env.codec.method == "simulator"
        assert plangym_ext.check_env(env, num_steps=10).exact
    with pytest.raises(IncompleteState, match="edited"):
        plangym_ext.GymEnv(make, capture="codec")


@pytest.mark.parametrize(
    "edit",
    [
        lambda model: model.opt.gravity.__setitem__(2, -5.0),
        lambda model: setattr(model.opt, "timestep", 0.001),
        lambda model: setattr(model.opt, "iterations", 3),
        lambda model: model.geom_friction.__setitem__((0, 0), 0.1),
        lambda model: model.dof_damping.__setitem__(0, 3.0),
        lambda model: model.actuator_gear.__setitem__((0, 0), 1.0),
        lambda model: model.body_mass.__setitem__(1, 1.0),
    ],
    ids=["gravity", "timestep", "iterations", "friction", "damping", "gear", "mass"],
)
def test_edited_model_is_noticed(edit):
    with plangym_ext.GymEnv(HopperEnv, check=False) as env:
        env.reset(seed=0)
        edit(env.gym_env.unwrapped.model)
        with pytest.raises(IncompleteState, match="it was edited since the env was made"):
            env.get_state()


# Noise and pictures ----------------------------------------------------------------


def test_known_complaint_is_kept_quiet_and_others_are_not(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo would write its log here
    plangym_ext.make("HalfCheetah-v5", check=False).close()
    assert capfd.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []
    assert mujoco.get_mju_user_warning() is None


_PICTURES = """
import numpy as np, plangym_ext
env = plangym_ext.make("Ant-v5", render_mode="rgb_array", width=64, height=64, autoreset=False)
env.action_space.seed(0)
state, *_ = env.reset(seed=0)
first, seen = env.render(), []
for _ in range(8):
    action = env.sample_action()
    after = env.step(action, return_state=True)
    env.render()
    assert env.get_state().tobytes() == after.state.tobytes(), "drawing changed the state"
    seen.append((state, action, after))
    state = after.state
for state, action, after in reversed(seen):
    env.set_state(state)
    assert env.get_state().tobytes() == state.tobytes(), "restoring for a picture changed it"
    again = env.step(action, return_state=True)
    assert again.state.tobytes() == after.state.tobytes()
    assert again.reward == after.reward
env.set_state(seen[0][0])
assert env.render().tobytes() == first.tobytes(), "picture of a restored state is stale"
print("pictures are right")
"""


@pytest.mark.slow
def test_pictures_follow_restored_states(tmp_path):
    # Off-screen drawing needs EGL, chosen before MuJoCo is imported.
    found = subprocess.run(
        [sys.executable, "-P", "-c", _PICTURES],
        env={**os.environ, "MUJOCO_GL": "egl"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "AssertionError" not in found.stderr and found.returncode:
        pytest.skip(f"no EGL here: {found.stderr.strip().splitlines()[-1:]}")
    assert found.stdout == "pictures are right\n", found.stderr
