"""Workers look at the states themselves: what they refuse, the caller hears as ever."""

import numpy as np
import pytest
from toy_envs import RAISE, SIGKILL

from plangym_ext.errors import DamagedState, ForeignState


def damaged(states, *rows):
    found = states.copy()
    found[list(rows), 60] ^= 4
    return found


def test_first_of_several_damaged_rows_is_named_whichever_worker_finds_one_first(pair, walk):
    states = damaged(np.resize(walk, (64, walk.shape[1])), 63, 40, 9)
    for _ in range(5):
        with pytest.raises(DamagedState, match=r"step_batch: states\[9\] is damaged"):
            pair.step_batch([0] * 64, states)
        with pytest.raises(DamagedState, match=r"rollout_batch: states\[9\] is damaged"):
            pair.rollout_batch([[0, 0]] * 64, states)


def test_refusal_goes_before_what_other_rows_raise(pair, walk):
    # Whether row 0 was run before row 15 was looked at is a matter of time.
    for _ in range(5):
        with pytest.raises(DamagedState, match=r"states\[15\]"):
            pair.step_batch([RAISE, *[0] * 15], damaged(walk, 15))


def test_env_is_never_shown_a_damaged_state(mortal, walk):
    with pytest.raises(DamagedState, match=r"states\[0\]"):
        mortal.step_batch([SIGKILL] + [0] * 15, damaged(walk, 0))
    assert all(worker.process.alive for worker in mortal.batch_env)


def test_batch_in_flight_refuses_when_it_is_waited_for(pair, walk):
    pending = pair.step_batch_async([0] * 16, damaged(walk, 3))
    for _ in range(2):
        with pytest.raises(DamagedState, match=r"states\[3\]"):
            pending.wait()
    assert pair.step_batch([0] * 16, walk).rewards.tolist() == [1.0] * 16


def test_whole_row_of_another_env_is_foreign(pair, walk, serial):
    states = walk.copy()
    row = states[5:6]
    row[0, 16] ^= 1
    # Sealed by hand: whole, and of another fingerprint.
    words, weights = row.view("<u8"), serial.envelope.weights
    words[:, 4] = ((words >> np.uint64(32)) ^ words) @ weights
    with pytest.raises(ForeignState, match=r"states\[5\] belongs to another env"):
        pair.step_batch([0] * 16, states)


def test_refused_states_in_shared_memory_and_given_results(pair, walk):
    # Results of a batch are read where they lie.
    many = np.resize(walk, (64, walk.shape[1]))
    states = pair.step_batch([0] * 64, many).states
    states[30, 60] ^= 4
    out = {"rewards": np.zeros(64)}
    with pytest.raises(DamagedState, match=r"states\[30\]"):
        pair.step_batch([0] * 64, states, out=out)
    states[30, 60] ^= 4
    assert pair.step_batch([0] * 64, states, out=out).rewards is out["rewards"]
