"""What "auto" chooses where no native backend runs an env, and what it says about it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from gymnasium.envs.toy_text import BlackjackEnv

import plangym_ext
from plangym_ext.workers import scheduling
from plangym_ext.workers.scheduling import default_n_workers, workers_pay

needs_two = pytest.mark.skipif(default_n_workers() < 2, reason="workers need two processors")


@needs_two
@pytest.mark.slow
def test_costly_steps_are_given_to_workers_that_the_first_batch_starts():
    with (
        plangym_ext.make("ALE/Pong-v5") as env,
        plangym_ext.make("ALE/Pong-v5", n_workers=0) as here,
    ):
        assert (env.backend, env.n_workers) == ("process", default_n_workers())
        assert env.backend_note.startswith(f"{env.n_workers} worker processes, as a step takes")
        assert (here.backend, "worker" in here.backend_note) == ("serial", False)
        state, obs, _ = env.reset(seed=0)
        want_state, want_obs, _ = here.reset(seed=0)
        assert (state == want_state).all()
        assert (obs == want_obs).all()
        env.step(0)
        assert env._batch_env is None
        got, want = (one.step_batch([2, 3], [state, state], dt=3) for one in (env, here))
        assert len(env.batch_env) == env.n_workers
        for a, b in zip(got[:5], want[:5], strict=True):
            assert np.array_equal(a, b)


def test_cheap_steps_stay_in_this_process_and_so_does_what_may_share_objects(monkeypatch):
    # As on a machine that measures as it should: a busy one may take a cheap step for a dear one.
    monkeypatch.setattr("plangym_ext.core.gym_env.GymEnv.step_seconds", 4e-6)
    with plangym_ext.make("Blackjack-v1") as env:
        assert env.backend == "serial"
        if default_n_workers() > 1:
            assert env.backend_note == "no worker processes, as a step takes about 4 us"
    monkeypatch.setattr("plangym_ext.core.gym_env.GymEnv.step_seconds", 0.01)
    held = []
    for make in (BlackjackEnv, lambda: held.append(1) or BlackjackEnv()):
        with plangym_ext.make(make) as env:
            assert env.backend == ("process" if make is BlackjackEnv and _several() else "serial")
    if _several():
        assert "shares no object with this process; n_workers=N" in env.backend_note
    monkeypatch.undo()
    with plangym_ext.make(BlackjackEnv, check=False) as env:
        assert env.backend == "serial"


def _several():
    return default_n_workers() > 1


@needs_two
@pytest.mark.slow
def test_vector_envs_of_costly_steps_have_workers(monkeypatch):
    with plangym_ext.make_vec("ALE/Pong-v5", 2) as venv:
        assert (venv.backend, len(venv.worker_pids)) == ("process", 2)
        assert venv.backend_note.startswith(f"{default_n_workers()} worker processes, as a step")
    # One sub-env has nothing to share; what a caller wraps or refuses stays here.
    for num_envs, options in ((1, {}), (2, {"n_workers": 0})):
        with plangym_ext.make_vec("ALE/Pong-v5", num_envs, **options) as venv:
            assert (venv.backend, venv.backend_note) == ("serial", "")


@pytest.mark.parametrize(
    ("micros", "rows", "n_workers", "expected"),
    [
        # Saved 8 * 10 / 2 = 40 us; passing costs 30 + 8 / 2 = 34 us, and twice that is wanted.
        (10, 8, 2, False),
        (20, 8, 2, True),  # 80 against 68
        (10, 32, 2, True),  # 160 against 92
        (1000, 1, 8, False),  # one row is one worker's
        (1000, 8, 1, False),
    ],
)
def test_when_workers_pay(micros, rows, n_workers, expected):
    assert workers_pay(micros * 1e-6, rows, n_workers) is expected


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/", {"cpu.max": "max 100000"}, float("inf")),
        ("0::/", {"cpu.max": "150000 100000"}, 1.5),
        # The limit of a group holds for those inside of it.
        ("0::/a/b", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2.0),
        ("3:cpu,cpuacct:/a\n1:memory:/a", {"cpu/a/cpu.cfs_quota_us": "300000"}, 3.0),
        ("3:cpu,cpuacct:/", {"cpu/cpu.cfs_quota_us": "-1"}, float("inf")),
    ],
)
def test_limits_of_control_groups(groups, files, expected, tmp_path):
    (tmp_path / "groups").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "cpu.cfs_period_us").write_text("100000")
    assert scheduling._granted(tmp_path / "groups", tmp_path / "fs") == expected
    assert scheduling._granted(tmp_path / "none", tmp_path / "fs") == float("inf")


PROGRAM = """
import os, multiprocessing
import plangym_ext

def told():
    with plangym_ext.make("ALE/Pong-v5") as env:
        print(env.backend, "-", env.backend_note, flush=True)

if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=told)
    process.start()
    process.join()
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    told()
"""


@pytest.mark.slow
def test_neither_a_process_among_others_nor_one_on_one_processor_starts_workers():
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.splitlines() == [
        "serial - no worker processes, as this is one itself",
        "serial - no worker processes, as there is one processor",
    ], done.stderr
