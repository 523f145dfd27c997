"""What goes wrong in workers, and the tests that say what comes of it for both kinds of envs.

`SCENARIOS` names a test of batches and one of vector envs for each; those that no other file has
are here. Processes and signals are real, and settings are the defaults where none is the subject.
"""

from __future__ import annotations

import ast
import functools
import gc
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import leaks
import numpy as np
import pytest
import toy_envs
from batches import stop
from toy_envs import Faulty

import plangym_ext
from plangym_ext.errors import ConcurrentUse, StorageError, WorkerDied, WorkerTimeout
from plangym_ext.workers import limits

_FAULTS, _HANGS, _LIFE = (
    f"workers/test_{name}" for name in ("worker_faults", "hangs", "lifecycle")
)
_VECTOR, _RECOVERY, _HERE = (
    "vector/test_vector_env",
    "vector/test_recovery",
    "workers/test_scenarios",
)
_DEATHS = f"{_FAULTS}::test_row_that_kills_twice_is_given_up_and_the_env_stays_usable"
_HARD = f"{_FAULTS}::test_exception_that_is_hard_to_send_arrives_with_its_text"
#: Of batches, of vector envs.
SCENARIOS = {
    "kills itself": (_DEATHS, f"{_RECOVERY}::test_a_sub_env_that_kills_its_worker_is_named"),
    "leaves by _exit": (_DEATHS, f"{_RECOVERY}::test_a_sub_env_that_kills_its_worker_is_named"),
    "segmentation fault": (_DEATHS, f"{_HERE}::test_a_segmentation_fault_is_named"),
    "killed from outside": (
        "workers/test_kills::test_every_row_is_right_whichever_worker_is_killed",
        f"{_VECTOR}::test_a_dead_worker_costs_nothing_but_time",
    ),
    "dead after a slow one": (
        f"{_FAULTS}::test_death_after_a_slow_worker_does_not_wait_for_it",
        f"{_RECOVERY}::test_a_death_is_seen_while_others_take_long",
    ),
    "killed while idle": (
        f"{_FAULTS}::test_worker_killed_while_idle_is_replaced",
        f"{_VECTOR}::test_attributes_and_states_outlive_a_worker",
    ),
    "killed while it starts": (
        f"{_FAULTS}::test_worker_killed_again_while_it_starts",
        f"{_RECOVERY}::test_workers_that_die_while_they_come_back_cost_no_episode",
    ),
    "constructor raises": (
        f"{_FAULTS}::test_exception_in_one_constructor_closes_all_workers",
        "workers/test_ways_to_end::test_every_constructor_that_fails_is_told",
    ),
    "constructor kills": (
        f"{_FAULTS}::test_worker_that_dies_in_the_constructor_is_named",
        "vector/test_probes::test_a_constructor_that_ends_its_worker_is_told",
    ),
    "reset raises": (
        f"{_FAULTS}::test_exception_in_reset_is_raised_and_the_process_usable",
        f"{_HERE}::test_a_reset_that_raises_is_told_and_has_not_happened",
    ),
    "step raises": (
        f"{_FAULTS}::test_exception_in_a_batch_names_row_and_action_and_leaves_the_env_usable",
        f"{_VECTOR}::test_a_step_that_raises_leaves_every_sub_env_where_it_was",
    ),
    "close raises": (
        "workers/test_close_errors::test_an_env_for_batches_raises_when_all_is_closed",
        "workers/test_close_errors::test_the_vector_env_closes_all_and_warns",
    ),
    "error without pickle": (_HARD, f"{_HERE}::test_errors_that_are_hard_to_send_arrive"),
    "error with per cent signs": (_HARD, f"{_HERE}::test_errors_that_are_hard_to_send_arrive"),
    "error that cannot be built": (_HARD, f"{_HERE}::test_errors_that_are_hard_to_send_arrive"),
    "hangs, no deadline given": (
        f"{_HERE}::test_by_default_a_hang_is_found_in_a_time_that_a_person_waits",
        f"{_HERE}::test_by_default_a_hang_is_found_in_a_time_that_a_person_waits",
    ),
    "hangs in C, ignores SIGTERM": (
        f"{_HANGS}::test_hung_row_is_named_and_its_worker_alone_replaced",
        f"{_HERE}::test_a_sub_env_that_holds_the_interpreter_is_stopped",
    ),
    "late answer after a deadline": (
        f"{_HANGS}::test_promise_with_a_time_limit",
        f"{_VECTOR}::test_a_worker_that_hangs_is_stopped_and_all_is_undone",
    ),
    "stopped by SIGSTOP": (
        f"{_HANGS}::test_stopped_worker_is_replaced",
        f"{_HERE}::test_a_stopped_worker_is_replaced",
    ),
    "parent is killed": (
        f"{_LIFE}::test_sigkill_of_the_parent_leaves_no_worker",
        "workers/test_fork_server::test_server_and_workers_end_with_this_process",
    ),
    "parent's group is killed": (
        f"{_HERE}::test_a_group_that_is_killed_leaves_no_memory",
        f"{_HERE}::test_a_group_that_is_killed_leaves_no_memory",
    ),
    "parent has threads": (
        f"{_LIFE}::test_threads_and_kernels_in_the_parent_do_not_disturb_workers",
        f"{_LIFE}::test_torch_in_the_parent_does_not_disturb_workers",
    ),
    "env starts processes": (
        f"{_FAULTS}::test_processes_of_a_dead_env_end_with_it",
        "workers/test_orphans::test_what_an_env_starts_ends_with_its_worker",
    ),
    "constructor cannot travel": (
        f"{_LIFE}::test_constructor_that_cannot_travel_is_named_before_anything_starts",
        f"{_HERE}::test_a_constructor_that_cannot_travel_is_named",
    ),
    "bad observation": (
        "vector/test_native_values::test_rows_of_batches_are_looked_at_likewise",
        "vector/test_row_values::test_wrong_values_are_refused_and_undone",
    ),
    "out of bounds": (
        "vector/test_native_values::test_rows_of_batches_are_looked_at_likewise",
        "vector/test_row_values::test_finite_numbers_out_of_bounds_are_refused_on_demand",
    ),
    "unequal envs": (
        "workers/test_batch_env::test_envs_that_differ_are_refused_with_both_values",
        f"{_VECTOR}::test_observation_spaces_may_differ_if_that_is_asked_for",
    ),
    "wrong actions": (
        "workers/test_bad_input::test_number_of_actions_and_states_must_agree",
        f"{_VECTOR}::test_wrong_actions_are_refused_before_anything_moves",
    ),
    "closed twice, used afterwards": (
        f"{_LIFE}::test_use_after_close_is_refused",
        "vector/test_probes::test_nothing_is_shown_after_closing",
    ),
    "closed with a call pending": (
        "workers/test_async::test_close_with_batches_in_flight",
        "vector/test_probes::test_closing_while_a_call_is_pending_warns",
    ),
    "never closed": (
        f"{_LIFE}::test_forgotten_env_takes_its_workers_and_memory_along",
        f"{_HERE}::test_a_forgotten_vector_env_takes_its_workers_along",
    ),
    "Ctrl-C": (
        f"{_LIFE}::test_interrupt_ends_with_one_traceback_and_nothing_left",
        f"{_RECOVERY}::test_an_interrupt_at_any_line_leaves_all_at_the_same_step",
    ),
    "two threads": (
        "workers/test_limits::test_two_threads_on_one_handle_never_mix",
        f"{_HERE}::test_two_threads_never_mix_steps",
    ),
    "few descriptors": (
        "workers/test_limits::test_few_descriptors_are_noticed_before_any_worker_starts",
        f"{_HERE}::test_few_descriptors_are_told_with_numbers",
    ),
    "env writes to its output": (
        f"{_LIFE}::test_a_parent_whose_input_or_output_is_closed",
        f"{_HERE}::test_what_sub_envs_write_disturbs_nothing",
    ),
    "any number of workers": (
        f"{_FAULTS}::test_batch_that_loses_a_worker_equals_one_that_does_not",
        "vector/test_against_sync::test_equals_sync_vector_env",
    ),
}


def test_every_scenario_has_a_test_of_each_kind():
    tests, found = Path(__file__).parents[1], {}
    for name in {name for both in SCENARIOS.values() for name in both}:
        file, _, test = name.partition("::")
        if file not in found:
            tree = ast.parse((tests / f"{file}.py").read_text())
            found[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert test in found[file], f"{name} is gone: which test tells of it now?"
    assert len(SCENARIOS) == 36


# Of vector envs ---------------------------------------------------------------------


@pytest.fixture
def venv():
    with plangym_ext.make_vec(Faulty, 4, n_workers=2) as found:
        found.reset(seed=0)
        found.step(np.zeros(4, int))
        yield found


def with_one(action, row=2):
    actions = np.zeros(4, int)
    actions[row] = action
    return actions


def assert_goes_on(venv):
    """The step after a fault is that of a vector env without it."""
    with plangym_ext.make_vec(Faulty, 4, backend="serial") as plain:
        plain.reset(seed=0)
        plain.step(np.zeros(4, int))
        np.testing.assert_array_equal(venv.step(with_one(1))[0], plain.step(with_one(1))[0])


def test_a_segmentation_fault_is_named(venv):
    with pytest.raises(WorkerDied, match="SIGSEGV"):
        venv.step(with_one(toy_envs.SEGFAULT))
    assert_goes_on(venv)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (toy_envs.RAISE_UNPICKLABLE, "step failed with a lock"),
        (toy_envs.RAISE_UNBUILDABLE, "step failed"),
        (toy_envs.RAISE_PERCENT, "100% of %s and %d failed"),
    ],
)
def test_errors_that_are_hard_to_send_arrive(venv, action, text):
    with pytest.raises(Exception, match=r"step failed|its traceback follows|100%") as caught:
        venv.step(with_one(action))
    assert text in f"{caught.value}{caught.value.__cause__}"
    assert any("row 2" in note for note in caught.value.__notes__)
    assert_goes_on(venv)


class Refuses(Faulty):
    """Raises in the reset that its options ask for."""

    def reset(self, *, seed=None, options=None):
        if options:
            raise toy_envs.EnvFaultError("reset failed")
        return super().reset(seed=seed)


def test_a_reset_that_raises_is_told_and_has_not_happened():
    with plangym_ext.make_vec(Refuses, 4, n_workers=2) as venv:
        venv.reset(seed=0)
        venv.step(np.zeros(4, int))
        with pytest.raises(toy_envs.EnvFaultError, match="reset failed"):
            venv.reset(options={"fail": True})
        assert_goes_on(venv)


def test_a_sub_env_that_holds_the_interpreter_is_stopped():
    make = functools.partial(Faulty, stubborn=True)
    with plangym_ext.make_vec(make, 2, n_workers=2, timeout=0.5) as venv:
        venv.reset(seed=0)
        pids = venv.worker_pids
        with pytest.raises(WorkerTimeout, match="sub-env 1"):
            venv.step(np.array([0, toy_envs.NATIVE]))
        venv.step(np.zeros(2, int))
        assert leaks.wait_until(lambda: not leaks.is_running(pids[1]))


def test_a_stopped_worker_is_replaced():
    with plangym_ext.make_vec(Faulty, 4, n_workers=2, timeout=0.5) as venv:
        venv.reset(seed=0)
        venv.step(np.zeros(4, int))
        stop(venv.worker_pids[0])
        with pytest.raises(WorkerTimeout, match="worker 0"):
            venv.step(np.zeros(4, int))
        assert_goes_on(venv)


def test_a_constructor_that_cannot_travel_is_named():
    lock = threading.Lock()
    with pytest.raises(Exception, match="lock") as caught:
        plangym_ext.make_vec(lambda: Faulty(lock), 2, n_workers=2)
    assert "constructor" in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


def test_a_forgotten_vector_env_takes_its_workers_along():
    venv = plangym_ext.make_vec(Faulty, 2, n_workers=2)
    venv.reset(seed=0)
    pids = venv.worker_pids
    del venv
    gc.collect()
    assert leaks.wait_until(lambda: not any(map(leaks.is_running, pids)))


def test_two_threads_never_mix_steps(venv):
    refused = threading.Event()

    def step():
        try:
            while not refused.is_set():
                venv.step(np.zeros(4, int))
        except ConcurrentUse:
            refused.set()

    threads = [threading.Thread(target=step) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert refused.is_set()
    venv.reset(seed=0)
    venv.step(np.zeros(4, int))
    assert_goes_on(venv)


def program(text, tmp_path):
    """Run a script that imports the tests' helpers; return what it writes."""
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    tests = str(Path(__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-P", str(path)],
        env={**os.environ, "PYTHONPATH": tests},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_few_descriptors_are_told_with_numbers(tmp_path):
    script = f"""
    import resource, plangym_ext
    from toy_envs import Faulty
    from plangym_ext.errors import {StorageError.__name__}

    resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    try:
        plangym_ext.make_vec(Faulty, 40, n_workers=40)
    except StorageError as error:
        print(error)
    """
    with program(script, tmp_path) as process:
        out, err = process.communicate(timeout=300)
    assert "24" in out, err


def test_what_sub_envs_write_disturbs_nothing(tmp_path):
    script = """
    import numpy as np, plangym_ext
    from toy_envs import Loud

    with plangym_ext.make_vec(Loud, 2, n_workers=2) as venv:
        venv.reset(seed=0)
        print("rewards", venv.step(np.zeros(2, int))[1].tolist())
    """
    with program(script, tmp_path) as process:
        out, err = process.communicate(timeout=300)
    assert "rewards [1.0, 1.0]" in out, err


# Of both ----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [plangym_ext.make, plangym_ext.make_vec])
def test_by_default_a_hang_is_found_in_a_time_that_a_person_waits(make):
    # That it is found after so long: `test_hangs` and `test_recovery`, with less.
    limit = inspect.signature(make).parameters["timeout"].default
    assert limits.row_limit(limit, first=False) == 30.0
    assert limits.row_limit(limit, first=True) == 120.0


@pytest.mark.parametrize("kind", ["batch", "vector"])
def test_a_group_that_is_killed_leaves_no_memory(kind, tmp_path):
    made = {
        "batch": "env = make(Faulty, n_workers=2); pids = [p.process.pid for p in env.batch_env]",
        "vector": "env = make_vec(Faulty, 2, n_workers=2); pids = env.worker_pids",
    }[kind]
    before = set(os.listdir("/dev/shm"))
    script = f"""
    import time
    from plangym_ext import make, make_vec
    from toy_envs import Faulty

    {made}
    env.reset(seed=0)
    print(*pids, flush=True)
    time.sleep(300)
    """
    with program(script, tmp_path) as process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        os.killpg(process.pid, signal.SIGKILL)
        _, err = process.communicate(timeout=300)
    assert len(pids) == 2
    assert leaks.wait_until(lambda: not any(map(leaks.is_running, pids)))
    assert err == ""  # no tracker has anything to say
    # What other programs have there meanwhile goes again.
    assert leaks.wait_until(lambda: set(os.listdir("/dev/shm")) <= before)
