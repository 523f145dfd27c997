"""The kernel backend: what it refuses, what it checks, what it leaves to the env."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
import warnings
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from clock_bounds import within
from gymnasium import spaces

import plangym_ext
from plangym_ext import Kernel, KernelEnv
from plangym_ext.core.compiling.kernel_cache import cache_folder
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import (
    DamagedState,
    EnvClosed,
    ForeignState,
    InvalidAction,
    InvalidObservation,
    KernelDiffers,
    NoKernel,
)
from plangym_ext.native.kernel import known
from plangym_ext.native.kernel.known import _registered, register_kernel

# An env of one's own, and its kernel ------------------------------------------------


class CounterEnv(gym.Env):
    """Adds 1 or 2 to a count that ends at 10; `bad_at` pays what is not a number."""

    def __init__(self, end=10, bad_at=-1, huge_at=-1):
        self.end, self.bad_at, self.huge_at = end, bad_at, huge_at
        self.observation_space = spaces.Box(0, 1e6, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.count = 0

    def _obs(self):
        first = np.inf if self.count == self.huge_at else self.count
        return np.array([first, self.end], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._obs(), {}

    def step(self, action):
        self.count += int(action) + 1
        reward = np.nan if self.count == self.bad_at else float(self.count)
        return self._obs(), reward, self.count >= self.end, False, {}

    def get_state(self):
        return np.frombuffer(self.count.to_bytes(8, "little"), np.uint8).copy()

    def set_state(self, state):
        self.count = int.from_bytes(state.tobytes(), "little")


class Counter(NamedTuple):
    end: int
    bad_at: int
    huge_at: int


def step(state, params, action, info):
    state["count"] += action + 1
    reward = np.nan if state["count"] == params.bad_at else float(state["count"])
    return reward, state["count"] >= params.end, False


def reset(state, params):
    state["count"] = 0


def observe(state, params, obs):
    obs[0] = np.inf if state["count"] == params.huge_at else state["count"]
    obs[1] = params.end


COUNT = np.dtype([("count", "<i8")])


def counter_kernel(env, **changes):
    params = Counter(env.end, env.bad_at, env.huge_at)
    fields = {"state": COUNT, "step": step, "reset": reset, "observe": observe, "params": params}
    return Kernel(**{**fields, **changes})


def counter_env(**arguments):
    return GymEnv(lambda: CounterEnv(**arguments), name="Counter")


@pytest.fixture
def register():
    """`register_kernel`, undone afterwards."""
    before = dict(_registered)
    yield register_kernel
    _registered.clear()
    _registered.update(before)


@pytest.mark.slow
def test_a_registered_kernel_is_chosen_by_make(register):
    gym.register("test/Counter-v0", CounterEnv)
    try:
        with plangym_ext.make("test/Counter-v0", n_workers=0) as env:
            assert env.backend == "serial"
        register(CounterEnv, counter_kernel)
        with plangym_ext.make("test/Counter-v0", end=5) as env:
            assert env.backend == "kernel"
            state, *_ = env.reset(seed=0)
            found = env.rollout_batch(np.ones((3, 9), int), np.stack([state] * 3))
            # 2 + 4 + 6: three steps, the third of which gets past 5.
            assert found.rewards[0].tolist() == [2, 4, 6] + [0] * 6
            assert found.steps.tolist() == [3, 3, 3]
    finally:
        del gym.registry["test/Counter-v0"]


def test_only_envs_can_have_kernels(register):
    with pytest.raises(TypeError, match=r"expected a gymnasium.Env class; got <class 'int'>"):
        register(int, counter_kernel)
    register(CounterEnv, lambda env: "no kernel")
    with pytest.raises(TypeError, match="must return a Kernel; got 'no kernel'"):
        KernelEnv(counter_env())


# Refusals when it is made ------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "match"),
    [
        (lambda: plangym_ext.make("Blackjack-v1", backend="serial"), "no kernel is known"),
        (
            lambda: GymEnv(lambda: gym.wrappers.TimeAwareObservation(gym.make("CartPole-v1"))),
            "does not know the wrapper TimeAwareObservation",
        ),
        (
            lambda: GymEnv(lambda: gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 5)),
            "one TimeLimit only",
        ),
        (
            lambda: plangym_ext.make("CartPole-v1", backend="serial", capture="snapshot"),
            "its state is captured as plain",
        ),
        (
            lambda: plangym_ext.make("Pendulum-v1", backend="serial", g=np.float32(9.8)),
            "takes g as a Python number; got float32",
        ),
        (
            lambda: plangym_ext.make("FrozenLake-v1", backend="serial", success_rate=1),
            "probabilities that are Python floats",
        ),
    ],
)
def test_what_a_kernel_does_not_know_is_refused_with_the_reason(env, match):
    made = env()
    with pytest.raises(NoKernel, match=match):
        KernelEnv(made)
    made.close()


def test_a_class_that_derives_from_a_known_one_has_no_kernel():
    class Heavier(type(gym.make("CartPole-v1").unwrapped)):
        pass

    with GymEnv(Heavier) as env, pytest.raises(NoKernel, match="Heavier: no kernel is known"):
        KernelEnv(env)


def test_state_and_infos_of_a_kernel_must_be_the_envs():
    env = counter_env()
    wide = np.dtype([("count", "<i8"), ("more", "u1")])
    with pytest.raises(NoKernel, match="takes 8 bytes, that of the kernel 9"):
        KernelEnv(env, counter_kernel(env.gym_env, state=wide))
    info = np.dtype([("lives", "<i8")])
    with pytest.raises(NoKernel, match=r"must be the env's, \[\]; got \[\('lives'"):
        KernelEnv(env, counter_kernel(env.gym_env, info=info))


@pytest.mark.parametrize("threads", [0, -1, True, 1.5])
def test_threads_must_count(threads):
    with pytest.raises(ValueError, match="threads must be an integer >= 1"):
        KernelEnv(plangym_ext.make("CartPole-v1", backend="serial"), threads=threads)


# Refusals of a call ------------------------------------------------------------------


@pytest.fixture
def cart_pole():
    with plangym_ext.make("CartPole-v1", backend="kernel") as env:
        env.warm_up()
        yield env


def test_bad_actions_are_refused(cart_pole):
    state, *_ = cart_pole.reset(seed=0)
    for actions in (np.array([0, 2]), np.array([-1, 0]), np.array([0.5, 0.5]), np.array([0])):
        with pytest.raises(InvalidAction):
            cart_pole.step_batch(actions, np.stack([state, state]))


def test_damaged_and_foreign_states_are_refused_by_their_row(cart_pole):
    state, *_ = cart_pole.reset(seed=0)
    states = np.repeat(state[None], 5, axis=0)
    for byte in range(state.size):
        damaged = states.copy()
        damaged[3, byte] ^= 16
        with pytest.raises((DamagedState, ForeignState), match=r"states\[3\]"):
            cart_pole.step_batch(np.zeros(5, int), damaged)
    with plangym_ext.make("CartPole-v1", max_episode_steps=9) as other:
        foreign, *_ = other.reset(seed=0)
    with pytest.raises(ForeignState):
        cart_pole.step_batch(np.zeros(1, int), foreign[None])
    with pytest.raises(DamagedState):
        cart_pole.step_batch(np.zeros(1, int), state[None, :-8])


@pytest.mark.parametrize("squares", [-1, 16, 2**62])
def test_a_sealed_state_outside_the_table_is_not_stepped(squares):
    with plangym_ext.make("FrozenLake-v1", backend="kernel") as env:
        state, *_ = env.reset(seed=0)
        row = state[None].copy()
        # TimeLimit's 8 bytes, flags, action and facing, then the square.
        row[0, 48 + 11 : 48 + 19] = np.array([squares], "<i8").view(np.uint8)
        env.envelope.seal(row, int(row[0, 8:12].view("<u4")[0]))
        with pytest.raises(DamagedState, match=f"16 squares; got square {squares}"):
            env.step_batch(np.zeros(1, int), row)


def test_an_illegal_board_is_refused_as_by_the_env():
    with plangym_ext.make("plangym_ext/Sokoban-v0", dim=(6, 6), num_boxes=1) as env:
        state, *_ = env.reset(seed=0)
        row = state[None].copy()
        row[0, 48 + 8] = 1  # a gap in the ring of walls
        env.envelope.seal(row, int(row[0, 8:12].view("<u4")[0]))
        with pytest.raises(DamagedState, match="outermost cells must all be walls"):
            env.step_batch(np.zeros(1, int), row)


def test_after_close_nothing_runs(cart_pole):
    state, *_ = cart_pole.reset(seed=0)
    cart_pole.close()
    cart_pole.close()
    with pytest.raises(EnvClosed):
        cart_pole.step_batch(np.zeros(1, int), state[None])
    with pytest.raises(EnvClosed):
        cart_pole.reset()


def test_rows_that_are_used_again_are_not_shared(cart_pole):
    reference = plangym_ext.make("CartPole-v1", backend="serial")
    actions = np.array([0, 1, 1, 0, 1, 0])
    with reference:
        for env in (cart_pole, reference):
            env.reset(seed=3)
            env.step_batch(actions)
            env.step_batch(actions[:4])
        states = reference.step_batch(actions, return_state=True).states
        cart_pole.step_batch(actions)
        # A batch of its own states while one without states is in flight.
        pending = cart_pole.step_batch_async(1 - actions)
        cart_pole.step_batch(actions, states[::-1].copy(), return_state=False)
        pending.wait()
        reference.step_batch(1 - actions)
        for shows in (False, True, False, False, True):
            want = reference.step_batch(actions, return_state=shows)
            got = cart_pole.step_batch(actions, return_state=shows)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(got[:-1], want[:-1], strict=True))


def test_odd_memory_of_arguments_changes_nothing(cart_pole):
    state, *_ = cart_pole.reset(seed=0)
    states, actions = np.repeat(state[None], 6, axis=0), np.array([0, 1, 1, 0, 1, 0])
    want = cart_pole.step_batch(actions, states)
    read_only = states.copy()
    read_only.flags.writeable = False
    shifted = np.zeros(states.size + 3, np.uint8)[3:].reshape(states.shape)
    shifted[...] = states
    spread = np.repeat(states, 2, axis=0)[::2]
    for other in (read_only, shifted, spread, list(states), np.asfortranarray(states)):
        got = cart_pole.step_batch(np.repeat(actions, 2)[::2], other)
        assert got.states.tobytes() == want.states.tobytes()
    for other in (actions.astype(np.int8), actions.tolist(), np.broadcast_to(1, 6)):
        got = cart_pole.step_batch(other, states)
        assert got.obs[1].tobytes() == want.obs[1].tobytes()
    assert (states == state).all()


# Invalid values ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{"bad_at": 4}, {"huge_at": 4}])
def test_invalid_values_are_treated_as_by_the_env(arguments):
    for policy in ("raise", "mark", "off"):
        env = GymEnv(lambda: CounterEnv(**arguments), name="Counter", invalid=policy)
        with KernelEnv(env, counter_kernel(env.gym_env)) as kernel_env:
            state, *_ = kernel_env.reset(seed=0)
            states, actions = np.stack([state] * 3), np.array([[0, 0], [1, 1], [0, 1]])
            if policy == "raise":
                with pytest.raises(InvalidObservation, match="row 1"):
                    kernel_env.rollout_batch(actions, states)
                continue
            want = env.rollout_batch(actions, states)
            got = kernel_env.rollout_batch(actions, states)
            assert got.rewards.tobytes() == want.rewards.tobytes()
            assert got.obs.tobytes() == want.obs.tobytes()
            assert list(got.infos) == list(want.infos)


# The proof ---------------------------------------------------------------------------


def slow_step(state, params, action, info):
    state["count"] += action + 1
    return float(state["count"]), state["count"] > params.end, False


def careless_observe(state, params, obs):
    obs[0], obs[1] = state["count"], params.end
    obs[2 + 0 * params.end] = 7.0  # past its end


def raising_step(state, params, action, info):
    if state["count"] > 5:
        raise ValueError("too far")
    return step_of_raising(state, params, action)


def step_of_raising(state, params, action):
    state["count"] += action + 1
    return float(state["count"]), state["count"] >= params.end, False


plangym_ext.compiled(step_of_raising)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"step": slow_step}, r"of row \d differ in batch 1 of 4"),
        ({"observe": careless_observe}, "wrote outside its row"),
        ({"step": raising_step}, "refused a state that the env takes, or raised"),
    ],
)
def test_a_kernel_that_differs_is_found_before_it_is_used(changes, match):
    env = counter_env()
    kernel_env = KernelEnv(env, counter_kernel(env.gym_env, **changes))
    state, *_ = kernel_env.reset(seed=0)
    with pytest.raises(KernelDiffers, match=match):
        kernel_env.step_batch(np.zeros(1, int), state[None])
    # Chosen by itself it steps back, and the results are the env's.
    lenient = KernelEnv(env, counter_kernel(env.gym_env, **changes), strict=False)
    with pytest.warns(RuntimeWarning, match=match):
        got = lenient.step_batch(np.ones(1, int), state[None])
    assert lenient.backend == "serial"
    assert got.rewards.tolist() == [2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lenient.step_batch(np.ones(1, int), state[None])


def test_a_kernel_is_not_compared_with_a_slow_env_unless_asked_for(monkeypatch):
    monkeypatch.setattr(known, "_MOST_SECONDS", 0.0)
    env = counter_env()
    state, *_ = env.reset(seed=0)
    lenient = KernelEnv(env, counter_kernel(env.gym_env), strict=False)
    with pytest.warns(RuntimeWarning, match=r"a step of the env takes \S+ s, so to compare"):
        lenient.step_batch(np.ones(1, int), state[None])
    assert lenient.backend == "serial"
    asked = KernelEnv(env, counter_kernel(env.gym_env))
    asked.step_batch(np.ones(1, int), state[None])
    assert asked.backend == "kernel"


def test_the_proof_leaves_the_env_where_it_is():
    with plangym_ext.make("FrozenLake-v1", backend="kernel", max_episode_steps=77) as env:
        state, *_ = env.reset(seed=4)
        env.warm_up()
        assert env.get_state().tobytes() == state.tobytes()


def test_the_first_batch_draws_no_action():
    # The action space's generator is the caller's.
    drawn = []
    for backend in ("kernel", "serial"):
        with plangym_ext.make("CartPole-v1", backend=backend, max_episode_steps=44) as env:
            env.reset(seed=4)
            env.action_space.seed(3)
            env.step_batch(np.zeros(2, int))
            drawn.append([int(env.sample_action()) for _ in range(30)])
    assert drawn[0] == drawn[1]


# Threads, compiling ------------------------------------------------------------------


@pytest.mark.slow
def test_envs_in_two_threads_do_not_wait_for_each_other():
    # One long call without the GIL, and many short ones beside it.
    envs = [plangym_ext.make("Acrobot-v1", backend="kernel", threads=1) for _ in range(2)]
    for env in envs:
        env.warm_up()
    state, *_ = envs[0].reset(seed=0)
    actions = np.ones((256, 400), int)
    states = np.repeat(state[None], 256, axis=0)
    done = threading.Event()

    def long_call():
        envs[0].rollout_batch(actions, states)
        done.set()

    thread = threading.Thread(target=long_call)
    thread.start()
    short = 0
    while not done.is_set() and short < 10_000:
        envs[1].step_batch(actions[:1, 0], states[:1])
        short += 1
    thread.join()
    assert short > 3
    for env in envs:
        env.close()


@pytest.mark.slow
def test_the_number_of_threads_changes_nothing():
    found = []
    for threads in (1, 2, 5):
        with plangym_ext.make("Taxi-v4", backend="kernel", threads=threads) as env:
            state, *_ = env.reset(seed=0)
            actions = np.random.default_rng(0).integers(0, 6, (37, 50))
            result = env.rollout_batch(actions, np.repeat(state[None], 37, axis=0))
            found.append([np.asarray(array).tobytes() for array in result[:6]])
    assert found[0] == found[1] == found[2]


def _in_another_process(name, environment):
    """Seconds in which another process has the loop of an env, compiled or loaded."""
    script = (
        "import sys, numpy as np, plangym_ext\n"
        f"env = plangym_ext.make({name!r}, backend='kernel')\n"
        # Sokoban's levels are generated by compiled code when the env is made.
        f"assert ('numba' in sys.modules) == {'Sokoban' in name}\n"
        "env.reset(seed=0); env.step_batch(np.stack([env.sample_action() for _ in range(3)]))\n"
        "print(env.compile_seconds)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return float(done.stdout)


@pytest.mark.slow
def test_a_second_process_loads_what_the_first_compiled(tmp_path):
    name, folder = "plangym_ext/NarrowPath-v0", tmp_path / "plangym-ext" / "kernels"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    first = _in_another_process(name, environment)
    # A file for the loop and one each for the checks of states and of actions.
    kept = {(path.name, path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert len(kept) == 3
    second = _in_another_process(name, environment)
    assert {(path.name, path.stat().st_mtime_ns) for path in folder.iterdir()} == kept
    assert second < first


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0"),
        *("MountainCarContinuous-v0", "FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"),
        *("plangym_ext/NarrowPath-v0", "plangym_ext/ChainMDP-v0", "plangym_ext/Sokoban-v0"),
    ],
)
def test_every_kernel_that_this_process_has_is_loaded_by_another(name, tmp_path):
    with plangym_ext.make(name, backend="kernel") as env:
        env.warm_up()
        kind = type(env.gym_env.unwrapped).__name__.replace("_", "-")
    # A copy: other processes of the tests may write to the folder itself.
    for path in cache_folder().glob("*.nbc"):
        shutil.copy(path, tmp_path)

    def kept():
        return {(path.name, path.stat().st_mtime_ns) for path in tmp_path.glob(f"{kind}-*")}

    before = kept()
    assert before
    _in_another_process(name, os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)})
    assert kept() == before


@pytest.mark.slow
def test_code_that_calls_numpy_goes_by_the_same_name_in_every_process():
    # Functions of numpy refer to others, which lie elsewhere in every process.
    script = (
        "import hashlib, numpy as np\n"
        "from plangym_ext.core.compiling.kernel_cache import hash_function\n"
        "def draws(count):\n"
        "    return np.full(count, 0.5).sum() + np.ones(count).max() + np.median(np.eye(count))\n"
        "digest = hashlib.blake2b()\n"
        "hash_function(draws, digest, set())\n"
        "print(digest.hexdigest())\n"
    )
    command = [sys.executable, "-P", "-c", script]
    options = {"capture_output": True, "text": True, "timeout": 60, "check": True}
    names = {subprocess.run(command, **options).stdout for _ in range(2)}
    assert len(names) == 1


@pytest.mark.slow
def test_without_a_place_to_keep_it_the_loop_is_compiled_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))
    env = counter_env(end=12)
    with KernelEnv(env, counter_kernel(env.gym_env)) as kernel_env:
        assert kernel_env.warm_up() >= 0


# Taxi's fickle passenger, who is rarely met by random moves -----------------------------


@pytest.mark.slow
def test_a_fickle_passenger_changes_the_destination_alike():
    with plangym_ext.make("Taxi-v4", backend="kernel", fickle_passenger=True, is_rainy=True) as env:
        taxi, states = env.gym_env.unwrapped, []
        for seed in range(200):
            env.reset(seed=seed)
            taxi.s, taxi.fickle_step = taxi.encode(2, 2, 4, seed % 4), True
            states.append(env.get_state())
        rows, actions = np.stack(states), np.arange(200) // 4 % 4
        want = env.plan_env.rollout_batch(np.stack([actions, actions], axis=1), rows)
        got = env.rollout_batch(np.stack([actions, actions], axis=1), rows)
        moved = want.obs % 4 != np.arange(200) % 4
        assert moved.sum() > 50, "many are to change their mind"
        for mine, theirs in zip(got[:6], want[:6], strict=True):
            assert mine.tobytes() == theirs.tobytes()
        assert got.infos["action_mask"].tobytes() == want.infos["action_mask"].tobytes()


def test_time_of_the_second_batch_is_not_that_of_a_compiler():
    with plangym_ext.make("CartPole-v1", backend="kernel") as env:
        state, *_ = env.reset(seed=0)
        env.step_batch(np.zeros(1, int), state[None])
        start = time.perf_counter()
        assert env.warm_up() == env.compile_seconds
        assert within(time.perf_counter() - start, 1)
