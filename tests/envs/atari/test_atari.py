"""Atari: the contract on sticky actions, drawn frameskips and all kinds of observation."""

from typing import ClassVar

import ale_py
import gymnasium as gym
import numpy as np
import pytest
from contract.env_contract import EnvContract

import plangym_ext
from plangym_ext.errors import ForeignState

pytestmark = pytest.mark.slow  # an emulated second costs about 5 ms, and there are many


class TestMsPacmanRam(EnvContract):
    """Sticky actions are on: the default probability of a v5 game is 0.25."""

    name = "ALE/MsPacman-v5"
    options: ClassVar = {"obs_type": "ram"}
    max_steps = 1500
    stranger = "ALE/Pong-v5"


class TestPongGrayscaleWithDrawnFrameskip(EnvContract):
    name = "ALE/Pong-v5"
    options: ClassVar = {"obs_type": "grayscale", "frameskip": (2, 5)}
    max_steps = 2000
    int_frameskip = False
    stranger = "ALE/MsPacman-v5"


class TestMontezumaInColour(EnvContract):
    """What its infos say about rooms is part of the state; the screen is compared."""

    name = "ALE/MontezumaRevenge-v5"
    options: ClassVar = {"obs_type": "rgb", "max_episode_steps": 230}
    stranger = "ALE/Pong-v5"


@pytest.mark.parametrize(
    ("game", "options"),
    [
        ("Pong", {}),
        ("Breakout", {"continuous": True}),  # a paddle, whose strength is held too
        ("SpaceInvaders", {"repeat_action_probability": 0.6}),
    ],
)
def test_sticky_frame_repeats_the_action_before_the_restored_state(game, options):
    # The emulator's own state lacks the action that a sticky frame repeats: one frame
    # in four (or more) after a restore then repeats whatever the instance did last.
    with plangym_ext.make(f"ALE/{game}-v5", obs_type="ram", frameskip=1, **options) as env:
        assert env.gym_env.unwrapped.ale.getFloat("repeat_action_probability") > 0.2
        env.action_space.seed(0)
        state, *_ = env.reset(seed=0)
        steps = []
        for _ in range(400):
            action = env.sample_action()
            after = env.step(action, state)
            steps.append((state, action, after.state))
            state = after.state
        with env.clone() as other:
            for state, action, after in steps[::2]:
                other.step(env.sample_action(), steps[0][0], dt=2)
                assert other.step(action, state).state.tobytes() == after.tobytes()


def test_states_of_one_game_replay_alike_in_one_batch():
    with plangym_ext.make("ALE/Pong-v5", obs_type="ram") as env:
        state, *_ = env.reset(seed=0)
        found = env.rollout_batch(np.tile([2, 3], (8, 15)), np.stack([state] * 8))
        assert len({row.tobytes() for row in found.states}) == 1


def test_frameskip_replaces_the_games_own_and_is_never_multiplied():
    with (
        plangym_ext.make("ALE/Pong-v5") as four,
        plangym_ext.make("ALE/Pong-v5", frameskip=1) as one,
    ):
        for env, frames in ((four, 4), (one, 1)):
            _, _, before = env.reset(seed=0)
            after = env.step(0, dt=3).info
            assert after["frame_number"] - before["frame_number"] == 3 * frames


def test_state_width_is_the_same_in_every_instance_and_leaves_room():
    with plangym_ext.make("ALE/Pong-v5") as env, plangym_ext.make("ALE/Pong-v5") as other:
        assert env.state_width == other.state_width
        state, *_ = env.reset(seed=0)
        used = int(state[8:12].view("<u4")[0])
        assert used < env.state_width


def test_game_is_loaded_once_by_an_env_that_is_gymnasiums(monkeypatch):
    loads = []

    class Counting(ale_py.ALEInterface):
        def loadROM(self, path):  # noqa: N802 - the emulator's name
            loads.append(path)
            super().loadROM(path)

    monkeypatch.setattr(ale_py, "ALEInterface", Counting)
    settings = {"obs_type": "ram", "mode": 1, "disable_env_checker": True}
    env = plangym_ext.make("ALE/Pong-v5", **settings)
    assert len(loads) == 1
    wrapped = plangym_ext.GymEnv(lambda: gym.make("ALE/Pong-v5", **settings))
    with env, wrapped:
        # Another one built from its spec gets gymnasium's, too.
        assert type(env.gym_env.unwrapped) is ale_py.AtariEnv
        assert env.gym_env.spec.entry_point == gym.spec("ALE/Pong-v5").entry_point
        assert env.gym_env.unwrapped.ale.getFloat("repeat_action_probability") == 0.25
        state, obs, _ = env.reset(seed=3)
        same, seen, _ = wrapped.reset(seed=3)
        np.testing.assert_array_equal(obs, seen)
        np.testing.assert_array_equal(state, same)
        actions = np.arange(24)[None] % 6
        ours, theirs = (one.rollout_batch(actions, state[None]) for one in (env, wrapped))
        np.testing.assert_array_equal(ours.states, theirs.states)
        np.testing.assert_array_equal(ours.obs, theirs.obs)


def test_env_whose_codec_is_not_used_keeps_its_own_emulator():
    with plangym_ext.make("ALE/Pong-v5", capture="replay") as env:
        assert type(env.gym_env.unwrapped.ale) is ale_py.ALEInterface
    venv = plangym_ext.make_vec("ALE/Pong-v5", capture="off")
    assert type(venv.get_attr("ale")[0]) is ale_py.ALEInterface
    venv.close()


def test_state_of_an_emulator_with_other_settings_is_refused():
    # Built without the registry, so that no spec tells the two apart.
    sticky = plangym_ext.GymEnv(lambda: ale_py.AtariEnv(game="pong"))
    plain = plangym_ext.GymEnv(lambda: ale_py.AtariEnv(game="pong", repeat_action_probability=0.0))
    with sticky, plain:
        state, *_ = sticky.reset(seed=0)
        with pytest.raises(ForeignState):
            plain.set_state(state)


def test_picture_is_that_of_the_env_after_a_batch():
    with plangym_ext.make("ALE/MsPacman-v5", render_mode="rgb_array") as env:
        state, *_ = env.reset(seed=0)
        for _ in range(80):
            env.step(env.sample_action())
        before = env.render().copy()
        env.step_batch([0, 1], np.stack([state] * 2))
        np.testing.assert_array_equal(env.render(), before)
