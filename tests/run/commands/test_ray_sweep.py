"""Sweeps whose runs are tasks of a Ray cluster: killed, interrupted, and gone on with."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from leaks import wait_until
from training_runs import log, weights

pytest.importorskip("ray", reason="sweeps on Ray")

import ray
import ray_cluster

from plangym_ext.learn import tensor_file
from plangym_ext.run.cli import main
from plangym_ext.run.experiments.plan import Sweep, jobs_of
from plangym_ext.run.experiments.queue import JobQueue, RayJobs
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner

pytestmark = pytest.mark.slow
ROUNDS = 60
SETTINGS = ["ppo_cartpole", {"rounds": ROUNDS, "checkpoint_every": 1, "evaluation": {"every": 0}}]


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster.running((1, 1)) as found:
        yield found


def tasks():
    """Return the processes in which tasks of Ray run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::run_job"):
                found.append(int(path.parent.name))
        except OSError:  # it has ended
            continue
    return found


def test_a_run_whose_task_dies_and_that_is_interrupted_ends_like_one_alone(cluster, tmp_path):
    (job,) = jobs_of(Sweep(SETTINGS, {}))
    done: list[str] = []

    def reached(number):
        return list(tmp_path.rglob(f"checkpoint-{number:08}.pt"))

    def look():
        saved = sorted(path.name for path in (tmp_path / job.name).rglob("checkpoint-*.pt"))
        if saved and not done:
            (pid,) = tasks()
            done.append(saved[-1])
            os.kill(pid, signal.SIGKILL)
        elif done and queue.running[0].tries == 2 and saved[-1] > done[0]:
            raise KeyboardInterrupt

    statuses = []
    with RayJobs(None) as where:
        assert where.slots == 2
        queue = JobQueue(tmp_path, [job], where=where)
        with pytest.raises(KeyboardInterrupt):
            queue.run(look, lambda *_: pytest.fail("it had ended before it was interrupted"))
        assert queue.saved
        assert queue.running[0].process.poll() in (130, -signal.SIGINT)
        assert not reached(ROUNDS)
        queue = JobQueue(tmp_path, [job], where=where)
        queue.run(lambda: None, lambda _, status, __: statuses.append(status))
    assert statuses == [0]
    with Runner(compose(SETTINGS), tmp_path / "alone") as runner:
        runner.run()
    (path,) = (tmp_path / job.name).rglob(f"checkpoint-{ROUNDS:08}.pt")
    found = tensor_file.load(path)["trainer"]["network"]
    assert b"".join(part.numpy().tobytes() for part in found.values()) == weights(runner.network)
    assert log(tmp_path / job.name) == log(tmp_path / "alone")
    assert ray.is_initialized()
    assert wait_until(lambda: ray.available_resources().get("CPU") == 2, 20)


def test_the_command_runs_on_the_cluster_it_is_told(cluster, tmp_path, capsys):
    command = ["sweep", "ppo_cartpole", "--rounds", "1", "--evaluation.every", "0", "--seeds", "2"]
    command += ["--out", str(tmp_path), "--ray", cluster.address]
    assert main([*command, "--gpus", "1"]) == 2
    assert "leave it out with --ray" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main(command) == 0
    assert "wrote" in capsys.readouterr().out
    assert len(list(tmp_path.rglob("checkpoint-00000001.pt"))) == 2
