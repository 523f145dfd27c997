"""plangym's face: exact states, hooks here and in workers, keywords; see docs/coming_from.md."""

from __future__ import annotations

import os
import pickle
import signal

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit, TransformReward

import plangym_ext
import plangym_ext.compat.plangym as plangym
from plangym_ext.compat.plangym import control, environment_names, utils, videogames
from plangym_ext.compat.plangym.core import PlanEnv, PlangymEnv
from plangym_ext.compat.plangym.registry import get_planenv_class
from plangym_ext.compat.plangym.vectorization.env import VectorizedEnv
from plangym_ext.compat.plangym.vectorization.parallel import (
    BatchEnv,
    ExternalProcess,
    ParallelEnv,
)
from plangym_ext.errors import CannotDraw, InvalidOption, MissingExtra, StateError

CASES = {
    "Acrobot-v1": {},
    "LunarLander-v3": {},
    "FastLunarLander-v0": {},
    "HalfCheetah-v5": {"render_mode": None},
    "ALE/MsPacman-v5": {"repeat_action_probability": 0.25, "obs_type": "ram"},
    "PlanMontezuma-v0": {"obs_type": "coords", "repeat_action_probability": 0.25},
}


class Doubled(control.ClassicControl):
    """Hooks that a worker has to run as the local env does; `played` is order and count."""

    played: tuple[str, ...] = ()

    def apply_action(self, action):
        self.played += ("action",)
        return super().apply_action(action)

    def process_apply_action(self, *args, **kwargs):
        self.played += ("apply",)
        return super().process_apply_action(*args, **kwargs)

    def process_step(self, *args, **kwargs):
        self.played += ("step",)
        return super().process_step(*args, **kwargs)

    def process_obs(self, obs, **kwargs):
        self.played += ("obs",)
        return 2 * super().process_obs(obs, **kwargs)

    def process_reward(self, reward, **kwargs):
        return reward * reward

    def process_terminal(self, terminal, obs=None, **kwargs):
        return terminal or abs(obs[1]) > 1.0

    def process_info(self, info, **kwargs):
        return {**info, "speed": float(kwargs["obs"][1])}


class Counter(PlanEnv):
    """No gymnasium env at all: what a user's own backend defines."""

    count = 0

    def get_state(self):
        return np.array([self.count])

    def set_state(self, state):
        self.count = int(state[0])

    def apply_reset(self, **kwargs):
        self.count = kwargs.get("seed", 0)
        return np.array([self.count]), {}

    def apply_action(self, action):
        self.count += action
        return np.array([self.count]), float(action), self.count >= 10, False, {}


def same(one, two):
    for a, b in zip(one, two, strict=True):
        np.testing.assert_equal(a, b)


@pytest.mark.parametrize("name", CASES)
def test_a_restored_state_has_the_future_of_the_one_that_went_on(name):
    with plangym.make(name, **CASES[name]) as env:
        start, obs, _ = env.reset(seed=3)
        assert start.dtype == np.uint8
        assert env.observation_space.contains(obs)
        assert obs.shape == env.obs_shape
        actions = [env.sample_action() for _ in range(12)]
        went_on = [env.step(action)[:4] for action in actions]
        states = [start]
        for action, expected in zip(actions, went_on, strict=True):
            state, *found, _ = env.step(action, states[-1])
            same(found, expected)
            states.append(state)
        # Any order, and nothing of a step with a state is reset or remembered.
        news, *columns, _ = env.step_batch(actions[::-1], states[-2::-1])
        same(news, states[:0:-1])
        same(zip(*columns, strict=True), went_on[::-1])


@pytest.mark.parametrize("dt", [1, 3])
def test_hooks_run_in_order_and_once_for_each_step(dt):
    env = Doubled("CartPole-v1", frameskip=2, autoreset=False, render_mode=None)
    env.reset(seed=0)
    env.played = ()
    obs, reward, terminal, truncated, info = env.step(0, dt=dt)
    assert env.played == ("action", "apply") * 2 * dt + ("step", "obs")
    assert reward == (2 * dt) ** 2
    assert info == {"n_step": 2 * dt, "dt": dt, "speed": float(obs[1])}
    assert isinstance(terminal, bool)
    assert truncated is False
    assert len(env.step_with_dt(1, dt=dt)) == 5
    env.close()


def test_workers_run_the_hooks_too():
    local = Doubled("CartPole-v1", render_mode=None)
    with ParallelEnv(Doubled, "CartPole-v1", n_workers=2, render_mode=None) as env:
        state, *_ = env.reset(seed=1)
        actions, dts = [0, 1, 1, 0, 1], [1, 2, 3, 4, 20]
        found = env.step_batch(actions, [state] * 5, dts, return_state=True)
        expected = local.step_batch(actions, [state] * 5, dts)
        assert [type(column) for column in found] == [list] * 6
        same(found, expected)
        assert found[3][-1] is True
        same(env.get_state(), state)
        assert len(env.step_batch(actions, [state] * 5, dts)) == 6
        assert len(env.step_batch(actions)) == 5
        assert env.clone(n_workers=1).n_workers == 1
    local.close()


def test_a_worker_that_dies_is_replaced_and_its_rows_are_run():
    with ParallelEnv(control.ClassicControl, "CartPole-v1", n_workers=2) as env:
        state, *_ = env.reset(seed=1)
        expected = env.step_batch([0, 1, 0], [state] * 3)
        os.kill(env.batch_env[0].process.pid, signal.SIGKILL)
        same(env.step_batch([0, 1, 0], [state] * 3), expected)


def test_external_processes_and_their_batches_have_plangyms_calls():
    with ExternalProcess(lambda: Doubled("CartPole-v1", render_mode=None)) as process:
        state, obs, _ = process.reset(return_states=True)
        assert process.step(1, state, dt=2, blocking=False)()[2] == 4.0
        assert process.action_space == gym.spaces.Discrete(2)
        assert len(process.step_batch([0, 1], [state] * 2)) == 6
        assert process.frameskip == 1
        with BatchEnv([process], blocking=True) as batch:
            batch.sync_states(state)
            states, obs, infos = batch.reset(indices=[0])
            assert len(batch) == 1
            assert batch[0] is process
            assert batch.obs_type == "coords"
            assert states.dtype == np.uint8
            assert obs.shape == (1, 4)
            assert infos.shape == (1,)


def test_rows_without_states_go_on_each_by_itself():
    env = plangym.make("CartPole-v1", render_mode=None)
    state, *_ = env.reset(seed=0)
    rows = [state, state]
    for _ in range(14):  # row 0 falls within them and begins again
        news, observs, _, ends, _, _ = env.step_batch([1, 0])
        expected = env.step_batch([1, 0], rows)
        same(observs, expected[1])
        rows = list(news)
        if ends[0]:
            break
    assert ends == [True, False]
    begun = env.step_batch([1, 0])[1]
    assert abs(begun[0]).max() < 0.5 < abs(begun[1]).max()
    same(env.get_state(), state)
    # One row of its own, the other given.
    found = env.step_batch([1, 0], [None, state])
    same(found[1][1], env.step(0, state)[1])
    with pytest.raises(InvalidOption, match="one for each of 2 actions; got 1"):
        env.step_batch([0, 1], [state])
    env.close()


def test_an_env_that_is_no_gymnasium_env_has_the_same_pipeline():
    env = Counter("counter", autoreset=True)
    assert env.reset(seed=4) == (4, 4, {})
    assert env.step(6) == (10, 6.0, True, False, {"n_step": 1, "dt": 1})
    assert env.count == 0
    with ParallelEnv(Counter, "counter", n_workers=2) as many:
        found = many.step_batch([1, 2, 3], [np.array([7])] * 3, return_state=False)
        assert found[:3] == ([8, 9, 10], [1.0, 2.0, 3.0], [False, False, True])


@pytest.mark.parametrize("obs_type", ["rgb", "grayscale"])
def test_pictures_are_observations_of_any_env_that_draws(obs_type):
    env = control.ClassicControl("CartPole-v1", obs_type=obs_type, return_image=True)
    state, obs, info = env.reset(seed=0)
    assert env.img_shape == (400, 600, 3) == info["rgb"].shape
    assert env.obs_shape == obs.shape == env.img_shape[: obs.ndim]
    assert env.observation_space.contains(obs)
    after, obs, *_, info = env.step(1, state)
    for _ in range(5):
        env.step(1)
    env.set_state(after)
    same(env.get_image(), info["rgb"])
    same(obs, info["rgb"] if obs_type == "rgb" else utils.process_frame(info["rgb"], mode="L"))
    env.close()


def test_grey_is_pillows_and_other_sizes_come_from_it():
    image = pytest.importorskip("PIL.Image")
    frame = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    same(utils.process_frame(frame, mode="L"), np.array(image.fromarray(frame).convert("L")))
    for mode, wanted in (("RGB", frame), ("BGR", frame[..., ::-1])):
        small = utils.process_frame_opencv(frame, width=20, height=30, mode=mode)
        same(small, np.array(image.fromarray(wanted.copy()).resize((20, 30))))


def test_atari_repeats_actions_in_the_emulator_alone():
    env = plangym.make("ALE/Breakout-v5", episodic_life=True)
    state, *_ = env.reset(seed=0)
    first = env.step(1, state)[-1]
    assert first["frame_number"] - env.reset(seed=0)[2]["frame_number"] == env.frameskip == 5
    assert first["lifes"] == 5
    assert not first["lost_life"]
    after, picture = env.get_state(), env.get_image()
    env.step(3, dt=10)
    env.set_state(after)
    same(env.get_image(), picture)
    same(env.get_ram(), videogames.ale_to_ram(env.ale))
    while not (ended := env.step(1))[2]:
        pass
    assert ended[-1]["lost_life"]
    assert ended[-1]["lifes"] == 4
    env.close()


def test_seeds_are_part_of_states_unless_that_is_not_wanted():
    futures = {}
    for clone_seeds in (True, False):
        env = plangym.make(
            "ALE/Breakout-v5",
            obs_type="ram",
            repeat_action_probability=0.5,
            clone_seeds=clone_seeds,
        )
        state, *_ = env.reset(seed=0)
        actions = [1, 3, 2, 3, 2]
        played = [[env.step(a, state if i == 0 else None)[-1] for i, a in enumerate(actions)]]
        futures[clone_seeds] = set()
        for _ in range(6):
            env.set_state(state)
            played = [env.step(a, dt=2)[0].tobytes() for a in actions]
            futures[clone_seeds].add(b"".join(played))
        env.close()
    assert len(futures[True]) == 1 < len(futures[False])


def test_montezuma_tells_where_its_player_is_and_ends_with_a_death():
    env = videogames.MontezumaEnv(obs_type="coords", score_objects=True, autoreset=False)
    _, obs, info = env.reset(seed=0)
    assert obs.tolist() == [info["x"], info["y"], 1.0, 0.0]
    for _ in range(400):
        obs, _, terminal, _, info = env.step(3)  # to the right, and down
        if terminal:
            break
    assert terminal
    assert obs[:3].tolist() == [info["x"], info["y"], info["room"]]
    env.close()


def test_what_montezumas_player_carries_is_seen_in_its_picture():
    env = videogames.CustomMontezuma(objects_remember_rooms=True, render_mode=None)
    obs, _ = env.reset(seed=0)
    # Bits of the RAM, of which keys have four, and pixels of what they show.
    for carried, pixels in ((1, [50]), (0b110, [40, 40]), (0b1110_0000, [37, 37, 42])):
        env.ale.setRAM(65, carried)
        for _ in range(3):
            obs, *_ = env.step(0)
        assert env.get_objects_from_pixels(obs, 5, [(37, 3)]) == tuple(
            (n, 3 if n == 37 and i == 0 else 5) for i, n in enumerate(pixels)
        )
    pos = env.pos_from_obs(env.get_face_pixels(obs), obs)
    assert (pos.level, pos.score, pos.room) == (0, 0, 1)
    guessed = env.pos_from_obs([], obs)
    assert max(abs(pos.x - guessed.x), abs(pos.y - guessed.y)) < 6
    assert pickle.loads(pickle.dumps(pos)) == pos != guessed
    # Rows of 3, 5, 7 and 9 rooms, each in the middle.
    places = [env.get_room_xy(room) for room in range(24)]
    assert places == [(x, y) for y in range(4) for x in range(3 - y, 6 + y)]
    env.close()


@pytest.mark.parametrize("obs_type", ["coords", "ram"])
def test_mario_goes_to_the_right_and_back_to_a_state(obs_type):
    pytest.importorskip("gym_super_mario_bros")
    env = videogames.MarioEnv("SuperMarioBros-v0", obs_type=obs_type, movement_type="right")
    assert env.action_space == gym.spaces.Discrete(5)
    assert env.gym_env.get_action_meanings()[1] == "right"
    state, first, _ = env.reset(seed=0)
    went = env.step(1, state, dt=10)
    assert env.observation_space.contains(went[1])
    assert went[-1]["x_pos"] > 40
    assert went[2] == 25_000 * went[-1]["world"] + 5_000 * went[-1]["stage"] + went[-1]["x_pos"]
    if obs_type == "coords":
        assert went[1][0] == went[-1]["x_pos"] > first[0]
    same(env.step(1, state, dt=10)[:4], went[:4])
    env.close()


def test_a_lander_without_chance_flies_alike_from_every_seed():
    ours = plangym.make("FastLunarLander-v0", deterministic=True, continuous=True)
    seen = [ours.reset(seed=seed)[1] for seed in (1, 2)]
    same(*seen)
    assert ours.action_shape == (2,)
    assert ours.name == "LunarLander-plangym"
    ours.close()
    # With chance it is gymnasium's own, with pictures too.
    ours, theirs = plangym.make("FastLunarLander-v0"), gym.make("LunarLander-v3")
    same(ours.reset(seed=5)[1], theirs.reset(seed=5)[0])
    for action in [2, 2, 1, 3, 0, 2]:
        same(ours.step(action)[:3], theirs.step(action)[:3])
    assert not ours.gym_env.unwrapped.particles
    ours.close()
    theirs.close()


def test_wrappers_in_four_forms_and_limits():
    def doubled(reward):
        return 2 * reward

    for item in (
        (TransformReward, {"func": doubled}),
        (TransformReward, [doubled]),
        (TransformReward, doubled),
        lambda env: TransformReward(env, doubled),
    ):
        with plangym.make("CartPole-v1", wrappers=[item]) as env:
            env.reset(seed=0)
            assert env.step(0)[1] == 2.0
    limited = [(TimeLimit, {"max_episode_steps": 3})]
    with plangym.make("CartPole-v1", wrappers=limited, autoreset=False) as env:
        env.reset(seed=0)
        assert env.step(0, dt=9)[2:4] == (False, True)
    with plangym.make("CartPole-v1") as env:
        assert env.remove_time_limit
        assert "TimeLimit" not in str(env.gym_env)
        env.apply_wrappers([(TransformReward, doubled)])
        env.reset(seed=0)
        assert env.step(0)[1] == 2.0
    with plangym.make("CartPole-v1", remove_time_limit=False) as env:
        assert "TimeLimit" in str(env.gym_env)


def test_envs_travel_before_they_are_built_and_with_their_state_after():
    env = plangym.make("CartPole-v1", frameskip=2, delay_setup=True)
    assert env._gym_env is None
    env = pickle.loads(pickle.dumps(env))
    assert env._gym_env is None
    assert env.frameskip == 2
    env.reset(seed=0)
    env.step(1)
    other = pickle.loads(pickle.dumps(env))
    assert other._gym_env is None
    same(other.get_state(), env.get_state())
    same(other.step(0), env.step(0))
    many = pickle.loads(pickle.dumps(plangym.make("CartPole-v1", n_workers=2, delay_setup=True)))
    assert isinstance(many, VectorizedEnv)
    assert isinstance(many, PlangymEnv)
    for one in (env, other, many):
        one.close()


def test_clones_have_all_arguments():
    env = plangym.make("FastLunarLander-v0", deterministic=True, obs_type="rgb", delay_setup=True)
    clone = env.clone(frameskip=3)
    assert (clone.deterministic, clone.obs_type, clone.frameskip) == (True, "rgb", 3)
    assert clone.delay_setup
    assert clone.clone().frameskip == 3
    named = control.MujocoEnv("Ant-v5", 2, delay_setup=True, obs_type="rgb", healthy_reward=2.0)
    clone = named.clone(frameskip=4, render_mode=None, healthy_reward=3.0).clone(name="Hopper-v5")
    assert (clone.name, clone.frameskip, clone.obs_type) == ("Hopper-v5", 4, "rgb")
    assert (clone.render_mode, clone._gym_env_kwargs) == (None, {"healthy_reward": 3.0})


def test_states_are_those_of_make_and_foreign_ones_are_refused():
    face = plangym.make("CartPole-v1", render_mode=None, remove_time_limit=False)
    state, *_ = face.reset(seed=0)
    ours = plangym_ext.make("CartPole-v1", backend="serial")
    same(ours.step(1, state)[1], face.step(1, state)[1])
    with plangym.make("Acrobot-v1") as other, pytest.raises(StateError):
        other.set_state(state)
    ours.close()
    face.close()


def test_names_lead_to_plangyms_classes():
    names = {
        "PlanMontezuma-v0": videogames.MontezumaEnv,
        "FastLunarLander-v0": control.LunarLander,
        "SuperMarioBros-v0": videogames.MarioEnv,
        "BalloonLearningEnvironment-v0": control.BalloonEnv,
        "retro/Airstriker-Genesis-v0": videogames.RetroEnv,
        "dm_control/cheetah-run-v0": control.DMControlEnv,
        "FrozenLake-v1": PlangymEnv,
        **dict.fromkeys(environment_names.CLASSIC_CONTROL, control.ClassicControl),
        **dict.fromkeys(environment_names.MUJOCO, control.MujocoEnv),
        **dict.fromkeys(environment_names.ATARI, videogames.AtariEnv),
    }
    assert {name: get_planenv_class(name) for name in names} == names
    assert get_planenv_class("Airstriker", state="Level1") is videogames.RetroEnv
    assert get_planenv_class(None, "walker") is control.DMControlEnv
    walker = plangym.make(domain_name="walker", task_name="run", delay_setup=True)
    assert walker.name == "walker-run"
    with pytest.raises(AttributeError, match="NONE"):
        _ = environment_names.NONE


def test_mistakes_are_named():
    with pytest.raises(InvalidOption, match="Invalid render_mode: 'ansi'"):
        control.ClassicControl("CartPole-v1", render_mode="ansi")
    with pytest.raises(InvalidOption, match="Invalid obs_type: 'ram'"):
        control.ClassicControl("CartPole-v1", obs_type="ram")
    with pytest.raises(InvalidOption, match="return_image=True requires"):
        control.ClassicControl("CartPole-v1", render_mode=None, return_image=True)
    with pytest.raises(InvalidOption, match="array_state=False"):
        videogames.AtariEnv("ALE/Pong-v5", array_state=False)
    with pytest.raises(InvalidOption, match="movement_type must be one of complex"):
        videogames.MarioEnv("SuperMarioBros-v0", movement_type="left")
    with pytest.raises(InvalidOption, match="expected 'domain-task'"):
        control.DMControlEnv("cartpole")
    with pytest.raises(gym.error.UnregisteredEnv):
        plangym.make("Miaudb-v0")
    with pytest.raises(MissingExtra, match="balloon-learning-environment"):
        control.BalloonEnv()
    with plangym.make("CartPole-v1", render_mode=None) as env:
        assert env.img_shape is None
        with pytest.raises(CannotDraw, match="render_mode='rgb_array'"):
            env.get_image()
        with pytest.raises(InvalidOption, match="dt must be at least 1; got 0"):
            env.step_with_dt(0, dt=0)


def test_games_for_consoles_have_few_actions():
    class Console(gym.Env):
        action_space = gym.spaces.MultiBinary(12)

    env = videogames.ActionDiscretizer(Console())
    assert env.action_space == gym.spaces.Discrete(7)
    assert env.action(5).nonzero()[0].tolist() == [0, 5]  # B and down


@pytest.mark.parametrize(
    ("module", "name", "options"),
    [
        ("stable_retro", "Airstriker-Genesis", {"state": "Level1", "obs_type": "ram"}),
        ("dm_control", "reacher-easy", {"render_mode": None}),
    ],
)
def test_simulators_with_an_environment_of_their_own_are_exact_too(module, name, options):
    pytest.importorskip(module)
    env = plangym.make(name, **options)
    state, *_ = env.reset(seed=0)
    actions = [env.sample_action() for _ in range(5)]
    went_on = [env.step(action, dt=2) for action in actions]
    for action, expected in zip(actions, went_on, strict=True):
        state, *found = env.step(action, state, dt=2)
        same(found[:4], expected[:4])
    assert expected[-1].get("lifes", 3) == 3
    env.close()
