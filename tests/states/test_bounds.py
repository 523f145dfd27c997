"""States that were forged to take time, or to have numpy read beyond arrays, are refused."""

from __future__ import annotations

import time

import numpy as np
import pytest
from forging import forged
from structures import Structured

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import DamagedState, StateError
from plangym_ext.states import plain
from plangym_ext.states.envelope import HEADER
from plangym_ext.states.randomness.rng import RNG_BYTES

#: Numbers whose hashes are all 1.
COLLIDING = [1 + k * (2**61 - 1) for k in range(1, 16_000)]


def block(tag, data):
    return tag + len(data).to_bytes(4, "little") + data


def numbers(tag, values):
    items = [block(b"i", value.to_bytes(16, "little")) for value in values]
    return tag + len(items).to_bytes(4, "little") + b"".join(items)


@pytest.mark.parametrize("tag", [b"s", b"z"])
def test_a_set_of_numbers_that_collide(tag):
    began = time.process_time()
    with pytest.raises(DamagedState, match="keys of one hash"):
        plain.decode(numbers(tag, COLLIDING))
    assert time.process_time() - began < 0.5
    assert len(plain.decode(numbers(tag, range(16_000)))) == 16_000


def test_a_dict_of_numbers_that_collide():
    items = [block(b"i", value.to_bytes(16, "little")) + b"N" for value in COLLIDING]
    data = b"d" + len(items).to_bytes(4, "little") + b"".join(items)
    with pytest.raises(DamagedState, match="keys of one hash"):
        plain.decode(data)
    with GymEnv(lambda: Structured(5, "held")) as env:
        env.reset(seed=1)
        env.gym_env.board.more = dict.fromkeys(COLLIDING[:500])
        row = forged(env)
        env.gym_env.board.more = {}
        with pytest.raises(DamagedState, match="keys of one hash"):
            env.set_state(row)


def test_a_number_that_takes_for_ever_to_multiply():
    with pytest.raises(DamagedState, match=r"a number of 1,000,000 bytes"):
        plain.decode(block(b"i", b"\x01" * 1_000_000))
    with pytest.raises(plain.NotPlain, match="bits"):
        plain.encode(1 << 8_000_000)
    assert plain.decode(plain.encode(-(1 << 500_000))) == -(1 << 500_000)


def test_flags_are_0_or_1():
    data = plain.encode(np.array([True, False, True]))
    assert plain.decode(data.replace(b"\1\0\1", b"\x80\0\7")).view(np.uint8).tolist() == [1, 0, 1]
    with GymEnv(lambda: Structured(7, "held")) as env:
        env.reset(seed=1)
        env.gym_env.flags = np.array([0, 2, 255], np.uint8).view(np.bool_)
        env.set_state(forged(env))
        assert env.gym_env.flags.view(np.uint8).tolist() == [0, 1, 1]


def changed(env, at, data):
    """The present state with other bytes in its payload, sealed."""
    row = env.get_state()[None]
    row[0, HEADER + at : HEADER + at + len(data)] = np.frombuffer(data, np.uint8)
    env.envelope.seal(row, int(row[0, 8:12].view("<u4")[0]))
    return row


@pytest.mark.parametrize("backend", ["serial", "kernel"])
@pytest.mark.parametrize("speed", [9e3, 101.0, 1e300, np.inf, np.nan])
@pytest.mark.parametrize("which", [2, 3])
def test_speeds_with_which_a_step_of_acrobot_has_no_end(backend, speed, which):
    with plangym_ext.make("Acrobot-v1", backend=backend) as env:
        env.reset(seed=0)

        payload = env.get_state()[HEADER:]
        at = next(
            i
            for i in range(len(payload) - 32)
            if (np.abs(payload[i : i + 32].copy().view("<f8")) > 0).all()
            and (np.abs(payload[i : i + 32].copy().view("<f8")) < 0.1001).all()
            and (np.abs(payload[i : i + 32].copy().view("<f8")) > 1e-4).all()
        )
        row = changed(env, at + 8 * which, np.float64(speed).tobytes())
        with pytest.raises(DamagedState, match="Acrobot"):
            env.step_batch(np.array([0]), row)
        row = changed(env, at + 8 * which, np.float64(99.0).tobytes())
        assert np.isfinite(env.step_batch(np.array([0]), row).obs).all()


@pytest.mark.parametrize("backend", ["serial", "kernel"])
@pytest.mark.parametrize("name", ["Taxi-v4", "CartPole-v1", "Acrobot-v1"])
def test_a_generator_that_draws_for_ever(name, backend):
    with plangym_ext.make(name, backend=backend) as env:
        env.reset(seed=0)
        length = int(env.get_state()[8:12].view("<u4")[0])
        generator = env.get_state()[HEADER:].tobytes().index(pcg_of(env))
        assert generator + RNG_BYTES <= length
        row = changed(env, generator, bytes(RNG_BYTES))
        with pytest.raises(StateError, match="increment"):
            env.step_batch(np.array([0]), row)


def pcg_of(env):
    """The 16 bytes of the increment's words and state, as they lie in a row."""
    simulator = plangym_ext.make(env.name, backend="serial")
    simulator.reset(seed=0)
    state = simulator.gym_env.unwrapped.np_random.bit_generator.state["state"]
    simulator.close()
    return state["state"].to_bytes(16, "little")
