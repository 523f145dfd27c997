"""`WorkerSampler` equals the serial one, whatever becomes of its workers."""

from __future__ import annotations

import functools
import os
import signal

import numpy as np
import pytest
from interrupting import InterruptWait
from sampling_envs import (
    Games,
    Oracle,
    Tally,
    assert_same,
    cartpole_rows,
    copied,
    marked_rows,
    oracle_rows,
    oracle_venv,
)

from plangym_ext import make_vec
from plangym_ext.errors import (
    InvalidAnswer,
    InvalidOption,
    WorkerDied,
    WorkerTimeout,
    WrongKind,
)
from plangym_ext.learn.agents.agent import RandomAgent
from plangym_ext.learn.sampling.local import SerialSampler
from plangym_ext.learn.sampling.remote.exchange import SharedWeights
from plangym_ext.learn.sampling.worker import WorkerSampler

STEPS, ROWS = 7, 5


def collected(sampler, count=4):
    found = []
    for version in range(count):
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


@pytest.mark.parametrize(("n_workers", "on_end"), [(1, "reset"), (2, "reset"), (3, "wait")])
def test_any_number_of_workers_gives_what_the_serial_sampler_gives(n_workers, on_end):
    options = {"on_end": on_end, "random_steps": 4, "episode_fields": ("score",)}
    with SerialSampler(oracle_venv(ROWS, Games), Tally(), STEPS, **options) as sampler:
        wanted, statistics = collected(sampler), sampler.statistics
    make = functools.partial(oracle_rows, env=Games)
    with WorkerSampler(make, Tally(), STEPS, ROWS, n_workers=n_workers, **options) as sampler:
        assert_equal(collected(sampler), wanted)
        assert sampler.statistics == statistics
        assert len(sampler.worker_pids) == n_workers


def test_states_are_exchanged_with_the_serial_sampler():
    venv = cartpole_rows(range(ROWS), "kernel")
    agent = RandomAgent(venv.single_action_space)
    with (
        SerialSampler(venv, agent, 20) as serial,
        WorkerSampler(cartpole_rows, agent, 20, ROWS, n_workers=2) as workers,
    ):
        serial.load_state_dict(workers.state_dict())
        wanted = collected(serial, 2)
        workers.load_state_dict(serial.state_dict())
        wanted = collected(serial, 2)
        assert_equal(collected(workers, 2), wanted)
        serial.load_state_dict(workers.state_dict())
        assert_equal(collected(workers, 1), collected(serial, 1))


class Weighted(Tally):
    """Acts by its weights."""

    def __init__(self):
        self.weights = np.zeros(3, np.float32)

    def step(self, inputs, carry):
        acted = super().step(inputs, carry)
        told = np.tile(self.weights, (len(inputs.first), 1))
        return acted._replace(info={"weights": told, "version": np.full(len(told), self.version)})

    def state_dict(self):
        return {"version": self.version, "weights": self.weights}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.weights = state["weights"]


def test_workers_play_the_weights_of_the_day_and_every_row_says_which():
    agent = Weighted()
    with WorkerSampler(oracle_rows, agent, STEPS, ROWS, n_workers=2) as sampler:
        for version in (3, 4):
            agent.weights, agent.version = np.arange(3) * np.float32(version), version
            collected = sampler.collect(version=version)
            tree = collected.data
            assert collected.version == version
            assert (np.array(tree["version"]) == version).all()
            assert (np.array(tree["agent_info"]["version"]) == version).all()
            assert (np.array(tree["agent_info"]["weights"]) == agent.weights).all()


def test_weights_travel_in_one_block():
    state = {"version": 7, "a": np.arange(6.0).reshape(2, 3), "b": np.ones(0), "c": np.float32(2)}
    with SharedWeights(state) as weights:
        weights.write(state)
        found = weights.read()
        assert found.keys() == state.keys()
        for name, value in state.items():
            np.testing.assert_array_equal(found[name], value)
            assert found[name].dtype == np.asarray(value).dtype
    with pytest.raises(WrongKind, match="'name' is a str"):
        SharedWeights({"name": "agent"})


# Faults --------------------------------------------------------------------------------------


def fault(folder, name):
    (folder / name).touch()
    return functools.partial(marked_rows, folder=folder)


@pytest.fixture
def wanted():
    with SerialSampler(oracle_venv(ROWS), Tally(), STEPS) as sampler:
        return collected(sampler)


def test_a_worker_that_dies_is_replaced_and_its_steps_are_what_they_would_have_been(
    tmp_path, wanted
):
    with WorkerSampler(fault(tmp_path, "kill"), Tally(), STEPS, ROWS, n_workers=2) as sampler:
        before = sampler.worker_pids
        assert_equal(collected(sampler), wanted)
        assert not list(tmp_path.iterdir())
        after = sampler.worker_pids
        assert (after[0] != before[0]) + (after[1] != before[1]) == 1
        # One that dies between fragments is replaced, too.
        state = sampler.state_dict()
        os.kill(after[0], signal.SIGKILL)
        again = sampler.state_dict()
        for name in ("envs", "noise", "sums"):
            np.testing.assert_array_equal(again["rows"][name], state["rows"][name])


def test_a_worker_that_dies_again_ends_the_call_but_not_the_sampler(tmp_path, wanted):
    make = fault(tmp_path, "kill again")
    with WorkerSampler(make, Tally(), STEPS, ROWS, n_workers=2) as sampler:
        with pytest.raises(WorkerDied, match=r"worker 0.*SIGKILL"):
            collected(sampler)
        (tmp_path / "kill again").unlink()
        left = collected(sampler)
        assert_same(left[0][0] | {"version": 0}, wanted[0][0] | {"version": 0})


def test_a_hung_worker_is_named_and_its_fragment_played_again(tmp_path, wanted):
    make = fault(tmp_path, "sleep")
    with WorkerSampler(make, Tally(), STEPS, ROWS, n_workers=2, timeout=6.0) as sampler:
        with pytest.raises(WorkerTimeout, match=r"worker 0 .*in step \d of rows 0 to 2") as raised:
            collected(sampler)
        assert raised.value.workers == (0,)
        (tmp_path / "sleep").unlink()
        assert_equal(collected(sampler), wanted)


def test_what_an_env_raises_comes_through_at_once_and_the_fragment_is_played_again(
    tmp_path, wanted
):
    # parllel waits for ever for such an env.
    with WorkerSampler(fault(tmp_path, "raise"), Tally(), STEPS, ROWS, n_workers=2) as sampler:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="the env failed"):
                collected(sampler)
        (tmp_path / "raise").unlink()
        assert_equal(collected(sampler), wanted)


def test_an_interrupted_fragment_is_played_again(tmp_path, wanted):
    make = fault(tmp_path, "sleep")
    with WorkerSampler(make, Tally(), STEPS, ROWS, n_workers=2, timeout=None) as sampler:
        with pytest.raises(KeyboardInterrupt), InterruptWait(0.5):
            collected(sampler)
        (tmp_path / "sleep").unlink()
        os.kill(sampler.worker_pids[0], signal.SIGKILL)  # which would sleep on
        assert_equal(collected(sampler), wanted)


# What does not fit ---------------------------------------------------------------------------


class Unstartable(Oracle):
    def reset(self, **kwargs):
        raise AssertionError("the env was started")


def test_what_does_not_fit_is_refused_before_workers_start(monkeypatch):
    monkeypatch.setattr(
        "plangym_ext.workers.workplace.WorkerHandle",
        lambda *args, **kwargs: pytest.fail("a worker was started"),
    )
    for steps, rows, workers in ((0, 5, 2), (5, 0, 2), (5, 5, 0)):
        with pytest.raises(InvalidOption, match="must be an integer >= 1; got 0"):
            WorkerSampler(oracle_rows, Tally(), steps, rows, n_workers=workers)
    agent = RandomAgent(Oracle.observation_space)
    with pytest.raises(InvalidAnswer, match="actions must be"):
        WorkerSampler(cartpole_rows, agent, 5, 5)
    make = functools.partial(oracle_rows, autoreset_mode="next_step")
    with pytest.raises(InvalidOption, match="autoreset_mode='same_step'"):
        WorkerSampler(make, Tally(), 5, 5)
    with pytest.raises(WrongKind, match="must be a vector env"):
        WorkerSampler(lambda rows: Oracle(rows.start), Tally(), 5, 5)


def test_another_number_of_envs_than_was_asked_for_is_refused():
    with pytest.raises(InvalidOption, match=r"range\(0, 3\).*of 3 envs; it has 1"):
        WorkerSampler(lambda rows: oracle_rows(range(1)), Tally(), 5, 5, n_workers=2)


def test_more_workers_than_rows_are_not_started():
    with WorkerSampler(oracle_rows, Tally(), 3, 2, n_workers=4) as sampler:
        assert len(sampler.worker_pids) == 2
        sampler.close()
        sampler.close()


@pytest.mark.parametrize("recover", [True, False])
def test_saving_changes_nothing(recover):
    def fragments(saves):
        options = {"n_workers": 2, "recover": recover}
        agent = RandomAgent(make_vec("CartPole-v1", 1).single_action_space)
        with WorkerSampler(cartpole_rows, agent, STEPS, ROWS, **options) as sampler:
            found = []
            for version in range(3):
                found.append(copied(sampler.collect(version=version).data))
                if saves:
                    sampler.state_dict()
            return found

    for one, other in zip(fragments(saves=True), fragments(saves=False), strict=True):
        assert_same(one, other)
