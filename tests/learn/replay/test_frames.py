"""Frames that are kept once: what is drawn is what a replay of whole stacks draws."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_streams import GOES_ON, TERMINATES, TRUNCATES, Stream, array, fragment

from plangym_ext.errors import InvalidSamples
from plangym_ext.learn import StepReplay


class Stacked:
    """Turns the numbers of streams into stacks of frames, as an env would.

    Args:
        streams: one per env.
        size: frames of a stack.
        fill: whether a first stack is its frame repeated; else the others are zeros.
    """

    def __init__(self, streams, size, *, fill):
        self.streams, self.size, self.fill = streams, size, fill
        self.stacks = [None] * len(streams)

    def _picture(self, number):
        # Two pixels alike in some frames, so that neighbours are not all distinct.
        return np.full((2, 3), number % 251, np.uint8) // [[1], [3]]

    def _next(self, env, number, first):
        picture = self._picture(number)
        before = self.stacks[env]
        if first or before is None:
            rest = np.repeat(picture[None] * self.fill, self.size - 1, axis=0)
        else:
            rest = before[1:]
        return np.concatenate([rest, picture[None]]).astype(np.uint8)

    def fragment(self, num, *, waits=False):
        """Play on; return the tree."""
        tree = fragment(self.streams, num, waits=waits, shape=())
        numbers = tree["obs"][0 : num + 1].to_ndarray()
        first = tree["first"][0 : num + 1].to_ndarray()
        ends = tree["terminated"].to_ndarray() | tree["truncated"].to_ndarray()
        last = tree["final_obs"].to_ndarray()
        obs = np.zeros((num + 1, len(self.streams), self.size, 2, 3), np.uint8)
        final = np.zeros((num, *obs.shape[1:]), np.uint8)
        for t in range(num + 1):
            for env in range(len(self.streams)):
                if t or self.stacks[env] is None:
                    self.stacks[env] = self._next(env, numbers[t, env], first[t, env])
                obs[t, env] = self.stacks[env]
                if t < num and ends[t, env]:
                    final[t, env] = self._next(env, last[t, env], False)
        tree["obs"], tree["final_obs"] = array(obs, np.uint8, 1), array(final, np.uint8)
        return tree


def same_draws(one, other):
    batches = one.sample(60), other.sample(60)
    for name, leaf in batches[0].samples.items():
        assert leaf.dtype == batches[1].samples[name].dtype
        assert leaf.tobytes() == batches[1].samples[name].tobytes(), name


ENDS = st.lists(st.sampled_from([GOES_ON, GOES_ON, TERMINATES, TRUNCATES]), min_size=1, max_size=9)


@given(
    ends=st.lists(ENDS, min_size=1, max_size=2),
    fragments=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    length=st.integers(5, 9),
    n=st.integers(1, 3),
    size=st.integers(2, 4),
    waits=st.booleans(),
    fill=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_draws_are_those_of_whole_stacks(ends, fragments, length, n, size, waits, fill):
    streams = [Stream(env, kinds) for env, kinds in enumerate(ends)]
    stacked = Stacked(streams, size, fill=fill)
    options = {"n_steps": n, "discount": 0.9, "seed": 1}
    replays = [
        StepReplay(length * len(streams), frames=frames, **options) for frames in (True, False)
    ]
    for num in fragments:
        tree = stacked.fragment(num, waits=waits)
        for replay in replays:
            replay.add(tree)
        same_draws(*replays)


def long_run(fragments, replays, stacked):
    for _ in range(fragments):
        tree = stacked.fragment(5)
        for replay in replays:
            replay.add(tree)


def test_an_episode_that_is_given_up_ends_with_the_stack_that_it_had():
    replays = [StepReplay(40, frames=frames, n_steps=2, seed=0) for frames in (True, False)]
    long_run(2, replays, Stacked([Stream(0, [GOES_ON])], 4, fill=True))
    long_run(2, replays, Stacked([Stream(7, [GOES_ON])], 4, fill=True))
    for _ in range(5):
        same_draws(*replays)


def test_saved_frames_go_on_bit_for_bit():
    stacked = Stacked([Stream(0, [0, 0, 0, 2, 0, 1]), Stream(1, [0, 1])], 3, fill=False)
    one = StepReplay(24, frames=True, alpha=0.5, seed=0)
    long_run(4, [one], stacked)
    other = StepReplay(24, frames=True, alpha=0.5, seed=9)
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for _ in range(5):
        same_draws(one, other)
        long_run(1, [one, other], stacked)


def test_frames_take_less_room_than_stacks():
    stacked = Stacked([Stream(0, [GOES_ON])], 4, fill=True)
    lengths = []
    for frames in (True, False):
        replay = StepReplay("10kB", frames=frames, seed=0)
        for _ in range(60):
            replay.add(stacked.fragment(10))
        lengths.append(len(replay))
    # 6 bytes of a frame or 24 of a stack, 8 of an action, 16 of the rest, 8 of a serial
    assert lengths == [10_000 // 38, 10_000 // 48]


def test_observations_that_are_no_stacks_are_refused():
    with pytest.raises(InvalidSamples, match="must be a stack of images"):
        StepReplay(20, frames=True).add(fragment([Stream(0, [GOES_ON])], 3))
    replay = StepReplay(20, frames=True)
    replay.add(Stacked([Stream(0, [GOES_ON])], 4, fill=True).fragment(2))
    other = Stacked([Stream(0, [GOES_ON])], 3, fill=True).fragment(2)
    with pytest.raises(InvalidSamples, match="must have the form of the first"):
        replay.add(other)


def test_rewards_are_clipped_before_they_are_summed():
    replay = StepReplay(20, n_steps=3, discount=0.5, clip_reward=1.0, seed=0)
    replay.add(fragment([Stream(4, [GOES_ON])], 6))  # rewards of 5 and more
    assert set(replay.sample(200).samples["reward"].tolist()) == {1.0, 1.5, 1.75}
