"""How the state of an env that the library does not know is captured."""

from __future__ import annotations

import array
import ast
import functools
import random

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import IncompleteState
from plangym_ext.states import families
from plangym_ext.states.part import StatePart


class Counter(gym.Env):
    """Counts; pays the count plus noise; ends at ten."""

    observation_space = gym.spaces.Box(0.0, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._obs(), {}

    def step(self, action):
        self.count += int(action) + 1
        return self._obs(), self.count + self.np_random.random(), self.count >= 10, False, {}

    def _obs(self):
        return np.array([self.count], np.float64)


class Walker:
    """Something on a grid; plain data it is not."""

    def __init__(self):
        self.at = 0


class ObjectCounter(Counter):
    """Keeps its count in an object that it shares with a list."""

    def reset(self, *, seed=None, options=None):
        self.walker = Walker()
        self.walkers = [self.walker]
        return super().reset(seed=seed)

    def step(self, action):
        # Only right if the list still holds the very same object after a restore.
        self.walker.at += int(action) + 1
        self.count = self.walkers[0].at
        return self._obs(), self.count + self.np_random.random(), self.count >= 10, False, {}


class Growing(Counter):
    """Remembers everything it ever saw, so that its state outgrows any row."""

    def reset(self, *, seed=None, options=None):
        self.seen = []
        return super().reset(seed=seed)

    def step(self, action):
        self.seen.append(b"x" * 400)
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward + len(self.seen), len(self.seen) >= 40, truncated, info


class Unpicklable(Counter):
    """Holds a thing that no pickle takes; only playing again brings it back."""

    def reset(self, *, seed=None, options=None):
        self.stream = (i for i in range(10**9))
        return super().reset(seed=seed)

    def step(self, action):
        obs, reward, ended, truncated, info = super().step(action)
        return obs, reward + next(self.stream), ended, truncated, info


class Clockwork(Counter):
    """Depends on how often it was ever stepped, which cannot be restored."""

    steps = 0

    def step(self, action):
        Clockwork.steps += 1
        obs, reward, ended, truncated, info = super().step(action)
        return obs, reward + Clockwork.steps, ended, truncated, info


class OwnState(Counter):
    """Offers its state itself."""

    def get_state(self):
        return {"count": self.count, "rng": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.count = state["count"]
        self.np_random.bit_generator.state = state["rng"]


class Leveled(Counter):
    """Draws in resets alone, long after the first steps, and offers its state without that.

    Args:
        shows: whether the observation shows what was drawn.
    """

    def __init__(self, shows=True):
        self._shows = shows

    def reset(self, *, seed=None, options=None):
        gym.Env.reset(self, seed=seed)
        self.count, self.level = 0, float(self.np_random.random())
        return self._obs(), {}

    def step(self, action):
        self.count += 1
        return self._obs(), float(self.count), self.count >= 100, False, {}

    def _obs(self):
        return np.array([self.count + self.level * self._shows])

    def get_state(self):
        return self.count, self.level

    def set_state(self, state):
        self.count, self.level = state


class OwnLayer(gym.Wrapper):
    """A wrapper that covers itself and everything below."""

    def reset(self, **kwargs):
        self.calls = 0
        return self.env.reset(**kwargs)

    def step(self, action):
        self.calls += 1
        obs, reward, *rest = self.env.step(action)
        return obs, reward * self.calls, *rest

    def get_state(self):
        return (self.calls, self.unwrapped.count, self.unwrapped.np_random)

    def set_state(self, state):
        self.calls, self.unwrapped.count, self.unwrapped._np_random = state


def methods(env):
    return [part.method for part, _ in env.codec.described()]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (Counter, ["plain"]),
        (ObjectCounter, ["objects"]),
        (Unpicklable, ["replay"]),
        (OwnState, ["own"]),
        (lambda: OwnLayer(Counter()), ["own"]),
        (lambda: gym.wrappers.TimeLimit(Counter(), 4), ["codec", "plain"]),
        (
            lambda: gym.wrappers.NormalizeReward(gym.wrappers.TimeLimit(OwnState(), 4)),
            ["codec", "own", "seed", "objects"],
        ),
        (lambda: gym.wrappers.RecordEpisodeStatistics(OwnState()), ["own", "seed", "plain"]),
        (lambda: gym.wrappers.FrameStackObservation(OwnState(), 3), ["codec", "own"]),
    ],
)
def test_the_first_way_that_is_exact_is_chosen(make, expected):
    with GymEnv(make) as env:
        assert methods(env) == expected
        report = plangym_ext.check_env(env, num_steps=30)
        assert report.exact, report
        # In this process, another one, and a second instance.
        assert report.round_trip.instances == 3
        assert report.round_trip.steps == 30
        assert report.round_trip.transitions >= 2 * 3 * 30


class Rolling(Counter):
    """Counts by what an object of an extension says, which it makes in the fourth step."""

    def __init__(self, make, roll):
        self.made, self.roll = make, roll

    def reset(self, *, seed=None, options=None):
        self.held, self.steps = None, 0
        return super().reset(seed=seed)

    def step(self, action):
        self.steps += 1
        if self.steps == 4:
            self.held = self.made()
        elif self.steps > 4:
            self.count += self.roll(self.held) % 2
        return super().step(action)


@pytest.mark.parametrize("n_workers", [0, 1])
@pytest.mark.parametrize(
    ("make", "roll"),
    [
        (lambda: random.Random(3), lambda held: held.getrandbits(8)),
        (lambda: functools.partial(max, 3), lambda held: held(5)),
        (lambda: array.array("i", [1, 2]), lambda held: held.append(len(held)) or len(held)),
    ],
    ids=["random.Random", "partial", "array"],
)
def test_objects_of_extensions_are_captured_whole_also_if_they_come_late(make, roll, n_workers):
    with plangym_ext.make(lambda: Rolling(make, roll), n_workers=n_workers) as env:
        env.reset(seed=1)
        for _ in range(5):
            env.step(0)
        state = env.get_state()
        futures = []
        for _ in range(2):
            env.set_state(state)
            futures.append([float(env.step(0).obs[0]) for _ in range(2)])
        assert futures[0] == futures[1]
        assert env.step_batch(np.zeros(1, int), state[None]).obs[0, 0] == futures[0][0]


class Memory(Counter):
    """Writes through a view, which no pickle brings back."""

    def __init__(self):
        self.view = memoryview(bytearray(4))

    def step(self, action):
        self.view[0] = 1
        return super().step(action)


class Loses(np.ndarray):
    """An array whose pickle leaves out its attribute."""

    def __reduce__(self):
        return np.zeros, (2,)


class Lossy(Counter):
    """Cannot step on once it was restored by its attributes."""

    def reset(self, *, seed=None, options=None):
        self.held = np.zeros(2).view(Loses)
        self.held.more = 1
        return super().reset(seed=seed)

    def step(self, action):
        self.count += self.held.more
        return super().step(action)


@pytest.mark.parametrize("kind", [Memory, Lossy])
def test_a_way_after_which_the_env_cannot_step_is_passed_over(kind):
    with plangym_ext.make(kind, backend="serial") as env:
        assert methods(env) == ["replay"]
        assert plangym_ext.check_env(env, num_steps=10).exact
    with pytest.raises((IncompleteState, AttributeError)):
        plangym_ext.make(kind, backend="serial", capture="snapshot")


class ChessClock:
    """A clock that is no picture of anything."""

    left = 20


class Timed(Counter):
    """Pays less once its clock has run down; by its name the clock might be one that draws."""

    def reset(self, *, seed=None, options=None):
        self.clock = ChessClock()
        return super().reset(seed=seed)

    def step(self, action):
        self.clock.left -= 1
        obs, reward, over, cut, info = super().step(action)
        return obs, reward - (self.clock.left < 0), over, cut, info


def test_an_object_that_only_sounds_like_a_picture_is_not_lost():
    with GymEnv(Timed) as env:
        assert methods(env) == ["replay"]
    with pytest.raises(IncompleteState, match=r"snapshot: what Timed\.clock holds, which by its"):
        GymEnv(Timed, capture="snapshot")


class Slips(Counter):
    """Slips by a generator that is not its own, too seldom to be seen in a few steps."""

    def step(self, action):
        return super().step(action if self.draw() < 0.999_999 else 0)

    def draw(self):
        return random.random()


class SlipsByArrays(Slips):
    def draw(self):
        return np.random.random()  # noqa: NPY002 - of the process, on purpose


class SlipsAndKnows(Slips):
    """Has that generator in its state."""

    def get_state(self):
        return [self.count, repr(random.getstate()), repr(self.np_random.bit_generator.state)]

    def set_state(self, state):
        self.count = state[0]
        random.setstate(ast.literal_eval(state[1]))
        self.np_random.bit_generator.state = ast.literal_eval(state[2])


@pytest.mark.parametrize(("kind", "name"), [(Slips, "random"), (SlipsByArrays, "numpy.random")])
def test_an_env_that_draws_from_a_generator_of_the_process_has_no_exact_states(kind, name):
    with pytest.raises(IncompleteState) as raised:
        GymEnv(kind)
    for way in ("snapshot", "replay"):
        assert f"{way}: the generator of `{name}`, which no state holds" in str(raised.value)


def test_an_own_state_may_hold_the_generators_of_the_process():
    with GymEnv(SlipsAndKnows) as env:
        assert methods(env) == ["own"]


class Broken(Counter):
    """Raises in its first step, whatever was restored."""

    def step(self, action):
        raise ZeroDivisionError("no step")


def test_what_an_env_raises_by_itself_is_told_as_it_is():
    with pytest.raises(ZeroDivisionError, match="no step"):
        GymEnv(Broken)


def test_zeros_after_a_row_widen_nothing():
    for backend in ("serial", "kernel"):
        with plangym_ext.make("CartPole-v1", backend=backend) as env:
            state, *_ = env.reset(seed=0)
            width = env.state_width
            padded = np.pad(state, (0, 80_000))
            found = env.step_batch([0], padded[None])
            assert found.obs.tolist() == env.step_batch([0], state[None]).obs.tolist()
            env.set_state(padded)
            assert env.state_width == len(env.get_state()) == width


def test_an_env_that_cannot_be_restored_is_refused_with_the_difference():
    with pytest.raises(IncompleteState) as raised:
        GymEnv(Clockwork)
    message = str(raised.value)
    assert "snapshot: reward differs at step 2" in message
    assert "replay: reward differs at step 2" in message
    assert "get_state" in message


@pytest.mark.parametrize("shows", [True, False], ids=["shown", "hidden"])
def test_a_state_without_np_random_is_refused_and_the_cause_is_named(shows):
    with pytest.raises(IncompleteState, match=r"(?s)own: .*the state leaves out np_random"):
        GymEnv(lambda: Leveled(shows), capture="own")
    with GymEnv(lambda: Leveled(shows)) as env:
        assert methods(env) == ["plain"]
    with GymEnv(lambda: Leveled(shows), capture="own", check=False) as env:
        report = plangym_ext.check_env(env, num_steps=10)
        assert not report.exact
        assert "the state leaves out np_random" in str(report)
        assert env.exact is None


def test_an_env_that_never_draws_need_not_hold_np_random():
    class Still(Leveled):
        def reset(self, *, seed=None, options=None):
            gym.Env.reset(self, seed=seed)
            self.count, self.level = 0, 0.5
            return self._obs(), {}

    with GymEnv(Still, capture="own") as env:
        assert plangym_ext.check_env(env, num_steps=10).exact


def test_what_was_not_checked_is_not_called_exact():
    with GymEnv(Counter, check=False) as env:
        assert env.exact is None
        assert "unproved states" in repr(env)
        assert plangym_ext.check_env(env, num_steps=10).exact
        assert env.exact is True
        assert "states" not in repr(env)
    with plangym_ext.ParallelEnv(Counter, n_workers=1, check=False) as env:
        assert env.exact is None
    with GymEnv(Counter) as env:
        assert env.exact is True


def test_without_the_check_the_first_way_that_applies_is_taken():
    with GymEnv(Clockwork, check=False) as env:
        assert methods(env) == ["plain"]


def test_a_named_way_is_used_or_refused():
    with GymEnv(OwnState, capture="replay") as env:
        assert methods(env) == ["replay"]
    with pytest.raises(IncompleteState, match="no family"):
        GymEnv(Counter, capture="codec")
    with pytest.raises(
        ValueError, match="auto, codec, own, simulator, snapshot, replay, approximate; got 'exact'"
    ):
        GymEnv(Counter, capture="exact")


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [None, 2])
def test_rows_widen_when_a_state_outgrows_them(n_workers):
    build = plangym_ext.ParallelEnv if n_workers else GymEnv
    with build(Growing, **({"n_workers": n_workers} if n_workers else {})) as env:
        state, *_ = env.reset(seed=3)
        first_width = env.state_width
        narrow = state.copy()
        states = np.stack([state, state])
        rewards = []
        for _ in range(30):
            result = env.step_batch(np.array([0, 1]), states)
            states = result.states
            rewards.append(result.rewards)
        # 30 steps put 12,000 bytes into the state.
        assert env.state_width > max(first_width, 12_000)
        # A row from before is as good as ever.
        again = env.step_batch(np.array([0, 1]), np.stack([narrow, narrow]))
        np.testing.assert_array_equal(again.rewards, rewards[0])
        # In one list with a later one, too.
        both = env.step_batch(np.array([0, 1]), [narrow, states[1]])
        assert both.rewards[0] == rewards[0][0]
        # An equal env that has not widened yet takes the wide rows.
        actions = np.array([[0] * 5, [1] * 5])
        with env.clone() as other:
            far = other.rollout_batch(actions, states)
        np.testing.assert_array_equal(far.rewards, env.rollout_batch(actions, states).rewards)


def test_rows_that_go_on_survive_a_widening():
    with GymEnv(Growing, autoreset=False) as env:
        env.reset(seed=0)
        rows = [env.step_batch(np.array([0])).rewards[0] for _ in range(20)]
        env.reset(seed=0)
        single = [env.step(0).reward for _ in range(20)]
    assert rows == single


class CounterPart(StatePart):
    """Codec of a user, written against the public names."""

    width = 8

    def __init__(self, env):
        self._env = env

    def capture(self, buffer, offset, end):
        buffer[offset : offset + 8] = self._env.count.to_bytes(8, "little")
        return offset + 8

    def restore(self, buffer, offset):
        self._env.count = int.from_bytes(buffer[offset : offset + 8], "little")
        return offset + 8


class Silent(Counter):
    """A counter without noise, so that the count is all there is."""

    def step(self, action):
        self.count += int(action) + 1
        return self._obs(), float(self.count), self.count >= 10, False, {}


@pytest.mark.slow
def test_a_registered_codec_is_used_here_and_in_workers(monkeypatch):
    monkeypatch.setattr(families, "_families", list(families._families))
    monkeypatch.setattr(families, "_custom", list(families._custom))
    plangym_ext.register(Silent.__module__, CounterPart, name="silent")
    with plangym_ext.ParallelEnv(Silent, n_workers=1) as env:
        assert methods(env.plan_env) == ["codec"]
        state, *_ = env.reset(seed=0)
        assert env.state_width == 48 + 8
        result = env.step_batch(np.array([1]), state[None])
        assert result.rewards[0] == 2.0
