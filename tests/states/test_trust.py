"""States that hold a pickle: opened for this session and its workers, for others refused."""

from __future__ import annotations

import pickle
import string
import subprocess
import sys
from pathlib import Path

import numpy as np
import pickled_env
import pytest
from forging import strangers
from pickled_env import ObjectEnv, PickledEnv, Slotted

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import UntrustedState
from plangym_ext.states import trust
from plangym_ext.states.envelope import HEADER
from plangym_ext.states.graph.writer import GraphWriter
from plangym_ext.states.part import put_block


class Alarm:
    """Goes off when it is opened or built."""

    rang = 0

    def __reduce__(self):
        return _ring, ()


def _ring():
    Alarm.rang += 1
    return Slotted()


def methods(env):
    return [part.method for part, _ in env.codec.described()]


def test_rows_of_this_session_are_opened():
    with GymEnv(PickledEnv) as env, GymEnv(PickledEnv) as other:
        assert methods(env) == ["pickle"]
        env.reset(seed=0)
        state = env.step(1, return_state=True).state
        other.set_state(state)
        assert other.step(1).obs == env.step(1).obs == 4.0


@pytest.mark.slow
def test_rows_of_our_own_workers_are_opened():
    with plangym_ext.ParallelEnv(PickledEnv, n_workers=2) as env:
        state, *_ = env.reset(seed=0)
        batch = env.step_batch(np.array([0, 1, 1]), np.stack([state] * 3))
        again = env.step_batch(np.array([1, 1, 0]), batch.states)
        np.testing.assert_array_equal(again.obs[:, 0], [3.0, 4.0, 3.0])
        assert env.step(1, batch.states[1]).obs == 4.0


class ByValue(PickledEnv):
    """Holds an object of a class that only this module has."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        self.held = OwnSlots()
        return result


class OwnSlots(Slotted):
    __slots__ = ()


@pytest.mark.slow
def test_classes_of_the_callers_script_are_opened_in_workers():
    # The test module is sent by value, as a script is: workers cannot import it.
    with plangym_ext.ParallelEnv(ByValue, n_workers=1) as env:
        state, *_ = env.reset(seed=0)
        deep = env.step_batch(np.array([1]), state[None]).states
        assert env.step_batch(np.array([1]), deep).obs[0] == 4.0
        assert env.step(1, deep[0]).obs == 4.0


_ELSEWHERE = """
import sys
sys.path.insert(0, {folder!r})
import pickled_env
from plangym_ext.core.gym_env import GymEnv
with GymEnv(pickled_env.{env}) as env:
    env.reset(seed=0)
    sys.stdout.buffer.write(env.step(1, return_state=True).state.tobytes())
"""


def from_another_session(env: type) -> np.ndarray:
    """State after one step, made by another process that is no worker of this one."""
    text = _ELSEWHERE.format(folder=str(Path(pickled_env.__file__).parent), env=env.__name__)
    done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.uint8).copy()


@pytest.mark.slow
def test_a_pickle_from_another_session_is_refused_unless_trusted():
    state = from_another_session(PickledEnv)
    with GymEnv(PickledEnv) as env:
        here, *_ = env.reset(seed=1)
        with pytest.raises(UntrustedState, match="trust=True"):
            env.set_state(state)
        with pytest.raises(UntrustedState, match="trust=True"):
            env.step(1, state)
        with pytest.raises(UntrustedState, match="trust=True"):
            env.step_batch(np.array([1, 1]), np.stack([here, state]))
        with env.clone(trust=True) as trusting:
            trusting.set_state(state)
            assert trusting.step(1).obs == 4.0


@pytest.mark.slow
def test_objects_of_the_env_itself_need_no_trust():
    state = from_another_session(ObjectEnv)
    with GymEnv(ObjectEnv) as env:
        assert methods(env) == ["objects"]
        env.set_state(state)
        assert env.step(1).obs == 4.0


def sealed(env: GymEnv, payload: bytes) -> np.ndarray:
    """Row with a right checksum around any snapshot: what a clever stranger could send."""
    row = np.zeros((1, env.state_width), np.uint8)
    end = put_block(row[0].data, HEADER, env.state_width, payload)
    env.envelope.seal(row, end - HEADER)
    return row[0]


@pytest.mark.parametrize("digest", [bytes(16), b"\x01" * 16], ids=["none", "made up"])
def test_a_hostile_pickle_never_runs(digest):
    hostile = pickle.dumps([{"held": Alarm()}])
    with GymEnv(PickledEnv) as env:
        env.reset(seed=0)
        with pytest.raises(UntrustedState):
            env.set_state(sealed(env, b"P" + digest + hostile))
        assert Alarm.rang == 0
        # The same bytes do run for those who ask for it: the alarm works.
        with env.clone(trust=True) as trusting:
            trusting.set_state(sealed(trusting, b"P" + digest + hostile))
        assert Alarm.rang == 1
    Alarm.rang = 0


@pytest.mark.parametrize("digest", [bytes(16), b"\x01" * 16], ids=["none", "made up"])
def test_a_graph_brings_no_classes_that_the_env_has_no_use_for(digest):
    # Building a Popen runs nothing, but throwing it away runs its __del__.
    writer = GraphWriter({}, {})
    writer.put_all([{"held": subprocess.Popen.__new__(subprocess.Popen)}])
    with GymEnv(ObjectEnv) as env:
        env.reset(seed=0)
        with pytest.raises(UntrustedState, match=r"it holds subprocess\.Popen"):
            env.set_state(sealed(env, b"G" + digest + strangers(writer)))


class Surprise(ObjectEnv):
    """Comes to hold an object of a foreign class after a while."""

    def step(self, action):
        result = super().step(action)
        if self.held.at >= 20:
            self.extra = string.Formatter()
            self.extra.at = self.held.at
        return result


def test_a_class_that_appears_later_is_vouched_for_by_the_session():
    with GymEnv(Surprise) as env, GymEnv(Surprise) as other:
        env.reset(seed=0)
        for _ in range(20):
            state = env.step(1, return_state=True).state
        other.set_state(state)
        assert other.gym_env.extra.at == 40
        # Without this session's word for it the same class is refused.
        digest_at = HEADER + 5  # after the length and the kind
        payload = bytearray(state[digest_at : digest_at + trust.DIGEST_BYTES])
        assert any(payload)
        stripped = state.copy()[None]
        stripped[0, digest_at : digest_at + trust.DIGEST_BYTES] = 0
        env.envelope.seal(stripped, int(stripped[0, 8:12].view("<u4")[0]))
        with pytest.raises(UntrustedState, match=r"string\.Formatter"):
            other.set_state(stripped[0])
