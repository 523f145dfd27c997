"""Rows of native backends: one call a step, resets included, and what a vector env promises."""

from __future__ import annotations

import functools
import gc
import os
import sys
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from same_results import assert_same

import plangym_ext
from plangym_ext import Kernel
from plangym_ext.errors import InvalidAction, ResetNeeded
from plangym_ext.native.kernel.known import _registered, register_kernel
from plangym_ext.native.kernel.row_kernel import AUTORESET
from plangym_ext.registry import find_spec, make_gym

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*already returned term")]

NUM_ENVS = 5
IS_LONG = bool(os.environ.get("PYTEST_LONG"))
STEPS = 400 if IS_LONG else 50
MODES = list(AutoresetMode)
TAXI = next(name for name in ("Taxi-v4", "Taxi-v3") if name in gym.registry)

#: Those whose infos differ between step and reset; the others in `tox -e long`.
TOLD = {
    "CliffWalking-v1": {"max_episode_steps": 20},
    TAXI: {"max_episode_steps": 20},
    "plangym_ext/Sokoban-v0": {"dim": (6, 6), "num_boxes": 1, "max_episode_steps": 15},
    "Ant-v5": {"max_episode_steps": 12},
}
_ENDING = (
    *("CartPole-v1", "FrozenLake-v1", "plangym_ext/NarrowPath-v0", "Hopper-v5", "Walker2d-v5"),
    *("Humanoid-v5", "InvertedPendulum-v5", "InvertedDoublePendulum-v5"),
)
_ENDLESS = (
    *("Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"),
    *("plangym_ext/ChainMDP-v0", "HalfCheetah-v5", "Swimmer-v5", "Reacher-v5", "Pusher-v5"),
    "HumanoidStandup-v5",
)
OTHERS = {
    **{name: {} for name in _ENDING},
    **{name: {"max_episode_steps": 15} for name in _ENDLESS},
}
IDS = {**TOLD, **(OTHERS if IS_LONG else {})}


def make(name, **kwargs):
    return make_gym(find_spec(name), **kwargs)


def assert_equal_plays(ours, theirs, steps, seed=3):
    """The same calls on both, with resets by mask where endings are the caller's business."""
    theirs.action_space.seed(seed)
    assert_same(ours.reset(seed=seed), theirs.reset(seed=seed), "reset", types=False)
    for t in range(steps):
        actions = theirs.action_space.sample()
        expected = theirs.step(actions)
        assert_same(ours.step(actions), expected, f"step {t}", types=False)
        ended = expected[2] | expected[3]
        if ours.autoreset_mode == AutoresetMode.DISABLED and ended.any():
            found = [venv.reset(options={"reset_mask": ended}) for venv in (ours, theirs)]
            assert_same(*found, f"reset by mask after step {t}", types=False)


def forbid_single_rows(venv):
    """Make every further step or reset of the env proper an error."""

    def refuse(*args, **kwargs):
        raise AssertionError("a row was played by the env proper")

    venv.call(lambda env: vars(env.unwrapped).update(step=refuse, reset=refuse))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("name", IDS)
def test_rows_are_reset_as_by_sync_vector_env_and_without_the_env(name, mode):
    makes = [functools.partial(make, name, **IDS[name])] * NUM_ENVS
    theirs = SyncVectorEnv(makes, autoreset_mode=mode)
    with plangym_ext.make_vec(name, NUM_ENVS, autoreset_mode=mode, **IDS[name]) as ours:
        assert ours.backend in ("kernel", "mujoco")
        assert_equal_plays(ours, theirs, STEPS)
        # The resets are known to be right by now, and nothing else needs the env.
        forbid_single_rows(ours)
        ended = theirs.autoreset_mode == AutoresetMode.DISABLED
        for _ in range(0 if ended else 30):
            actions = theirs.action_space.sample()
            assert_same(ours.step(actions), theirs.step(actions), types=False)
    theirs.close()


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1"])
def test_rows_that_end_are_reset_by_the_loop_that_steps_them(name):
    with plangym_ext.make_vec(name, 64, autoreset_mode="same_step") as venv:
        venv.reset(seed=0)
        actions = np.ones(64, int)
        venv.step(actions)  # proves that the kernel resets rows as the env does
        env, calls = venv._backend._env, []
        run = env._run_loop
        env._run_loop = lambda *args: calls.append(bool(args[-1] & AUTORESET)) or run(*args)
        ended = 0
        for _ in range(30):
            _, _, terminations, truncations, infos = venv.step(actions)
            over = terminations | truncations
            np.testing.assert_array_equal(over, infos.get("_final_obs", np.zeros(64, bool)))
            ended += over.sum()
        assert ended > 64
        assert calls == [True] * 30


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1"])
def test_results_are_handed_out_again_once_the_caller_holds_them_no_longer(name):
    def arrays():
        return venv.step(venv.action_space.sample())[:4]

    with plangym_ext.make_vec(name, 8, autoreset_mode="same_step") as venv:
        venv.reset(seed=0)
        arrays()
        kept = []
        for t in range(40):
            found = arrays()
            # Of some steps the caller holds one array alone, or a view of it.
            held = found if t % 3 else [found[t % 4][2:]]
            kept.append((held, [array.copy() for array in held]))
            del found, held
        for held, copies in kept:
            assert all(map(np.array_equal, held, copies))
        del kept, held, copies
        places = {array.__array_interface__["data"] for _ in range(40) for array in arrays()}
        assert len(places) == 8


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1"])
def test_the_number_of_python_calls_does_not_depend_on_that_of_rows(name, mode):
    most = {}
    for num_envs in (16, 512):
        with plangym_ext.make_vec(name, num_envs, autoreset_mode=mode) as venv:
            venv.reset(seed=0)
            actions = np.ones(num_envs, int)
            venv.step(actions)  # compiles, or loads what is compiled
            counts, ended = [], np.zeros(num_envs, bool)
            for _ in range(40):
                calls, found = counted_calls(venv.step, actions)
                counts.append(calls)
                ended |= found[2]
            assert ended.all()
            most[num_envs] = max(counts)
    assert most[16] == most[512]


def counted_calls(function, *arguments):
    """Calls of Python and C functions that a call makes, and its result."""
    count = 0

    def note(_frame, event, _arg):
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # others' garbage may call functions, too
    sys.setprofile(note)
    try:
        result = function(*arguments)
    finally:
        sys.setprofile(None)
        gc.enable()
    return count, result


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_some_rows_are_stepped_as_on_the_serial_backend(mode):
    rng = np.random.default_rng(0)
    make_vec = functools.partial(plangym_ext.make_vec, "FrozenLake-v1", 6, autoreset_mode=mode)
    with make_vec() as ours, make_vec(backend="serial") as reference:
        assert_same(ours.reset(seed=0), reference.reset(seed=0), types=False)
        for t in range(60):
            rows = rng.permutation(6)[: rng.integers(1, 7)]
            actions = rng.integers(0, 4, len(rows))
            want = reference.step(actions, rows)
            assert_same(ours.step(actions, rows), want, f"step {t}", types=False)
            if mode == AutoresetMode.DISABLED and reference.ended.any():
                given = {"reset_mask": reference.ended}
                assert_same(ours.reset(options=given), reference.reset(options=given), types=False)
        # The generators went the same way, too.
        assert (ours.get_states() == reference.get_states()).all()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_results_are_the_callers_and_stay_as_they_are(mode):
    mask = np.arange(64) % 2 == 0
    with plangym_ext.make_vec("CartPole-v1", 64, autoreset_mode=mode) as venv:
        venv.reset(seed=0)
        results = []
        for _ in range(8):  # no episode is so short
            *arrays, _ = venv.step(np.ones(64, int))
            results.append((arrays, [array.copy() for array in arrays]))
        for arrays, copies in results:
            assert_same(arrays, copies)
            assert all(array.flags.writeable for array in arrays)
        before = results[-1][0][0].copy()
        for array in results[-1][0]:
            array.fill(0)
        obs, _ = venv.reset(options={"reset_mask": mask})
        assert (obs[~mask] == before[~mask]).all()
        assert (obs[mask] != before[mask]).any()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("name", ["CartPole-v1", "Hopper-v5"])
def test_a_step_that_is_refused_moves_nothing(name, mode):
    with plangym_ext.make_vec(name, 4, autoreset_mode=mode) as venv:
        venv.reset(seed=0)
        actions = np.zeros_like(venv.action_space.sample())
        venv.step(actions)
        before = venv.get_states()
        wrong = actions.copy()
        wrong[2] = 7
        for _ in range(2):
            with pytest.raises(InvalidAction, match="7"):
                venv.step(wrong)
            assert (venv.get_states() == before).all()
        first = venv.step(actions)
        venv.set_states(before)
        assert_same(venv.step(actions), first)


def test_actions_of_rows_that_are_reset_are_not_looked_at():
    with plangym_ext.make_vec("CartPole-v1", 8) as venv:
        venv.reset(seed=0)
        while not venv.ended.any():
            venv.step(np.ones(8, int))
        *_, rewards, terminations, _, _ = venv.step(np.where(venv.ended, 99, 1))
        assert (rewards == 0).any()
        assert not terminations[rewards == 0].any()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("name", ["FrozenLake-v1", "Hopper-v5"])
def test_lists_of_infos_are_those_of_the_serial_backend(name, mode):
    make_vec = functools.partial(plangym_ext.make_vec, name, 4, autoreset_mode=mode)
    with make_vec() as ours, make_vec(backend="serial") as reference:
        ours.list_infos = reference.list_infos = True
        assert_equal_plays(ours, reference, 40)


# An env of one's own whose kernel leaves things to the env -------------------------------


class Told(gym.Env):
    """Counts to `end`; pays NaN at `bad_at`; its infos say the count, as does a reset's."""

    observation_space = spaces.Box(0, 1e6, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, end=5, bad_at=-1):
        self.end, self.bad_at, self.count = end, bad_at, 0

    def _shown(self):
        return np.array([self.count], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._shown(), {"count": -1}

    def step(self, action):
        self.count += int(action) + 1
        reward = np.nan if self.count == self.bad_at else float(self.count)
        return self._shown(), reward, self.count >= self.end, False, {"count": self.count}

    def get_state(self):
        return np.frombuffer(self.count.to_bytes(8, "little"), np.uint8).copy()

    def set_state(self, state):
        self.count = int.from_bytes(state.tobytes(), "little")


class Counts(NamedTuple):
    end: int
    bad_at: int


def step(state, params, action, info):
    state["count"] += action + 1
    info["count"] = state["count"]
    reward = np.nan if state["count"] == params.bad_at else float(state["count"])
    return reward, state["count"] >= params.end, False


def reset(state, params):
    state["count"] = 0


def observe(state, params, obs):
    obs[0] = state["count"]


def right_info(state, params, info):
    info["count"] = -1


def wrong_info(state, params, info):
    info["count"] = 7


COUNT = np.dtype([("count", "<i8")])


@pytest.fixture
def told():
    """Registers `Told` with a kernel that has some more functions; gives the env's id."""
    before = dict(_registered)
    gym.register("test/Told-v0", Told)

    def register(**functions):
        def kernel(env):
            params = Counts(env.end, env.bad_at)
            return Kernel(COUNT, step, reset, observe, params, COUNT, **functions)

        register_kernel(Told, kernel)
        return "test/Told-v0"

    yield register
    del gym.registry["test/Told-v0"]
    _registered.clear()
    _registered.update(before)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("functions", [{}, {"reset_info": right_info}, {"reset_info": wrong_info}])
def test_infos_of_resets_are_the_envs_whatever_a_kernel_says(told, functions, mode):
    name = told(**functions)
    theirs = SyncVectorEnv([Told] * 4, autoreset_mode=mode)
    with plangym_ext.make_vec(name, 4, autoreset_mode=mode) as ours:
        assert ours.backend == "kernel"
        assert_equal_plays(ours, theirs, 30)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_values_that_a_kernel_does_not_judge_are_those_of_the_env(told, mode):
    name = told(reset_info=right_info)
    theirs = SyncVectorEnv([functools.partial(Told, bad_at=3)] * 4, autoreset_mode=mode)
    with plangym_ext.make_vec(name, 4, autoreset_mode=mode, invalid="off", bad_at=3) as ours:
        assert_equal_plays(ours, theirs, 30)


def test_what_rows_give_is_theirs_whatever_row_comes_next():
    with plangym_ext.make_vec("Hopper-v5", 3, backend="mujoco") as venv:
        obs, _ = venv.reset(seed=0)
        found = venv.call(lambda env: env.unwrapped.data.qpos)
        np.testing.assert_allclose([qpos[1] for qpos in found], obs[:, 0])


def test_a_call_that_sets_what_states_do_not_hold_is_refused():
    def lighter(env):
        env.unwrapped.gravity = 1.0

    with plangym_ext.make_vec("CartPole-v1", 2, backend="kernel") as venv:
        venv.reset(seed=0)
        with pytest.raises(ValueError, match=r"call: it has set gravity, .* backend='serial'"):
            venv.call(lighter)
        with pytest.raises(ValueError, match="'gravity' is not part of a state"):
            venv.call("set_wrapper_attr", "gravity", 5.0)
        assert venv.get_attr("gravity") == (9.8, 9.8)
        state = np.array([0.1, 0.0, 0.0, 0.0])
        for _ in range(2):  # the second time it is there already
            venv.set_attr("state", [state, state])
        assert venv.get_attr("state")[0].tolist() == state.tolist()


ASKED_TOO_EARLY = {
    "render": lambda venv: venv.render(),
    "state": lambda venv: venv.get_attr("state"),
    "generator": lambda venv: venv.np_random,
    "function": lambda venv: venv.call(lambda env: env.unwrapped.state),
    "move": lambda venv: venv.call(lambda env: env.reset() and None),
    "wrapped": lambda venv: venv.call("get_wrapper_attr", "state"),
}


@pytest.mark.parametrize("ask", ASKED_TOO_EARLY.values(), ids=list(ASKED_TOO_EARLY))
def test_rows_that_were_never_reset_show_nothing_of_the_env_proper(ask):
    with plangym_ext.make_vec("CartPole-v1", 2, render_mode="rgb_array") as venv:
        assert venv.backend == "kernel"
        with pytest.raises(ResetNeeded, match="row 0 was never reset, so it has no env"):
            ask(venv)
        # What is alike in all of them is told.
        assert venv.get_attr("gravity") == venv.call("get_wrapper_attr", "gravity") == (9.8, 9.8)
        assert venv.call(lambda env: env.unwrapped.gravity) == (9.8, 9.8)
        venv.reset(seed=0)
        ask(venv)
