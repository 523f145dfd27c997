"""Audits: futures of states in use are played again elsewhere, and differences are told."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import os
import time
import warnings

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import InexactState, UnknownName
from plangym_ext.states.layer_attributes import Cost
from plangym_ext.states.trials import audit as audits
from plangym_ext.states.trials.fork import Fork, ForkFailed
from plangym_ext.vector.sub_envs.env_rows import EnvRows

pytestmark = pytest.mark.slow


#: What audits may take of the time, in users' processes and in these tests.
SHARE, OFTEN = audits.SHARE, 0.2


@pytest.fixture(autouse=True)
def audits_begin_soon(monkeypatch):
    monkeypatch.setattr(audits, "_estimated", lambda _: 0.005)
    monkeypatch.setattr(audits, "SHARE", OFTEN)


class Walk(gym.Env):
    """Draws its steps; after `late` steps from an iterator of the class, which no state holds."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Discrete(3)
    numbers = itertools.count()
    late = 10**9

    def __init__(self):
        audits.SHARE = OFTEN  # in workers too

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.x = 0, 0.0
        return np.zeros(2), {}

    def step(self, action):
        self.t += 1
        self.x += self.np_random.random() if self.t <= self.late else next(self.numbers)
        return np.array([self.t, self.x]), float(action), self.t >= 10**6, False, {}


class LateWalk(Walk):
    """Is exact for longer than any proof."""

    late = 1500


def used(env, seconds):
    """Step an env, and capture states, until that many seconds have passed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        env.step(1, return_state=True)


def told(play):
    """Play for a minute at most, until an audit tells of a difference."""
    with pytest.raises(InexactState, match=r"LateWalk|sub-envs") as raised:
        play(60)
    assert "differs" in str(raised.value)
    assert "cannot be trusted" in str(raised.value)


def test_an_env_whose_captured_states_go_wrong_is_found():
    with plangym_ext.make(LateWalk, backend="serial") as env:
        assert env.exact
        env.reset(seed=0)
        told(lambda seconds: used(env, seconds))


class SlowLateWalk(LateWalk):
    """Waits in each step of a copy, as if the machine were busy."""

    own = os.getpid()

    def step(self, action):
        if self.t > self.late and os.getpid() != self.own:
            time.sleep(2.5)
        return super().step(action)


def test_an_audit_that_waits_for_a_processor_is_not_given_up():
    with plangym_ext.make(SlowLateWalk, backend="serial") as env:
        env.reset(seed=0)
        told(lambda seconds: used(env, seconds))


@pytest.mark.parametrize("workers", [{"backend": "serial"}, {"n_workers": 2}], ids=["here", "two"])
def test_a_vector_env_whose_captures_go_wrong_is_found(workers):
    def play(seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            venv.step(np.ones(2, np.int64))

    with plangym_ext.make_vec([LateWalk] * 2, **workers) as venv:
        venv.reset(seed=0)
        told(play)


@pytest.mark.parametrize("workers", [{"backend": "serial"}, {"n_workers": 1}], ids=["here", "one"])
def test_batches_from_late_states_are_found(workers):
    def play(seconds):
        until = time.monotonic() + seconds
        states = np.stack([late] * 4)
        while time.monotonic() < until:
            env.step_batch(np.ones(4, np.int64), states)

    with plangym_ext.make(LateWalk, audit="off", backend="serial") as env:
        env.reset(seed=0)
        for _ in range(1501):
            env.step(0)
        late = env.get_state()
    with plangym_ext.make(LateWalk, **workers) as env:
        told(play)


def test_an_exact_env_is_never_told(monkeypatch):
    with plangym_ext.make(Walk, backend="serial") as env:
        env.reset(seed=0)
        until = time.monotonic() + 60
        while not env.exactness.audits and time.monotonic() < until:
            used(env, 0.2)
        assert env.exactness.audits


class Hoarder(Walk):
    """Adds up late what no reset clears; what it shows is the same for longer than any test."""

    late = 20_000

    def __init__(self):
        super().__init__()
        self.steps, self.total = 0, self.empty()

    def step(self, action):
        self.steps += 1
        self.total += self.steps > self.late
        self.t += 1
        return np.array([self.t, 0.0]), 0.0, bool(np.all(self.total > 10**9)), self.t >= 50, {}


class HoarderOfArrays(Hoarder):
    def empty(self):
        return np.zeros(2)


class HoarderOfNumbers(Hoarder):
    def empty(self):
        return 0


class HiddenLateWalk(LateWalk):
    """Shows in no result that its states go wrong."""

    def step(self, action):
        _, reward, terminated, truncated, info = super().step(action)
        return np.array([self.t, 0.0]), reward, terminated, truncated, info


@pytest.mark.parametrize(
    ("make", "capture"), [(HoarderOfArrays, "replay"), (HiddenLateWalk, "snapshot")]
)
def test_hidden_state_is_found_before_any_result_shows_it(make, capture):
    with plangym_ext.make(make, backend="serial", capture=capture) as env:
        assert env.exact
        env.reset(seed=0)
        wrong = {"replay": "a replay does not bring back", "snapshot": "next state differs"}
        with pytest.raises(InexactState, match=wrong[capture]):
            used(env, 60)


def test_numbers_that_a_replay_leaves_as_they_were_are_no_difference():
    with plangym_ext.make(HoarderOfNumbers, backend="serial", capture="replay") as env:
        env.reset(seed=0)
        for _ in range(Hoarder.late):
            env.step(1)
        until = time.monotonic() + 60
        while not env.exactness.audits and time.monotonic() < until:
            used(env, 0.2)
        assert env.exactness.audits
        assert env.gym_env.unwrapped.total > 0


class Choosy(Walk):
    """Refuses all actions but one, as envs do whose masks are told otherwise."""

    def step(self, action):
        assert action == 1
        return super().step(action)


class Signalling(Walk):
    """Reaches out of its process, which a copy that is audited must not; harmless here."""

    def step(self, action):
        if self.t > self.late:
            os.kill(os.getpid(), 0)
        return super().step(action)

    late = 1500


def test_an_env_that_refuses_what_an_audit_draws_is_not_blamed():
    with plangym_ext.make(Choosy, backend="serial", check=False) as env:
        env.reset(seed=0)
        until = time.monotonic() + 60
        while not env.exactness.audits and time.monotonic() < until:
            used(env, 0.2)
        assert env.exactness.audits


def test_an_env_that_reaches_out_of_its_process_is_not_blamed():
    with plangym_ext.make(Signalling, backend="serial", check=False) as env:
        env.reset(seed=0)
        until = time.monotonic() + 60
        while env.audit._failed < 1 and time.monotonic() < until:
            used(env, 0.2)
        assert env.audit._failed


def test_audits_warn_or_are_off_where_that_is_asked_for():
    with plangym_ext.make(LateWalk, backend="serial", audit="warn") as env:
        env.reset(seed=0)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            until = time.monotonic() + 60
            while not found and time.monotonic() < until:
                used(env, 0.2)
        assert "cannot be trusted" in str(found[0].message)
    with plangym_ext.make(LateWalk, backend="serial", audit="off") as env:
        env.reset(seed=0)
        used(env, 1)
        assert env.exactness.audits == 0
    with pytest.raises(UnknownName, match="audit must be one of raise, warn, off"):
        plangym_ext.make(LateWalk, audit="loud")


class Clocks:
    """Clocks that a test moves; a fork's processor time does not pass in them."""

    def __init__(self):
        self.now, self.worked = 0.0, 0.0
        self.monotonic, self.process_time = lambda: self.now, lambda: self.worked


class Line:
    """A fork's answer, which is there at once."""

    def has_come(self):
        return True

    def receive(self, _):
        return ""


class Forked:
    """A fork that takes 0.07 s of the processor."""

    def __init__(self, _):
        self.line, self.seconds = Line(), 0.0

    def end(self):
        self.seconds = 0.07


@pytest.mark.parametrize("busy", [1.0, 0.2, 3.0], ids=["one thread", "waits", "threads"])
def test_audits_take_a_hundredth_of_the_time_and_use_it(monkeypatch, busy):
    clocks, started = Clocks(), 0
    monkeypatch.setattr(audits, "SHARE", SHARE)
    monkeypatch.setattr(audits, "time", clocks)
    monkeypatch.setattr(audits, "Fork", Forked)
    monkeypatch.setattr(audits, "_estimated", lambda _: 0.07)
    audit = audits.Audit("Walk", "raise", [None])
    for _ in range(20_000):
        clocks.now += 0.01
        clocks.worked += 0.01 * busy
        if audit.is_due():
            # From the first one on the budget has room for what it costs.
            worth = SHARE * min(clocks.now, clocks.worked)
            assert audit._spent + 0.07 <= worth + 1e-9
            audit.open(b"")
            audit.note(1, ())
            audit.start(None, None)
            started += 1
    budget = SHARE * min(clocks.now, clocks.worked)
    assert budget / 2 < 0.07 * started <= budget


def test_the_first_audit_waits_for_its_estimated_cost(monkeypatch):
    with plangym_ext.make(Walk, backend="serial") as env:
        monkeypatch.undo()  # the estimate as it is, but for what keeps other tests from audits
        monkeypatch.setattr(audits, "_FORK", 0.03)
        binding = dataclasses.replace(env.binding, step_seconds=0.01, cost=Cost(0.001))
        audit = audits.Audit("Walk", "raise", [binding])
    # 24 steps that are kept and played again, the time for playing on, and the fork.
    assert 0.01 * 24 + 0.02 < audit._expected < 1.0
    assert audit._next - audit._begun == pytest.approx(audit._expected / audits.SHARE)
    assert not audit.is_due()


def test_forks_tell_the_processor_time_that_they_took():
    def work(line):
        begun = time.process_time()
        while time.process_time() - begun < 0.2:
            pass
        line.send("done")

    with Fork(work) as fork:
        assert fork.line.receive(60) == "done"
    assert fork.seconds >= 0.2


@pytest.mark.parametrize("check", [True, False])
def test_codecs_of_the_library_are_not_audited(check):
    with plangym_ext.make("LunarLander-v3", backend="serial", check=check) as env:
        env.reset(seed=0)
        until = time.process_time() + 0.5
        while time.process_time() < until:
            if any(env.step(0, return_state=True)[3:5]):
                env.reset()
        assert env.exactness.audits == 0


def test_states_of_an_own_env_are_audited_without_a_proof_too():
    with plangym_ext.make(Walk, backend="serial", check=False) as env:
        env.reset(seed=0)
        until = time.monotonic() + 60.0
        while not env.exactness.audits and time.monotonic() < until:
            env.step(0, return_state=True)
        assert env.exactness.audits


LANDER, CARTPOLE = (functools.partial(gym.make, one) for one in ("LunarLander-v3", "CartPole-v1"))
#: Env, settings, where its states are proved, and whether they are audited.
AUDITED = {
    "native": (CARTPOLE, {}, "library", False),
    "library": (LANDER, {}, "library", False),
    "library, unproved": (LANDER, {"check": False}, "", False),
    "approximate": (LANDER, {"capture": "approximate"}, "", False),
    "in a fork": (Walk, {}, "fork", True),
    "in a worker": (Walk, {}, "worker", True),
    "replay": (Walk, {"capture": "replay"}, "fork", True),
    "replay, unproved": (Walk, {"capture": "replay", "check": False}, "", True),
    "unproved": (Walk, {"check": False}, "", True),
}


@pytest.mark.parametrize("case", AUDITED)
def test_single_envs_and_rows_agree_on_what_is_audited(monkeypatch, case):
    make, settings, proved, audited = AUDITED[case]
    monkeypatch.setattr("plangym_ext.states.trials.choice._proved", {})

    def refused(*_):
        raise ForkFailed("no copy")

    if proved == "worker":
        monkeypatch.setattr("plangym_ext.states.trials.fresh._in_a_fork", refused)
    # The rows are given what was proved of an equal env here.
    with plangym_ext.GymEnv(make, **settings) as env:
        assert env.exactness.proved == proved
        assert (env.audit._next < math.inf) is audited
    rows = EnvRows([make], **settings)
    rows._capture(rows.description()["proved"])
    assert rows._states[0].binding.exactness.proved == proved
    assert (rows._audit._next < math.inf) is audited
    rows.close()


def test_rows_of_the_library_beside_others_are_not_audited():
    rows = EnvRows([LANDER, Walk, LANDER], check=False)
    rows._capture(rows.description()["proved"])
    assert [*rows._audited] == [1]
    rows.close()


@pytest.mark.parametrize("workers", [{"backend": "serial"}, {"n_workers": 2}], ids=["here", "two"])
def test_rows_without_a_proof_are_audited(workers):
    with plangym_ext.make_vec([LateWalk] * 2, check=False, **workers) as venv:
        venv.reset(seed=0)

        def play(seconds):
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                venv.step(np.ones(2, np.int64))

        told(play)
