"""The usual preprocessing and stacking of frames, as part of the state."""

import functools
from types import SimpleNamespace

import ale_py
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from same_results import assert_same

import plangym_ext
from plangym_ext.envs.atari.screens import AtariScreens, Shrinking
from plangym_ext.errors import ForeignState, InvalidOption
from plangym_ext.registry import find_spec, make_gym
from plangym_ext.states.trials.round_trip import Plan, check_round_trip
from plangym_ext.states.trials.subject import Subject

gym.register_envs(ale_py)
cv2 = pytest.importorskip("cv2")
pytestmark = pytest.mark.slow


def make(name="ALE/Breakout-v5", stack=4, padding="reset", **options):
    def build():
        env = AtariPreprocessing(gym.make(name, frameskip=1), **options)
        return FrameStackObservation(env, stack, padding_type=padding) if stack else env

    return plangym_ext.GymEnv(build)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"terminal_on_life_loss": True, "stack": 2, "padding": "zero"},
        {"grayscale_obs": False, "scale_obs": True, "stack": 0},
        {"frame_skip": 1, "noop_max": 0, "name": "ALE/YarsRevenge-v5", "stack": 0},
        {"frame_skip": 3, "grayscale_newaxis": True, "name": "ALE/Qbert-v5"},
    ],
    ids=str,
)
def test_preprocessed_frames_are_exact(options):
    with make(**options) as env, env.clone() as other:
        methods = {part.method for part, _ in env.codec.described()}
        assert methods == {"codec"}
        outcome = check_round_trip(
            Subject(env.gym_env, env.codec),
            [("a second instance", Subject(other.gym_env, other.codec))],
            Plan(60.0, 122, least=122, seed=0),
        )
    assert outcome.exact, outcome.difference


def test_step_that_ends_early_shows_the_frames_of_the_step_before():
    # A lost life ends the step before both frames are there: the older ones are shown.
    with make(terminal_on_life_loss=True, stack=0) as env, env.clone() as other:
        state, *_ = env.reset(seed=0)
        env.action_space.seed(0)
        for _ in range(400):
            action = env.sample_action()
            after = env.step(action, state)
            if after.terminated:
                break
            state = after.state
        assert after.terminated
        other.reset(seed=1)
        again = other.step(action, state)
        assert again.obs.tobytes() == after.obs.tobytes()
        assert again.state.tobytes() == after.state.tobytes()


@pytest.mark.parametrize("options", [{"stack": 3}, {"padding": "zero"}, {"frame_skip": 2}])
def test_states_of_another_preprocessing_are_refused(options):
    with make() as env, make(**options) as other:
        state, *_ = env.reset(seed=0)
        with pytest.raises(ForeignState):
            other.set_state(state)


# The library's own: `preprocessing=True` ----------------------------------------------


def theirs(name, frameskip=4, **options):
    game = gym.make(name, frameskip=1, **options)
    return FrameStackObservation(AtariPreprocessing(game, frame_skip=frameskip), 4)


def ours(name, **options):
    return make_gym(find_spec(name), preprocessing=True, **options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ALE/Pong-v5", {}),
        ("ALE/Pong-v5", {"frameskip": 1}),
        ("ALE/Breakout-v5", {"frameskip": 3}),
        ("ALE/AirRaid-v5", {}),  # 250 rows instead of 210
        ("ALE/MsPacman-v5", {"max_num_frames_per_episode": 700}),  # cut within a step
    ],
    ids=str,
)
def test_screens_are_those_of_gymnasiums_wrappers(name, options):
    mine, other = ours(name, **options), theirs(name, **options)
    rng = np.random.default_rng(0)
    for seed in (0, None):
        assert_same(mine.reset(seed=seed), other.reset(seed=seed))
        for step in range(400):
            action = rng.integers(mine.action_space.n)
            got = mine.step(action)
            assert_same(got, other.step(action), f"step {step}: ")
            if got[2] or got[3]:
                assert_same(mine.reset(), other.reset())


@pytest.mark.parametrize("height", [210, 250])
def test_small_screens_are_those_of_opencv_in_every_size(height):
    rng = np.random.default_rng(0)
    pictures = [
        rng.integers(0, 256, (height, 160)).astype(np.uint8),
        rng.integers(0, 2, (height, 160)).astype(np.uint8) * np.uint8(255),
    ]
    for size in range(1, 161):
        shrinking, small = Shrinking((height, 160), size), np.zeros((size, size), np.uint8)
        for picture in pictures:
            game = SimpleNamespace(getScreenGrayscale=functools.partial(np.copyto, src=picture))
            shrinking.show_first(game, small)
            expected = cv2.resize(picture, (size, size), interpolation=cv2.INTER_AREA)
            assert np.array_equal(small, expected), size


@pytest.mark.parametrize("size", [0, 161])
def test_sizes_beyond_the_screen_are_refused(size):
    with pytest.raises(InvalidOption, match="size must be"):
        AtariScreens(gym.make("ALE/Pong-v5", frameskip=4).unwrapped, size=size)
    with pytest.raises(InvalidOption, match="stack must be"):
        AtariScreens(gym.make("ALE/Pong-v5", frameskip=4).unwrapped, stack=0)


@pytest.mark.parametrize("options", [{}, {"episodic_life": True, "max_episode_steps": 50}], ids=str)
def test_screens_are_part_of_the_state(options):
    make_one = functools.partial(
        plangym_ext.make, "ALE/Breakout-v5", backend="serial", preprocessing=True, **options
    )
    with make_one() as env, make_one() as other:
        assert {part.method for part, _ in env.codec.described()} == {"codec"}
        outcome = check_round_trip(
            Subject(env.gym_env, env.codec),
            [("a second instance", Subject(other.gym_env, other.codec))],
            Plan(60.0, 120, least=120, seed=0),
        )
    assert outcome.exact, outcome.difference


def test_screens_of_a_vector_env_go_on_after_an_ending():
    options = {"preprocessing": True, "max_num_frames_per_episode": 120}
    makes = [functools.partial(theirs, "ALE/Pong-v5", max_num_frames_per_episode=120)] * 2
    expected = gym.vector.SyncVectorEnv(makes)
    with plangym_ext.make_vec("ALE/Pong-v5", 2, n_workers=2, **options) as venv:
        assert_same(venv.reset(seed=0), expected.reset(seed=0))
        venv.action_space.seed(0)
        for step in range(100):
            actions = venv.action_space.sample()
            assert_same(venv.step(actions), expected.step(actions), f"step {step}: ")
    expected.close()


def test_a_limit_of_steps_counts_those_of_the_agent():
    env = ours("ALE/Pong-v5", max_episode_steps=5)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(5)] == [False] * 4 + [True]


@pytest.mark.parametrize("options", [{"frameskip": (2, 5)}, {"continuous": True}], ids=str)
def test_games_that_cannot_be_preprocessed_are_named(options):
    with pytest.raises(ValueError, match="preprocessing=True"):
        ours("ALE/Pong-v5", **options)
