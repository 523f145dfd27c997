"""Snapshots: which attributes are state, and what becomes of the others."""

from __future__ import annotations

import types

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import IncompleteState


class Base(gym.Env):
    """Five steps an episode; observes the sum of `_values()`."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(3)
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - gymnasium's own form
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        self._begin()
        return self._obs(), {}

    def step(self, action):
        self.count += 1
        self._move(int(action))
        noise = float(self.np_random.random())
        return self._obs(), noise, self.count >= 30, False, {}

    def _obs(self):
        return np.array([self._value()], np.float64)


class Named(Base):
    """Keeps its state under names that gymnasium's wrappers use for other things."""

    def _begin(self):
        self.env = [0]
        self._observation_history = [0]
        self._cached_sum = 0
        self._action_space_used = 0

    def _move(self, action):
        self.env[0] += action
        self._observation_history.append(action)
        self._cached_sum += sum(self._observation_history)
        self._action_space_used += action * 7

    def _value(self):
        return (
            self.env[0]
            + 10 * len(self._observation_history)
            + 100 * self._cached_sum
            + self._action_space_used
        )


class Shifting(Base):
    """Has an attribute in some steps only."""

    def _begin(self):
        vars(self).pop("bonus", None)

    def _move(self, action):
        if action == 0:
            self.bonus = self.count
        elif action == 1:
            vars(self).pop("bonus", None)

    def _value(self):
        return getattr(self, "bonus", -1)


class Surface:
    """Stands for a window: belongs to a drawing library and cannot be copied."""

    def __reduce__(self):
        raise TypeError("a surface cannot be pickled")


Surface.__module__ = "pygame.surface"


class Canvas:
    """Simulator's own object that keeps a surface."""

    def __init__(self):
        self.at, self.surface = 0, None


class Drawn(Base):
    """Opens a window when it is first rendered."""

    viewer = None

    def _begin(self):
        if not hasattr(self, "canvas"):
            self.viewer = self.clock = None
        self.canvas = Canvas()

    def _move(self, action):
        self.canvas.at += action

    def _value(self):
        return self.canvas.at

    def render(self):
        self.viewer, self.clock = Surface(), types.SimpleNamespace(lock=Surface())
        self.canvas.surface = Surface()
        return np.zeros((2, 2, 3), np.uint8)


class Clock(Base):
    """Counts in an attribute whose name others use for drawing."""

    def _begin(self):
        self.clock = None

    def _move(self, action):
        self.clock = (self.clock or 0) + action if action else None

    def _value(self):
        return -1 if self.clock is None else self.clock


class Fixed(gym.utils.EzPickle):
    """Pickles as a fresh one, as many of gymnasium's simulators do."""

    def __init__(self):
        super().__init__()
        self.at = 0


class HoldsEzPickle(Base):
    def _begin(self):
        self.inner = Fixed()

    def _move(self, action):
        self.inner.at += action

    def _value(self):
        return self.inner.at


class Opaque(set):
    __slots__ = ("inner",)


class HidesEzPickle(HoldsEzPickle):
    """Only a pickle takes the slots, and the pickle loses the rest."""

    def _begin(self):
        super()._begin()
        self.opaque = Opaque()
        self.opaque.inner = self.inner


class Shares(Base):
    """Two names for one array, and a wrapper that knows the inside of the env."""

    def _begin(self):
        self.first = np.zeros(2)
        self.second = [self.first]

    def _move(self, action):
        self.first += action

    def _value(self):
        return self.second[0].sum()


class Inside(gym.Wrapper):
    def reset(self, **kwargs):
        result = self.env.reset(**kwargs)
        self.seen = self.unwrapped.first
        return result

    def step(self, action):
        obs, reward, *rest = self.env.step(action)
        return obs, reward + self.seen[0], *rest


@pytest.mark.parametrize(
    "make",
    [Named, Shifting, Drawn, Clock, HoldsEzPickle, Shares, lambda: Inside(Shares())],
    ids=lambda make: make.__name__,
)
def test_snapshot_is_exact(make):
    with GymEnv(make, capture="snapshot") as env:
        report = plangym_ext.check_env(env, num_steps=40)
        assert report.exact, report
        assert all(part.canonical for part, _ in env.codec.described())


def test_pictures_are_no_part_of_the_state():
    with GymEnv(Drawn) as env, GymEnv(Drawn) as fresh:
        state, *_ = env.reset(seed=0)
        env.render()
        viewer = env.gym_env.viewer
        assert env.get_state().tobytes() == state.tobytes()
        env.step(2)
        env.set_state(state)
        assert env.gym_env.viewer is viewer  # the window stays open
        fresh.set_state(state)
        np.testing.assert_array_equal(fresh.step(2).obs, env.step(2).obs)


def test_a_pickle_that_loses_the_state_is_never_used():
    # The slots need a pickle, and the pickle would bring a fresh inner part back.
    with GymEnv(HidesEzPickle) as env:
        assert [part.method for part, _ in env.codec.described()] == ["replay"]
    with pytest.raises(IncompleteState, match="Fixed: its pickle is a fresh, unplayed one"):
        GymEnv(HidesEzPickle, capture="snapshot")


class Late(Base):
    """Comes to hold something that no graph takes after a while."""

    def _begin(self):
        self.held = None

    def _move(self, action):
        if self.count == 12:
            self.held = self.late()

    def _value(self):
        return self.count


class LateSlots(Late):
    late = Opaque


class LateStream(Late):
    def late(self):
        return (i for i in range(3))


def test_what_comes_later_and_fits_no_graph_is_pickled():
    with GymEnv(LateSlots) as env:
        assert [part.method for part, _ in env.codec.described()] == ["plain"]
        report = plangym_ext.check_env(env, num_steps=20)
        assert report.exact, report


def test_what_comes_later_and_cannot_be_captured_is_named():
    with GymEnv(LateStream, check=False) as env:
        env.reset(seed=0)
        for _ in range(11):
            env.step(0, return_state=True)
        with pytest.raises(IncompleteState, match=r"LateStream\.held holds a builtins\.generator"):
            env.step(0, return_state=True)


class Below:
    __slots__ = ("v",)


class Above(Below):
    """Its slot hides one of the same name, which no attribute finds."""

    __slots__ = ("v",)

    def __init__(self):
        self.v = 0
        Below.v.__set__(self, 0)


class HiddenSlot(Base):
    def _begin(self):
        self.part = Above()

    def _move(self, action):
        Below.v.__set__(self.part, Below.v.__get__(self.part) + action)

    def _value(self):
        return Below.v.__get__(self.part)


def test_a_slot_that_hides_another_is_refused_by_its_name():
    with pytest.raises(IncompleteState, match="Above, of which a slot 'v' hides another"):
        GymEnv(HiddenSlot, capture="snapshot", check=False).reset(seed=0)


class Logged(gym.Wrapper):
    """Keeps every picture that an agent could have seen, a megabyte a step."""

    def __init__(self, env, kept=0):
        super().__init__(env)
        self.log = [np.zeros(kept, np.uint8)]

    def step(self, action):
        self.log.append(np.zeros(1 << 20, np.uint8))
        return super().step(action)


class LoggedInSlots(Logged):
    """What only a pickle takes is beside it."""

    def __init__(self, env, kept=0):
        super().__init__(env, kept)
        self.opaque = Opaque()


@pytest.mark.parametrize("wrapper", [Logged, LoggedInSlots])
def test_a_large_snapshot_is_refused_by_the_name_of_what_is_large(wrapper):
    want = rf"{wrapper.__name__}\.log \(20,.*Keep what no step reads out.*capture='replay'"
    with pytest.raises(IncompleteState, match=want):
        GymEnv(lambda: wrapper(CartPoleEnv(), 20_000_000), capture="snapshot")


def test_a_snapshot_that_grows_large_is_refused_in_the_step_that_makes_it_so():
    with GymEnv(lambda: Logged(CartPoleEnv()), check=False) as env:
        env.reset(seed=0)
        for _ in range(15):
            env.step(0, return_state=True)
        # This is the sixteenth: a megabyte each leaves no room for anything else.
        with pytest.raises(IncompleteState, match=r"at most 16,777,216.*Logged\.log"):
            env.step(0, return_state=True)


class Rectangles(Base):
    """A game whose player is a rectangle, and its speed a vector."""

    def _begin(self):
        pygame = pytest.importorskip("pygame")
        self.player, self.speed = pygame.Rect(0, 0, 10, 10), pygame.Vector2(1, 0)

    def _move(self, action):
        self.speed.x += action
        self.player.x += int(self.speed.x)

    def _value(self):
        return self.player.x


@pytest.mark.parametrize("capture", ["auto", "snapshot"])
def test_rectangles_and_vectors_of_pygame_are_state(capture):
    pytest.importorskip("pygame")
    with GymEnv(Rectangles, capture=capture) as env:
        report = plangym_ext.check_env(env, num_steps=40)
        assert report.exact, report
        saved, *_ = env.reset(seed=0)
        wanted = [env.step(2).obs[0] for _ in range(9)]
        env.set_state(saved)
        assert [env.step(2).obs[0] for _ in range(9)] == wanted


class Levels(Base):
    """Makes a level of the seed and its number, and draws nothing from the generator."""

    level = 0

    def reset(self, *, seed=None, options=None):
        gym.Env.reset(self, seed=seed)
        self.np_random  # noqa: B018 - seeds itself, if that was not done
        self.level = 0 if seed is not None else self.level + 1
        self.count = 0
        return self._obs(), {}

    def step(self, action):
        self.count += 1
        return self._obs(), 0.0, self.count >= 3, False, {}

    def _value(self):
        return np.random.default_rng([self.np_random_seed, self.level]).random()


class Reads(gym.Wrapper):
    """Observes the seed of an env whose own state has no use for it."""

    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, float(self.np_random_seed % 1000), *rest


@pytest.mark.parametrize("make", [Levels, lambda: Reads(gym.make("CartPole-v1"))])
@pytest.mark.parametrize("backend", ["serial", "process"])
def test_the_seed_that_a_reset_was_given_is_state(make, backend):
    with (
        plangym_ext.make(make, backend=backend) as env,
        plangym_ext.make(make, backend=backend) as other,
    ):
        assert env.exact
        state, _, _ = env.reset(seed=5)
        other.reset(seed=77)
        other.set_state(state)
        for _ in range(8):
            played, restored = env.step(0), other.step(0)
            np.testing.assert_array_equal(played.obs, restored.obs)
            assert played.reward == restored.reward
        # In one env, after another reset.
        env.reset(seed=9)
        again = env.step_batch(np.array([0]), states=state[None])
        other.set_state(state)
        then = other.step(0)
        np.testing.assert_array_equal(again.obs[0], then.obs)
        assert again.rewards[0] == then.reward
