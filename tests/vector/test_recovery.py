"""The vector env after interrupts, deaths and hangs: the same step everywhere, and soon."""

from __future__ import annotations

import os
import signal
import threading
import time

import gymnasium as gym
import leaks
import numpy as np
import pytest
import toy_envs
from batches import stop
from clock_bounds import within
from interrupting import InterruptAt, InterruptWait, points
from same_results import assert_same

import plangym_ext
from plangym_ext.errors import PoisonState, WorkerDied, WorkerTimeout
from plangym_ext.vector.sub_envs.env_backend import CallWatch

pytestmark = pytest.mark.slow


class Counter(gym.Env):
    """Counts its steps, draws a number in each, and takes its time for it."""

    observation_space = gym.spaces.Box(0, 1e9, (2,), np.float64)
    action_space = toy_envs.Tame(8)  # whose samples are 0 and 1
    seconds = 0.0
    gate = ""  # a file; while it is named and not there, steps wait for it

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2), {}

    def step(self, action):
        self.t += 1
        time.sleep(self.seconds)
        while self.gate and not os.path.exists(self.gate):
            time.sleep(0.01)
        if action == 3:
            raise ValueError("of the env")
        if action == 4:
            time.sleep(999)
        if action == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == 6:
            os._exit(3)
        obs = np.array([self.t, self.np_random.random()])
        return obs, float(action), self.t >= 9, False, {"t": self.t}


class Slow(Counter):
    """The same, at 50 ms a step."""

    seconds = 0.05


def zeros(num=4):
    return np.zeros(num, int)


def one(action, num=4, row=1):
    found = zeros(num)
    found[row] = action
    return found


# What failing costs -----------------------------------------------------------------


def seconds_of(call, error=None):
    begun = time.monotonic()
    if error is None:
        call()
    else:
        with pytest.raises(error):
            call()
    return time.monotonic() - begun


def test_failing_costs_what_the_failed_step_costs():
    with plangym_ext.make_vec(Slow, 8, n_workers=2) as venv:
        venv.reset(seed=0)
        for _ in range(38):
            venv.step(zeros(8))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # A step takes 0.2 s; to play all of them again would take 7.6 s on each worker.
        assert within(seconds_of(lambda: venv.step(one(3, 8)), ValueError), 4.0)
        venv.step_async(one(4, 8))
        assert within(seconds_of(lambda: venv.step_wait(timeout=1.0), WorkerTimeout), 4.5)
        with InterruptWait(0.05):
            assert within(seconds_of(lambda: venv.step(zeros(8)), KeyboardInterrupt), 3.5)
        obs, *_ = venv.step(zeros(8))
        assert obs[:, 0].tolist() == [39 % 10] * 8, "the step after the thirty-eighth"


def test_a_death_is_seen_while_others_take_long(tmp_path):
    # Worker 1 dies while worker 0 is at a step that goes on until the other is replaced. It
    # stands still before the step: it might be through with it before it is killed, and what has
    # answered is not replaced until it is asked again.
    gate = tmp_path / "gate"
    with plangym_ext.make_vec([Counter, Counter], n_workers=2) as venv:
        venv.reset(seed=0)
        venv.set_attr("gate", [str(gate), ""])
        before = venv.worker_pids
        stop(before[1])
        venv.step_async(zeros(2))
        os.kill(before[1], signal.SIGKILL)
        replaced = []

        def watch():
            deadline = time.monotonic() + 30
            while venv.worker_pids[1] == before[1] and time.monotonic() < deadline:
                time.sleep(0.005)
            replaced.append(venv.worker_pids[1] != before[1])
            gate.touch()

        thread = threading.Thread(target=watch)
        thread.start()
        obs, *_ = venv.step_wait()
        thread.join()
        assert replaced == [True], "before the slow one was through"
        assert obs[:, 0].tolist() == [1, 1]


# Interrupts -------------------------------------------------------------------------


def assert_same_step(venv, plain, actions):
    """Fail unless all sub-envs are where `plain` is, or all one call further."""
    got = venv.step(actions)
    expected = plain.step(actions)
    if not np.array_equal(got[0], expected[0]):
        expected = plain.step(actions)
    assert_same(got, expected)


CALLS = {
    "step": lambda venv: venv.step(zeros()),
    "some": lambda venv: venv.step(zeros(2), [0, 3]),
    "reset": lambda venv: venv.reset(seed=7),
    # With what has ended: the call is to leave all where it is.
    "set_states": lambda venv: venv.set_states(venv.get_states(), ended=venv.ended),
    "get_attr": lambda venv: venv.get_attr("t"),
}


@pytest.mark.parametrize("call", ["step", "set_states", "get_attr"])
@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 2}], ids=str)
def test_an_interrupt_at_any_line_leaves_all_at_the_same_step(options, call):
    with plangym_ext.make_vec(Counter, 4, **options) as venv:
        plain = plangym_ext.make_vec(Counter, 4, backend="serial")
        venv.reset(seed=0)
        plain.reset(seed=0)
        with InterruptAt(-1) as count:
            CALLS[call](venv)
        if call == "step":
            plain.step(zeros())
        for number in points(count.lines, 5):
            try:
                with InterruptAt(number):
                    CALLS[call](venv)
            except KeyboardInterrupt:
                assert_same_step(venv, plain, zeros())
            else:  # fewer lines than the first time
                if call == "step":
                    plain.step(zeros())
        plain.close()


@pytest.mark.parametrize("call", ["reset", "some"])
def test_an_interrupted_reset_or_partial_step_is_done_everywhere_or_nowhere(call):
    with plangym_ext.make_vec(Counter, 4, n_workers=2) as venv:
        plain = plangym_ext.make_vec(Counter, 4, backend="serial")
        with InterruptAt(-1) as count:
            venv.reset(seed=0)
        for number in points(count.lines, 3):
            for one_venv in (venv, plain):
                one_venv.reset(seed=3)
                one_venv.step(zeros())
            try:
                with InterruptAt(number):
                    CALLS[call](venv)
            except KeyboardInterrupt:
                got = venv.step(zeros())
                expected = plain.step(zeros())
                if not np.array_equal(got[0], expected[0]):
                    plain.reset(seed=3)
                    plain.step(zeros())
                    CALLS[call](plain)
                    expected = plain.step(zeros())
                assert_same(got, expected)
        plain.close()


def test_interrupts_during_recovery_leave_all_at_the_same_step():
    with plangym_ext.make_vec(Counter, 4, n_workers=2) as venv:
        plain = plangym_ext.make_vec(Counter, 4, backend="serial")
        for one_venv in (venv, plain):
            one_venv.reset(seed=0)
            one_venv.step(zeros())
        os.kill(venv.worker_pids[0], signal.SIGKILL)
        with InterruptAt(-1) as count:
            assert_same(venv.step(zeros()), plain.step(zeros()))
        for number in points(count.lines, 2):
            os.kill(venv.worker_pids[number % 2], signal.SIGKILL)
            for again in (number, number // 2 + 1):  # and once more while that is mended
                try:
                    with InterruptAt(again):
                        venv.step(zeros())
                except KeyboardInterrupt:
                    continue
                plain.step(zeros())
            got = venv.step(zeros())
            for _ in range(3):
                expected = plain.step(zeros())
                if np.array_equal(got[0], expected[0]):
                    break
            assert_same(got, expected)
        plain.close()


class Renewed:
    """A process that was replaced, as `CallWatch` sees it."""

    def __init__(self):
        self.signs, self.renewed = os.pipe(), True


def test_an_interrupt_leaves_no_process_unwatched():
    logs = [Renewed(), Renewed()]
    for number in range(1, 100):
        watch = CallWatch(logs)
        for log in logs:
            log.renewed = True
        try:
            with InterruptAt(number):
                watch._watch()
            break
        except KeyboardInterrupt:
            # Else the next wait does it all again.
            if not any(log.renewed for log in logs):
                assert sorted(watch._by_fd) == sorted(fd for log in logs for fd in log.signs)
    assert number > 8
    for log in logs:
        for fd in log.signs:
            os.close(fd)


# Deaths -----------------------------------------------------------------------------


def test_workers_that_die_while_they_come_back_cost_no_episode():
    with (
        plangym_ext.make_vec(Counter, 4, n_workers=2) as venv,
        plangym_ext.make_vec(Counter, 4, backend="serial") as plain,
    ):
        for one_venv in (venv, plain):
            one_venv.reset(seed=0)
            one_venv.step(zeros())
        over = threading.Event()

        def kill_on_sight():
            for pause in (0.0, 0.05, 0.2, 0.3, 0.4):  # starting, opening, restoring ones
                for pid in venv.worker_pids:
                    if leaks.is_running(pid):
                        os.kill(pid, signal.SIGKILL)
                if over.wait(pause):
                    return

        killer = threading.Thread(target=kill_on_sight)
        killer.start()
        for _ in range(12):
            assert_same(venv.step(zeros()), plain.step(zeros()))
            time.sleep(0.05)
        over.set()
        killer.join()


@pytest.mark.parametrize(("action", "how"), [(5, "SIGKILL"), (6, "status 3")])
def test_a_sub_env_that_kills_its_worker_is_named(action, how):
    with plangym_ext.make_vec(Counter, 4, n_workers=2) as venv:
        venv.reset(seed=0)
        venv.step(zeros())
        with pytest.raises(PoisonState, match=rf"sub-env 3 .*action {action}.*{how}") as caught:
            venv.step(one(action, row=3))
        assert caught.value.row == 3
        obs, *_ = venv.step(zeros())
        assert obs[:, 0].tolist() == [2] * 4


def test_a_sub_env_without_states_that_dies_is_named():
    with plangym_ext.make_vec(Counter, 4, n_workers=2, capture="off") as venv:
        venv.reset(seed=0)
        with pytest.raises(WorkerDied, match=r"^sub-env 2: worker 1 .*SIGKILL") as caught:
            venv.step(one(5, row=2))
        assert any("sub-envs 2 to 3 are not captured" in note for note in caught.value.__notes__)
        venv.reset(seed=0)
        assert venv.step(zeros())[0][:, 0].tolist() == [1] * 4


# Hangs ------------------------------------------------------------------------------


def test_a_hung_sub_env_is_named_with_its_stack_without_being_asked_for():
    with plangym_ext.make_vec(Counter, 4, n_workers=2, timeout=1.5) as venv:
        venv.reset(seed=0)
        with pytest.raises(WorkerTimeout, match=r"within 1\.5 s in sub-env 3, action 4,") as caught:
            venv.step(one(4, row=3))
        assert (caught.value.workers, caught.value.rows) == ((1,), (3,))
        assert "test_recovery.py" in str(caught.value), "the stack"
        obs, *_ = venv.step(zeros())
        assert obs[:, 0].tolist() == [1] * 4


def test_the_limit_is_for_one_row_not_for_all_of_a_worker():
    with plangym_ext.make_vec(Counter, 4, n_workers=1, timeout=2.0) as venv:
        venv.reset(seed=0)
        venv.set_attr("seconds", 0.6)  # 2.4 s for the four
        assert venv.step(zeros())[0][:, 0].tolist() == [1] * 4


class Curriculum(gym.Wrapper):
    """Sets what the simulator is made with, by a method."""

    def lighter(self, gravity):
        self.unwrapped.gravity = gravity


@pytest.mark.parametrize("killed_at", [2, 62, 63, 64, 70])
def test_what_a_method_has_set_outlives_its_worker(killed_at):
    # States are captured after so many steps; they do not hold what CartPole is made with.
    def constructor():
        return Curriculum(gym.make("CartPole-v1"))

    with (
        plangym_ext.make_vec(constructor, 2, n_workers=1) as venv,
        plangym_ext.make_vec(constructor, 2, backend="serial") as plain,
    ):
        for one_venv in (venv, plain):
            one_venv.reset(seed=0)
            one_venv.step(zeros(2))
            one_venv.call("lighter", 1.0)
        for t in range(75):
            if t == killed_at:
                os.kill(venv.worker_pids[0], signal.SIGKILL)
            actions = np.array([t % 2, (t + 1) % 2])
            assert_same(venv.step(actions), plain.step(actions), f"step {t}")
        assert venv.get_attr("gravity") == (1.0, 1.0)
