"""A replay that keeps the rows of the highest priorities."""

import numpy as np
import pytest

from plangym_ext.errors import InvalidSamples
from plangym_ext.learn import BestReplay


def test_the_best_rows_of_all_that_came_are_kept():
    rng = np.random.default_rng(0)
    replay, given = BestReplay(7, seed=0), np.zeros(0)
    for count in (3, 2, 5, 1, 20, 4):
        new = rng.permutation(100)[:count].astype(float)
        replay.add({"x": {"y": np.stack([new, 2 * new], 1)}}, new)
        given = np.append(given, new)
        kept = replay.all()["x"]["y"]
        wanted = np.sort(given)[::-1][:7]
        assert sorted(kept[:, 0], reverse=True) == wanted.tolist()
        np.testing.assert_array_equal(
            replay.priorities, replay.rows(np.arange(len(replay)))["x"]["y"][:, 0]
        )
        np.testing.assert_array_equal(kept[:, 1], 2 * kept[:, 0])


def test_of_equal_rows_the_older_stay_and_a_state_goes_on():
    replay = BestReplay(3, seed=0)
    replay.add({"x": np.arange(6)}, [1, 1, 0, 1, 1, 2])
    assert sorted(replay.all()["x"]) == [0, 1, 5]
    # Where a row gave way, the row in its place is younger than those after it.
    third = BestReplay(2, seed=0)
    for x, priority in ((0, 1), (1, 2), (2, 2), (3, 3)):
        third.add({"x": np.array([x])}, [priority])
    assert sorted(third.all()["x"]) == [1, 3]
    other = BestReplay(3, seed=1)
    other.load_state_dict(replay.state_dict())
    for one in (replay, other):
        one.add({"x": np.array([9, 8])}, [1.5, 0.5])
    drawn = replay.sample(20).samples["x"]
    np.testing.assert_array_equal(drawn, other.sample(20).samples["x"])
    assert set(drawn.tolist()) == {0, 5, 9}
    with pytest.raises(InvalidSamples, match="priorities must be 2"):
        replay.add({"x": np.array([1, 2])})


@pytest.mark.parametrize("lost", ["rows", "cursor", "priorities", "came", "rng"])
def test_a_state_that_is_refused_changes_nothing(lost):
    replay, other = BestReplay(3, seed=0), BestReplay(3, seed=1)
    for one, first in ((replay, 0), (other, 50)):
        one.add({"x": np.arange(first, first + 6)}, [1, 1, 0, 1, 1, 2])
    state, before = other.state_dict(), replay.state_dict()
    del state[lost]
    with pytest.raises(InvalidSamples, match=lost):
        replay.load_state_dict(state)
    np.testing.assert_equal(replay.state_dict(), before)
