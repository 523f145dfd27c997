"""Slots: states that stay where they are stepped."""

import functools

import nested_env
import numpy as np
import pytest
import toy_envs
from batches import warm_up
from growing_env import Growing
from toy_envs import Faulty

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.results import Transitions
from plangym_ext.errors import BatchPending, DamagedState, ForeignState, InvalidAction
from plangym_ext.testing.backend import assert_equal
from plangym_ext.testing.episode import flat
from plangym_ext.workers.parallel_env import ParallelEnv

pytestmark = [
    pytest.mark.slow,  # workers take about 0.3 s to start
    pytest.mark.filterwarnings("ignore:.*You are calling 'step.*:UserWarning"),
]


def build(n_workers, constructor=Faulty):
    if n_workers is None:
        return GymEnv(constructor, name=constructor.__name__)
    return ParallelEnv(constructor, n_workers=n_workers)


@pytest.fixture(scope="module", params=[None, 1, 2, 3], ids="{}-workers".format)
def env(request, walk):
    with build(request.param) as env:
        warm_up(env, walk)
        yield env


@pytest.fixture
def slots(env):
    """16 slots, all of which are free again afterwards."""
    found = env.states.allocate(16)
    yield found
    env.states.free(found)
    assert len(env.states) == 0


def without_states(found):
    return Transitions(*found[1:])


# The store --------------------------------------------------------------------------


def test_slots_are_distinct_and_used_again(serial):
    with GymEnv(Faulty) as env:
        first = env.states.allocate(3)
        assert (first.dtype, first.shape, len(env.states)) == (np.int64, (3,), 3)
        env.states.free(first[[2, 0]])
        second = env.states.allocate(2)
        assert set(second) == {first[0], first[2]}
        assert env.states.allocate(0).shape == (0,)
        env.states.free([])
        assert len(env.states) == 3


@pytest.mark.parametrize("n_workers", [None, 2])
def test_store_grows_when_it_must_and_keeps_what_it_holds(n_workers, serial, walk):
    with build(n_workers) as env:
        known = env.states.allocate(16)
        env.states[known] = walk
        env.step_slots([0] * 16, known, known)
        held = env.states[known]
        capacity = env.states.capacity
        more = env.states.allocate(2 * capacity)
        assert env.states.capacity >= 2 * capacity + 16
        assert len(np.unique(np.concatenate([known, more]))) == 2 * capacity + 16
        env.states.reserve(10)  # there is more already
        env.states.reserve(capacity * 4)
        assert env.states[known].tobytes() == held.tobytes()
        # Both the new memory and the old slots are where the workers look.
        got = env.step_slots([0] * 16, known, more[:16])
        want = serial.step_batch([0] * 16, held)
        assert got.obs.tobytes() == want.obs.tobytes()
        assert env.states[more[:16]].tobytes() == want.states.tobytes()


def test_items_are_whole_states(env, serial, walk, slots):
    env.states[slots] = walk
    one, some = env.states[int(slots[3])], env.states[slots[[3, 5]]]
    assert one.tobytes() == walk[3].tobytes()
    assert some.tobytes() == walk[[3, 5]].tobytes()
    serial.set_state(one)
    # What stepping wrote is sealed: another env takes it.
    env.step_slots([1] * 16, slots, slots)
    assert_equal(
        serial.step_batch([0] * 16, env.states[slots]),
        serial.step_batch([0] * 16, serial.step_batch([1] * 16, walk).states),
        "states read from slots",
    )
    some[...] = 0
    assert env.states[slots[3]].any(), "what was read is a copy"
    env.states[slots] = walk[0]
    assert env.states[slots].tobytes() == walk[[0] * 16].tobytes()


def test_states_that_are_written_are_checked(env, walk, slots):
    env.states[slots] = walk
    damaged = walk[:2].copy()
    damaged[1, 60] ^= 1
    with pytest.raises(DamagedState, match=r"states\[1\] is damaged"):
        env.states[slots[:2]] = damaged
    foreign = GymEnv(functools.partial(Faulty, sutton_barto_reward=True), name="Faulty")
    with foreign, pytest.raises(ForeignState):
        env.states[slots[0]] = foreign.reset(seed=0)[0]
    with pytest.raises(ValueError, match="expected one state or 3; got 2"):
        env.states[slots[:3]] = walk[:2]
    with pytest.raises(IndexError, match="distinct"):
        env.states[slots[[0, 0]]] = walk[:2]
    assert env.states[slots].tobytes() == walk.tobytes()


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ([-1], r"is -1, which is not in use"),
        ([10**6], r"is 1000000, which is not in use"),
        ([0.0], r"must be \[n\] ints.*float64"),
        ([[0]], r"must be \[n\] ints.*\(1, 1\)"),
        ([True], "must be .* bool"),
        ("0", "must be"),
    ],
    ids=repr,
)
def test_wrong_slots_are_named(env, slots, walk, bad, match):
    env.states[slots] = walk
    for call in (
        lambda: env.states[bad],
        lambda: env.states.free(bad),
        lambda: env.step_slots([0], bad, slots[:1]),
        lambda: env.step_slots([0], slots[:1], bad),
    ):
        with pytest.raises(IndexError, match=match):
            call()
    assert env.states[slots].tobytes() == walk.tobytes()


def test_freed_slots_are_refused(env):
    slots = env.states.allocate(2)
    env.states.free(slots[:1])
    with pytest.raises(IndexError, match="not in use"):
        env.states.free(slots)
    with pytest.raises(IndexError, match="not in use"):
        _ = env.states[slots[0]]
    with pytest.raises(IndexError, match="named twice"):
        env.states.free(slots[[1, 1]])
    env.states.free(slots[1:])


@pytest.mark.parametrize("count", [-1, 1.5, True, None], ids=repr)
def test_counts_are_checked(env, count):
    with pytest.raises(ValueError, match="must be an integer >= 0"):
        env.states.allocate(count)
    with pytest.raises(ValueError, match="must be an integer >= 0"):
        env.states.reserve(count)


# Stepping ---------------------------------------------------------------------------


def test_steps_equal_those_of_a_batch(env, serial, walk, slots):
    rng = np.random.default_rng(0)
    env.states[slots] = walk
    now = walk.copy()
    for round_ in range(6):
        size = (1, 5, 16)[round_ % 3]
        # Sources repeat; targets may be sources of other rows or of their own.
        src = rng.integers(16, size=size)
        dst = rng.permutation(16)[:size]
        actions, dt = rng.integers(2, size=size), rng.integers(1, 4, size=size)
        want = serial.step_batch(actions, now[src], dt)
        got = env.step_slots(actions, slots[src], slots[dst], dt)
        assert_equal(got, without_states(want), f"round {round_}")
        now[dst] = want.states
        assert env.states[slots].tobytes() == now.tobytes()


def test_targets_apart_from_the_sources(env, serial, walk, slots):
    env.states[slots] = walk
    want = serial.step_batch([1] * 8, walk[:8])
    env.step_slots([1] * 8, slots[:8], slots[8:])
    assert env.states[slots].tobytes() == np.concatenate([walk[:8], want.states]).tobytes()


def test_arguments_are_checked_before_anything_is_stepped(env, walk, slots):
    env.states[slots] = walk
    with pytest.raises(IndexError, match="dst must be distinct; one of the 2 is named twice"):
        env.step_slots([0, 0], slots[:2], slots[[0, 0]])
    with pytest.raises(ValueError, match="dst must name as many slots as src, 2; got 3"):
        env.step_slots([0, 0], slots[:2], slots[:3])
    with pytest.raises(InvalidAction, match=r"step_slots: actions must be \(2,\)"):
        env.step_slots([0], slots[:2], slots[2:4])
    with pytest.raises(ValueError, match="step_slots: dt"):
        env.step_slots([0, 0], slots[:2], slots[2:4], dt=0)
    assert env.step_slots(np.zeros(0, int), slots[:0], slots[:0]).rewards.shape == (0,)
    assert env.states[slots].tobytes() == walk.tobytes()


def test_env_that_raises_leaves_sources_alone(env, walk, slots):
    env.states[slots] = walk
    actions = [0] * 8
    actions[5] = toy_envs.RAISE
    with pytest.raises(toy_envs.EnvFaultError):
        env.step_slots(actions, slots[:8], slots[8:])
    assert env.states[slots[:8]].tobytes() == walk[:8].tobytes()
    with pytest.raises(toy_envs.EnvFaultError):
        env.step_slots(actions, slots[:8], slots[:8])
    assert env.states[slots[:8]].tobytes() == walk[:8].tobytes()


def test_nested_spaces_go_through_slots():
    with (
        GymEnv(nested_env.limited_nested) as reference,
        ParallelEnv(nested_env.limited_nested, n_workers=2) as env,
    ):
        state, *_ = reference.reset(seed=0)
        slots = env.states.allocate(6)
        env.states[slots] = state
        actions = (np.arange(6) % 3 - 1, np.zeros((6, 2), np.float32))
        want = reference.step_batch(actions, np.stack([state] * 6), dt=4)
        assert_equal(env.step_slots(actions, slots, slots, dt=4), without_states(want), "nested")
        assert env.states[slots].tobytes() == want.states.tobytes()


# Growth, in flight and in width -----------------------------------------------------


def test_store_does_not_grow_under_a_batch(walk):
    with build(2) as env:
        slots = env.states.allocate(16)
        env.states[slots] = walk
        pending = env.step_slots_async([0] * 16, slots, slots)
        with pytest.raises(BatchPending, match=r"cannot grow while a batch runs.*reserve"):
            env.states.reserve(env.states.capacity + 1)
        with pytest.raises(BatchPending):
            env.states.allocate(env.states.capacity)
        assert len(env.states) == 16
        pending.wait()
        env.states.reserve(env.states.capacity + 1)
        # A batch that cannot be waited for is no obstacle.
        dropped = env.step_slots_async([0] * 16, slots, slots)
        del dropped
        env.states.reserve(env.states.capacity + 1)
        env.states.free(slots)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("n_workers", [None, 2])
def test_states_that_outgrow_their_slots(n_workers, in_place):
    with build(n_workers, Growing) as env, GymEnv(Growing) as reference:
        state, *_ = env.reset(seed=1)
        slots = env.states.allocate(8)
        env.states[slots] = state
        states, width = np.stack([state] * 4), env.state_width
        sources, targets = slots[:4], slots[:4] if in_place else slots[4:]
        for t in range(12):
            want = reference.step_batch(np.arange(4) % 2, states)
            states = want.states
            got = env.step_slots(np.arange(4) % 2, sources, targets)
            assert flat(list(got[:4])) == flat(list(want[1:5])), f"step {t}"
            sources, targets = targets, sources
        assert env.state_width > width
        # Rows of different widths say the same.
        ahead = reference.step_batch([1] * 4, states)
        assert env.step_batch([1] * 4, env.states[sources]).obs.tobytes() == ahead.obs.tobytes()


def test_several_batches_in_flight_may_all_outgrow_their_rows():
    with ParallelEnv(Growing, n_workers=2) as env, GymEnv(Growing) as reference:
        state, *_ = env.reset(seed=1)
        slots = env.states.allocate(8)
        env.states[slots] = state
        wanted = reference.step_batch([1] * 4, np.stack([state] * 4), dt=12)
        parts = (slots[:4], slots[4:])
        pending = [env.step_slots_async([1] * 4, part, part, 12) for part in parts]
        pending.append(env.step_batch_async([1] * 4, np.stack([state] * 4), 12))
        for batch in pending:
            assert batch.wait().obs.tobytes() == wanted.obs.tobytes()
        for part in parts:
            again = reference.step_batch([0] * 4, env.states[part])
            assert again.obs.tobytes() == reference.step_batch([0] * 4, wanted.states).obs.tobytes()
        # Once was enough for all three: the next would have made the rows wider still.
        assert env.state_width < 2 * wanted.states.shape[1]


# Deaths -----------------------------------------------------------------------------


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("n_workers", [1, 2])
def test_batch_in_slots_that_loses_a_worker(n_workers, in_place, serial, walk, tmp_path):
    killing = np.zeros(8, int)
    killing[5] = toy_envs.KILL_ONCE
    with ParallelEnv(
        functools.partial(Faulty, marker=str(tmp_path / "m")), n_workers=n_workers
    ) as env:
        slots = env.states.allocate(16)
        env.states[slots] = walk
        targets = slots[7::-1] if in_place else slots[8:]
        got = env.step_slots(killing, slots[:8], targets)
        assert (tmp_path / "m").exists()
        want = serial.step_batch(np.zeros(8, int), walk[:8])
        assert_equal(got, without_states(want), "batch with a death inside")
        assert env.states[targets].tobytes() == want.states.tobytes()
