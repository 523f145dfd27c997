"""Workers of a collector that die: their games go on as if none had."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
from training_runs import log, small, weights

import plangym_ext
from plangym_ext.errors import WorkerDied, WorkerTimeout
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training import worker_collector
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.collector import finished_of
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.worker_collector import WorkerCollector

pytestmark = pytest.mark.slow

#: Games whose results do not hang on the last bits of what a network says.
SETTINGS = {
    "env": {"id": "CartPole-v1", "max_steps": 10},
    "planner": {"name": "shooting", "num_simulations": 4},
    "trainer": {"name": "histogram"},
    "collector": {"num_envs": 4},
}
MOVES = (9, 15, 12)


def dying(folder, moments):
    """Return a constructor of envs of which one ends its process in each of these moves."""

    def make():
        env = plangym_ext.make("CartPole-v1", n_workers=0)
        step, made = env.step_batch, [0]

        def step_batch(actions, states=None, **options):
            if len(actions) == 2:  # the games of a worker; a search steps more rows
                made[0] += 1
                for moment in moments:
                    if made[0] == moment and claimed(folder / f"died-{moment}"):
                        os.kill(os.getpid(), signal.SIGKILL)
            return step(actions, states, **options)

        env.step_batch = step_batch
        return env

    return make


def claimed(path):
    """Return whether this is the first to ask: of two workers that play alike only one dies."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def played(collector, after_round=lambda _: None):
    """Return every record of some rounds as bytes, what they cost, and the games after them."""
    found = []
    try:
        for number, moves in enumerate(MOVES):
            found.append(told_of(collector.collect(moves)))
            after_round(number)
        return found, flat(collector.state_dict())
    finally:
        collector.close()


def in_workers(n_workers, make_env=None):
    parts = Parts(compose([SETTINGS, {"collector": {"n_workers": n_workers}}]), make_env)
    return WorkerCollector(parts, parts.network(parts.env()))


def told_of(collected):
    """Return what a round cost, and its records as bytes."""
    cost = collected.cost
    costs = cost.model_steps, cost.expansions, cost.evaluator_rows, cost.restores
    return costs, [as_bytes(one) for one in finished_of(collected)]


def as_bytes(one):
    record = one.record
    arrays = [record.observations, record.actions, record.rewards, record.root_values]
    return one.move, one.slot, record.seed, record.terminated, [a.tobytes() for a in arrays]


def flat(value):
    """Return a saved state as plain values that compare."""
    if isinstance(value, dict):
        return {key: flat(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [flat(inner) for inner in value]
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def test_workers_that_die_play_the_same_again(tmp_path):
    parts = Parts(compose([SETTINGS]))
    env = parts.env()
    alone = parts.collector(env, parts.evaluator(parts.network(env)), range(4))
    # In the middle of the second round.
    collector = in_workers(2, dying(tmp_path, [9 + 8]))

    def kill(number):
        if number == 1:  # between two rounds
            os.kill(collector._workers[1].process.pid, signal.SIGKILL)

    found = played(collector, kill)
    assert {path.name for path in tmp_path.iterdir()} == {"died-17"}
    assert found == played(alone)
    assert [len(records) for _, records in found[0]] >= [0, 8, 4]


def test_a_round_whose_worker_keeps_dying_is_given_up_and_can_be_played_again(monkeypatch):
    monkeypatch.setattr(worker_collector, "_MAX_DEATHS", 1)
    collector = in_workers(1)
    try:
        worker = collector._workers[0]
        os.kill(worker.process.pid, signal.SIGKILL)
        with pytest.raises(WorkerDied, match="worker 0"):
            collector.collect(12)
        # The round has not happened: the games are where they were.
        assert collector.state_dict() == {"games": []}
        worker.restart()
        assert len(collector.collect(12).data) == 4
    finally:
        collector.close()


@pytest.mark.skipif(not os.environ.get("PYTEST_LONG"), reason="starts workers: tox -e long")
def test_a_run_whose_worker_dies_learns_the_same(tmp_path):
    class Kills(Callback):
        def on_episodes(self, runner, records):
            if runner.round == 3:
                os.kill(runner.sampler._workers[0].process.pid, signal.SIGKILL)

    # One worker, which asks the network for as many rows at once as this process does.
    config = small({"collector": {"n_workers": 1}, "evaluation": {"every": 0}})
    with Runner(small({"evaluation": {"every": 0}}), tmp_path / "whole") as whole:
        whole.run()
    with Runner(config, tmp_path / "killed", callbacks=[Kills()]) as killed:
        killed.run()
    assert weights(killed.network) == weights(whole.network)
    assert log(tmp_path / "killed") == log(tmp_path / "whole")


def hanging(folder, moment):
    """Return a constructor of envs of which one sleeps in this move, if none has before."""

    def make():
        env = plangym_ext.make("CartPole-v1", n_workers=0)
        step, made = env.step_batch, [0]

        def step_batch(actions, states=None, **options):
            if len(actions) == 2:
                made[0] += 1
                if made[0] == moment and claimed(folder / "hung"):
                    time.sleep(600)
            return step(actions, states, **options)

        env.step_batch = step_batch
        return env

    return make


def test_a_worker_that_hangs_is_named_and_the_round_can_be_played_again(tmp_path):
    parts = Parts(compose([SETTINGS]))
    env = parts.env()
    alone = parts.collector(env, parts.evaluator(parts.network(env)), range(4))
    wanted, told = played(alone), []
    settings = compose([SETTINGS, {"collector": {"n_workers": 2, "timeout": 5.0}}])
    parts = Parts(settings, hanging(tmp_path, 9 + 8))
    with plangym_ext.make("CartPole-v1", n_workers=0) as spaces:
        collector = WorkerCollector(parts, parts.network(spaces))
    try:
        found, said = [], []
        for moves in MOVES:
            played_again = 0
            while True:
                try:
                    collected = collector.collect(moves, progress=told.append)
                    break
                except WorkerTimeout as error:
                    said.append((error.workers, str(error)))
                    played_again += 1
                    assert played_again < 5
            found.append(told_of(collected))
        assert (found, flat(collector.state_dict())) == wanted
    finally:
        collector.close()
    assert said
    for (worker,), message in said:
        slots = "0, 2" if worker == 0 else "1, 3"
        assert f"worker {worker}" in message
        assert f"in a move of the games {slots}, after " in message
    assert told
    assert max(told) <= 4 * max(MOVES)
