"""The contract on envs that the library does not know, and on stacks of wrappers."""

from __future__ import annotations

import functools
from typing import ClassVar

import ale_py
import gymnasium as gym
import numpy as np
import pytest
from contract.env_contract import EnvContract
from gymnasium import wrappers

from plangym_ext.core.gym_env import GymEnv


class Ball:
    """Something that a simulator moves; plain data it is not."""

    def __init__(self, place):
        self.place = place


class Field(gym.Env):
    """Balls that drift at random; the nearest one is pushed. Ends when one is far off."""

    observation_space = gym.spaces.Dict(
        {
            "balls": gym.spaces.Box(-np.inf, np.inf, (3,), np.float64),
            "nearest": gym.spaces.Discrete(3),
        }
    )
    action_space = gym.spaces.Discrete(3)
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - gymnasium's own form

    def __init__(self, render_mode=None, far=4.0):
        self.render_mode, self._far = render_mode, far

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._balls = [Ball(float(place)) for place in self.np_random.normal(size=3)]
        self._choose()
        return self._obs(), {"spread": self._spread()}

    def step(self, action):
        self._nearest.place += float(action) - 1.0
        for ball in self._balls:
            ball.place += 0.1 * float(self.np_random.normal())
        self._choose()
        over = max(abs(ball.place) for ball in self._balls) > self._far
        return self._obs(), -abs(self._nearest.place), over, False, {"spread": self._spread()}

    def _choose(self):
        # The very object that is in the list, too.
        self._nearest = min(self._balls, key=lambda ball: abs(ball.place))

    def _spread(self):
        return {"balls": np.ptp([ball.place for ball in self._balls])}

    def _obs(self):
        places = np.array([ball.place for ball in self._balls])
        return {"balls": places, "nearest": self._balls.index(self._nearest)}

    def render(self):
        return np.full((4, 4, 3), int(self._nearest.place * 10) % 256, np.uint8)


class OwnField(Field):
    """Says itself what its state is."""

    def get_state(self):
        at = self._balls.index(self._nearest)
        generator = self.np_random.bit_generator.state
        return {"places": [ball.place for ball in self._balls], "at": at, "generator": generator}

    def set_state(self, state):
        self._balls = [Ball(place) for place in state["places"]]
        self._nearest = self._balls[state["at"]]
        self.np_random.bit_generator.state = state["generator"]


class Hidden(Field):
    """Keeps what it knows where no snapshot can find it."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        self._bonus = (0.25 * count for count in range(1, 10**9))
        return result

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, reward + next(self._bonus), *rest


class Slower(gym.Wrapper):
    """A user's wrapper with memory: it plays the action before."""

    def reset(self, *, seed=None, options=None):
        self._last = 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._last, action = int(action), self._last
        return super().step(action)


def limited(make, max_episode_steps=80, **options):
    return wrappers.TimeLimit(make(**options), max_episode_steps)


def wrapped(max_episode_steps=60, **options):
    """Everything that remembers something, in one stack."""
    env = gym.make("CartPole-v1", disable_env_checker=True, **options).unwrapped
    env = wrappers.TimeLimit(env, max_episode_steps)
    env = wrappers.RecordEpisodeStatistics(env, buffer_length=3)
    env = wrappers.NormalizeObservation(env)
    env = wrappers.NormalizeReward(env)
    env = Slower(env)
    return wrappers.FrameStackObservation(env, 3)


class FactoryContract(EnvContract):
    """Built by a callable; options of a `GymEnv` go to it, the others to the callable."""

    factory: ClassVar = None
    method = ""
    _OWN = ("autoreset", "frameskip", "capture", "check", "trust")

    @classmethod
    def constructor(cls, **overrides):
        settings = {"autoreset": False, **cls.options, **overrides}
        own = {key: settings.pop(key) for key in cls._OWN if key in settings}
        return functools.partial(GymEnv, functools.partial(cls.factory, **settings), **own)

    def test_state_is_captured_this_way(self, env):
        assert env.codec.parts[-1].method == self.method
        assert env.exact


class TestUnknown(FactoryContract):
    """Objects that a list shares."""

    factory = functools.partial(limited, Field)
    method = "objects"


class TestOwnState(FactoryContract):
    factory = functools.partial(limited, OwnField)
    method = "own"


class TestReplayed(FactoryContract):
    factory = functools.partial(limited, Hidden)
    method = "replay"


class TestWrapped(FactoryContract):
    """Statistics run on over the ends of episodes."""

    factory = staticmethod(wrapped)
    method = "objects"

    @classmethod
    def harmless_action(cls, env):
        return 0

    def test_same_seed_gives_the_same_episode(self, episode):
        with self.make() as fresh:
            state, *_ = fresh.reset(seed=self.seeds[0])
            assert state.tobytes() == episode.states[0].tobytes()
            self.play_on(fresh, episode, 0, "same seed")


@pytest.mark.slow
class TestFrameStackOverAtari(FactoryContract):
    @staticmethod
    def factory(max_episode_steps=400, **options):
        gym.register_envs(ale_py)  # a worker has not seen the import above
        env = gym.make("ALE/Breakout-v5", frameskip=1, disable_env_checker=True, **options)
        env = wrappers.AtariPreprocessing(env.unwrapped)
        return wrappers.FrameStackObservation(wrappers.TimeLimit(env, max_episode_steps), 4)

    method = "codec"

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def images(cls):
        pytest.importorskip("cv2")
