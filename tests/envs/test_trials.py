"""Tasks: they are part of states, one for each row, and trials are episodes of one of them."""

from __future__ import annotations

import os
import signal

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import plangym_ext
from plangym_ext.envs import PointRobotEnv, Trials
from plangym_ext.errors import DamagedState, InvalidOption, WrongKind

POINT, TRIALS = "plangym_ext/PointRobot-v0", "plangym_ext/Trials-v0"
GOALS = [f"plangym_ext/{name}-v0" for name in ("AntGoal", "HalfCheetahDirection")]
GOALS.append("plangym_ext/HalfCheetahVelocity-v0")
PARAMETERS = {"Hopper": 41, "Walker": 65}
GOALS += [f"plangym_ext/{name}Parameters-v0" for name in PARAMETERS]


def _with_tasks(env, count=5):
    """Return tasks, and a state of each, by setting them in the env proper."""
    state, *_ = env.reset(seed=3)
    tasks = env.gym_env.unwrapped.sample_tasks(count, np.random.default_rng(1))
    states = []
    for task in tasks:
        env.set_state(state)
        env.gym_env.unwrapped.set_task(task)
        states.append(env.get_state())
    return tasks, np.stack(states)


def _actions(env, rows, steps):
    box = env.action_space
    rng = np.random.default_rng(0)
    return rng.uniform(box.low, box.high, (rows, steps, *box.shape)).astype(np.float32)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_point_is_paid_by_its_goal(sparse):
    env = PointRobotEnv(sparse)
    env.reset(seed=0)
    for goal in env.sample_tasks(20, np.random.default_rng(0)):
        env.set_task(goal)
        env.reset()
        np.testing.assert_array_equal(env.get_task(), goal)
        way = np.clip(goal / 10, -0.1, 0.1).astype(np.float32)
        place = np.zeros(2)
        for _ in range(10):
            obs, reward, *over, _ = env.step(way)
            place += way
            distance = np.linalg.norm(place - goal)
            near = 1 - distance if distance <= 0.2 else 0.0
            assert reward == pytest.approx(near if sparse else -distance, abs=1e-12)
            assert over == [False, False]
            np.testing.assert_allclose(obs, place, rtol=1e-6)
    if sparse:
        np.testing.assert_allclose(np.linalg.norm(goal), 1.0)


@pytest.mark.parametrize("task", [(1.0,), (1.0, np.nan), "north"])
def test_what_is_no_task_is_refused(task):
    with pytest.raises(InvalidOption, match=r"task must be 2 finite numbers"):
        PointRobotEnv().set_task(task)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_gymnasiums_model_edited_by_hand(name):
    own = plangym_ext.make(f"plangym_ext/{name}Parameters-v0", backend="serial").gym_env.unwrapped
    env = gym.make({"Hopper": "Hopper-v5", "Walker": "Walker2d-v5"}[name]).unwrapped
    model, data = env.model, env.data
    task = own.sample_tasks(2, np.random.default_rng(4))[1]
    assert task.shape == (PARAMETERS[name],)
    assert 1.5**-3 < task.min() < 0.5 < 2 < task.max() < 1.5**3
    left = task
    for field in ("body_mass", "body_inertia", "dof_damping", "geom_friction"):
        values = getattr(model, field)
        values *= left[: values.size].reshape(values.shape)
        left = left[values.size :]
    assert not len(left)
    mujoco.mj_setConst(model, data)
    own.reset(seed=0)
    own.set_task(task)
    own.reset()
    mujoco.mj_resetData(model, data)
    env.set_state(own.data.qpos, own.data.qvel)
    for action in _actions(own, 1, 20)[0]:
        mine, theirs = own.step(action), env.step(action)
        np.testing.assert_array_equal(mine[0], theirs[0])
        assert mine[1:3] == theirs[1:3]
    with pytest.raises(InvalidOption, match="above 0"):
        own.set_task(-task)


@pytest.mark.parametrize("name", [POINT, *GOALS])
def test_the_first_tasks_of_many_are_those_of_few(name):
    with plangym_ext.make(name, backend="serial") as env:
        base = env.gym_env.unwrapped
        few, many = (base.sample_tasks(n, np.random.default_rng(5)) for n in (3, 9))
    np.testing.assert_array_equal(many[:3], few)


@pytest.mark.parametrize("name", [POINT, *GOALS])
def test_rows_hold_their_tasks_on_every_backend(name):
    found = {}
    for backend, more in (
        ("serial", {}),
        ("auto", {"n_workers": 0}),
        ("process", {"n_workers": 2}),
    ):
        with plangym_ext.make(name, backend=backend, **more) as env:
            if backend == "serial":
                tasks, states = _with_tasks(env)
                actions = _actions(env, len(tasks), 8)
            found[backend] = env.rollout_batch(actions, states)
            if backend == "serial":
                for task, state in zip(tasks, found[backend].states, strict=True):
                    env.set_state(state)
                    np.testing.assert_array_equal(env.gym_env.unwrapped.get_task(), task)
                    env.gym_env.reset()
                    np.testing.assert_array_equal(env.gym_env.unwrapped.get_task(), task)
        assert (backend == "auto") == (env.backend in ("kernel", "mujoco"))
    for other in ("auto", "process"):
        for field in ("states", "rewards"):
            one, two = (getattr(found[which], field) for which in ("serial", other))
            assert one.tobytes() == two.tobytes(), (other, field)
    assert len({rewards.tobytes() for rewards in found["serial"].rewards}) > 1


@pytest.mark.parametrize("n_workers", [0, 2])
@pytest.mark.parametrize("name", [POINT, GOALS[1]])
def test_a_call_sets_a_task_for_each_row_and_kills_change_no_byte(name, n_workers):
    with plangym_ext.make_vec(name, 4, n_workers=n_workers) as venv:
        venv.reset(seed=0)
        base = plangym_ext.make(name, backend="serial").gym_env.unwrapped
        tasks = base.sample_tasks(4, np.random.default_rng(2))
        for row, task in enumerate(tasks):
            venv.call_some([row], "set_task", task)
        start = venv.get_states()
        actions = _actions(base, 6, 4)

        def played(*, kill=False):
            venv.set_states(start)
            parts = []
            for t, step in enumerate(actions):
                if kill and t == 3 and venv.worker_pids:
                    os.kill(venv.worker_pids[0], signal.SIGKILL)
                obs, reward, *_ = venv.step(step)
                parts += [obs.tobytes(), reward.tobytes()]
            return b"".join(parts), venv.get_states().tobytes()

        assert played() == played(kill=True)
        venv.fork(1, [3])
        np.testing.assert_array_equal(venv.call("get_task"), tasks[[0, 1, 2, 1]])
        venv.reset(seed=1)
        np.testing.assert_array_equal(venv.call("get_task"), tasks[[0, 1, 2, 1]])


def test_a_trial_is_several_episodes_of_one_task():
    env = Trials(POINT, episodes=3, tasks=7, first_task=2)
    seen = set()
    for seed in range(8):
        obs, info = env.reset(seed=seed)
        np.testing.assert_array_equal(obs, [0, 0, 1])
        rewards, begun = np.zeros((3, 20)), []
        for t in range(60):
            obs, reward, terminated, truncated, info = env.step(np.float32([0.1, 0.0]))
            rewards.flat[t] = reward
            assert (terminated, truncated) == (False, t == 59)
            begun += [t] * int(obs[-1])
            assert info["episode"] == t // 20
        assert begun == [19, 39]
        np.testing.assert_array_equal(rewards[0], rewards[2])
        assert info["first_return"] == pytest.approx(rewards[0].sum())
        assert info["last_return"] == pytest.approx(rewards[2].sum())
        assert 2 <= info["task"] < 9
        task = env.tasks[info["task"] - 2]
        np.testing.assert_array_equal(env.unwrapped.get_task(), task)
        assert rewards[0, 0] == pytest.approx(-np.hypot(task[0] - 0.1, task[1]))
        seen.add(info["task"])
    assert len(seen) > 2
    np.testing.assert_array_equal(env.tasks[:5], Trials(POINT, tasks=7).tasks[2:])


@pytest.mark.parametrize("name", [POINT, GOALS[1]])
def test_trials_are_restored_in_the_middle(name):
    with plangym_ext.make(TRIALS, env=name, tasks=5, backend="serial") as env:
        assert env.exact
        env.reset(seed=0)
        actions = _actions(env, 1, 30)[0]
        for action in actions[:15]:
            env.step(action)
        state = env.get_state()

        def future():
            return [repr(env.step(action)[1:]) for action in actions]

        first = future()
        env.reset(seed=9)
        env.set_state(state)
        assert future() == first
        env.set_state(state)
        env.autoreset = False
        while not env.step(actions[0]).truncated:
            pass
        for _ in range(3):  # past the end of the trial
            assert env.step(actions[0]).info["episode"] == 2
        env.set_state(env.get_state())
        part = Trials(name, tasks=5).state_part()
        with pytest.raises(DamagedState, match="got task 77"):
            part.restore(memoryview(np.int64([77, 0, 0, 0]).tobytes()), 0)


def test_envs_without_tasks_or_vectors_are_refused():
    with pytest.raises(WrongKind, match="sample_tasks"):
        Trials("CartPole-v1")
    with pytest.raises(WrongKind, match="override sample_tasks"):
        Trials("plangym_ext/cheetah-run-v0")
    images = gym.wrappers.ReshapeObservation(PointRobotEnv(), (2, 1))
    with pytest.raises(WrongKind, match="vectors"):
        Trials(images)
    with pytest.raises(
        WrongKind, match="Trials: env: expected an Env or a str or a Callable; got 5"
    ):
        Trials(5)
    with pytest.raises(InvalidOption, match="task_seed must be"):
        Trials(PointRobotEnv(), task_seed=-1)
    with pytest.raises(InvalidOption, match="sparse"):
        Trials(PointRobotEnv(), sparse=True)
