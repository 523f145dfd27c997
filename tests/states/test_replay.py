"""States that are played again: what is recorded, continued, rebuilt and refused."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import DamagedState, IncompleteState, NotExact
from plangym_ext.states import families, replay
from plangym_ext.states.playback import Playback
from plangym_ext.states.replay import Recorder, ReplayPart

SPACE = gym.spaces.Dict(
    {
        "push": gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
        "gear": gym.spaces.Discrete(5, start=-2),
        "switches": gym.spaces.MultiBinary(3),
        "none": gym.spaces.Box(0.0, 1.0, (0,), np.float32),
    }
)


class Sum(gym.Env):
    """Adds up what it is told, in a generator that cannot be copied."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(300)

    def __init__(self):
        self.steps = self.resets = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        self.total = (options or {}).get("start", 0.0)
        self.noise = (self.np_random.random() for _ in iter(int, 1))
        return self._obs(), {}

    def step(self, action):
        if isinstance(action, np.integer) and action == 299:
            self.total = np.nan
            raise RuntimeError("broken on the way")
        self.steps += 1
        self.total += self.worth(action) * next(self.noise)
        return self._obs(), self.total, False, False, {}

    def worth(self, action):
        return float(action)

    def _obs(self):
        return np.array([self.total])


class Nested(Sum):
    """Takes a dict, and spoils it."""

    action_space = SPACE

    def worth(self, action):
        assert action["push"].dtype == np.float32
        assert action["none"].shape == (0,)
        worth = float(action["push"][0]) + 2.0 * int(action["gear"]) + action["switches"].sum()
        action["push"][:] = 0.0
        return worth


class Empty(Sum):
    """Its actions hold nothing, and each of them still is a step."""

    action_space = gym.spaces.Box(0.0, 1.0, (0,), np.float32)

    def worth(self, action):
        return 1.0


class Used(Sum):
    """Every reset leaves a trace that the next episode feels."""

    def __init__(self):
        super().__init__()
        self.wear = 0
        self.paint = 0.0

    def reset(self, *, seed=None, options=None):
        self.wear += 1
        result = super().reset(seed=seed, options=options)
        if not (options or {}).get("keep_paint"):
            self.paint = float(self.np_random.random())
        return result

    def worth(self, action):
        return float(action) + self.wear + self.paint


class UsedPlayback(Playback):
    """Takes the wear away and brings the paint along."""

    def carried(self, options):
        return self._env.paint if (options or {}).get("keep_paint") else None

    def prepare(self, carried):
        self._env.wear = 0
        if carried is not None:
            self._env.paint = carried


@pytest.fixture
def env():
    with GymEnv(Sum, autoreset=False) as env:
        env.reset(seed=1)
        yield env


def part_of(env) -> ReplayPart:
    return env.codec.parts[-1]


def spent(env, state) -> tuple[int, int]:
    """Rebuilds and steps that restoring `state` takes."""
    count = part_of(env).count
    before = (count.rebuilds, count.steps)
    env.set_state(state)
    return count.rebuilds - before[0], count.steps - before[1]


def walk(env, actions):
    return [env.step(action, return_state=True).state for action in actions]


# What restoring costs ---------------------------------------------------------------


def test_a_live_episode_that_is_a_prefix_is_continued(env):
    states = walk(env, [5, 6, 7, 8])
    assert spent(env, states[1]) == (1, 2)
    assert spent(env, states[1]) == (0, 0)
    assert spent(env, states[3]) == (0, 2)
    env.set_state(states[1])
    env.step(7)
    assert spent(env, states[3]) == (0, 1)
    # As deep as before, but on another branch.
    env.set_state(states[1])
    env.step(9)
    assert spent(env, states[3]) == (1, 4)
    # The same actions after another reset are another episode.
    env.reset(seed=2)
    assert spent(env, states[0]) == (1, 1)


def test_steps_of_the_simulator_are_as_many_as_reported(env):
    states = walk(env, range(10))
    base, before = env.gym_env.unwrapped, part_of(env).count.steps
    steps = base.steps
    for i in (9, 3, 3, 5, 0):
        env.set_state(states[i])
    assert base.steps - steps == part_of(env).count.steps - before == 4 + 0 + 2 + 1
    assert part_of(env).count.restores >= 5


def test_depth_is_that_of_the_episode(env):
    states = walk(env, range(3))
    assert part_of(env).depth == 3
    env.set_state(states[0])
    assert part_of(env).depth == 1
    env.reset()
    assert part_of(env).depth == 0


# Limits -------------------------------------------------------------------------------


def test_an_episode_that_is_too_long_is_stopped_before_the_step(env, monkeypatch):
    monkeypatch.setattr(replay, "MAX_DEPTH", 3)
    *_, last = walk(env, [1, 2, 3])
    with pytest.raises(IncompleteState, match=r"lasted 3 steps.*at most 3.*max_episode_steps"):
        env.step(4)
    # Nothing has happened.
    assert env.get_state().tobytes() == last.tobytes()
    env.reset()
    env.step(4)


def test_a_history_that_cannot_be_one_is_refused(monkeypatch):
    recorder = Recorder(Sum())
    recorder.reset(seed=0)
    assert recorder.item == 8
    with pytest.raises(DamagedState, match=r"actions of 8 bytes each; got 9 bytes"):
        recorder.become(recorder.origin, bytes(9))
    monkeypatch.setattr(replay, "MAX_DEPTH", 3)
    with pytest.raises(DamagedState, match=r"at most 3 actions.*got 32 bytes"):
        recorder.become(recorder.origin, bytes(32))
    assert recorder.unwrapped.steps == 0


# Resets -------------------------------------------------------------------------------


def test_episodes_without_a_seed_restore_elsewhere(env):
    env.reset()
    env.reset(options={"start": 4.0})
    env.step(3)
    state = env.get_state()
    wanted = [env.step(action).reward for action in (1, 2)]
    with env.clone() as other:
        other.set_state(state)
        assert [other.step(action).reward for action in (1, 2)] == wanted
        # The random stream goes on in the next episode as well.
        assert env.reset()[0].tobytes() == other.reset()[0].tobytes()


def test_reset_options_must_be_plain_data(env):
    before = env.get_state()
    with pytest.raises(IncompleteState, match=r"reset.*plain data"):
        env.reset(seed=0, options={"start": object()})
    assert env.get_state().tobytes() == before.tobytes()


def test_long_reset_options_widen_the_rows(env):
    width = env.state_width
    state, *_ = env.reset(seed=0, options={"start": 2.0, "why": "x" * 20_000})
    assert env.state_width > width
    env.step(1)
    env.set_state(state)
    assert env.gym_env.unwrapped.total == 2.0


# Actions ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Nested, Empty])
def test_actions_of_any_space_are_played_again(make):
    with GymEnv(make, autoreset=False) as env:
        assert part_of(env).method == "replay"
        report = plangym_ext.check_env(env, num_steps=20)
        assert report.exact, report


def test_bytes_of_an_action_are_as_few_as_the_space_allows():
    assert Recorder(Nested()).item == 2 * 4 + 8 + 3
    assert Recorder(Empty()).item == 1
    small = Sum()
    small.action_space = gym.spaces.Discrete(4)
    assert Recorder(small).item == 1


def test_an_action_that_the_space_cannot_hold_is_refused_before_the_step():
    recorder = Recorder(Empty())
    recorder.unwrapped.action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    recorder = Recorder(recorder.unwrapped)
    recorder.reset(seed=0)
    with pytest.raises(IncompleteState, match=r"0\.1.*float32 without loss"):
        recorder.step(np.array([0.1]))
    assert recorder.unwrapped.steps == 0
    recorder.step(np.array([0.5]))


# Faults -------------------------------------------------------------------------------


def test_after_a_step_that_raised_there_is_no_state_until_one_is_set(env):
    (state,) = walk(env, [5])
    wanted = env.step(6).reward
    with pytest.raises(RuntimeError, match="broken"):
        env.step(299)
    with pytest.raises(IncompleteState, match=r"step of Sum raised.*Reset it, or set a state"):
        env.get_state()
    # The half step is not taken for the end of the recorded episode.
    assert spent(env, state) == (1, 1)
    assert env.step(6).reward == wanted


def test_after_a_replay_that_raised_the_next_one_starts_anew(env, monkeypatch):
    states = walk(env, [5, 6])
    wanted = env.step(7).reward
    env.reset(seed=3)
    monkeypatch.setattr(Sum, "worth", lambda self, action: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        env.set_state(states[1])
    monkeypatch.undo()
    assert spent(env, states[1]) == (1, 2)
    assert env.step(7).reward == wanted


def test_an_env_that_says_it_is_not_deterministic_is_refused():
    def make():
        env = Sum()
        env.spec = EnvSpec("Dice-v0", entry_point=Sum, nondeterministic=True)
        return env

    with pytest.raises(IncompleteState, match="Dice-v0 says that it is not deterministic"):
        GymEnv(make)


# Families that need more than a reset -------------------------------------------------


@pytest.fixture
def used_family(monkeypatch):
    monkeypatch.setattr(families, "_families", list(families._families))
    monkeypatch.setattr(families, "_custom", list(families._custom))
    plangym_ext.register(Used.__module__, None, name="used", playback=UsedPlayback)


def test_without_its_playback_a_used_env_is_refused():
    with pytest.raises(IncompleteState, match=r"replay: .*shows something else"):
        GymEnv(Used)


@pytest.mark.usefixtures("used_family")
def test_playback_makes_live_and_replayed_episodes_begin_alike():
    with GymEnv(Used) as env, GymEnv(Used) as other:
        report = plangym_ext.check_env(env, num_steps=20)
        assert report.exact, report
        env.reset(seed=5)
        # What a reset takes over from the episode before is part of the state.
        env.reset(options={"keep_paint": True})
        env.step(3)
        state = env.get_state()
        other.reset(seed=77)
        other.set_state(state)
        assert other.step(4).reward == env.step(4).reward
        assert other.gym_env.unwrapped.paint == env.gym_env.unwrapped.paint


@pytest.mark.usefixtures("used_family")
def test_a_family_with_a_playback_has_no_other_ways():
    with pytest.raises(IncompleteState, match="no approximate codec"):
        GymEnv(Used, capture="approximate")
    with pytest.raises(IncompleteState, match="no exact codec"):
        GymEnv(Used, capture="codec")


def test_versions_are_part_of_what_a_state_depends_on():
    cart_pole = gym.make("CartPole-v1").unwrapped
    assert Playback(cart_pole).identity() == {"gymnasium": gym.__version__}
    assert Playback(Sum()).identity() == {}


class Unsteady(Sum):
    """Goes elsewhere when it is turned: what it does is not in its seed and actions."""

    turned = 0.0

    def worth(self, action):
        return float(action) + Unsteady.turned


@pytest.mark.parametrize("steps", [1, 5])
def test_a_replay_that_leads_elsewhere_is_told(steps, monkeypatch):
    with GymEnv(Unsteady, capture="replay") as env:
        start, *_ = env.reset(seed=0)
        for _ in range(steps):
            env.step(1)
        state = env.get_state()
        env.set_state(start)
        monkeypatch.setattr(Unsteady, "turned", 0.5)
        with pytest.raises(NotExact, match=f"after {steps} steps? Unsteady shows something else"):
            env.set_state(state)
        monkeypatch.setattr(Unsteady, "turned", 0.0)
        env.set_state(state)
        assert env.get_state().tobytes() == state.tobytes()


class Legacy(Sum):
    """Draws from a generator of numpy's old kind, as envs of dm_control do."""

    def reset(self, *, seed=None, options=None):
        if seed is not None or not isinstance(self._np_random, np.random.RandomState):
            self._np_random = np.random.RandomState(seed or 0)
        return super().reset(options=options)


def test_resets_without_a_seed_draw_from_a_generator_of_the_old_kind():
    with GymEnv(Legacy, capture="replay") as env:
        assert env.exact
        env.reset(seed=3)
        env.step(5)
        state, *_ = env.reset()
        shown = env.step(7)
        with env.clone() as other:
            other.set_state(state)
            np.testing.assert_array_equal(other.step(7)[1], shown[1])
    recorder = Recorder(Legacy())
    recorder.reset(seed=3)
    recorder.reset()
    of_pcg = replay.random_bytes(np.random.default_rng(0))
    for start in (of_pcg, of_pcg[:-1], b"M", b""):
        forged = replay.plain.encode(("generator", start, None, None))
        with pytest.raises(DamagedState, match="that is no reset"):
            recorder.begin(forged)


class Unseeded(Sum):
    """Has no generator that a reset without a seed could be played from."""

    np_random = None


def test_a_generator_that_is_none_of_numpys_is_named():
    recorder = Recorder(Unseeded())
    with pytest.raises(IncompleteState, match="np_random of Unseeded must be a generator of numpy"):
        recorder.reset()
