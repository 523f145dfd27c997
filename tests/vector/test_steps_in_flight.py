"""Steps of other sub-envs are begun before one is waited for: the results are those in turn."""

from __future__ import annotations

import os
import signal
import time

import gymnasium as gym
import numpy as np
import pytest
import toy_envs
from interrupting import InterruptAt, points
from same_results import assert_same

import plangym_ext
from plangym_ext import Array
from plangym_ext.errors import BatchPending, InvalidAction, PoisonState, WorkerTimeout
from plangym_ext.vector.results import VectorPending

pytestmark = pytest.mark.slow

HOSTS = {
    "serial": {"backend": "serial"},
    "one worker": {"n_workers": 1},
    "two workers": {"n_workers": 2},
    "native": {},
}
#: Both halves have sub-envs of both workers.
HALVES = ([0, 2], [3, 1])


class Counter(gym.Env):
    """Shows its step and a random number; some actions are faults.

    `marker` is a file that action 5 makes before it kills its process, and at which it does
    not any more; action 7 makes the file and nothing else.
    """

    observation_space = gym.spaces.Box(0, 1e9, (2,), np.float64)
    action_space = toy_envs.Tame(8)
    marker = ""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2), {}

    def step(self, action):
        self.t += 1
        if action == 3:
            raise ValueError("of the env")
        if action == 4:
            time.sleep(999)
        if action == 5 and not os.path.exists(self.marker):
            os.close(os.open(self.marker, os.O_CREAT))
            os.kill(os.getpid(), signal.SIGKILL)
        if action == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == 7:
            os.close(os.open(self.marker, os.O_CREAT))
        obs = np.array([self.t, self.np_random.random()])
        return obs, self.t / 3, self.t % 9 == 0, False, {"t": self.t}


def pair(marker="", **options):
    """A vector env of four counters, and one in this process to compare it with."""

    def make():
        env = Counter()
        env.marker = str(marker)
        return env

    options = {"autoreset_mode": "same_step", **options}
    plain = {**options, "backend": "serial", "n_workers": None, "timeout": None}
    venvs = [plangym_ext.make_vec(make, 4, **given) for given in (options, plain)]
    for venv in venvs:
        venv.reset(seed=0)
    return venvs


def begin(venv, actions=(0, 0, 0, 0)):
    """Begin a step of each half."""
    actions = np.array(actions)
    for half in HALVES:
        venv.step_async(actions[half], half)


def both(venv, plain, actions=(0, 0, 0, 0)):
    """Step both halves in flight, and compare with steps in turn."""
    begin(venv, actions)
    for half in HALVES:
        assert_same(venv.step_wait(env_ids=half), plain.step(np.zeros(2, int), half))


@pytest.mark.parametrize(
    ("out", "mode"), [(False, "next_step"), (True, "same_step")], ids=["fresh", "out"]
)
@pytest.mark.parametrize("host", HOSTS)
def test_halves_in_flight_have_the_bytes_of_halves_in_turn(host, out, mode):
    options = {"num_envs": 4, "autoreset_mode": mode}
    with (
        plangym_ext.make_vec("CartPole-v1", **options, **HOSTS[host]) as venv,
        plangym_ext.make_vec("CartPole-v1", **options, backend="serial") as plain,
    ):
        for one in (venv, plain):
            one.reset(seed=0)
        rng = np.random.default_rng(0)
        turns = [(t, half) for t in range(60) for half in HALVES]
        actions = [rng.integers(0, 2, 2) for _ in turns]
        target = {}
        for k in range(2):  # one row of a shared [2, n] array each
            obs = Array((2, 2), np.float32, feature_shape=(4,), storage="shared")
            target[k] = venv.step_out({"obs": obs[k], "rewards": np.zeros(2)}, 2)

        def begin(turn):
            given = target[turn % 2] if out else None
            venv.step_async(actions[turn], turns[turn][1], out=given)

        begin(0)
        for turn, (t, half) in enumerate(turns):
            if turn + 1 < len(turns):
                begin(turn + 1)
            got = venv.step_wait() if turn % 3 else venv.step_wait(env_ids=half)
            got = (np.asarray(got[0]), *got[1:])
            assert_same(got, plain.step(actions[turn], half), f"step {t} of {half}", types=False)
        assert (venv.get_states() == plain.get_states()).all()
        assert_same(venv.observations(), plain.observations())


def test_workers_go_on_with_the_second_half_by_themselves(tmp_path):
    venv, plain = pair(tmp_path / "begun", n_workers=2)
    with venv, plain:
        begin(venv, (0, 7, 0, 0))
        wait_for(tmp_path / "begun")  # nothing is waited for yet
        for half in HALVES:
            assert_same(venv.step_wait(), plain.step(np.zeros(2, int), half))


def test_what_cannot_be_in_flight_together_is_refused():
    venv, plain = pair(n_workers=2)
    with venv, plain:
        zeros = np.zeros(2, int)
        with pytest.raises(gym.error.NoAsyncCallError, match=r"nothing of sub-envs \[0, 2\]"):
            venv.step_wait(env_ids=[0, 2])
        begin(venv)
        for call in (
            lambda: venv.step_async(zeros, [1, 2]),
            lambda: venv.step_async(np.zeros(4, int)),
        ):
            with pytest.raises(VectorPending, match=r"both would step sub-envs \[.*2"):
                call()
        for call in (
            lambda: venv.step(zeros, [0, 2]),
            venv.reset,
            venv.reset_async,
            venv.get_states,
            lambda: venv.fork(0, 1),
            lambda: venv.get_attr("t"),
        ):
            with pytest.raises(BatchPending, match="while waiting for a pending call to `step`"):
                call()
        with pytest.raises(VectorPending, match=r"sub-envs \[0, 2\] was called before that of"):
            venv.step_wait(env_ids=[3, 1])
        with pytest.raises(gym.error.NoAsyncCallError, match=r"sub-envs \[1, 3\]"):
            venv.step_wait(env_ids=[1, 3])  # in another order
        for half in HALVES:
            assert_same(venv.step_wait(), plain.step(zeros, half))
        with pytest.raises(gym.error.NoAsyncCallError):
            venv.step_wait()
        venv.reset_async()
        with pytest.raises(BatchPending, match="pending call to `reset`"):
            venv.step_async(zeros, [0, 2])
        venv.reset_wait()
        begin(venv)
        with pytest.warns(UserWarning, match="pending call to `step`"):
            venv.close()


@pytest.mark.parametrize("host", ["serial", "one worker", "two workers"])
@pytest.mark.parametrize("failing", [0, 1])
def test_one_half_that_fails_leaves_the_other_alone(host, failing):
    venv, plain = pair(**HOSTS[host])
    with venv, plain:
        for t in range(12):
            if t % 5 != 3:
                both(venv, plain)
                continue
            actions = np.zeros(4, int)
            actions[HALVES[failing][1]] = 3
            begin(venv, actions)
            for k, half in enumerate(HALVES):
                if k == failing:
                    with pytest.raises(ValueError, match="of the env"):
                        venv.step_wait()
                else:
                    assert_same(venv.step_wait(), plain.step(np.zeros(2, int), half))
        assert (venv.get_states() == plain.get_states()).all()
        assert_same(venv.observations(), plain.observations())


def test_actions_of_a_native_backend_are_refused_when_their_turn_has_come():
    with plangym_ext.make_vec("CartPole-v1", 4) as venv:
        obs, _ = venv.reset(seed=0)
        actions = np.array([0, 9])
        venv.step_async(np.zeros(2, int), [0, 2])
        venv.step_async(actions, [3, 1])
        actions[:] = 0  # the caller's own
        venv.step_wait()
        with pytest.raises(InvalidAction, match="9"):
            venv.step_wait()
        assert (venv.observations()[[1, 3]] == obs[[1, 3]]).all()


@pytest.mark.parametrize("host", ["one worker", "two workers"])
def test_deaths_with_two_in_flight_cost_nothing(host, tmp_path):
    venv, plain = pair(tmp_path / "died", **HOSTS[host])
    with venv, plain:
        for t in range(24):
            zeros = np.zeros(2, int)
            if t == 3:  # in the first half
                both(venv, plain, (0, 0, 5, 0))
            elif t == 6:  # in the second half
                os.unlink(tmp_path / "died")
                both(venv, plain, (0, 5, 0, 0))
            elif t in (9, 12, 15):  # before, between and after waiting
                begin(venv)
                for k, half in enumerate(HALVES):
                    if k == (t - 9) // 3:
                        os.kill(venv.worker_pids[-1], signal.SIGKILL)
                    assert_same(venv.step_wait(), plain.step(zeros, half))
                if t == 15:
                    os.kill(venv.worker_pids[0], signal.SIGKILL)
            else:
                both(venv, plain)
        assert (venv.get_states() == plain.get_states()).all()


@pytest.mark.parametrize("failing", [0, 1])
def test_a_half_that_kills_or_hangs_is_named_and_the_other_goes_on(failing):
    venv, plain = pair(n_workers=2, timeout=1.5)
    with venv, plain:
        both(venv, plain)
        row = HALVES[failing][1]
        for action, error in ((4, WorkerTimeout), (6, PoisonState)):
            actions = np.zeros(4, int)
            actions[row] = action
            begin(venv, actions)
            for k, half in enumerate(HALVES):
                if k == failing:
                    with pytest.raises(error, match=f"sub-env {row}"):
                        venv.step_wait()
                else:
                    assert_same(venv.step_wait(), plain.step(np.zeros(2, int), half))
        both(venv, plain)
        assert (venv.get_states() == plain.get_states()).all()


def test_a_half_without_states_goes_on_after_the_other():
    venv, plain = pair(n_workers=2, capture="off")
    with venv, plain:
        for _ in range(12):
            both(venv, plain)
        begin(venv, (3, 0, 0, 0))
        with pytest.raises(ValueError, match="of the env"):
            venv.step_wait()
        # Its workers cannot bring the others back: they were under way.
        with pytest.raises(Exception, match="reset"):
            venv.step_wait()
        venv.reset(seed=1)
        plain.reset(seed=1)
        both(venv, plain)


def test_what_rows_show_is_kept_with_the_states_of_its_moment(tmp_path):
    # States are captured every 64 steps: now and then in the first half, while the same worker
    # has gone on with the second one: sub-env 3 is stepped, and then sub-env 1 raises.
    marker = tmp_path / "begun"
    venv, plain = pair(marker, n_workers=1)
    with venv, plain:
        captured = 0
        for _ in range(16):
            begin(venv, (0, 3, 0, 7))
            wait_for(marker)
            marker.unlink()
            assert_same(venv.step_wait(), plain.step(np.zeros(2, int), HALVES[0]))
            captured += venv._backend._kept[0][0].count == 0
            with pytest.raises(ValueError, match="of the env"):
                venv.step_wait()
            venv.get_states()  # brings all back
            assert_same(venv.observations(), plain.observations())
        assert captured


def wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 2}], ids=str)
def test_an_interrupt_at_any_line_leaves_each_half_at_a_step(options):
    venv, plain = pair(**options)
    with venv, plain:
        with InterruptAt(-1) as count:
            both_waited(venv)
        for half in HALVES:
            plain.step(np.zeros(2, int), half)
        for number in points(count.lines, 3):
            try:
                with InterruptAt(number):
                    both_waited(venv)
            except KeyboardInterrupt:
                while venv._pending.name:
                    venv.step_wait()
            catch_up(venv, plain)
            both(venv, plain)


def both_waited(venv):
    begin(venv)
    for _ in HALVES:
        venv.step_wait()


def catch_up(venv, plain):
    """Step halves of `plain` that have one step less; fail if it is anything else."""
    shown = venv.get_attr("t")
    for half in HALVES:
        for _ in range(2):
            if [shown[row] for row in half] != [plain.envs[row].unwrapped.t for row in half]:
                plain.step(np.zeros(2, int), half)
    assert (venv.get_states() == plain.get_states()).all()
