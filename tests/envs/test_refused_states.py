"""States that are whole by their checksum and say what cannot be: refused, and the env stays."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import StateError
from plangym_ext.states import envelope


def sealed(env, row):
    """Return a row whose payload was changed, with the checksum that it should have."""
    row = row.copy()
    env.envelope.seal(row[None], int(row[8:12].view("<u4")[0]))
    return row


@pytest.mark.parametrize("backend", ["serial", "kernel"])
@pytest.mark.parametrize("number", [1e300, -1e9, np.inf, np.nan])
@pytest.mark.parametrize("place", range(4))
def test_angles_that_no_turn_brings_back_are_refused(backend, number, place):
    with plangym_ext.make("Acrobot-v1", backend=backend, max_episode_steps=50) as env:
        env.reset(seed=0)
        state = env.step(0, return_state=True).state
        changed = state.copy()
        vector = np.frombuffer(np.asarray(env.gym_env.unwrapped.state, "<f8").tobytes(), np.uint8)
        at = changed.tobytes().index(vector.tobytes()) + 8 * place
        changed[at : at + 8] = np.frombuffer(np.float64(number).tobytes(), np.uint8)
        with pytest.raises(StateError):
            env.set_state(sealed(env, changed))
        np.testing.assert_array_equal(env.get_state(), state)
        with pytest.raises(StateError):
            env.step_batch([0], sealed(env, changed)[None])


@pytest.mark.parametrize(
    "env_id", ["plangym_ext/Sokoban-v0", "plangym_ext/TMaze-v0", "Blackjack-v1", "Acrobot-v1"]
)
def test_a_state_that_is_refused_leaves_the_env_where_it_was(env_id):
    refused = 0
    with plangym_ext.make(env_id, backend="serial", max_episode_steps=9, autoreset=False) as env:
        first, *_ = env.reset(seed=0)
        state = env.step(env.action_space.sample(), return_state=True).state
        length = int(first[8:12].view("<u4")[0])
        places = range(envelope.HEADER, envelope.HEADER + length)
        for at, bit in itertools.product(places, (0x80, 0x40)):
            changed = first.copy()
            changed[at] ^= bit
            env.set_state(state)
            try:
                env.set_state(sealed(env, changed))
            except StateError:
                refused += 1
                np.testing.assert_array_equal(env.get_state(), state)
    assert refused
