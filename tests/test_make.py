"""Arguments of `make`."""

from __future__ import annotations

import functools
import pickle
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import plangym_ext
from plangym_ext.errors import (
    CannotDraw,
    InvalidOption,
    MissingExtra,
    PlangymExtError,
    UnknownName,
    WrongKind,
)


@pytest.mark.parametrize("backend", ["serial", "kernel"])
def test_workers_and_a_backend_of_one_process_exclude_each_other(backend):
    with pytest.raises(ValueError, match="n_workers=2"):
        plangym_ext.make("CartPole-v1", backend=backend, n_workers=2)


@pytest.mark.parametrize("frameskip", [0, -1, 2.5, True])
def test_frameskip_must_count_steps(frameskip):
    with pytest.raises(ValueError, match="frameskip must be an integer >= 1"):
        plangym_ext.make("CartPole-v1", frameskip=frameskip)


@pytest.mark.slow
def test_frameskip_of_a_game_replaces_its_own():
    # ALE v5 games advance 4 frames a step by themselves.
    for frameskip, frames in ((None, 4), (1, 1), (6, 6)):
        with plangym_ext.make("ALE/Pong-v5", frameskip=frameskip) as env:
            env.reset(seed=0)
            first = env.step(0).info["frame_number"]
            assert env.step(0).info["frame_number"] - first == frames


def test_the_ray_backend_names_its_extra_and_what_belongs_to_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for make in (plangym_ext.make, plangym_ext.make_vec):
        with pytest.raises(MissingExtra, match=r"backend='ray'.*'\.\[ray\]'"):
            make("CartPole-v1", backend="ray")
    with pytest.raises(MissingExtra, match=r"'\.\[ray\]'"):
        plangym_ext.make("CartPole-v1", ray=True)
    with pytest.raises(ValueError, match="address='auto' is for the ray backend"):
        plangym_ext.make("CartPole-v1", address="auto")
    with pytest.raises(ValueError, match="ray=True is for the ray backend; got backend='serial'"):
        plangym_ext.make("CartPole-v1", backend="serial", ray=True)


#: Words that `make` refuses, or refuses so, with what it says.
REFUSED = {
    "old word for capture": ({"state": "replay"}, "Write capture='replay'"),
    "no start": ({"state": "Level1"}, "CartPole-v1 has no option 'state'.*is capture"),
    "forgotten seeds": ({"clone_seeds": False}, r"env.reseeded\(states, rng\)"),
    "no memory": ({"obs_type": "ram"}, 'Games alone have "ram"'),
    "two names": ({"domain_name": "cheetah", "task_name": "run"}, "in place of a name"),
    "one wrapper": ({"wrappers": gym.wrappers.ClipReward}, "Write it in brackets"),
    "no wrapper": ({"wrappers": [(3, 4)]}, "must be a sequence of callables"),
    "no sequence": ({"wrappers": 3}, "must be a sequence of callables"),
    "no pictures": ({"return_image": True, "render_mode": "human"}, "render_mode='rgb_array'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_words_of_plangym_that_cannot_be_had_are_refused(case):
    words, text = REFUSED[case]
    for make in (plangym_ext.make, plangym_ext.make_vec):
        with pytest.raises(PlangymExtError, match=text):
            make("CartPole-v1", **words)
    with pytest.raises(InvalidOption, match="delay_setup is for workers; got backend='kernel'"):
        plangym_ext.make("CartPole-v1", delay_setup=True, backend="kernel")
    with pytest.raises(
        UnknownName, match=r"ParallelEnv: .* 'wrappers'. It is for plangym_ext.make"
    ):
        plangym_ext.ParallelEnv(gym.make, "CartPole-v1", n_workers=1, wrappers=[])
    with pytest.raises(UnknownName, match="foo"):
        plangym_ext.make(gym.spec("CartPole-v1"), foo=True)


def test_pictures_limits_and_wrappers_by_keyword_are_exact():
    wrappers = [(gym.wrappers.TimeLimit, 9), (gym.wrappers.ClipReward, {"max_reward": 0.5})]
    words = {"obs_type": "grayscale", "return_image": True, "remove_time_limit": True}
    with plangym_ext.make("CartPole-v1", wrappers=wrappers, clone_seeds=True, **words) as env:
        assert env.exact
        state, obs, info = env.reset(seed=0)
        assert (obs.shape, obs.dtype, info["rgb"].shape) == ((400, 600), np.uint8, (400, 600, 3))
        assert (info["rgb"] == env.render()).all()
        rows = env.step_batch([0, 1], [state, state])
        assert rows.obs.shape == (2, 400, 600)
        assert rows.rewards.tolist() == [0.5, 0.5]
        for i, action in enumerate([0, 1]):
            _, obs, _, _, _, info = env.step(action, state)
            assert (rows.obs[i] == obs).all()
            assert (rows.infos["rgb"][i] == info["rgb"]).all()
            assert (env.render() == info["rgb"]).all()
        assert [layer for layer in str(env.gym_env).split("<") if "Limit" in layer] == ["TimeLimit"]
    words |= {"wrappers": wrappers, "backend": "serial"}
    with plangym_ext.make(gym.spec("CartPole-v1"), **words) as env:
        assert env.reset(seed=0)[1].shape == (400, 600)
        assert "ClipReward" in str(env.gym_env)
    with plangym_ext.make_vec(lambda: gym.make("CartPole-v1", **RGB), 2, obs_type="rgb") as venv:
        assert venv.reset(seed=0)[0].shape == (2, 400, 600, 3)


RGB = {"render_mode": "rgb_array"}


@pytest.mark.filterwarnings("ignore:.*render method without")
@pytest.mark.parametrize("copies", [True, False])
def test_the_shape_of_pictures_is_learned_of_a_copy(monkeypatch, copies):
    if not copies:
        # As where this process has a GPU open.
        monkeypatch.setattr("plangym_ext.states.trials.fork._DEVICES", "/")
    words = {"obs_type": "grayscale", "check": False, "backend": "serial"}
    with plangym_ext.make(lambda: gym.make("CartPole-v1", **RGB), **words) as env:
        assert env.observation_space.shape == (400, 600)
        inner = env.gym_env.unwrapped
        assert (inner.state, inner.screen, inner._np_random) == (None, None, None)
    if copies:
        with pytest.raises(CannotDraw, match="got NoneType"):
            plangym_ext.make(lambda: gym.make("CartPole-v1"), **words)


def test_an_env_travels_before_it_is_built():
    unbuilt = plangym_ext.make("CartPole-v1", delay_setup=True, n_workers=1)
    with pickle.loads(pickle.dumps(unbuilt)) as env:
        state, *_ = env.reset(seed=0)
        with plangym_ext.make("CartPole-v1", n_workers=0) as other:
            assert other.reset(seed=0)[0].tobytes() == state.tobytes()
        with pytest.raises(WrongKind, match="a handle cannot be pickled"):
            pickle.dumps(env)
    with pytest.raises(WrongKind, match="a handle cannot be pickled"):
        pickle.dumps(env)
    unbuilt.close()


CALLS = {
    "gymnasium.make": lambda **rest: plangym_ext.ParallelEnv(gym.make, "CartPole-v1", **rest),
    "by keywords": lambda **rest: plangym_ext.ParallelEnv(
        env_class=gym.make, name="CartPole-v1", autoreset=True, blocking=False, **rest
    ),
    "EnvSpec": lambda **rest: plangym_ext.ParallelEnv(gym.make, gym.spec("CartPole-v1"), **rest),
    "partial": lambda **rest: plangym_ext.ParallelEnv(
        functools.partial(gym.make, "CartPole-v1", max_episode_steps=9), **rest
    ),
    "lambda": lambda **rest: plangym_ext.ParallelEnv(lambda: gym.make("CartPole-v1"), **rest),
    "class": lambda **rest: plangym_ext.ParallelEnv(CartPoleEnv, **rest),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("delay_setup", [False, True])
def test_all_forms_of_plangyms_parallel_env(call, delay_setup):
    # Registered here alone: the workers' registry is another one.
    gym.register("OnlyHere-v0", entry_point="plangym_ext:nothing")
    env = CALLS[call](n_workers=2, delay_setup=delay_setup)
    try:
        env.setup()
        state, _, _ = env.reset()
        states = [state.copy() for _ in range(4)]
        data = env.step_batch(states=states, actions=[0, 1, 0, 1])
        states, *_ = data
        assert len(data) == 6
        env.sync_states(state)
        assert len(env.make_transitions([0, 1], states[:2])) == 6
        with env.clone() as other:
            assert other.reset()[0].shape == state.shape
    finally:
        env.close()
        del gym.registry["OnlyHere-v0"]


def test_batch_envs_and_external_processes_of_plangym():
    envs = [plangym_ext.ExternalProcess(lambda: gym.make("CartPole-v1")) for _ in range(2)]
    batch = plangym_ext.BatchEnv(envs, False)
    try:
        assert len(batch) == 2
        obs, states = batch.reset()
        assert len(batch.reset(indices=[1], return_states=False)) == 1
        batch.sync_states(states[0], blocking=True)
        assert len(batch.make_transitions([0, 1], states, dt=2)) == 6
        assert batch[0].step(0, blocking=False)()[0].shape == obs[0].shape
        assert batch[0].call("get_state")().shape == states[0].shape
        assert batch.action_space == envs[0].action_space
    finally:
        batch.close()


def test_what_differs_in_a_worker_is_named():
    with pytest.raises(InvalidOption, match="all envs must be equal; env 1 has"):
        plangym_ext.BatchEnv(
            [
                plangym_ext.ExternalProcess(lambda name=name: gym.make(name))
                for name in ("CartPole-v1", "Acrobot-v1")
            ]
        )
