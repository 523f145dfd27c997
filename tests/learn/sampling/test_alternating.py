"""`AlternatingSampler` equals the serial one row by row, and has envs step while the agent acts."""

from __future__ import annotations

import numpy as np
import pytest
from sampling_envs import Games, Oracle, Tally, assert_same, copied, oracle_venv

from plangym_ext import make_vec
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.random_agent import RandomAgent
from plangym_ext.learn.sampling.alternating import AlternatingSampler
from plangym_ext.learn.sampling.serial import SerialSampler


def halves(first=2, second=3, env=Oracle, **options):
    return oracle_venv(first, env, **options), oracle_venv(second, env, first=first, **options)


@pytest.mark.parametrize(
    ("backend", "on_end"),
    [("serial", "reset"), ("serial", "wait"), ("serial", "sticky"), ("process", "reset")],
)
def test_it_equals_the_serial_sampler_row_by_row(backend, on_end):
    options = {"on_end": on_end, "random_steps": 4, "episode_fields": ("score",)}
    alternating = AlternatingSampler(halves(env=Games, backend=backend), Tally(), 7, **options)
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
        halves = AlternatingSampler((cartpoles(2), cartpoles(4)), agent, 9)
        return SerialSampler(venv, agent, 9), halves

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

    class Watched:
        """A vector env that notes when steps begin and end."""

        def __init__(self, venv, name):
            self.__dict__.update(venv=venv, name=name)

        def __getattr__(self, name):
            return getattr(self.venv, name)

        def step_async(self, *args, **kwargs):
            calls.append(f"begin {self.name}")
            self.venv.step_async(*args, **kwargs)

        def step_wait(self, *args, **kwargs):
            calls.append(f"finish {self.name}")
            return self.venv.step_wait(*args, **kwargs)

    class Noted(Tally):
        def step(self, inputs, carry):
            calls.append("act")
            return super().step(inputs, carry)

    with AlternatingSampler(halves(), Noted(), 2) as sampler:
        for actor, name in zip(sampler._actors, "ab", strict=True):
            actor._steps._venv = Watched(actor._steps._venv, name)
        calls.clear()
        sampler.collect()
    assert calls == [
        *("act", "begin a", "act", "begin b"),
        *("finish a", "act", "begin a", "finish b", "act", "begin b"),
        *("finish a", "finish b"),
    ]


@pytest.mark.parametrize("venvs", [(), "one", "three"])
def test_two_halves_are_asked_for(venvs):
    made = {"one": 1, "three": 3}.get(venvs, 0)
    envs = [oracle_venv(1) for _ in range(made)]
    with pytest.raises(InvalidOption, match="two vector envs"):
        AlternatingSampler(tuple(envs), Tally(), 5)
    for venv in envs:
        venv.close()


def test_halves_of_other_spaces_are_refused():
    other = make_vec("CartPole-v1", 2, autoreset_mode="same_step")
    venv = oracle_venv(2)
    with pytest.raises(InvalidOption, match="one observation space"):
        AlternatingSampler((venv, other), Tally(), 5)
    venv.close()
    other.close()
