"""The usual preprocessing and stacking of frames, as part of the state."""

import gymnasium as gym
import pytest
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

import plangym_ext
from plangym_ext.core.check import Subject, check_round_trip
from plangym_ext.errors import ForeignState

pytest.importorskip("cv2")
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
            save_points=(0, 1, 17, 60, 61, 62),
            num_steps=60,
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
