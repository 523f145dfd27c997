"""The MuJoCo backend beside the contract: making it, refusals, resets, other processes."""

import functools

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from balance_task import BalanceTask

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.envs.mujoco_tasks import register_task, task_of
from plangym_ext.errors import BackendUnavailable, EnvClosed, IncompleteState, InvalidObservation
from plangym_ext.native.mujoco import play as mujoco_library
from plangym_ext.native.mujoco.env import MujocoEnv
from plangym_ext.testing.backend import assert_equal

_ACTIONS = np.random.default_rng(0).uniform(-1, 1, (12, 5, 6)).astype(np.float32)


def _cheetah(**options):
    return plangym_ext.make("HalfCheetah-v5", backend="mujoco", **options)


def _states(env, count):
    return np.stack([env.reset(seed=seed)[0] for seed in range(count)])


# Making it -------------------------------------------------------------------------


def test_auto_takes_it_for_a_task_that_is_described():
    with plangym_ext.make("Reacher-v5") as env:
        assert (env.backend, env.backend_note) == ("mujoco", "")
    with plangym_ext.make("Reacher-v5", threads=3) as env:
        assert (env.backend, env.threads) == ("mujoco", 3)
        with env.clone(threads=1, autoreset=False) as other:
            assert (other.threads, other.autoreset, other.name) == (1, False, "Reacher-v5")


def test_auto_falls_back_and_says_why():
    with plangym_ext.make("HalfCheetah-v4", n_workers=0) as env:
        assert env.backend == "serial"
        assert "no task describes HalfCheetahEnv" in env.backend_note


def test_auto_falls_back_with_an_older_mujoco(monkeypatch):
    def missing():
        raise BackendUnavailable("mujoco backend: it needs the batch API of MuJoCo 4 or newer")

    monkeypatch.setattr("plangym_ext.native.mujoco.env.batch_library", missing)
    with plangym_ext.make("HalfCheetah-v5", n_workers=0) as env:
        assert env.backend == "serial"
        assert "MuJoCo 4 or newer" in env.backend_note
    with pytest.raises(BackendUnavailable, match="MuJoCo 4 or newer"):
        _cheetah()


def test_a_library_without_the_batch_api_is_refused(monkeypatch):
    mujoco_library.batch_library.cache_clear()
    monkeypatch.setattr(mujoco_library.ctypes, "CDLL", lambda path: object())
    with pytest.raises(BackendUnavailable, match=f"found mujoco {mujoco.__version__}"):
        mujoco_library.batch_library()


@pytest.mark.parametrize("name", ["CartPole-v1", "HalfCheetah-v4", "ALE/Pong-v5"])
def test_other_envs_are_refused(name):
    with pytest.raises(BackendUnavailable, match=r"no task describes .* Use backend='process'"):
        plangym_ext.make(name, backend="mujoco")


def test_a_derived_class_is_refused():
    from gymnasium.envs.mujoco.hopper_v5 import HopperEnv

    class Heavier(HopperEnv):
        def step(self, action):
            return super().step(action * 2)

    env = GymEnv(Heavier, name="Heavier")
    with pytest.raises(BackendUnavailable, match="Heavier: no task describes"):
        MujocoEnv(env)
    env.close()


@pytest.mark.parametrize("wrapper", [gym.wrappers.ClipAction, gym.wrappers.TimeAwareObservation])
def test_wrappers_are_refused(wrapper):
    env = GymEnv(lambda: wrapper(gym.make("Reacher-v5", disable_env_checker=True)))
    with pytest.raises(BackendUnavailable, match=r"knows no wrapper (ClipAction|TimeAware)"):
        MujocoEnv(env)
    env.close()


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_bad_numbers_of_threads_are_refused(threads):
    with pytest.raises(ValueError, match="threads must be an integer >= 1"):
        _cheetah(threads=threads)


def test_a_task_that_differs_from_its_env_is_refused():
    env = GymEnv(lambda: gym.make("HalfCheetah-v5", disable_env_checker=True))
    task = task_of(env.gym_env.unwrapped)
    task._control_weight *= 1.0000001
    with pytest.raises(BackendUnavailable, match=r"differ from the serial ones in infos\['rew"):
        MujocoEnv(env, task)
    env.close()


def test_a_closed_env_says_so():
    env = _cheetah()
    state, *_ = env.reset(seed=0)
    env.close()
    env.close()
    with pytest.raises(EnvClosed, match="HalfCheetah-v5 env is closed"):
        env.step_batch(_ACTIONS[0, :1], state[None])


def test_an_edited_model_is_refused():
    with _cheetah() as env:
        state, *_ = env.reset(seed=0)
        env.plan_env.gym_env.unwrapped.model.body_mass[1] *= 2
        with pytest.raises(IncompleteState, match="it was edited"):
            env.step_batch(_ACTIONS[0, :1], state[None])


# Rows ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"frameskip": 3}, {"max_episode_steps": 4}])
def test_frameskip_and_limits_inside_a_held_action(options):
    serial = plangym_ext.make("HalfCheetah-v5", backend="serial", **options)
    with serial, _cheetah(**options) as env:
        states = _states(serial, 5)
        for dt in (2, np.array([1, 2, 3, 4, 5])):
            want = serial.step_batch(_ACTIONS[0], states, dt=dt)
            assert_equal(env.step_batch(_ACTIONS[0], states, dt=dt), want, f"dt={dt}")
        actions = _ACTIONS[:5].transpose(1, 0, 2)
        assert_equal(
            env.rollout_batch(actions, states), serial.rollout_batch(actions, states), "rollout"
        )


def test_number_of_threads_does_not_matter():
    found = []
    for threads in (1, 2, 5):
        with _cheetah(threads=threads) as env:
            states = _states(env, 5)
            result = env.rollout_batch(_ACTIONS.transpose(1, 0, 2), states)
            found.append((result.states.tobytes(), result.obs.tobytes(), result.rewards.tobytes()))
    assert found[0] == found[1] == found[2]


def test_a_batch_that_grows_and_shrinks():
    rng = np.random.default_rng(0)
    with (
        plangym_ext.make("Hopper-v5", backend="serial") as serial,
        plangym_ext.make("Hopper-v5", backend="mujoco", threads=2) as env,
    ):
        states = _states(serial, 3)
        for size in (1, 40, 3, 100, 17):
            actions = rng.uniform(-1, 1, (size, 25, 3)).astype(np.float32)
            mine = states[rng.integers(3, size=size)]
            want = serial.rollout_batch(actions, mine)
            assert_equal(env.rollout_batch(actions, mine), want, f"B={size}")


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("count", [3, 4, 7])
def test_rows_that_come_later_are_as_those_of_the_env_alone(first, count):
    actions = np.zeros((count, 3), np.float32)
    found = []
    for backend in ("mujoco", "serial"):
        with plangym_ext.make("Hopper-v5", backend=backend) as env:
            env.reset(seed=0)
            env.step_batch(actions[:first])
            assert env._continued.states.flags.c_contiguous
            more = env.step_batch(actions, return_state=True)
            assert env._continued.states.flags.c_contiguous
            found.append([more.obs, more.states])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("backend", ["mujoco", "serial"])
def test_rows_that_come_later_may_be_held_and_cut(backend):
    actions = np.zeros((4, 3), np.float32)
    with plangym_ext.make("Hopper-v5", backend=backend, max_episode_steps=5, frameskip=2) as env:
        env.reset(seed=0)
        env.step_batch(actions[:1])
        found = env.step_batch(actions)
    assert len(np.unique(found.obs[1:], axis=0)) == 1


def test_given_states_are_left_alone():
    with _cheetah() as env:
        states = _states(env, 5)
        kept = states.copy()
        env.step_batch(_ACTIONS[0], states, return_state=False)
        env.set_state(states)
        for actions in _ACTIONS:
            env.step_batch(actions)
        assert (states == kept).all()


def test_states_handed_out_stay_as_they_are():
    with _cheetah() as env:
        env.set_state(_states(env, 5))
        first = env.step_batch(_ACTIONS[0], return_state=True).states
        kept = first.copy()
        for actions in _ACTIONS:
            env.step_batch(actions)
        assert (first == kept).all()
        assert env.step_batch(_ACTIONS[1], first).states.any()  # and are sealed


class _Wild(BalanceTask):
    """Pays nothing that is a number once the pole leans to the left."""

    reads_before = ("qpos",)

    def reward(self, before, after, actions):
        return np.where(after.qpos[:, 1] < 0, np.nan, 1.0), {}


@pytest.mark.parametrize("infos", ["numeric", "all", "none"])
def test_values_that_are_no_numbers(infos):
    register_task("test/Wild-v0", _Wild)
    for policy in ("raise", "mark", "off"):
        make = functools.partial(plangym_ext.make, "test/Wild-v0", invalid=policy, check=False)
        with make(backend="serial") as serial, make(backend="mujoco") as env:
            states = _states(serial, 5)
            for one in (serial, env):
                one.set_state(states)
            if policy == "raise":
                messages = []
                for one in (serial, env):
                    with pytest.raises(InvalidObservation, match="reward") as caught:
                        one.step_batch(_ACTIONS[0, :, :1])
                    messages.append((str(caught.value), caught.value.__notes__))
                assert messages[0] == messages[1]
                # The rows are where they were.
                assert env._continued.states.tobytes() == states.tobytes()
            else:
                want = serial.step_batch(_ACTIONS[0, :, :1], infos=infos)
                assert np.isnan(want.rewards).any()
                assert_equal(env.step_batch(_ACTIONS[0, :, :1], infos=infos), want, policy)
    gym.registry.pop("test/Wild-v0")


@pytest.mark.parametrize("autoreset", [True, False])
def test_a_task_without_draws_is_reset_by_the_env(autoreset, monkeypatch):
    register_task("test/Undrawn-v0", BalanceTask, max_episode_steps=5)
    serial = plangym_ext.make("test/Undrawn-v0", backend="serial", autoreset=autoreset)
    other = serial.clone()
    task = BalanceTask()
    monkeypatch.setattr(task, "draw", lambda rng: None)
    with serial, MujocoEnv(other, task) as env:
        for one in (serial, env):
            one.reset(seed=4)
        for t in range(12):
            actions = _ACTIONS[t, :, :1]
            want = serial.step_batch(actions, return_state=True)
            assert_equal(env.step_batch(actions, return_state=True), want, f"step {t}")
        gym.registry.pop("test/Undrawn-v0")


# Other processes -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Ant-v5", "Humanoid-v5", "Reacher-v5"])
def test_states_are_those_of_worker_processes(name):
    with (
        plangym_ext.make(name, backend="process", n_workers=1) as process,
        plangym_ext.make(name, backend="mujoco") as env,
    ):
        env.action_space.seed(0)
        states = _states(process, 4)
        actions = np.stack([env.sample_action() for _ in range(4 * 6)]).reshape(4, 6, -1)
        want, got = (one.rollout_batch(actions[:, :3], states) for one in (process, env))
        assert_equal(got, want, "here and there")
        crossed = [
            process.rollout_batch(actions[:, 3:], got.states),
            env.rollout_batch(actions[:, 3:], want.states),
        ]
        assert_equal(crossed[1], crossed[0], "crossed")
