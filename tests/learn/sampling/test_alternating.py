"""`AlternatingSampler` equals the serial one row by row, and has envs step while the agent acts."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from sampling_envs import Games, Marked, Tally, assert_same, copied, oracle_venv

from plangym_ext import make_vec
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent import RandomAgent
from plangym_ext.learn.sampling.local import AlternatingSampler, SerialSampler


@pytest.mark.parametrize(
    ("backend", "on_end"),
    [("serial", "reset"), ("serial", "wait"), ("serial", "sticky"), ("process", "reset")],
)
def test_it_equals_the_serial_sampler_row_by_row(backend, on_end):
    options = {"on_end": on_end, "random_steps": 4, "episode_fields": ("score",)}
    workers = {"n_workers": 2} if backend == "process" else {}
    venv = oracle_venv(5, Games, backend=backend, **workers)
    alternating = AlternatingSampler(venv, Tally(), 7, **options)
    with SerialSampler(oracle_venv(5, Games), Tally(), 7, **options) as serial, alternating:
        for _ in range(4):
            one, other = serial.collect(), alternating.collect()
            wanted, found = copied(one.data), copied(other.data)
            assert_same(found, wanted)
            for name, column in one.episodes.items():
                np.testing.assert_array_equal(other.episodes[name], column, err_msg=name)
            assert other.cost.model_steps == one.cost.model_steps
        assert alternating.statistics == serial.statistics


def test_either_goes_on_from_what_the_other_has_saved():
    def cartpoles(count):
        return make_vec("CartPole-v1", count, backend="kernel", autoreset_mode="same_step")

    def both():
        venv = cartpoles(6)
        agent = RandomAgent(venv.single_action_space)
        return SerialSampler(venv, agent, 9), AlternatingSampler(cartpoles(6), agent, 9)

    (serial, alternating), (other_serial, other_alternating) = both(), both()
    with serial, alternating, other_serial, other_alternating:
        serial.collect()
        alternating.collect()
        other_serial.load_state_dict(alternating.state_dict())
        other_alternating.load_state_dict(serial.state_dict())
        wanted = copied(serial.collect().data)
        for sampler in (alternating, other_serial, other_alternating):
            assert_same(copied(sampler.collect().data), wanted)


def test_one_half_steps_while_the_agent_acts_for_the_other():
    calls = []

    def watch(rows, name):
        begin, finish = rows.step_async, rows.step_wait

        def noted_begin(*args):
            calls.append(f"begin {name}")
            begin(*args)

        def noted_finish():
            calls.append(f"finish {name}")
            return finish()

        rows.step_async, rows.step_wait = noted_begin, noted_finish

    class Noted(Tally):
        def step(self, inputs, carry):
            calls.append("act")
            return super().step(inputs, carry)

    with AlternatingSampler(oracle_venv(5), Noted(), 2) as sampler:
        for actor, name in zip(sampler._actors, "ab", strict=True):
            watch(actor._venv, name)
        calls.clear()
        sampler.collect()
    assert calls == [
        *("act", "begin a", "act", "begin b"),
        *("finish a", "act", "begin a", "finish b", "act", "begin b"),
        *("finish a", "finish b"),
    ]


def test_one_env_has_no_halves():
    with oracle_venv(1) as venv, pytest.raises(InvalidOption, match="two envs or more"):
        AlternatingSampler(venv, Tally(), 5)


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_a_fragment_that_fails_with_both_halves_in_flight_is_played_again(backend, tmp_path):
    makes = [functools.partial(Marked, index, tmp_path) for index in range(5)]
    venv = make_vec(makes, backend=backend, autoreset_mode="same_step")
    (tmp_path / "raise").touch()  # not before: the steps that look for states would fail
    with SerialSampler(oracle_venv(5), Tally(), 7) as sampler:
        wanted = [copied(sampler.collect().data) for _ in range(3)]
    with AlternatingSampler(venv, Tally(), 7) as sampler:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="the env failed"):
                sampler.collect()
        (tmp_path / "raise").unlink()
        for want in wanted:
            assert_same(copied(sampler.collect().data), want)
