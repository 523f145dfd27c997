"""A replay of steps against a slow, obvious reference: what it keeps, what it draws, saving."""

from __future__ import annotations

import collections
import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_streams import GOES_ON, TERMINATES, TRUNCATES, Stream, fragment

from plangym_ext.errors import InvalidOption, InvalidSamples, ReplayEmpty
from plangym_ext.learn import StepReplay
from plangym_ext.learn.replay.base import checked_capacity, steps_within

GAMMA = 0.9


def expected(streams, length, n):
    """Return what is drawn of every step that is there, by the number that it shows.

    For each step, walk on: until n rewards are summed, an episode ends, or there is no more.
    """
    found = {}
    for stream in streams:
        steps = stream.steps
        for begin in range(max(0, len(steps) - length), len(steps)):
            if not steps[begin].valid:
                continue
            total, power = 0.0, 0
            for step in steps[begin : begin + n]:
                total += GAMMA**power * step.reward
                power += 1
                if step.terminated or step.truncated:
                    break
            discount = 0.0 if step.terminated else GAMMA**power
            found[steps[begin].obs] = (steps[begin].action, total, discount, step.following)
    return found


def drawn(batch):
    """Return the same of a batch, and how often each was drawn."""
    samples, found = batch.samples, {}
    for i in range(len(batch.indices)):
        numbers = samples["obs"][i]
        assert (numbers == numbers.flat[0]).all()
        assert (samples["next_obs"][i] == samples["next_obs"][i].flat[0]).all()
        found[float(numbers.flat[0])] = (
            int(samples["action"][i]),
            float(samples["reward"][i]),
            float(samples["discount"][i]),
            float(samples["next_obs"][i].flat[0]),
        )
    return found


ENDS = st.lists(st.sampled_from([GOES_ON, GOES_ON, TERMINATES, TRUNCATES]), min_size=1, max_size=7)


@given(
    ends=st.lists(ENDS, min_size=1, max_size=3),
    fragments=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    length=st.integers(5, 12),
    n=st.integers(1, 6),
    waits=st.booleans(),
    alpha=st.sampled_from([None, 0.0, 0.7]),
)
@settings(max_examples=60, deadline=None)
def test_draws_are_those_of_the_reference(ends, fragments, length, n, waits, alpha):
    streams = [Stream(env, kinds) for env, kinds in enumerate(ends)]
    replay = StepReplay(
        length * len(streams), n_steps=n, discount=GAMMA, alpha=alpha, seed=len(fragments)
    )
    for num in fragments:
        replay.add(fragment(streams, num, waits=waits))
        wanted = expected(streams, length, n)
        assert len(replay) == len(wanted)
        found = drawn(replay.sample(40 * len(wanted)))
        assert found.keys() == wanted.keys()
        for number, values in found.items():
            assert values == pytest.approx(wanted[number], rel=1e-6), number


def streams_of(*ends):
    return [Stream(env, list(kinds)) for env, kinds in enumerate(ends)]


LONG = (GOES_ON, GOES_ON, TRUNCATES, GOES_ON, GOES_ON, GOES_ON, TERMINATES)


def filled(fragments=6, *, capacity=24, **options):
    """Return a replay of two envs, and their streams."""
    streams = streams_of(LONG, LONG[2:])
    replay = StepReplay(capacity, **{"n_steps": 3, "discount": GAMMA, "seed": 7, **options})
    for _ in range(fragments):
        replay.add(fragment(streams, 5))
    return replay, streams


def test_uniform_draws_are_uniform_over_the_steps_that_were_played():
    streams = streams_of(LONG, LONG[2:])
    replay = StepReplay(40, seed=1)
    for _ in range(6):
        replay.add(fragment(streams, 7, waits=True))
    counts = collections.Counter(replay.sample(30_000).samples["obs"][:, 0].tolist())
    assert len(counts) == len(replay)
    even = 30_000 / len(replay)
    assert max(abs(count - even) for count in counts.values()) < 6 * even**0.5


def test_an_episode_that_is_given_up_is_truncated_where_it_was():
    streams = streams_of([GOES_ON])
    replay = StepReplay(10, n_steps=4, discount=GAMMA, seed=0)
    replay.add(fragment(streams, 3))
    others = [Stream(7, [GOES_ON])]  # first observation 7000, as after a new reset
    replay.add(fragment(others, 2))
    found = drawn(replay.sample(200))
    assert found[2.0] == pytest.approx((2, 1.25, GAMMA, 3.0))
    assert found[7000.0] == pytest.approx((0, 8 + GAMMA * 8.125, GAMMA**2, 7002.0))


@pytest.mark.parametrize("frames", [False, True])
def test_a_fragment_that_does_not_follow_the_one_before_goes_on_with_nothing(frames):
    streams = streams_of([GOES_ON], [GOES_ON])
    shape = (2, 3, 3) if frames else (2,)
    replay = StepReplay(40, n_steps=3, discount=GAMMA, seed=0, frames=frames)
    replay.add(fragment(streams, 3, shape=shape))
    first = [stream.shown for stream in streams]
    fragment(streams, 2, shape=shape)  # is left out
    second = [stream.shown for stream in streams]
    replay.add(fragment(streams, 3, shape=shape))
    found = drawn(replay.sample(400))
    for stream, left, begun in zip(streams, first, second, strict=True):
        last = stream.steps[2]
        assert found[last.obs] == pytest.approx((last.action, last.reward, GAMMA, left))
        assert begun in found


def test_nested_observations_and_actions_come_back_as_they_were():
    streams = streams_of(LONG)
    replay = StepReplay(8, seed=0)
    for _ in range(3):
        tree = fragment(streams, 4)
        for name in ("obs", "final_obs"):
            tree[name] = {"a": tree[name], "b": {"c": tree[name]}}
        tree["action"] = {"0": tree["action"], "x": tree["action"]}
        replay.add(tree)
    samples = replay.sample(50).samples
    for name in ("obs", "next_obs"):
        assert (samples[name]["a"] == samples[name]["b"]["c"]).all()
    assert (samples["action"]["0"] == samples["action"]["x"]).all()


# Priorities -------------------------------------------------------------------------------


def test_steps_are_drawn_in_proportion_to_their_priorities():
    replay, _ = filled(alpha=0.5, beta=1.0)
    batch = replay.sample(4000)
    places = np.unique(batch.indices)
    priorities = 1.0 + np.arange(len(places)) % 4
    replay.update_priorities(places, priorities)
    batch = replay.sample(40_000)
    share = np.array([(batch.indices == place).mean() for place in places])
    wanted = priorities**0.5 / (priorities**0.5).sum()
    np.testing.assert_allclose(share, wanted, rtol=0.05)
    least = wanted.min() / wanted
    np.testing.assert_allclose(batch.weights, least[np.searchsorted(places, batch.indices)], 1e-6)


def test_new_steps_have_the_highest_priority_that_was_given():
    replay, streams = filled(1, alpha=1.0)
    replay.update_priorities(replay.sample(100).indices, np.full(100, 0.01))
    replay.update_priorities(replay.sample(1).indices, [50.0])
    replay.add(fragment(streams, 1))
    steps = {stream.steps[-1].obs for stream in streams}
    seen = replay.sample(900).samples["obs"][:, 0]
    assert np.isin(seen, list(steps)).mean() == pytest.approx(100 / 150, abs=0.01)


def test_a_step_of_priority_0_is_not_drawn_and_none_says_so():
    replay, _ = filled(alpha=0.6)
    batch = replay.sample(2000)
    replay.update_priorities(batch.indices[:1], [0.0])
    assert batch.indices[0] not in replay.sample(2000).indices
    replay.update_priorities(batch.indices, np.zeros(2000))
    with pytest.raises(ReplayEmpty, match="positive priority"):
        replay.sample(1)
    with pytest.raises(InvalidSamples, match="finite numbers >= 0"):
        replay.update_priorities(batch.indices[:2], [1.0, np.nan])


# Saving -----------------------------------------------------------------------------------


def same(one, other):
    for name, leaf in one.samples.items():
        assert leaf.tobytes() == other.samples[name].tobytes(), name
    assert one.indices.tobytes() == other.indices.tobytes()
    assert one.weights.tobytes() == other.weights.tobytes()


@pytest.mark.parametrize("alpha", [None, 0.6])
@pytest.mark.parametrize("fragments", [0, 1, 7])
def test_a_saved_replay_goes_on_bit_for_bit(alpha, fragments):
    replay, streams = filled(fragments, alpha=alpha)
    if fragments:
        batch = replay.sample(20)
        replay.update_priorities(batch.indices, np.linspace(0.1, 3, 20))
    saved = copy.deepcopy(replay.state_dict())
    other = filled(2, alpha=alpha)[0]
    other.load_state_dict(saved)
    for _ in range(5):
        tree = fragment(streams, 5)
        for one in (replay, other):
            one.add(tree)
        batches = replay.sample(30), other.sample(30)
        same(*batches)
        for one in (replay, other):
            one.update_priorities(batches[0].indices, np.linspace(0.1, 3, 30))


def test_what_is_saved_is_not_copied():
    replay, _ = filled()
    assert replay.state_dict()["ring"]["obs"]["0"]["ring"].base is not None


def test_a_state_of_another_replay_is_refused():
    saved = filled()[0].state_dict()
    with pytest.raises(InvalidSamples, match="capacity must be 30; got 24"):
        filled(0, capacity=30)[0].load_state_dict(saved)
    with pytest.raises(InvalidSamples, match=r"alpha must be 0\.5; got None"):
        filled(0, alpha=0.5)[0].load_state_dict(saved)
    prioritized = filled(alpha=0.5)[0].state_dict()
    for alpha in (None, 0.6):
        with pytest.raises(InvalidSamples, match=rf"alpha must be {alpha}; got 0\.5"):
            filled(0, alpha=alpha)[0].load_state_dict(prioritized)


@pytest.mark.parametrize("lost", ["form", "ring", "priorities", "rng"])
def test_a_state_that_is_refused_changes_nothing(lost):
    one, other = filled(3, alpha=0.7)[0], filled(5, alpha=0.7)[0]
    state, before = copy.deepcopy(other.state_dict()), copy.deepcopy(one.state_dict())
    state["beta"] = 0.9
    if lost in ("form", "rng"):
        del state[lost]
    else:
        state[lost].popitem()
    with pytest.raises(InvalidSamples):
        one.load_state_dict(state)
    np.testing.assert_equal(one.state_dict(), before)


def test_how_far_weights_undo_priorities_is_saved():
    one, _ = filled(alpha=0.7)
    one.update_priorities(one.sample(9).indices, np.linspace(0.1, 2, 9))
    one.beta = 0.9
    other = filled(1, alpha=0.7)[0]
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    same(one.sample(20), other.sample(20))


@pytest.mark.parametrize("place", [10**9, -(10**9), -1, 10_000])
def test_priorities_of_places_that_there_are_not_are_refused(place):
    replay, _ = filled(alpha=0.7)
    there = replay.sample(1).indices[0]
    with pytest.raises(InvalidSamples, match="indices must be those of a batch"):
        replay.update_priorities([there, place], [1.0, 1.0])


def test_what_was_not_played_is_given_no_priority():
    replay, _ = filled(1, alpha=0.7)
    drawn = set(replay.sample(500).indices.tolist())
    for place in set(range(24)) - drawn:
        with pytest.raises(InvalidSamples, match="indices must be those"):
            replay.update_priorities([place], [1.0])
    assert set(replay.sample(500).indices.tolist()) == drawn


# What cannot be ---------------------------------------------------------------------------


def test_capacity_in_bytes():
    streams = streams_of(LONG, LONG)
    replay = StepReplay("1kB", n_steps=1, seed=0)  # 16 + 8 + 8 bytes a step
    for _ in range(10):
        replay.add(fragment(streams, 5))
    assert len(replay) == 1000 // 32 // 2 * 2
    assert steps_within("1.5GiB", 1 << 20) == 1536
    # With priorities 32 more, of the tree that they are drawn by.
    prioritized = StepReplay("1kB", n_steps=1, seed=0, alpha=0.6)
    for _ in range(10):
        prioritized.add(fragment(streams, 5))
    assert len(prioritized) == 1000 // 64 // 2 * 2
    assert steps_within(checked_capacity("x", 77), 5) == 77


@pytest.mark.parametrize("capacity", [0, -1, 1.5, "", "GB", "2", "2 apples", None])
def test_a_capacity_that_is_none_is_refused(capacity):
    with pytest.raises(InvalidOption, match="StepReplay: capacity must be"):
        StepReplay(capacity)


def test_what_does_not_fit_is_refused_and_nothing_is_added():
    replay, streams = filled()
    before = len(replay)
    with pytest.raises(InvalidSamples, match="must have the form of the first"):
        replay.add(fragment(streams_of(LONG), 5))
    with pytest.raises(InvalidSamples, match="room for 12 of each"):
        replay.add(fragment(streams, 13))
    assert len(replay) == before
    with pytest.raises(ReplayEmpty, match="none were added"):
        StepReplay(5).sample(1)
    with pytest.raises(InvalidSamples, match="hold a step of 2 envs"):
        StepReplay(1).add(fragment(streams, 1))


def test_a_capacity_that_no_machine_has_is_refused():
    with pytest.raises(InvalidSamples, match=r"no memory for [0-9,]+ steps of 2 envs"):
        StepReplay(10**14).add(fragment(streams_of(LONG, LONG), 5))
