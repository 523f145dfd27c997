"""Pairs of coloured tiles as features: B-PROS and B-PROST."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.planners import IW, RolloutIW
from plangym_ext.planners.novelty.features import FEATURES, TilePairs, tile_features
from plangym_ext.planners.novelty.pairs import (
    NEVER,
    new_pairs,
    number_colours,
    offsets,
    see_offsets,
    see_pairs,
    tiles_of,
    with_room,
)


def both(kernel):
    return pytest.mark.parametrize("run", [kernel, kernel.py_func], ids=["jit", "python"])


def screen(*rows):
    """A screen of which each tile is of one colour."""
    return np.kron(np.uint8(rows), np.ones((15, 10), np.uint8))


def known(pairs, *screens):
    """Tables with room for the colours of screens, and the features of their tiles."""
    features = tile_features(np.stack(screens))
    return with_room(pairs, np.zeros(len(screens), int), features), features


def written(table):
    """Where a table of tree 0 is written, and with which depths."""
    return {tuple(map(int, at)): int(table[0][tuple(at)]) for at in np.argwhere(table[0] < NEVER)}


@both(see_pairs)
def test_pairs_of_four_tiles_by_hand(run):
    # Colours 7 and 9 are numbers 0 and 1. No offset is at [1, 1].
    pairs, (first, second) = known(
        new_pairs(1, 2, 2, in_time=True), screen([7, 7], [9, 7]), screen([7, 7], [7, 9])
    )
    assert run(pairs, 0, first, first[:0], 0, 0)
    space = {
        # 7 and 7: each with itself, to the right, below and across, and back.
        **{(0, 0, *at): 0 for at in [(1, 1), (1, 2), (1, 0), (2, 1), (0, 1), (2, 2), (0, 0)]},
        # From 7 to 9: below the first, one back from the tile below, across from the second.
        **{(0, 1, *at): 0 for at in [(2, 1), (1, 0), (2, 0)]},
        (1, 1, 1, 1): 0,
    }
    assert written(pairs.space) == space
    assert written(pairs.time) == {}

    assert run(pairs, 0, second, first, 1, 0)
    # 9 is now below, to the right and across; and 7 is to its left below as well.
    space |= {(0, 0, 2, 0): 1, (0, 0, 0, 2): 1, (0, 1, 1, 2): 1, (0, 1, 2, 2): 1}
    assert written(pairs.space) == space
    time = {
        # From where 7 was to where it is: never to the right and up, or down.
        **{(0, 0, *at): 1 for at in [(1, 1), (1, 2), (1, 0), (2, 0), (2, 1), (0, 1), (0, 0)]},
        # From 7 to 9: it came to the last tile, where 7 was too.
        **{(0, 1, *at): 1 for at in [(1, 1), (2, 1), (2, 2)]},
        # From 9 to 7: it is where 9 was, above it, and across.
        **{(1, 0, *at): 1 for at in [(1, 1), (0, 1), (0, 2)]},
        # 9 went to the right.
        (1, 1, 1, 2): 1,
    }
    assert written(pairs.time) == time

    # The same again is old at that depth, but for the node itself, and old below it.
    assert not run(pairs, 0, second, first, 1, 0)
    assert run(pairs, 0, second, first, 1, 1)
    assert not run(pairs, 0, second, first, 2, 1)
    # On this screen nothing has been seen less deep; the step to it is new.
    assert not run(pairs, 0, second, second[:0], 1, 0)
    assert run(pairs, 0, second, second, 1, 0)


def listed(first, second, columns, ordered):
    """All pairs of features of two screens, as the definition has them."""
    found = set()
    for one in first[first >= 0]:
        for other in second[second >= 0]:
            (a, p), (b, q) = divmod(int(one), 256), divmod(int(other), 256)
            offset = b // columns - a // columns, b % columns - a % columns
            pair = p, q, *offset
            back = q, p, -offset[0], -offset[1]
            found.add(pair if ordered else min(pair, back))
    return found


@pytest.mark.parametrize("in_time", [False, True])
def test_what_is_new_is_what_no_list_of_pairs_had(in_time):
    # Three things in twelve tiles, one of them in half a tile; 20 colours, so that tables grow.
    rng, columns = np.random.default_rng(0), 4
    pairs, least, seen = new_pairs(1, 3, columns, in_time), {}, []
    now = before = screen(*np.zeros((3, columns)))
    for i in range(152):
        cells, most = np.zeros((3, columns), int), 2 if i % 4 else 2 + i // 8
        cells.flat[rng.integers(12, size=2)] = rng.integers(1, most, size=2)
        before, now = now, screen(*cells)
        now[:7, :10] = rng.integers(1, most)
        depth = int(rng.integers(1, 5))
        pairs, (last, this) = known(pairs, before, now)
        found = {("space", *pair) for pair in listed(this, this, columns, ordered=False)}
        if in_time:
            found |= {("time", *pair) for pair in listed(last, this, columns, ordered=True)}
        expected = any(depth < least.get(pair, NEVER) for pair in found)
        least |= {pair: min(depth, least.get(pair, NEVER)) for pair in found}
        assert see_pairs(pairs, 0, this, last, depth, 0) == expected
        seen.append(expected)
    assert 30 < sum(seen) < 140
    assert pairs.space.shape[1] == 24
    assert len(written(pairs.time)) == sum(pair[0] == "time" for pair in least)


@both(number_colours)
def test_colours_are_numbered_as_they_turn_up(run):
    number = np.full((2, 256), -1, np.int32)
    features = np.array([[256 + 9, 5, 9], [255, -1, -1], [5, 7, -1]])
    assert run(number, np.array([1, 0, 1]), features) == 3
    assert (number[1, [9, 5, 7]].tolist(), number[0, 255]) == ([0, 1, 2], 0)
    assert (number >= 0).sum() == 4


@both(tiles_of)
def test_tiles_are_bits(run):
    pairs, features = known(new_pairs(1, 2, 3, False), screen([1, 1, 2], [2, 2, 2]))
    assert run(pairs, 0, features[0], False)[:2].tolist() == [[0b011, 0, 2], [0b100, 0b111, 4]]
    assert run(pairs, 0, features[0], True)[:2].tolist() == [[0, 0b110, 2], [0b111, 0b001, 4]]


@both(offsets)
def test_offsets_are_sums_of_mirrored_places(run):
    found = np.ones(3, np.uint64)
    # From the top left (mirrored: the bottom right) to the two on the right.
    one, right = np.uint64([0, 0b10, 1]), np.uint64([0b10, 0b10, 2])
    assert run(one, right, found)
    assert found.tolist() == [0, 0b100, 0b100]
    assert run(right, one, found)
    assert found.tolist() == [0, 0b100, 0b100]
    assert not run(one, np.uint64([0, 0, 0]), found)


@both(see_offsets)
def test_offsets_are_new_at_their_least_depth(run):
    table = np.full((1, 3), NEVER, np.int32)
    assert run(table, np.uint64([0b101]), 2, 0)
    assert table.tolist() == [[2, NEVER, 2]]
    assert not run(table, np.uint64([0b100]), 2, 0)
    assert run(table, np.uint64([0b100]), 1, 0)
    assert not run(table, np.uint64([0b100]), 2, 1)
    assert table.tolist() == [[2, NEVER, 1]]


def shown(models, screens, *args, **kwargs):
    """A model that shows a screen in each state."""

    class Shown(models.TableModel):
        def _batch(self, index, reward):
            return super()._batch(index, reward)._replace(obs=screens[index])

    return Shown(*args, **kwargs)


def value_by(models, features, *screens):
    """What IW finds where states lead from 0 to 1 and 2, from 1 to 3, and there to 5 points."""
    reward = np.zeros((5, 2))
    reward[3] = 5.0
    successor = [[1, 2], [3, 3], [2, 2], [4, 4], [4, 4]]
    screens = np.stack([*screens, screens[0]])
    model = shown(models, screens, successor, reward, terminated=[4])
    planner = IW(20, features=features, discount=1.0)
    return planner.plan(model, model.state(0), rng=0, obs=screens[0]).value


@pytest.mark.parametrize(("features", "value"), [("tiles", 0.0), ("pairs", 5.0)])
def test_old_things_that_lie_otherwise_are_new_as_pairs(models, features, value):
    found = value_by(
        models,
        features,
        screen([1, 0, 0], [2, 0, 0]),
        screen([0, 0, 1], [2, 0, 0]),
        screen([1, 0, 0], [0, 2, 0]),
        # 1 as on the second, 2 as on the third.
        screen([0, 0, 1], [0, 2, 0]),
    )
    assert found == value


@pytest.mark.parametrize(("features", "value"), [("pairs", 0.0), ("pairs-in-time", 5.0)])
def test_an_old_screen_reached_by_another_step_is_new_in_time(models, features, value):
    still = [screen([0, 1, 0]), screen([1, 0, 0]), screen([0, 0, 1])]
    # From 1, 0, 0 to 0, 0, 1 it is a longer way than from 0, 1, 0.
    assert value_by(models, features, *still, still[2]) == value


@pytest.mark.parametrize("cls", [RolloutIW, IW])
def test_rows_with_pairs_planned_together_equal_rows_planned_alone(models, cls):
    colours = np.random.default_rng(0).integers(12, size=(40, 3, 4))
    screens = np.stack([screen(*one) for one in colours])
    plain = models.random_mdp(3)
    model = shown(models, screens, plain.successor, plain.reward, terminated=range(32, 40))
    options = {"features": "pairs-in-time", "max_depth": 4}
    together, alone = cls(20, **options), [cls(20, **options) for _ in range(3)]
    rows, at = np.arange(3), np.array([0, 5, 9])
    for move in range(3):
        states = np.stack([model.state(i) for i in at[rows]])
        rngs = [np.random.default_rng([move, i]) for i in rows]
        plans = together.plan_batch(model, states, rngs=rngs, obs=screens[at[rows]])
        for i, plan in zip(rows, plans, strict=True):
            rng = np.random.default_rng([move, i])
            other = alone[i].plan(model, model.state(at[i]), rng=rng, obs=screens[at[i]])
            np.testing.assert_array_equal(plan.visits, other.visits)
            np.testing.assert_array_equal(plan.q, other.q)
        at = model.successor[at, 0]
        if move == 0:
            # The episode in the middle is over.
            together.keep_rows(np.array([0, 2]))
            rows = np.array([0, 2])


def test_what_has_no_tiles_is_refused(models):
    assert FEATURES["pairs"] == TilePairs() != FEATURES["pairs-in-time"] == TilePairs(in_time=True)
    model = models.chain(5)
    for features in ("tiles", "pairs"):
        message = r"^RolloutIW: features: .* at least 15 by 10 pixels; got \[1, 1\] float32"
        with pytest.raises(InvalidOption, match=message):
            RolloutIW(5, features=features).plan(
                model, model.state(0), rng=0, obs=np.zeros(1, np.float32)
            )
    with pytest.raises(InvalidOption, match=r"^IW: counted: features of tiles are of screens"):
        IW(5, count_bonus=0.1, counted="tiles").plan(model, model.state(0), rng=0, obs=np.zeros(1))
    with pytest.raises(InvalidOption, match="at most 32 columns of tiles; got 33"):
        new_pairs(1, 2, 33, in_time=False)
