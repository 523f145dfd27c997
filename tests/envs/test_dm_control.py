"""dm_control: the contract, every task's round trip, and equality with dm_control itself."""

from __future__ import annotations

import importlib.util
import os
from typing import ClassVar

import numpy as np
import pytest
from contract.env_contract import EnvContract

import plangym_ext
from plangym_ext.errors import ForeignState, IncompleteState, UnknownName

if importlib.util.find_spec("dm_control") is None:
    pytest.skip("dm_control is not installed: pip install '.[dm_control]'", allow_module_level=True)

from plangym_ext.envs.dm_control import DMControlEnv, _quiet

with _quiet():  # importing it looks for a display and warns that there is none
    from dm_control import suite
    from dm_control.rl import control

HAS_OPENGL = os.environ.get("MUJOCO_GL") in ("egl", "osmesa")


@pytest.mark.slow
class TestReacher(EnvContract):
    """Its target is in the model, which a plain physics state leaves out."""

    name = "dm_control/reacher-hard-v0"
    options: ClassVar = {"task_kwargs": {"time_limit": 2.4}}  # 120 steps
    renders = HAS_OPENGL
    stranger = "Pendulum-v1"


@pytest.mark.slow
class TestHopperAsDict(EnvContract):
    """Contacts, and a counter in the task."""

    name = "dm_control/hopper-hop-v0"
    options: ClassVar = {"task_kwargs": {"time_limit": 2.4}, "flat_observation": False}
    renders = HAS_OPENGL
    stranger = "Pendulum-v1"


TASKS = [
    "acrobot-swingup",  # Runge-Kutta
    "ball_in_cup-catch",
    "cartpole-three_poles",
    "cheetah-run",
    "dog-fetch",
    "finger-turn_hard",
    "fish-swim",
    "humanoid-run",
    "humanoid_CMU-walk",
    "lqr-lqr_2_1",  # draws its model
    "manipulator-bring_ball",
    "point_mass-hard",  # draws its actuators
    "quadruped-fetch",
    "stacker-stack_2",
    "swimmer-swimmer6",
    "walker-walk",
]


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_round_trip_is_exact(task):
    with plangym_ext.make(f"dm_control/{task}-v0", check=False) as env:
        report = plangym_ext.check_env(env, num_steps=15)
        assert report.exact, report
        assert [method for _, method, _ in report.layers] == ["codec"]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_OPENGL, reason="its terrain needs OpenGL: set MUJOCO_GL")
def test_terrain_is_part_of_the_state_and_of_the_picture():
    name = "dm_control/quadruped-escape-v0"
    with plangym_ext.make(name, render_mode="rgb_array", check=False) as env:
        first, *_ = env.reset(seed=0)
        picture = env.render()
        env.reset(seed=1)
        assert not np.array_equal(env.render(), picture)
        assert plangym_ext.check_env(env, num_steps=5).exact
        env.set_state(first)
        np.testing.assert_array_equal(env.render(), picture)


@pytest.mark.parametrize("task", ["reacher-easy", "cheetah-run", "point_mass-hard"])
def test_equals_dm_control_itself(task):
    domain, _, name = task.partition("-")
    with plangym_ext.make(f"dm_control/{task}-v0", check=False) as env:
        env.reset(seed=9)
        # The second episode of ours must be the second of theirs too.
        for seed in (5, None):
            if seed is not None:
                theirs = suite.load(domain, name, task_kwargs={"random": seed})
            _, obs, _ = env.reset(seed=seed)
            expected = theirs.reset()
            env.action_space.seed(0)
            for _ in range(12):
                flat = np.concatenate([np.ravel(part) for part in expected.observation.values()])
                np.testing.assert_array_equal(obs, flat)
                action = env.sample_action()
                obs, reward, terminated, truncated, info = env.step(action)
                expected = theirs.step(action)
                assert reward == expected.reward
                assert info["discount"] == expected.discount == 1.0
                assert not terminated
                assert not truncated


def test_rewards_are_summed_once():
    # plangym summed the sum: ten steps of cheetah paid 30 times too much.
    with plangym_ext.make("dm_control/cheetah-run-v0", check=False) as env:
        state, *_ = env.reset(seed=0)
        action = env.action_space.high
        held = env.step(action, state, dt=10)
        single = [env.step(action, state if t == 0 else None).reward for t in range(10)]
        assert held.reward == sum(single)


def test_time_limit_truncates_at_the_step_of_the_state():
    # plangym ended the thousandth call since the reset, wherever it had started.
    with plangym_ext.make("dm_control/pendulum-swingup-v0", check=False) as env:
        state, *_ = env.reset(seed=0)
        action = np.zeros(1)
        late = env.step(action, state, dt=998)
        assert (late.terminated, late.truncated) == (False, False)
        for _ in range(3):
            assert not env.step(action, late.state).truncated
            last = env.step(action, late.state, dt=2)
            assert (last.terminated, last.truncated) == (False, True)
            assert last.info["n_step"] == 2
        assert not env.step(action, state).truncated


class TestOwnTask:
    """A user's task on dm_control's own classes."""

    @staticmethod
    def make(**attributes):
        theirs = suite.load("pendulum", "swingup")

        class Limited(type(theirs.task)):
            """Pays the time; terminates at three tenths of a second."""

            def get_termination(self, physics):
                return 0.0 if physics.data.time > 0.29 else None

            def get_reward(self, physics):
                return physics.data.time

        task = Limited(random=0)
        vars(task).update(attributes)
        return DMControlEnv(
            control.Environment(theirs.physics, task, time_limit=1.0, control_timestep=0.1)
        )

    def test_discount_zero_terminates(self):
        with plangym_ext.GymEnv(self.make, name="limited") as env:
            state, *_ = env.reset(seed=0)
            steps = [env.step(np.zeros(1), return_state=True) for _ in range(2)]
            last = env.step(np.zeros(1), steps[-1].state)
            assert [step.terminated for step in steps] == [False, False]
            assert (last.terminated, last.truncated, last.info["discount"]) == (True, False, 0.0)
            # Time is part of the state: a tenth of a second after two of them.
            assert last.reward == pytest.approx(0.3)
            assert env.step(np.zeros(1), state).reward == pytest.approx(0.1)

    def test_what_a_task_holds_must_be_data(self):
        with pytest.raises(IncompleteState, match="Limited"):
            plangym_ext.GymEnv(
                lambda: self.make(stream=(i for i in range(3))), name="limited", capture="codec"
            )

    def test_a_rebuilt_model_is_refused(self):
        with plangym_ext.GymEnv(self.make, name="limited") as env:
            env.reset(seed=0)
            physics = env.gym_env.unwrapped.physics
            physics.reload_from_xml_string("<mujoco/>")
            with pytest.raises(IncompleteState, match="built a new model"):
                env.get_state()


def test_states_of_another_model_are_refused():
    with (
        plangym_ext.make("dm_control/lqr-lqr_2_1-v0", check=False) as env,
        plangym_ext.make(
            "dm_control/lqr-lqr_2_1-v0", task_kwargs={"random": 1}, check=False
        ) as other,
    ):
        state, *_ = env.reset(seed=0)
        with pytest.raises(ForeignState):
            other.set_state(state)


def test_spaces_say_what_is_returned():
    for flat in (True, False):
        with plangym_ext.make(
            "dm_control/walker-walk-v0", flat_observation=flat, check=False
        ) as env:
            _, obs, _ = env.reset(seed=0)
            assert env.observation_space.contains(obs)
            assert env.action_space.dtype == np.float64


def test_unknown_task_is_met_with_the_closest():
    with pytest.raises(UnknownName, match="did you mean 'dm_control/cheetah-run-v0'"):
        plangym_ext.make("dm_control/cheeta-run-v0")
