"""Runs whose games are played by actors of a Ray cluster: what they play, and what kills them."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from leaks import wait_until
from training_runs import log, small, weights

pytest.importorskip("ray", reason="runs on Ray")

import ray
import ray_cluster
from contract import own_agents, own_parts
from contract.agent_contract import AgentContract, rows_of
from sampling_envs import Tally, assert_same, copied, oracle_rows, oracle_venv

from plangym_ext.errors import InvalidOption, WorkerTimeout
from plangym_ext.learn.sampling.local import SerialSampler
from plangym_ext.learn.sampling.worker import WorkerSampler
from plangym_ext.run.cli import main
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.own_parts import Actors
from plangym_ext.run.training.runner import Runner
from plangym_ext.workers.ray.ray_worker import RayWorker
from plangym_ext.workers.workplace import RayCluster

pytestmark = pytest.mark.slow
STEPS, ROWS = 7, 3

#: Games whose results do not hang on the last bits of what a network says.
PLANNED = {
    "env": {"max_steps": 10},
    "planner": {"name": "shooting", "num_simulations": 4},
    "algorithm": {"name": "histogram"},
    "evaluation": {"every": 0},
    "rounds": 4,
}
#: An agent whose rows explore by numbers of their own.
PLAYED = {
    "agent": {"hidden": [8]},
    "algorithm": {"learning_starts": 16, "batch_size": 8, "exploration_least": 0.1},
    "rounds": 4,
    "checkpoint_every": 2,
    "collector": {"num_envs": 4, "moves": 6},
    "evaluation": {"every": 0},
}


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster.running((1, 1)) as found:
        yield found


@pytest.fixture
def place(cluster):
    with RayCluster() as found:
        yield found
    assert ray.is_initialized()  # it was joined, and is left as it was
    assert wait_until(lambda: ray.available_resources().get("CPU") == 2, 20)


class Weighted(Tally):
    """Tells its weights of each step."""

    def __init__(self):
        self.weights = np.zeros(2, np.float32)

    def step(self, inputs, carry):
        acted = super().step(inputs, carry)
        told = np.repeat(self.weights[None], len(inputs.first), axis=0)
        return acted._replace(info={"weights": told})

    def state_dict(self):
        return {"version": self.version, "weights": self.weights}

    def load_state_dict(self, state):
        self.version, self.weights = int(state["version"]), np.array(state["weights"])


def played(sampler, agent, versions, before=lambda _: None):
    """Play a fragment of each version of the weights; return what all of them are."""
    found = []
    for version in versions:
        before(version)
        agent.version, agent.weights = version, np.full(2, version, np.float32)
        one = sampler.collect(version=version)
        found.append((copied(one.data), dict(one.episodes), one.cost.model_steps))
    return found


def assert_equal(found, wanted):
    for (tree, episodes, steps), (other, others, more) in zip(found, wanted, strict=True):
        assert_same(tree, other)
        assert episodes.keys() == others.keys()
        for name, column in others.items():
            np.testing.assert_array_equal(episodes[name], column, err_msg=name)
        assert steps == more


def test_actors_play_what_this_process_plays_and_weights_are_placed_once(place, monkeypatch):
    versions, placed = [1, 2, 2, 3, 4], []
    agent = Weighted()
    with SerialSampler(oracle_venv(ROWS), agent, STEPS, random_steps=4) as serial:
        wanted = played(serial, agent, versions)
        saved = serial.state_dict()
        after = played(serial, agent, [5])
    put = place.placed
    monkeypatch.setattr(place, "placed", lambda value: (placed.append(value), put(value))[1])
    options = {"n_workers": 2, "workplace": place, "random_steps": 4}
    with WorkerSampler(oracle_rows, agent, STEPS, ROWS, **options) as sampler:
        pids = sampler.worker_pids

        def kill(version):
            if version == 3:
                os.kill(pids[0], signal.SIGKILL)

        assert_equal(played(sampler, agent, versions, kill), wanted)
        assert sampler.worker_pids[0] != pids[0]
        assert sampler.worker_pids[1] == pids[1]
        assert [int(one["version"]) for one in placed] == [1, 2, 3, 4]
        sampler.load_state_dict(saved)
        assert_equal(played(sampler, agent, [5]), after)


class Followed(AgentContract):
    """An agent of one's own, on a cluster."""

    def learn(self, agent, action):
        agent.learn(action)


@pytest.mark.parametrize("kind", ["Held", "Closure", "Table", "HalfSaved", "Tensors"])
@pytest.mark.parametrize("ahead", [False, True])
def test_agents_of_one_s_own_play_what_they_have_learned(place, kind, ahead):
    agent = getattr(own_agents, kind)()
    options = {"n_workers": 1, "workplace": place, "ahead": ahead}
    with WorkerSampler(rows_of, agent, STEPS, ROWS, **options) as sampler:
        assert Followed().follow(sampler, agent, late=int(ahead))


class Kills(Callback):
    """Kills an actor in a round, and raises in another one."""

    def __init__(self, killed, broken=-1):
        self.killed, self.broken = killed, broken

    def on_episodes(self, runner, records):
        if runner.round == self.killed:
            os.kill(runner.sampler.worker_pids[0], signal.SIGKILL)
        if runner.round == self.broken:
            raise RuntimeError("in the middle of a round")


def ran(config, folder, **options):
    with Runner(config, folder, **options) as runner:
        runner.run()
    return weights(runner.network), log(folder)


@pytest.mark.parametrize("kind", ["planner", "agent"])
def test_a_run_learns_what_it_learns_in_processes_if_an_actor_dies(place, tmp_path, kind):
    if kind == "planner":
        config, alone = small(PLANNED), small(PLANNED, {"collector": {"n_workers": 2}})
    else:
        config = alone = compose(["dqn_cartpole", PLAYED])
    wanted = ran(alone, tmp_path / "alone")
    actors, folder = Actors(place, 2), tmp_path / "ray"
    with pytest.raises(RuntimeError, match="in the middle"):
        ran(config, folder, actors=actors, callbacks=[Kills(0, broken=3)])
    # Actors are no setting of the run; the last bits of a network that is asked for a planner
    # depend on how many games each has.
    left = 2 if kind == "planner" else 1
    assert ran(config, folder, actors=Actors(place, left), resume=True) == wanted


# Imports take 5 seconds of a processor, which are two minutes beside thirty busy processes on two.
@pytest.mark.timeout(400)
@pytest.mark.parametrize("settings", [own_parts.dqn, own_parts.searched])
def test_parts_of_one_s_own_learn_on_a_cluster_what_they_learn_here(place, tmp_path, settings):
    # One actor, as what these parts play depends on the rows beside.
    config = settings(rounds=2, evaluation={"every": 0})
    wanted = ran(compose([*config, {"collector": {"n_workers": 1}}]), tmp_path / "alone")
    assert ran(compose(config), tmp_path / "ray", actors=Actors(place, 1)) == wanted


def test_an_actor_may_take_as_long_to_start_as_its_rows_to_step(place, monkeypatch):
    found = []
    monkeypatch.setattr(RayWorker, "_await_built", lambda worker: found.append(worker))
    monkeypatch.setattr(RayWorker, "built", lambda worker: {"num_envs": worker.start_timeout})
    for timeout in (1.0, 300.0, None):
        with pytest.raises(InvalidOption, match=f"it has {timeout and max(timeout, 120.0)}"):
            WorkerSampler(
                oracle_rows, Tally(), STEPS, ROWS, n_workers=1, workplace=place, timeout=timeout
            )
    assert len(found) == 3


def test_a_hung_actor_is_named_and_the_next_call_plays_the_fragment(place):
    options = {"n_workers": 1, "workplace": place, "timeout": 1.0}
    with (
        SerialSampler(oracle_venv(ROWS), Tally(), STEPS) as serial,
        WorkerSampler(oracle_rows, Tally(), STEPS, ROWS, **options) as sampler,
    ):
        wanted = copied(serial.collect().data)
        pid = sampler.worker_pids[0]
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(WorkerTimeout, match=rf"worker 0 \(pid {pid} on .*'s?\w+' within 1"):
            sampler.collect()
        assert_same(copied(sampler.collect().data), wanted)


def test_the_command_leaves_the_cluster_as_it_was(cluster, tmp_path, capsys):
    command = ["train", "dqn_cartpole", "--rounds", "1", "--collector.num_envs", "2"]
    command += ["--evaluation.every", "0", "--out", str(tmp_path), "--quiet"]
    assert main([*command, "--ray", cluster.address, "--ray-actors", "1"]) == 0
    assert "1 round, " in capsys.readouterr().out
    assert ray.is_initialized()
    assert wait_until(lambda: ray.available_resources().get("CPU") == 2, 20)
    forked = compose(["ppo_cartpole", {"learners": 2}])
    with RayCluster() as place, pytest.raises(InvalidOption, match=r"learners must be 1 .* got 2"):
        Runner(forked, tmp_path / "learners", actors=Actors(place))
