"""What drivers of the ray backend leave behind: clusters as they were found, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from leaks import children, is_running, wait_until

pytest.importorskip("ray", reason="the ray backend")

import ray
import ray_cluster

import plangym_ext
from plangym_ext.errors import EnvClosed
from plangym_ext.workers.ray import cluster

pytestmark = pytest.mark.slow


DRIVER = """
    import os, sys, time
    import plangym_ext

    env = plangym_ext.make(
        "MiniGrid-Empty-5x5-v0", backend="ray", n_workers=2, address=sys.argv[1] or None
    )
    state, *_ = env.reset(seed=0)
    env.step_batch([0] * 8, [state] * 8)
    while not all(actor.description for actor in env.pool.actors):
        env.pool.ready()
    print(*(actor.description["pid"] for actor in env.pool.actors), flush=True)
    time.sleep(60)
"""


def driver(address, tmp_path):
    """Start a program that makes an env; return it, and its actors and their workers."""
    path = tmp_path / "driver.py"
    path.write_text(textwrap.dedent(DRIVER))
    command = [sys.executable, "-P", str(path), address]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    actors = [int(word) for word in program.stdout.readline().split()]
    workers = [child for pid in actors for child, *_ in children(pid)]
    assert len(workers) >= 2
    return program, [*actors, *workers]


def descendants(pid):
    """Return all processes under one, but for Ray's agents, which outlive their node a minute."""
    agents = ("ray::Dashboard", "ray::RuntimeEnv")
    found = [child for child, _, command in children(pid) if not command.startswith(agents)]
    return [*found, *(deeper for child in found for deeper in descendants(child))]


def test_a_driver_that_is_killed_leaves_nothing_of_a_cluster_it_has_started(tmp_path):
    program, processes = driver("", tmp_path)
    processes += descendants(program.pid)
    program.kill()
    program.communicate()
    assert wait_until(lambda: not any(map(is_running, processes)), 30)


def test_a_driver_that_is_killed_leaves_a_cluster_that_it_has_joined(tmp_path):
    with ray_cluster.running((1, 1)) as cluster:
        program, processes = driver(cluster.address, tmp_path)
        program.kill()
        program.communicate()
        assert wait_until(lambda: not any(map(is_running, processes)), 30)
        assert wait_until(lambda: ray.available_resources().get("CPU") == 2, 30)


def test_a_cluster_is_given_back_as_it_was_found():
    with ray_cluster.running((1, 1)):
        env = plangym_ext.make("CartPole-v1", ray=True)
        begun = env.step_batch_async([0] * 8, [env.reset(seed=0)[0]] * 8)
        env.close()
        with pytest.raises(EnvClosed):
            begun.wait()
        assert ray.is_initialized()
        assert wait_until(lambda: ray.available_resources().get("CPU") == 2, 20)
        with pytest.raises(
            ValueError, match="n_workers=3 needs as many processors; the cluster has 2"
        ):
            plangym_ext.make("CartPole-v1", backend="ray", n_workers=3)
    assert not ray.is_initialized()
    with plangym_ext.make("CartPole-v1", backend="ray", n_workers=2) as env:
        assert ray.is_initialized()
        with plangym_ext.make("CartPole-v1", backend="ray", n_workers=2):
            pass
        state, *_ = env.reset(seed=0)
        assert env.step_batch([1], [state]).rewards == 1
    assert not ray.is_initialized()


STRANGER = """
    import sys
    import plangym_ext, ray, subprocess, os

    with plangym_ext.make("CartPole-v1", backend="ray", n_workers=1):
        address = ray.get_runtime_context().gcs_address
        joins = [sys.executable, "-c", "import ray, sys; ray.init(address=sys.argv[1])", address]
        for mode in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_TOKEN": "x" * 32}):
            done = subprocess.run(joins, env={**os.environ, **mode}, stderr=subprocess.DEVNULL)
            print(done.returncode)
        print(subprocess.run(joins, stderr=subprocess.DEVNULL).returncode)
"""


def test_a_cluster_that_is_started_here_asks_for_a_token(tmp_path):
    path = tmp_path / "stranger.py"
    path.write_text(textwrap.dedent(STRANGER))
    environ = {name: text for name, text in os.environ.items() if name != "RAY_AUTH_MODE"}
    done = subprocess.run(
        [sys.executable, "-P", str(path)],
        env={**environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    # Of strangers, and of this user.
    assert done.stdout.split() == ["1", "1", "0"]


def test_a_ray_without_tokens_is_told_of(monkeypatch):
    monkeypatch.delenv("RAY_AUTH_MODE")
    monkeypatch.setattr(ray, "__version__", "2.49.1")
    with pytest.warns(RuntimeWarning, match="listens on all addresses"):
        cluster._warn_without_token(ray)
    assert "RAY_AUTH_MODE" not in os.environ
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    cluster._warn_without_token(ray)
