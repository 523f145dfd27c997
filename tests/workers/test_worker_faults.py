"""Workers that die or raise: named errors, results as without the fault, usable handles."""

import contextlib
import functools
import os
import pickle
import signal

import leaks
import numpy as np
import pytest
import toy_envs
from batches import pids, walk_of
from gymnasium.envs.classic_control import CartPoleEnv
from interrupting import InterruptWait
from toy_envs import Faulty, faulty_env

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import EnvClosed, PoisonState, WorkerDied, WorkerError
from plangym_ext.testing.backend import assert_equal
from plangym_ext.workers.batch_env import BatchEnv, ExternalProcess
from plangym_ext.workers.parallel_env import ParallelEnv
from plangym_ext.workers.remote_errors import RemoteTraceback

pytestmark = [
    pytest.mark.slow,  # a worker takes about 0.3 s to start
    pytest.mark.filterwarnings("ignore:.*You are calling 'step.*:UserWarning"),
]

DEATHS = [
    pytest.param(toy_envs.SIGKILL, "was killed by SIGKILL", id="sigkill"),
    pytest.param(toy_envs.EXIT, "exited with status 3", id="os-exit"),
    pytest.param(toy_envs.SEGFAULT, "was killed by SIGSEGV", id="segfault"),
]


def parallel(n_workers=2, **kwargs):
    return ParallelEnv(functools.partial(Faulty, **kwargs), n_workers=n_workers)


@pytest.fixture(scope="module")
def serial():
    with faulty_env() as env:
        yield env


@pytest.fixture(scope="module")
def states(serial):
    return walk_of(serial)


def assert_usable(env, serial, states):
    """The env answers, bit for bit, as if nothing had happened."""
    actions = np.arange(len(states)) % 2
    want = serial.step_batch(actions, states)
    assert_equal(env.step_batch(actions, states), want, "after the fault")


# Deaths ---------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "how"), DEATHS)
def test_death_in_step_names_worker_signal_and_command(action, how, states):
    with ExternalProcess(functools.partial(Faulty), index=5) as process:
        process.reset(seed=0)
        process.describe()
        pid = process.process.pid
        with pytest.raises(WorkerDied, match=rf"worker 5 \(pid {pid}\) {how} during 'call'"):
            process.step(action)
        with pytest.raises(WorkerDied, match=how):
            process.step(0)
        process.restart()
        assert process.step(0, states[3]).state.shape == states[3].shape


@pytest.mark.parametrize(("action", "how"), DEATHS)
def test_row_that_kills_twice_is_given_up_and_the_env_stays_usable(action, how, serial, states):
    with parallel(2) as env:
        actions = np.zeros(len(states), int)
        actions[9] = action
        with pytest.raises(WorkerDied, match=rf"worker \d \(pid \d+\) {how} during 'rows'"):
            env.step_batch(actions, states)
        assert_usable(env, serial, states)


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_batch_that_loses_a_worker_equals_one_that_does_not(n_workers, serial, states, tmp_path):
    actions = np.arange(len(states)) % 2
    # Rows with fields of their own come before and after the death.
    actions[[1, 12]] = toy_envs.ODD_INFO
    killing = actions.copy()
    killing[8] = toy_envs.KILL_ONCE
    marker = tmp_path / "killed"
    with parallel(n_workers, marker=str(marker)) as env:
        before = set(pids(env))
        got = env.step_batch(killing, states)
        assert marker.exists()
        assert len(before & set(pids(env))) == n_workers - 1
        # `KILL_ONCE` pushes the cart as 0 does when it does not kill.
        actions[8] = 0
        assert_equal(got, serial.step_batch(actions, states), "batch with a death inside")
        assert got.infos[1]["odd"] == serial.step_batch(actions, states).infos[1]["odd"]


def test_rows_that_were_done_by_the_dead_worker_keep_their_own_infos(serial, states, tmp_path):
    # Every row has a field of its own, so whichever worker dies has done some of them;
    # the answer that would have brought their infos never comes.
    actions = np.full(64, toy_envs.ODD_INFO)
    actions[63] = 0
    many = np.resize(states, (64, states.shape[1]))
    killing = actions.copy()
    killing[63] = toy_envs.KILL_ONCE
    with parallel(2, marker=str(tmp_path / "m")) as env:
        got = env.step_batch(killing, many)
        assert_equal(got, serial.step_batch(actions, many), "own infos")


def test_large_batch_is_recovered(serial, states, tmp_path):
    # More rows than claims fit into the queue's pipe one by one.
    many = np.resize(states, (10_000, states.shape[1]))
    actions = np.zeros(len(many), int)
    killing = actions.copy()
    killing[0] = toy_envs.KILL_ONCE
    with parallel(2, marker=str(tmp_path / "m")) as env:
        got = env.step_batch(killing, many)
        assert_equal(got, serial.step_batch(actions, many), "10,000 rows")


def test_rollout_and_continued_rows_survive_a_death(serial, states, tmp_path):
    actions = np.zeros((4, 6), int)
    killing = actions.copy()
    killing[2, 3] = toy_envs.KILL_ONCE
    with parallel(2, marker=str(tmp_path / "a")) as env:
        assert_equal(
            env.rollout_batch(killing, states[:4]),
            serial.rollout_batch(actions, states[:4]),
            "rollout",
        )
        for one in (env, serial):
            one.set_state(states[0])
        for t in range(3):
            if t == 1:
                os.kill(pids(env)[0], signal.SIGKILL)
            assert_equal(env.step_batch([0, 1, 1]), serial.step_batch([0, 1, 1]), f"step {t}")


@pytest.mark.parametrize("victims", [[0], [1], [0, 1]], ids=str)
def test_worker_killed_while_idle_is_replaced(victims, serial, states):
    with parallel(2) as env:
        before = pids(env)
        for index in victims:
            os.kill(before[index], signal.SIGKILL)
            assert leaks.wait_until(lambda pid=before[index]: not leaks.is_running(pid))
        assert_usable(env, serial, states)
        after = pids(env)
        assert [a != b for a, b in zip(before, after, strict=True)] == [
            index in victims for index in range(2)
        ]


def test_death_is_seen_although_a_slower_worker_is_asked_first(states):
    slow, dead = (ExternalProcess(Faulty, index=i) for i in range(2))
    with slow, dead:
        promise = slow.step(toy_envs.SLOW, states[0], blocking=False)
        broken = dead.step(toy_envs.SIGKILL, states[0], blocking=False)
        with pytest.raises(WorkerDied, match="worker 1"):
            broken()
        assert promise().reward == 1.0


def test_death_of_a_worker_whose_child_holds_its_socket_is_seen(tmp_path):
    def forks():
        env = Faulty()
        if os.fork() == 0:
            signal.pause()
        return env

    with ExternalProcess(forks) as process:
        process.reset(seed=0)
        promise = process.step(toy_envs.SIGKILL, blocking=False)
        with pytest.raises(WorkerDied, match="SIGKILL"):
            promise()


def test_processes_of_a_dead_env_end_with_it():
    with ExternalProcess(functools.partial(Faulty, child=True)) as process:
        process.reset(seed=0)
        child = process.child_pid
        assert leaks.is_running(child)
        with pytest.raises(WorkerDied):
            process.step(toy_envs.SIGKILL)
    assert leaks.wait_until(lambda: not leaks.is_running(child))


def test_processes_of_a_closed_env_end_with_it():
    with ExternalProcess(functools.partial(Faulty, child=True)) as process:
        child = process.child_pid
        assert leaks.is_running(child)
    assert leaks.wait_until(lambda: not leaks.is_running(child))


def test_worker_that_died_says_how(states):
    with ExternalProcess(Faulty, index=4) as process:
        process.reset(seed=0)
        with pytest.raises(WorkerDied) as caught:
            process.step(toy_envs.SIGKILL)
        error = pickle.loads(pickle.dumps(caught.value))
        for found in (caught.value, error):
            assert (found.worker, found.pid) == (4, process.process.pid)
            assert (found.exit_status, found.last_command) == (-signal.SIGKILL, "call")


def test_poison_holds_row_state_and_action(serial, states):
    actions = np.arange(16) % 2
    actions[9] = toy_envs.EXIT
    with parallel(2) as env:
        slots = env.states.allocate(16)
        env.states[slots] = states
        for call in (
            lambda: env.step_batch(actions, states),
            lambda: env.step_slots(actions, slots[::-1], slots),
        ):
            with pytest.raises(PoisonState) as caught:
                call()
            error = pickle.loads(pickle.dumps(caught.value))
            assert error.row == 9
            in_slots = "step_slots" in call.__code__.co_names
            assert error.state.tobytes() == states[15 - 9 if in_slots else 9].tobytes()
            assert np.all(error.action == toy_envs.EXIT)
            assert (error.exit_status, error.last_command) == (3, "rows")
        # Targets are sources here, so nothing has been written.
        assert env.states[slots].tobytes() == states.tobytes()
        rest = np.delete(np.arange(16), 9)
        want = serial.step_batch(actions[rest], states[rest])
        assert_equal(env.step_batch(actions[rest], states[rest]), want, "the other rows")


def test_several_rows_may_kill_once(serial, states, tmp_path):
    # Each row has a marker of its own, by its state: none of them is to blame.
    actions = np.zeros(16, int)
    killing = actions.copy()
    killing[::4] = toy_envs.KILL_ONCE
    with parallel(2, marker=str(tmp_path / "killed-{}")) as env:
        got = env.step_batch(killing, states)
        assert len(list(tmp_path.iterdir())) == 4
        assert_equal(got, serial.step_batch(actions, states), "four deaths in a batch")


def test_death_after_a_slow_worker_does_not_wait_for_it(serial, states, tmp_path):
    # The dead worker is replaced while the other one is still at its row.
    with parallel(2, marker=str(tmp_path)) as env:
        before = pids(env)
        pending = env.step_batch_async([toy_envs.NAP, 0], states[:2])
        assert not pending.poll(0.2)
        (napping,) = (int(path.name) for path in tmp_path.iterdir())
        (other,) = set(before) - {napping}
        os.kill(other, signal.SIGKILL)
        assert leaks.wait_until(lambda: not pending.poll(0.01) and other not in pids(env))
        (tmp_path / str(napping)).unlink()  # wakes it
        assert_equal(pending.wait(), serial.step_batch([0] * 2, states[:2]), "batch")
        assert napping in pids(env)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_worker_killed_again_while_it_starts(n_workers, serial, states):
    with parallel(n_workers) as env:
        for _ in range(2):
            for worker in env.batch_env:
                os.kill(worker.process.pid, signal.SIGKILL)
            pending = env.step_batch_async([0] * 16, states)
            # One replacement is at the batch, the others at their imports, or dead already.
            for worker in env.batch_env:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.process.pid, signal.SIGKILL)
            assert_equal(pending.wait(), serial.step_batch([0] * 16, states), "batch")
            assert_usable(env, serial, states)


def test_env_that_cannot_be_built_again_raises_its_own_error(tmp_path):
    gone = tmp_path / "gone"

    def unless_gone():
        if gone.exists():
            raise toy_envs.EnvFaultError("the files of this env are gone")
        return Faulty()

    with ParallelEnv(unless_gone, n_workers=2) as env, GymEnv(unless_gone) as serial:
        states = walk_of(serial)
        env.step_batch([0] * 16, states)
        gone.touch()
        for worker in env.batch_env:
            os.kill(worker.process.pid, signal.SIGKILL)
        with pytest.raises(toy_envs.EnvFaultError, match="files of this env are gone") as caught:
            env.step_batch([0] * 16, states)
        assert "raised in worker" in caught.value.__notes__[0]
        gone.unlink()
        # Once they are back, so is the env: no worker is lost for good.
        assert leaks.wait_until(lambda: all_built(env, states), timeout=30.0)
        assert_usable(env, serial, states)
        assert all(leaks.is_running(pid) for pid in pids(env))


def all_built(env, states):
    """Step a batch; return whether no worker that failed to build its env is left."""
    with contextlib.suppress(toy_envs.EnvFaultError):
        assert env.step_batch([0] * 16, states).rewards.sum() == 16
        for worker in env.batch_env:  # one of them may have begun before
            worker.describe()
        return True
    return False


def test_processes_that_died_are_replaced_by_reset_and_sync(serial, states):
    env = BatchEnv([ExternalProcess(Faulty, index=i) for i in range(3)])
    try:
        found = [env[i].process.pid for i in range(3)]
        os.kill(found[1], signal.SIGKILL)
        obs, first = env.reset(seed=5)
        for i in range(3):
            state, want, _ = serial.reset(seed=5 + i)
            assert (obs[i].tobytes(), first[i].tobytes()) == (want.tobytes(), state.tobytes())
        for blocking in (True, False):
            os.kill(env[2].process.pid, signal.SIGKILL)
            env.sync_states(states[4], blocking=blocking)
            for process in env:
                assert process.call("get_state")().tobytes() == states[4].tobytes()
        assert [env[i].process.pid == found[i] for i in range(3)] == [True, False, False]
    finally:
        env.close()


# Exceptions -----------------------------------------------------------------------


def test_exception_in_step_keeps_its_type_and_says_where(states):
    with ExternalProcess(Faulty, index=3) as process:
        with pytest.raises(toy_envs.EnvFaultError) as caught:
            process.step(toy_envs.RAISE, states[0])
        assert caught.value.args[0] == "step failed"
        assert caught.value.__notes__ == [f"raised in worker 3 (pid {process.process.pid})"]
        assert isinstance(caught.value.__cause__, RemoteTraceback)
        assert "toy_envs.py" in caught.value.__cause__.text
        assert process.step(0, states[0]).reward == 1.0


@pytest.mark.parametrize("n_workers", [1, 2])
def test_exception_in_a_batch_names_row_and_action_and_leaves_the_env_usable(
    n_workers, serial, states
):
    actions = np.zeros(len(states), int)
    actions[11] = toy_envs.RAISE
    with parallel(n_workers) as env:
        for _ in range(3):
            with pytest.raises(toy_envs.EnvFaultError) as caught:
                env.step_batch(actions, states)
            (note,) = caught.value.__notes__
            assert note.startswith("raised in worker ")
            assert note.endswith(f", row 11, action [{toy_envs.RAISE}]")
            assert "in _fault" in str(caught.value.__cause__)
            assert_usable(env, serial, states)


def test_serial_backend_names_row_and_action_too(serial, states):
    actions = np.zeros(len(states), int)
    actions[11] = toy_envs.RAISE
    with pytest.raises(toy_envs.EnvFaultError) as caught:
        serial.step_batch(actions, states)
    assert caught.value.__notes__ == [f"Faulty: in row 11, action [{toy_envs.RAISE}]"]
    assert_usable(serial, serial, states)


def test_rows_stay_where_they_were_when_one_of_them_raises(serial, states):
    with parallel(2) as env:
        for one in (env, serial):
            one.set_state(states[0])
            one.step_batch([0, 1, 0])
            with pytest.raises(toy_envs.EnvFaultError):
                one.step_batch([0, toy_envs.RAISE, 0])
        assert_equal(env.step_batch([1, 1, 1]), serial.step_batch([1, 1, 1]), "after the error")


@pytest.mark.parametrize(
    ("action", "kind", "text"),
    [
        (toy_envs.RAISE_UNPICKLABLE, WorkerError, "UnpicklableError in worker 0"),
        (toy_envs.RAISE_UNBUILDABLE, WorkerError, "UnbuildableError in worker 0"),
        (toy_envs.RAISE_PERCENT, toy_envs.EnvFaultError, "100% of %s and %d failed"),
    ],
)
def test_exception_that_is_hard_to_send_arrives_with_its_text(action, kind, text, states):
    with parallel(1) as env:
        env.reset(seed=0)
        for call in (
            lambda: env.step_batch([action], states[:1]),
            lambda: env.batch_env[0].step(action, states[0]),
        ):
            with pytest.raises(kind, match=text) as caught:
                call()
            assert "failed" in str(caught.value.__cause__)
        assert env.step_batch([0], states[:1]).rewards == [1.0]


def test_exception_type_of_the_callers_own_function_is_kept():
    class LocalError(Exception):
        pass

    class Local(Faulty):
        def step(self, action):
            if action == toy_envs.RAISE:
                raise LocalError("from a class that no module holds")
            return super().step(action)

    with ExternalProcess(Local) as process:
        process.reset(seed=0)
        process.step(0)
        with pytest.raises(LocalError, match="no module holds"):
            process.step(toy_envs.RAISE)


def test_exception_in_the_constructor_is_raised_as_itself():
    with pytest.raises(toy_envs.EnvFaultError, match="init failed") as caught:
        ExternalProcess(functools.partial(Faulty, fail_in="init"), index=4).describe()
    assert caught.value.__notes__[0].startswith("raised in worker 4 (pid ")


def test_exception_in_one_constructor_closes_all_workers():
    here = os.getpid()

    def fails_elsewhere():
        if os.getpid() != here:
            raise toy_envs.EnvFaultError("only in a worker")
        return Faulty()

    with pytest.raises(toy_envs.EnvFaultError, match="only in a worker"):
        ParallelEnv(fails_elsewhere, n_workers=2)
    with pytest.raises(toy_envs.EnvFaultError, match="init failed"):
        parallel(2, fail_in="init")


def test_worker_that_dies_in_the_constructor_is_named():
    with pytest.raises(WorkerDied, match=r"worker 2 .* exited with status 7 during 'start'"):
        ExternalProcess(lambda: os._exit(7), index=2).describe()


def test_exception_in_reset_is_raised_and_the_process_usable():
    with ExternalProcess(functools.partial(Faulty, fail_in="reset")) as process:
        process.reset(seed=0)
        with pytest.raises(toy_envs.EnvFaultError, match="reset failed with"):
            process.reset(seed=0, options={"boom": 1})
        obs, _info = process.reset(seed=0)
        assert obs.shape == (4,)


def test_request_that_the_worker_cannot_read_is_an_error_and_not_a_death():
    class OnlyHere:
        def __reduce__(self):
            return int, ("not in a worker",)  # what unpickling does, and fails to

    with ExternalProcess(Faulty) as process:
        process.reset(seed=0)
        with pytest.raises(ValueError, match="not in a worker"):
            process.reset(options={"key": OnlyHere()})
        assert process.step(0).reward == 1.0


# Interrupts -----------------------------------------------------------------------


class Interrupted(Exception):
    pass


@pytest.fixture
def interrupt():
    """Context manager in which an exception is raised in the main thread, some seconds on."""

    def handler(signum, frame):
        raise Interrupted

    previous = signal.signal(signal.SIGUSR1, handler)
    yield functools.partial(InterruptWait, number=signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, previous)


def test_batch_after_an_interrupted_one_is_not_mixed_with_it(interrupt, serial, states):
    slow = np.full(12, toy_envs.SLOW)
    with parallel(2) as env:
        assert_usable(env, serial, states)
        with pytest.raises(Interrupted), interrupt(0.15):
            env.step_batch(slow, states[:12])
        # The workers are still at the old batch, and no row of it may show up here.
        for k in range(3):
            actions = np.arange(12) % 2
            want = serial.step_batch(actions, states[k : k + 12])
            got = env.step_batch(actions, states[k : k + 12])
            assert_equal(got, want, f"batch {k} after the interrupt")


def test_answer_to_an_interrupted_request_is_not_taken_for_the_next(interrupt, states):
    with ExternalProcess(Faulty) as process:
        process.step(0, states[0])  # else the interrupt meets a worker that is still starting
        with pytest.raises(Interrupted), interrupt(0.1):
            process.step(toy_envs.SLOW, states[5])
        got = process.step(1, states[2])
        with faulty_env() as reference:
            assert got.state.tobytes() == reference.step(1, states[2]).state.tobytes()


def test_worker_is_ended_by_an_interrupt_in_the_middle_of_a_message(states, monkeypatch):
    def interrupted(flags):
        raise Interrupted

    with ExternalProcess(Faulty) as process:
        process.step(0, states[0])
        monkeypatch.setattr(process.process.channel, "_fill", interrupted)
        with pytest.raises(Interrupted):
            process.step(1, states[2])
        with pytest.raises(WorkerDied, match=r"broken off.*restart\(\)"):
            process.step(1, states[2])
        process.restart()
        with faulty_env() as reference:
            want = reference.step(1, states[2])
        assert process.step(1, states[2]).state.tobytes() == want.state.tobytes()


# After closing --------------------------------------------------------------------


def test_promise_of_a_closed_process_raises(states):
    process = ExternalProcess(Faulty)
    promise = process.step(0, states[0], blocking=False)
    process.close()
    with pytest.raises(EnvClosed, match="worker 0"):
        promise()


class Laden(CartPoleEnv):
    """Carries 32 KB, which are a part of its state."""

    def __init__(self):
        super().__init__()
        self.load = np.arange(4_096.0)


def test_many_requests_and_large_answers_in_flight_do_not_block_each_other():
    with GymEnv(Laden, autoreset=False) as env:
        state, *_ = env.reset(seed=0)
    assert state.nbytes > 32_768
    # Both directions hold more than a socket takes: 2 x 8 MB and 3,000 of 32 KB.
    many = np.stack([state] * 250)
    actions = np.zeros(len(many), int)
    with ExternalProcess(functools.partial(GymEnv, Laden, autoreset=False)) as process:
        large = [process.step_batch(actions, many, blocking=False) for _ in range(2)]
        small = [process.step(0, state, blocking=False) for _ in range(3000)]
        assert {promise().rewards.sum() for promise in large} == {250.0}
        assert {promise().reward for promise in small} == {1.0}
