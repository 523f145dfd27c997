"""Any order of calls, with deaths in between: the same as on the serial backend."""

import contextlib
import os
import signal

import numpy as np
import pytest
import toy_envs
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from toy_envs import Faulty, faulty_env

from plangym_ext.errors import EnvClosed
from plangym_ext.testing.episode import flat
from plangym_ext.workers.parallel_env import ParallelEnv

pytestmark = [
    pytest.mark.slow,  # every example starts two workers
    pytest.mark.filterwarnings("ignore:.*You are calling 'step.*:UserWarning"),
]

SIZES = st.integers(0, 6)
SEEDS = st.integers(0, 1000)


def seen(call):
    """What a caller sees of a call: its result bit for bit, or the kind of error."""
    try:
        found = call()
    except Exception as error:
        return type(error).__name__
    if hasattr(found, "infos"):
        return flat([*found[:-1], list(found.infos)])
    return flat(found)


class Calls(RuleBasedStateMachine):
    """Both envs get the same calls, and have to answer alike."""

    pending = Bundle("pending")
    closed = False

    @initialize(seed=SEEDS)
    def begin(self, seed):
        self.env, self.model = ParallelEnv(Faulty, n_workers=2, timeout=30.0), faulty_env()
        self.in_flight = []
        self.reset(seed)
        self.known = self.model.rollout_batch(
            np.arange(24).reshape(8, 3) % 2, np.stack([self.model.get_state()] * 8)
        ).states
        self.slots = [e.states.allocate(4) for e in (self.env, self.model)]
        for e, slots in zip((self.env, self.model), self.slots, strict=True):
            e.states[slots] = self.known[:4]

    def both(self, call):
        got, want = seen(lambda: call(self.env)), seen(lambda: call(self.model))
        assert got == want

    def batch(self, size, seed):
        rng = np.random.default_rng(seed)
        return rng.integers(2, size=size), self.known[rng.integers(len(self.known), size=size)]

    @rule(seed=SEEDS)
    def reset(self, seed):
        self.both(lambda e: e.reset(seed=seed))

    @rule(action=st.integers(0, 1))
    def step(self, action):
        self.both(lambda e: e.step(action, return_state=True))

    @rule(size=SIZES, seed=SEEDS, dt=st.integers(1, 3))
    def step_rows(self, size, seed, dt):
        self.both(lambda e: e.step_batch(self.batch(size, seed)[0], dt=dt, return_state=True))

    @rule(size=SIZES, seed=SEEDS, infos=st.sampled_from(["none", "numeric", "all"]))
    def step_states(self, size, seed, infos):
        self.both(lambda e: e.step_batch(*self.batch(size, seed), infos=infos))

    @rule(size=SIZES, seed=SEEDS)
    def rollout(self, size, seed):
        actions = np.random.default_rng(seed).integers(2, size=(size, 3))
        self.both(lambda e: e.rollout_batch(actions, self.batch(size, seed)[1]))

    @rule(order=st.permutations(range(4)), seed=SEEDS)
    def step_in_slots(self, order, seed):
        actions = self.batch(4, seed)[0]

        def call(e):
            slots = self.slots[e is self.model]
            e.step_slots(actions, slots[order], slots)
            return e.states[slots]

        self.both(call)

    @rule(size=SIZES)
    def set_rows(self, size):
        self.both(lambda e: e.set_state(self.known[:size]))

    @rule(k=st.integers(0, 7))
    def set_env(self, k):
        self.both(lambda e: e.set_state(self.known[k]))

    @rule(k=st.integers(0, 7))
    def sync(self, k):
        self.both(lambda e: e.sync_states(self.known[k]))

    @rule(size=st.integers(1, 6), seed=SEEDS)
    def raise_in_a_batch(self, size, seed):
        actions, states = self.batch(size, seed)
        actions[-1] = toy_envs.RAISE
        self.both(lambda e: e.step_batch(actions, states))
        self.both(lambda e: e.step_batch(actions))

    # In flight

    @rule(target=pending, size=SIZES, seed=SEEDS, with_states=st.booleans(), fails=st.booleans())
    def begin_batch(self, size, seed, with_states, fails):
        actions, states = self.batch(size, seed)
        if fails and size:
            actions[0] = toy_envs.RAISE
        found = []
        given = [states] if with_states else []
        self.both(lambda e: found.append(e.step_batch_async(actions, *given)))
        self.in_flight.append(found)
        return found

    @rule(batches=consumes(pending))
    def collect(self, batches):
        self.in_flight = [other for other in self.in_flight if other is not batches]
        if batches:  # it was begun
            got, want = (seen(batch.wait) for batch in batches)
            assert got == want
            assert seen(batches[0].wait) == got

    @rule(batches=consumes(pending))
    def drop(self, batches):
        self.in_flight = [other for other in self.in_flight if other is not batches]
        batches.clear()

    @rule(batches=pending)
    def poll(self, batches):
        for batch in batches:
            batch.poll()

    # Faults

    @rule(index=st.integers(0, 1))
    def kill(self, index):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.env.batch_env[index].process.pid, signal.SIGKILL)

    @precondition(lambda self: not self.in_flight)
    @rule()
    def widen(self):
        for e in (self.env, self.model):
            e.widen(self.model.state_width + 64)

    def teardown(self):
        if not hasattr(self, "env"):
            return
        for e in (self.env, self.model):
            e.close()
        for found in self.in_flight:
            if found:
                with contextlib.suppress(EnvClosed, toy_envs.EnvFaultError):
                    found[0].wait()
        self.both(lambda e: e.step_batch(*self.batch(2, 0)))
        self.env.close()


def test_any_order_of_calls():
    run_state_machine_as_test(
        Calls,
        settings=settings(
            max_examples=10,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            database=None,
            # Shrinking starts two workers for every attempt, and deaths are never the same.
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )
