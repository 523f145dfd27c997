"""Tests of `compile_env`: Python envs translated to kernels, equal bit for bit or refused."""

import copy
import functools

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import plangym_ext
from plangym_ext.errors import KernelDiffers, NoKernel, UnknownName, WrongKind


class Walk(gymnasium.Env):
    """What small envs do: types by turns, arrays in place, draws, tables, helpers."""

    moves = ((0, 1), (1, 0), (0, -1), (-1, 0))

    def __init__(self, size=5, wind=0.25, render_mode=None):
        self.size, self.wind, self.render_mode = size, wind, render_mode
        self.action_space = spaces.Discrete(4)
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.bonus = {0: 0.5, 1: 0.25}
        self.visits = np.zeros((size, size), np.int64)
        self.last = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = (0, 0)
        self.visits = np.zeros((self.size, self.size), np.int64)
        self.drift = self.np_random.uniform(-1, 1, size=2).astype(np.float32)
        self.last, self.count = None, 0
        self.small = np.zeros(2, np.uint8)
        return self._seen(), {"visits": 1}

    def _seen(self):
        row, col = self.place
        return np.array([row, col, *np.tanh(self.drift)], dtype=np.float32)

    def _moved(self, action):
        row, col = self.place
        step_row, step_col = self.moves[action]
        if self.np_random.random() < self.wind:
            step_col = -step_col
        for _ in range(self.np_random.integers(1, 3)):
            row = min(max(row + step_row, 0), self.size - 1)
            col = min(max(col + step_col, 0), self.size - 1)
        return row, col

    def step(self, action):
        before = self.place
        self.place = self._moved(action)
        row, col = self.place
        self.visits[row, col] += 1
        self.drift = np.clip(self.drift * 0.9 + np.sin(self.drift), -1.5, 1.5)
        self.count += 1
        reward = self.bonus[self.count % 2] if self.place != before else -1
        if self.last is not None and self.last == action:
            reward -= 0.1 * (self.count % 7) ** 2 / self.size
        self.last = action
        done = self.place == (self.size - 1, self.size - 1) or bool(self.drift[0] ** 2 > 2.2)
        if self.render_mode == "human":
            self.render()
        if self.count > 9000:  # which no comparison comes to
            self.rare()
        return self._seen(), reward, done, self.count >= 40, {"visits": int(self.visits[row, col])}

    def rare(self):
        if self.count == 9001:
            self.visits[0, :2] = self.drift * np.nan
        elif self.count == 9101:
            self.drift[0] = self.np_random.uniform(3, self.size - 5)
        elif self.count == 9201:
            self.drift[0] = self.np_random.normal(0, self.size - 9)
        else:
            self.small[0] = self.count


@pytest.fixture(scope="module")
def compiled_walk():
    made = plangym_ext.compile_env(Walk, steps=3000)
    gymnasium.register("CompiledWalk-v0", made, max_episode_steps=30)
    yield made
    del gymnasium.registry["CompiledWalk-v0"]


def test_rows_states_and_rollouts_are_those_of_the_env(compiled_walk):
    with (
        plangym_ext.make(compiled_walk, backend="kernel") as env,
        plangym_ext.make(compiled_walk, backend="serial") as reference,
    ):
        state, obs, _ = env.reset(seed=3)
        plain = Walk()
        assert np.array_equal(plain.reset(seed=3)[0], obs)
        actions = np.random.default_rng(0).integers(0, 4, (30, 50))
        states = np.repeat(state[None], 30, axis=0)
        found, wanted = env.rollout_batch(actions, states), reference.rollout_batch(actions, states)
        assert np.array_equal(found.states, wanted.states)
        assert np.array_equal(found.rewards, wanted.rewards)
        # A state is all that there is: the env goes on from it as if it had been there.
        env.set_state(found.states[4])
        after = env.step_batch(np.ones(1, int), found.states[4][None])
        assert np.array_equal(env.step(1)[0], after.obs[0])


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("count", [9000, 9100, 9200, 9300])
def test_what_fits_no_int_or_is_refused_by_numpy_is_left_to_the_env(compiled_walk, count):
    with plangym_ext.make(compiled_walk) as env:
        env.reset(seed=3)
        env.gym_env.unwrapped.count = count
        row = env.get_state()[None]
        if count > 9000:
            with pytest.raises((ValueError, OverflowError), match=r"high - low|scale|uint8"):
                env.step_batch(np.ones(1, int), row)
            return
        env.set_state(env.step_batch(np.ones(1, int), row).states[0])
        plain = Walk()
        plain.reset(seed=3)
        plain.count = count
        plain.step(1)
        assert np.array_equal(env.gym_env.unwrapped.visits, plain.visits)


@pytest.mark.usefixtures("compiled_walk")
def test_vector_env_is_the_envs():
    rows = 5
    limited = functools.partial(gymnasium.wrappers.TimeLimit, Walk(), max_episode_steps=30)
    sync = gymnasium.vector.SyncVectorEnv([copy.deepcopy(limited) for _ in range(rows)])
    with plangym_ext.make_vec("CompiledWalk-v0", rows) as vec:
        assert vec.backend == "kernel"
        assert np.array_equal(vec.reset(seed=1)[0], sync.reset(seed=1)[0])
        sampler = np.random.default_rng(0)
        for _ in range(80):
            actions = sampler.integers(0, 4, rows)
            found, wanted = vec.step(actions), sync.step(actions)
            for one, other in zip(found[:4], wanted[:4], strict=True):
                assert np.array_equal(one, other)
            assert np.array_equal(found[4]["visits"], wanted[4]["visits"])
    sync.close()


def test_a_planner_searches_on_it(compiled_walk):
    from plangym_ext.planners import MCTS

    with plangym_ext.make(compiled_walk) as env:
        state, *_ = env.reset(seed=0)
        assert env.simulator() is not None
        assert MCTS(num_simulations=50).plan(env, state, rng=0).action in range(4)


@pytest.mark.parametrize("name", ["MountainCarContinuous-v0"])
def test_envs_of_gymnasium(name):
    assert issubclass(plangym_ext.compile_env(name, steps=2000), gymnasium.Env)


class Refused(Walk):
    """Base of envs that cannot be translated; `step` calls `odd`."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.memory = []
        return self._seen(), {"visits": 1}

    def step(self, action):
        self.odd(action)
        return self._seen(), 0.0, False, False, {"visits": 1}


def _grows(self, action):
    self.memory.append(action)


def _keys(self, action):
    self.bonus[action] = 1


def _text(self, action):
    self.note = f"moved {action}"


def _library(self, action):
    self.drift = np.linalg.norm(self.drift)


def _global_draw(self, action):
    self.count = np.random.randint(3)  # noqa: NPY002


def _calls_itself(self, action):
    self.odd(action + 1)


def _other_object(self, action):
    self.action_space.n = 3


def _reads_file(self, action):
    with open("no such file") as file:
        self.count = len(file.read())


def _two_names(self, action):
    self.other = self.visits
    self.other[0, 0] += 1


class _Shared:
    """A descriptor that keeps one value for all envs."""

    value = 0

    def __get__(self, obj, owner=None):
        return self.value

    def __set__(self, obj, value):
        self.value = value


def _descriptor(self, action):
    self.shared = self.shared + action


def _large_sum(self, action):
    self.count = np.sum(np.tanh(np.zeros(9) + self.count))


def _adds_truths(self, action):
    self.count = (self.drift[0] > 0) + (self.drift[1] > 0)


def _adds_a_half(self, action):
    self.visits += 0.5


REFUSALS = {
    _grows: "`self.memory.append(action)`",
    _keys: "`self.bonus[action] = 1`",
    _text: "a text that is made as it runs",
    _library: "numpy.linalg.norm",
    _global_draw: "randint",
    _calls_itself: "calls itself",
    _other_object: "changes an object other than the env",
    _reads_file: "a with statement",
    _two_names: "two names",
    _descriptor: "whose class has code for it",
    _large_sum: "whose order is numpy's own",
    _adds_truths: "of two truths",
    _adds_a_half: "in place",
}


@pytest.mark.parametrize("odd", REFUSALS, ids=lambda one: one.__name__)
def test_refusals_name_the_line(odd):
    env = type("Odd", (Refused,), {"odd": odd, "shared": _Shared()})
    with pytest.raises(NoKernel, match=r"test_translate\.py, line \d+: `") as caught:
        plangym_ext.compile_env(env)
    assert REFUSALS[odd] in str(caught.value)


def test_what_differs_is_refused():
    class Hidden(Walk):
        """Its steps depend on what no reset begins anew, and no attribute holds."""

        counts = [0]  # noqa: RUF012 - that is what is wrong with it

        def reset(self, *, seed=None, options=None):
            self.counts[0] = self.counts[0]
            return super().reset(seed=seed)

    with pytest.raises((NoKernel, KernelDiffers)):
        plangym_ext.compile_env(Hidden)


def test_what_is_no_env_is_refused():
    with pytest.raises(WrongKind, match="expected a class of gymnasium envs"):
        plangym_ext.compile_env(dict)
    for name in ("no_such_module_at_all:Env", ":", "math:"):
        with pytest.raises(UnknownName, match="compile_env"):
            plangym_ext.compile_env(name)
