"""Tests of `compile_env`: Python envs translated to kernels, equal bit for bit or refused."""

import copy
import functools
import math

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import plangym_ext
from plangym_ext.errors import (
    IncompleteState,
    InvalidOption,
    KernelDiffers,
    NoKernel,
    UnknownName,
    WrongKind,
)


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


def _inverts(self, action):
    self.count = int(~(self.count > 3))


def _is_true(self, action):
    self.count = int((self.drift[0] > 0) is True)


def _is_bool(self, action):
    self.count = int(isinstance(self.drift[0] > 0, bool))


def _draws_third(self, action):
    self.count = int(0 < action < self.np_random.integers(4))


def _draws_until(self, action):
    self.count = int(any(self.np_random.random() < 0.5 for _ in range(3)))


def _draws_place(self, action):
    self.visits[self.np_random.integers(3), 0] += 1


def _while_else(self, action):
    while self.count < action:
        self.count += 1
    else:
        self.count = 0


def _finally(self, action):
    try:
        return action
    finally:
        self.count += 1


def _two_locals(self, action):
    first = np.zeros(3)
    second = first
    second[0] = action
    self.count = int(first[0])


def _slice_of_local(self, action):
    first = np.zeros(3)
    second = first[1:]
    second[0] = action
    self.count = int(first[1])


def _one_of_two(self, action):
    first, second = np.zeros(3), np.ones(3)
    third = first if action else second
    third[0] = 5
    self.count = int(first[0])


def _given_back(self, action):
    first = np.zeros(3)
    second = _same(first)
    second[0] = action
    self.count = int(first[0])


def _same(array):
    return array


def _two_lists(self, action):
    first = [1, 2]
    second = first
    second.append(action)
    self.count = len(first)


def _two_dicts(self, action):
    first = {"a": 1}
    second = first
    second["a"] = action
    self.count = first["a"]


def _at_once(self, action):
    first = second = [0, 0]
    first[0] = action
    self.count = second[0]


def _appends(self, action):
    first = [1, 2]
    _append(first, action)
    self.count = len(first)


def _append(numbers, number):
    numbers.append(number)


def _inner_list(self, action):
    first = [1]
    second = [first, first]
    first.append(action)
    self.count = len(second[0])


def _swaps(self, action):
    self.drift, self.small = self.small, self.drift


def _two_fields(self, action):
    one = np.zeros(2)
    self.first = one
    self.second = one
    _touch(self)


def _touch(self):
    self.first[0] += 1


def _in_a_tuple(self, action):
    self.visits[0, 0] += 1
    self.pair = (self.visits, 1)


def _old_array(self, action):
    self.small[0] = action
    before = self.small
    _renew(self)
    self.count = int(before[0])


def _renew(self):
    self.small = np.ones(2, np.uint8)


def _stored_and_kept(self, action):
    one = np.zeros(2, np.uint8)
    self.small = one
    self.small[0] += 1
    self.count = int(one[0])


def _of_the_class(self, action):
    self.table[0] += 1


def _spec(self, action):
    self.count = int(self.spec is None)


def _made_when_asked(self, action):
    self.count = self.not_there


def _transposed_sum(self, action):
    turned = np.array([[self.wind, 0.1, 0.7], [0.3, 0.2, action]]).T
    self.drift = np.zeros(2) + np.sum(turned)


REFUSALS = {
    _inverts: "~ of a truth",
    _is_true: "one object",
    _is_bool: "only known as it runs",
    _draws_third: "after another one, which changes something",
    _draws_until: "up to the first one",
    _draws_place: "changes something as it is found",
    _while_else: "an else of a loop",
    _finally: "a finally",
    _two_locals: "other names",
    _slice_of_local: "other names",
    _one_of_two: "other names",
    _given_back: "other names",
    _two_lists: "grows where it may not",
    _two_dicts: "two names for one dict",
    _at_once: "two names for one new object",
    _appends: "grows where it may not",
    _inner_list: "grows where it may not",
    _swaps: "another name still refers",
    _two_fields: "two names",
    _in_a_tuple: "two names",
    _old_array: "another name still refers",
    _stored_and_kept: "another name",
    _of_the_class: "all its envs change",
    _spec: "given after it was made",
    _made_when_asked: "made when it is asked for",
    _transposed_sum: "order of memory",
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


def _asked(self, name):
    if name != "not_there":
        raise AttributeError(name)
    return self.count


@pytest.mark.parametrize("odd", REFUSALS, ids=lambda one: one.__name__)
def test_refusals_name_the_line(odd):
    names = {"odd": odd, "shared": _Shared(), "table": np.zeros(2), "__getattr__": _asked}
    env = type("Odd", (Refused,), names)
    with pytest.raises(NoKernel, match=r"test_translate\.py, line \d+: `") as caught:
        plangym_ext.compile_env(env)
    assert REFUSALS[odd] in str(caught.value)


class Edges(gymnasium.Env):
    """Its steps after the hundredth do what no comparison comes to, each something else."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    table = {0: 1.0, 1: 2.0}  # noqa: RUF012 - no step changes it

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.whole, self.real = 0, 1, 0.5
        return np.zeros(1), {}

    def step(self, action):
        self.steps += 1
        self.whole, self.real = self.whole + 0, self.real * 1.0
        return np.array([self.odd(self.steps)]), 0.0, self.steps > 20, False, {}

    def odd(self, steps):
        found = 0.25
        if steps == 101:
            try:
                found = min(math.exp(self.real), 7.0)
            except OverflowError:
                found = -5.0
        elif steps == 102:
            found = float(self.whole + self.whole)
        elif steps == 103:
            found = float(int(self.real) + int(self.real))
        elif steps == 104:
            found = self.whole / 3
        elif steps == 105:
            found = float(self.whole > float(2**53))
        elif steps == 106:
            found = float(np.array([self.real]).astype(np.uint8)[0])
        elif steps == 107:
            found = float(1000 >> self.whole)
        elif steps == 108:
            try:
                found = self.table[self.whole]
            except KeyError:
                found = -3.0
        elif steps == 109:
            found = float(np.array_equal(np.array([self.whole, self.whole]), self.whole))
        return found


@pytest.fixture(scope="module")
def compiled_edges():
    return plangym_ext.compile_env(Edges, steps=1000)


@pytest.mark.parametrize(
    ("steps", "name", "value"),
    [
        (101, "real", 1000.0),
        (102, "whole", int(1.7 * 2**62)),
        (103, "real", 8.9e18),
        (104, "whole", 2**60 + 12345),
        (105, "whole", 2**53 + 1),
        (106, "real", 3.0e10),
        (107, "whole", 80),
        (108, "whole", -1),
        (109, "whole", 2),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_rare_steps_give_what_the_env_gives(compiled_edges, steps, name, value):
    plain = Edges()
    plain.reset(seed=0)
    plain.steps = steps - 1
    setattr(plain, name, value)
    with plangym_ext.make(compiled_edges, backend="kernel") as env:
        env.reset(seed=0)
        for key in ("steps", name):
            setattr(env.gym_env.unwrapped, key, getattr(plain, key))
        found = env.step_batch(np.ones(1, int), env.get_state()[None])
    assert found.obs[0] == plain.step(1)[0]


def test_an_int_beyond_64_bits_is_no_state(compiled_edges):
    with plangym_ext.make(compiled_edges) as env:
        env.reset(seed=0)
        env.gym_env.unwrapped.whole = 2**70
        with pytest.raises(IncompleteState, match=r"whole = .*64 bits"):
            env.get_state()


def test_a_reward_may_be_an_array_of_one_number():
    class Vector(gymnasium.Env):
        """Gives its reward in an array."""

        action_space = spaces.Discrete(2)
        observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        place = 0.0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.place = 0.0
            return np.zeros(1), {}

        def step(self, action):
            self.place += action
            return np.array([self.place]), np.array([0.5]), self.place > 9, False, {}

    assert issubclass(plangym_ext.compile_env(Vector, steps=1000), Vector)


def test_what_differs_is_refused():
    class Hidden(Walk):
        """Its steps depend on what no reset begins anew, and no attribute holds."""

        counts = [0]  # noqa: RUF012 - that is what is wrong with it

        def reset(self, *, seed=None, options=None):
            self.counts[0] = self.counts[0]
            return super().reset(seed=seed)

    with pytest.raises((NoKernel, KernelDiffers)):
        plangym_ext.compile_env(Hidden)


def test_at_least_one_step_is_compared():
    for steps in (0, -1, 1.5, True, None):
        with pytest.raises(InvalidOption, match="steps"):
            plangym_ext.compile_env(Edges, steps=steps)


def test_an_env_of_the_old_interface_is_refused():
    class Old(Edges):
        """Its reset takes no seed."""

        def reset(self):
            return super().reset()

    with pytest.raises(WrongKind, match="reset must take the keywords"):
        plangym_ext.compile_env(Old)


def test_what_is_no_env_is_refused():
    with pytest.raises(WrongKind, match="expected a class of gymnasium envs"):
        plangym_ext.compile_env(dict)
    for name in ("no_such_module_at_all:Env", ":", "math:"):
        with pytest.raises(UnknownName, match="compile_env"):
            plangym_ext.compile_env(name)
