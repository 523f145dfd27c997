"""A replay of sequences against a slow, obvious reference."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_streams import GOES_ON, TERMINATES, TRUNCATES, Stream, fragment

from plangym_ext.arrays import Array
from plangym_ext.errors import InvalidSamples, ReplayEmpty
from plangym_ext.learn import SequenceReplay

GAMMA = 0.9


def played(streams, num, **options):
    """Return a fragment whose carry is the number of steps before it."""
    carry = Array((len(streams),), np.float32, feature_shape=(2,))
    carry[...] = np.array([[len(stream.steps)] * 2 for stream in streams], np.float32)
    tree = fragment(streams, num, **options)
    tree["carry"] = {"h": carry}
    return tree


def rows_from(stream, begin, count):
    """Return what was shown from a step on: (obs, first, step or None, step before or None)."""
    rows, before = [], stream.steps[begin - 1] if begin else None
    if before is not None and (before.terminated or before.truncated):
        before = None
    for step in stream.steps[begin:]:
        if not step.valid:
            continue
        rows.append((step.obs, step.first, step, None if step.first else before))
        before = step
        if step.terminated or step.truncated:
            rows.append((step.following, False, None, step))
    while len(rows) < count:
        ended = stream.first
        rows.append((stream.shown, ended, None, None if ended else before))
    return rows[:count]


def wanted_return(rows, at, n):
    """Return reward, discount and row of what follows."""
    total, power = 0.0, 0
    for _, _, step, _ in rows[at : at + n]:
        if step is None:
            break
        total += GAMMA**power * step.reward
        power += 1
        if step.terminated or step.truncated:
            break
    last = rows[at + power - 1][2]
    return total, 0.0 if last.terminated else GAMMA**power, at + power


ENDS = st.lists(st.sampled_from([GOES_ON, GOES_ON, TERMINATES, TRUNCATES]), min_size=1, max_size=7)


@given(
    ends=st.lists(ENDS, min_size=1, max_size=2),
    num=st.integers(2, 5),
    fragments=st.integers(1, 7),
    length=st.integers(5, 16),
    burn_in=st.integers(0, 4),
    learned=st.integers(1, 4),
    n=st.integers(1, 3),
    waits=st.booleans(),
    alpha=st.sampled_from([None, 0.5]),
)
@settings(max_examples=60, deadline=None)
def test_draws_are_those_of_the_reference(
    ends, num, fragments, length, burn_in, learned, n, waits, alpha
):
    streams = [Stream(env, kinds) for env, kinds in enumerate(ends)]
    replay = SequenceReplay(
        length * len(streams),
        burn_in=burn_in,
        length=learned,
        n_steps=n,
        discount=GAMMA,
        alpha=alpha,
        seed=1,
    )

    def starts_after(number):
        """Where sequences may begin that are drawn after so many fragments."""
        total, begun = number * num, range(0, number * num, num)
        return [start for start in begun if start >= total - length and start + burn_in < total]

    if not any(map(starts_after, range(1, 50))):
        with pytest.raises(InvalidSamples, match="must hold a sequence"):
            replay.add(played(streams, num, waits=waits))
        return
    for number in range(fragments):
        replay.add(played(streams, num, waits=waits))
        starts = starts_after(number + 1)
        if not starts:
            with pytest.raises(ReplayEmpty):
                replay.sample(1)
            continue
        batch = replay.sample(12 * len(starts) * len(streams))
        seen = {check(batch, i, streams, burn_in, learned, n) for i in range(len(batch.indices))}
        assert seen == {(env, start) for env in range(len(streams)) for start in starts}


def check(batch, i, streams, burn_in, learned, n):
    """Compare one sequence; return its env and first step."""
    samples = batch.samples
    count = burn_in + learned + n
    start = int(samples["carry"]["h"][i, 0])
    env = int(samples["obs"][0, i, 0] // 1000)
    rows = rows_from(streams[env], start, count)
    for r, (obs, first, step, before) in enumerate(rows):
        assert samples["obs"][r, i, 0] == obs
        assert samples["first"][r, i] == first
        assert samples["prev_action"][r, i] == (before.action if before else 0)
        assert samples["prev_reward"][r, i] == np.float32(before.reward if before else 0)
        inside = burn_in <= r < burn_in + learned
        assert samples["learned"][r, i] == (inside and step is not None)
        if samples["learned"][r, i]:
            assert samples["action"][r, i] == step.action
            found = [samples[name][r, i] for name in ("reward", "discount", "following")]
            assert found == pytest.approx(wanted_return(rows, r, n), rel=1e-6)
    return env, start


def test_a_sequence_does_not_go_on_over_a_fragment_that_was_left_out():
    streams = [Stream(0, [GOES_ON]), Stream(1, [GOES_ON])]
    replay = SequenceReplay(40, burn_in=1, length=2, n_steps=2, discount=GAMMA, seed=0)
    replay.add(played(streams, 3))
    followed = [stream.shown for stream in streams]
    played(streams, 3)
    replay.add(played(streams, 3))
    samples = replay.sample(40).samples
    for i in range(40):
        env = int(samples["obs"][0, i, 0] // 1000)
        if samples["carry"]["h"][i, 0]:
            continue  # begins with the second fragment
        # Three steps, what followed them, and the fragment that came after the one left out.
        assert samples["obs"][3, i, 0] == followed[env] == 1000 * env + 3
        assert samples["obs"][4, i, 0] == 1000 * env + 6
        assert samples["first"][:, i].tolist() == [True, False, False, False, True]
        assert samples["prev_action"][4, i] == samples["prev_reward"][4, i] == 0
        last = streams[env].steps[2]
        assert samples["reward"][2, i] == np.float32(last.reward)
        assert samples["discount"][2, i] == pytest.approx(GAMMA)
        assert samples["following"][2, i] == 3


def filled(fragments=5, **options):
    streams = [Stream(0, [0, 0, 0, 2, 0, 1]), Stream(1, [0, 0, 1])]
    options = {"burn_in": 2, "length": 3, "n_steps": 2, "seed": 3, **options}
    replay = SequenceReplay(40, **options)
    for _ in range(fragments):
        replay.add(played(streams, 4))
    return replay, streams


@pytest.mark.parametrize("alpha", [None, 0.7])
def test_a_saved_replay_goes_on_bit_for_bit(alpha):
    one, streams = filled(8, alpha=alpha)
    one.update_priorities(one.sample(9).indices, np.linspace(0.1, 2, 9))
    other = filled(1, alpha=alpha)[0]
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for _ in range(4):
        batches = one.sample(9), other.sample(9)
        for name, leaf in batches[0].samples.items():
            if name == "carry":
                assert leaf["h"].tobytes() == batches[1].samples[name]["h"].tobytes()
            else:
                assert leaf.tobytes() == batches[1].samples[name].tobytes(), name
        assert batches[0].weights.tobytes() == batches[1].weights.tobytes()
        tree = played(streams, 4)
        one.add(tree)
        other.add(tree)


@pytest.mark.parametrize("lost", ["ring", "priorities", "carries"])
def test_a_state_that_is_refused_changes_nothing(lost):
    one, _ = filled(3, alpha=0.7)
    other, _ = filled(8, alpha=0.7)
    state = copy.deepcopy(other.state_dict())
    state[lost].popitem()
    before = copy.deepcopy(one.state_dict())
    with pytest.raises(InvalidSamples):
        one.load_state_dict(state)
    np.testing.assert_equal(one.state_dict(), before)


def test_fragments_that_do_not_fit_are_refused():
    replay, streams = filled()
    with pytest.raises(InvalidSamples, match="as many steps as the first one, 4; got 3"):
        replay.add(played(streams, 3))
    with pytest.raises(InvalidSamples, match="the tree has no carry"):
        SequenceReplay(40, burn_in=1, length=1).add(fragment(streams, 4))


def test_a_capacity_that_never_holds_a_sequence_is_refused_at_once():
    streams = [Stream(0, [0]), Stream(1, [0])]
    # From a fragment's beginning 7 rows are needed: two fragments, of both envs.
    options = {"burn_in": 6, "length": 3}
    replay = SequenceReplay(15, **options)
    for _ in range(2):
        with pytest.raises(InvalidSamples, match=r"must hold a sequence: .* 16 in all; it"):
            replay.add(played(streams, 4))
    # What was refused is forgotten: fragments may have another size.
    with pytest.raises(InvalidSamples, match="fragments of 5 steps"):
        replay.add(played(streams, 5))
    replay = SequenceReplay(16, **options)
    for ready in (False, True, True):
        replay.add(played(streams, 4))
        assert replay.is_ready == ready
    assert replay.sample(3).samples["first"].shape == (10, 3)


@pytest.mark.parametrize("alpha", [None, 0.7])
def test_carries_count_in_a_capacity_in_bytes(alpha):
    streams = [Stream(0, [0]), Stream(1, [0])]
    replay = SequenceReplay("4kB", burn_in=1, length=2, alpha=alpha)
    for _ in range(200):
        replay.add(played(streams, 2))
    # 16 + 8 + 8 of a step, as of `StepReplay`; for each two of them a carry of 8, and priorities.
    assert len(replay) == 4000 // (32 + (8 + 32 * (alpha is not None)) // 2) // 2 * 2


def test_priorities_of_sequences_that_there_are_not_are_refused():
    replay, _ = filled(3, alpha=0.7)
    drawn = set(replay.sample(500).indices.tolist())
    count = len(replay._priorities.masses)
    for place in {*range(-2, count + 2)} - drawn:
        with pytest.raises(InvalidSamples, match="indices must be those of a batch"):
            replay.update_priorities([place], [1.0])
    assert drawn == set(replay.sample(500).indices.tolist())
