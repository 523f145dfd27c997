"""Replay buffers: which rows are kept, how often they are drawn, and saving them."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plangym_ext.errors import InvalidOption, InvalidSamples, ReplayEmpty
from plangym_ext.learn import BalancedReplay, PrioritizedReplay, ReplayBuffer
from plangym_ext.learn.replay.priorities import ROOT, assign, draw, new_sum_tree

KINDS = [ReplayBuffer, PrioritizedReplay, BalancedReplay]
EACH = pytest.mark.parametrize("kind", KINDS)


def rows(first, last):
    """Rows that say which they are, nested, of three dtypes."""
    number = np.arange(first, last)
    return {
        "obs": {
            "picture": np.tile((number % 251).astype(np.uint8)[:, None, None], (1, 2, 3)),
            "speed": number.astype(np.float32),
        },
        "target": number.astype(np.float64) / 7,
    }


def numbers(samples):
    return np.rint(samples["target"] * 7).astype(int)


def consistent(samples):
    number = numbers(samples)
    assert (samples["obs"]["picture"] == (number % 251)[:, None, None]).all()
    assert (samples["obs"]["speed"] == number).all()
    return number.tolist()


def add(replay, samples, groups):
    """Add rows, with their groups where the replay has groups."""
    replay.add(samples, *([groups] if isinstance(replay, BalancedReplay) else []))


def filled(kind, count=10, capacity=16, **options):
    replay = kind(capacity, seed=3, **options)
    add(replay, rows(0, count), np.arange(count) % 2)
    return replay


# What is kept -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplay])
@given(capacity=st.integers(1, 9), counts=st.lists(st.integers(0, 20), max_size=8))
@settings(max_examples=40, deadline=None)
def test_the_newest_rows_are_kept_in_order_of_age(kind, capacity, counts):
    replay, model, first = kind(capacity, seed=0), collections.deque(maxlen=capacity), 0
    for count in counts:
        replay.add(rows(first, first + count))
        model.extend(range(first, first + count))
        first += count
        assert len(replay) == len(model)
        if model:
            assert consistent(replay.all()) == list(model)
            assert set(consistent(replay.sample(8).samples)) <= set(model)


@given(
    capacity=st.integers(1, 9),
    flags=st.lists(st.lists(st.sampled_from([0, 1, 5]), max_size=20), max_size=8),
)
@settings(max_examples=40, deadline=None)
def test_every_group_keeps_its_newest_rows(capacity, flags):
    replay, first = BalancedReplay(capacity, seed=0), 0
    model = {group: collections.deque(maxlen=capacity) for group in (0, 1, 5)}
    for batch in flags:
        replay.add(rows(first, first + len(batch)), groups=np.array(batch, int))
        for group in batch:
            model[group].append(first)
            first += 1
        kept = sorted(number for group in model.values() for number in group)
        assert len(replay) == len(kept)
        if kept:
            assert consistent(replay.all()) == kept
            assert set(consistent(replay.sample(8).samples)) <= set(kept)


@EACH
def test_dtypes_shapes_and_bits_come_back(kind):
    samples = {"n": np.array([2**53 + 1, 2]), "x": np.array([np.nan, -0.0]), "b": [True, False]}
    replay = kind(4, seed=0)
    add(replay, samples, [0, 1])
    found = replay.all()
    for name, expected in samples.items():
        expected = np.asarray(expected)
        assert found[name].dtype == expected.dtype
        assert found[name].tobytes() == expected.tobytes()


@EACH
def test_what_was_added_and_drawn_belongs_to_the_caller(kind):
    replay, samples = kind(8, seed=0), rows(0, 4)
    add(replay, samples, np.zeros(4, int))
    samples["target"][:] = 99
    batch = replay.sample(4).samples
    batch["target"][:] = 99
    replay.all()["target"][:] = 99
    assert consistent(replay.all()) == [0, 1, 2, 3]


# How often rows are drawn -----------------------------------------------------------------


def test_uniform_draws_are_uniform():
    batch = filled(ReplayBuffer).sample(10_000)
    counts = np.bincount(consistent(batch.samples), minlength=10)
    # Five standard deviations of a binomial with p = .1.
    assert (abs(counts - 1000) < 5 * np.sqrt(10_000 * 0.1 * 0.9)).all()
    assert (batch.weights == 1).all()
    assert batch.weights.dtype == np.float32
    assert (batch.indices == numbers(batch.samples)).all()


@pytest.mark.parametrize("capacity", [3, 4, 1000])
def test_weights_do_not_depend_on_the_room_that_is_left(capacity):
    replay = PrioritizedReplay(capacity, seed=0, alpha=1, beta=1)
    replay.add(rows(0, 3), priorities=[2.0, 4.0, 8.0])
    batch = replay.sample(14)
    # Parts of 1 out of a sum of 14: two, four and eight of them.
    assert consistent(batch.samples) == [0] * 2 + [1] * 4 + [2] * 8
    by_row = dict(zip(numbers(batch.samples).tolist(), batch.weights.tolist(), strict=True))
    assert by_row == {0: 1.0, 1: 0.5, 2: 0.25}


def test_the_largest_weight_of_a_batch_is_1_whatever_else_is_there():
    replay = PrioritizedReplay(8, seed=0, alpha=1, beta=1)
    # A row of hardly any priority, which is never among those that are drawn here.
    replay.add(rows(0, 3), priorities=[1e-12, 2.0, 8.0])
    batch = replay.sample(10)
    assert consistent(batch.samples) == [1] * 2 + [2] * 8
    assert batch.weights.tolist() == [1.0] * 2 + [0.25] * 8


def test_alpha_and_beta_are_exponents():
    replay = PrioritizedReplay(8, seed=0, alpha=0.5, beta=0)
    replay.add(rows(0, 2), priorities=[1.0, 9.0])
    batch = replay.sample(4)
    assert consistent(batch.samples) == [0, 1, 1, 1]
    assert (batch.weights == 1).all()
    replay.beta = 1.0
    np.testing.assert_allclose(replay.sample(4).weights, [1, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)
    uniform = PrioritizedReplay(8, seed=0, alpha=0)
    uniform.add(rows(0, 3), priorities=[0.0, 1.0, 9.0])
    assert np.bincount(consistent(uniform.sample(8).samples)).tolist() == [0, 4, 4]


def test_draws_follow_priorities_as_they_change():
    replay = PrioritizedReplay(100, seed=0, alpha=1)
    replay.add(rows(0, 5), priorities=np.ones(5))
    replay.update_priorities([0, 1, 1, 2, 3, 4], [0.0, 5.0, 3.0, 1.0, 0.0, 0.0])
    counts = np.bincount(consistent(replay.sample(400).samples))
    assert counts.tolist() == [0, 300, 100]


def test_rows_without_priority_get_the_highest_there_is():
    replay = PrioritizedReplay(2, seed=0, alpha=1, beta=1)
    replay.add(rows(0, 1))  # 1: there was none
    replay.add(rows(1, 2), priorities=[3.0])
    assert np.bincount(consistent(replay.sample(4).samples)).tolist() == [1, 3]
    replay.add(rows(2, 4))  # 3, though both old ones are gone then
    replay.update_priorities([0], [1.0])
    assert np.bincount(consistent(replay.sample(4).samples)).tolist() == [0, 0, 1, 3]


def test_rows_without_priority_are_no_exception_when_all_others_have_fallen():
    replay = PrioritizedReplay(10, seed=0, alpha=1, beta=1)
    replay.add(rows(0, 3))
    replay.update_priorities([0, 1, 2], [0.01, 0.01, 0.02])
    replay.add(rows(3, 4))  # 0.02, and not the 1 that the others began with
    counts = np.bincount(consistent(replay.sample(6).samples))
    assert counts.tolist() == [1, 1, 2, 2]
    replay.update_priorities(np.arange(4), np.zeros(4))
    replay.add(rows(4, 5))  # 1: no other row can be drawn
    assert consistent(replay.sample(2).samples) == [4, 4]


def test_overwritten_rows_take_their_mass_along():
    replay = PrioritizedReplay(3, seed=0, alpha=1, beta=1)
    replay.add(rows(0, 3), priorities=[1.0, 2.0, 100.0])
    replay.add(rows(3, 6), priorities=[1.0, 1.0, 2.0])
    batch = replay.sample(4)
    assert consistent(batch.samples) == [3, 4, 5, 5]
    assert batch.weights.tolist() == [1, 1, 0.5, 0.5]


def test_more_rows_than_fit_keep_their_own_priorities():
    replay = PrioritizedReplay(2, seed=0, alpha=1)
    replay.add(rows(0, 5), priorities=[9.0, 9.0, 9.0, 1.0, 3.0])
    assert sorted(consistent(replay.sample(4).samples)) == [3, 4, 4, 4]


def test_groups_are_drawn_alike_however_large_they_are():
    replay = BalancedReplay(5000, seed=0)
    replay.add(rows(0, 1000), groups=np.arange(1000) < 10)
    batch = replay.sample(10_000)
    number = np.array(consistent(batch.samples))
    assert abs((number < 10).sum() - 5000) < 5 * 50
    counts = np.bincount(number[number < 10])
    assert (abs(counts - 500) < 5 * np.sqrt(500)).all()
    assert (batch.weights == 1).all()


def test_groups_of_two_levels_are_drawn_level_by_level():
    replay = BalancedReplay(100, seed=0)
    replay.add(rows(0, 4), groups=[[0, 0], [0, 1], [0, 2], [1, 0]])
    counts = np.bincount(consistent(replay.sample(6000).samples))
    assert (abs(counts - [1000, 1000, 1000, 3000]) < 5 * np.sqrt(6000 / 4)).all()


def test_a_rare_group_outlives_the_others():
    replay = BalancedReplay(4, seed=0)
    replay.add(rows(0, 1), groups=[True])
    for first in range(1, 100, 9):
        replay.add(rows(first, first + 9), groups=np.zeros(9, bool))
    assert consistent(replay.all()) == [0, 96, 97, 98, 99]
    batch = replay.sample(20)
    assert (batch.indices % 4 < 4).all()
    assert 0 in numbers(batch.samples)


# The tree ---------------------------------------------------------------------------------

RUNS = pytest.mark.parametrize("jit", [True, False], ids=["jit", "python"])


@RUNS
@pytest.mark.parametrize("rows", [1, 2, 3, 8, 9])
def test_tree_draws_the_row_whose_running_sum_exceeds_the_target(jit, rows):
    put, pick = (assign, draw) if jit else (assign.py_func, draw.py_func)
    tree, masses = new_sum_tree(rows), np.arange(rows) % 3 + 0.5
    put(tree, np.arange(rows), masses)
    total = masses.sum()
    assert tree[ROOT] == total
    targets = np.arange(0, total, 0.25)
    places = np.empty(len(targets), np.int64)
    pick(tree, targets, places)
    np.testing.assert_array_equal(places, np.searchsorted(masses.cumsum(), targets, "right"))


@RUNS
def test_rows_without_mass_are_never_drawn_whatever_is_rounded(jit):
    put, pick = (assign, draw) if jit else (assign.py_func, draw.py_func)
    rng = np.random.default_rng(0)
    tree, masses = new_sum_tree(1000), np.where(rng.random(1000) < 0.1, rng.random(1000), 0.0)
    masses[:3] = 1e-30, 1e30, 0.0
    masses[500:] = 0.0
    put(tree, np.arange(1000), masses)
    total = tree[ROOT]
    # Beyond the sum as well: that is where rounding may lead.
    targets = np.concatenate([rng.random(2000) * total, np.nextafter(total, [0, 2 * total])])
    places = np.empty(len(targets), np.int64)
    pick(tree, targets, places)
    assert (masses[places] > 0).all()


def test_tree_depends_on_the_masses_alone():
    rng = np.random.default_rng(0)
    one, other, masses = new_sum_tree(50), new_sum_tree(50), rng.random(50)
    assign(one, np.arange(50), masses)
    for _ in range(100):
        assign(other, rng.integers(50, size=20), 1e9 * rng.random(20))
    for place in rng.permutation(50):
        assign(other, np.array([place]), masses[place : place + 1])
    assert one.tobytes() == other.tobytes()


# Saving -----------------------------------------------------------------------------------


def use(replay, first):
    """Two batches and what happens between them."""
    found = [replay.sample(6)]
    replay.update_priorities(found[0].indices, found[0].weights + first % 3)
    add(replay, rows(first, first + 7), np.arange(7) % 3)
    return [*found, replay.sample(6)]


def same_bits(one, other):
    if isinstance(one, dict):
        assert list(one) == list(other)
        one, other = list(one.values()), list(other.values())
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        return all(map(same_bits, one, other))
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


@EACH
@pytest.mark.parametrize("count", [1, 10, 16, 40])
def test_what_was_saved_goes_on_bit_for_bit(kind, count):
    replay = filled(kind, count)
    use(replay, 100)
    saved = replay.state_dict()
    other = kind(16, seed=99)
    add(other, {"else": np.zeros(3)}, [0, 1, 2])
    other.load_state_dict(saved)
    assert same_bits(other.state_dict(), saved)
    for first in (200, 300, 400):
        assert same_bits(use(replay, first), use(other, first))
    assert same_bits(replay.all(), other.all())
    # What was saved is no view of the buffers that went on.
    third = kind(16, seed=99)
    third.load_state_dict(saved)
    assert same_bits(third.state_dict(), saved)
    assert not same_bits(third.state_dict(), replay.state_dict())


@EACH
def test_what_is_saved_is_arrays_numbers_and_text(kind):
    def walk(value):
        if isinstance(value, dict):
            assert all(type(key) is str for key in value)
            for part in value.values():
                walk(part)
        else:
            assert type(value) in (np.ndarray, int, float, str), type(value)

    walk(filled(kind).state_dict())
    walk(kind(4, seed=0).state_dict())


@EACH
def test_an_empty_buffer_is_saved_too(kind):
    other = filled(kind, 3)
    other.load_state_dict(kind(16, seed=3).state_dict())
    assert len(other) == 0
    add(other, rows(0, 10), np.arange(10) % 2)
    assert same_bits(other.sample(5), filled(kind, 10).sample(5))


@EACH
def test_states_of_other_buffers_are_refused_and_nothing_changes(kind):
    replay = filled(kind, 5)
    before = replay.state_dict()
    other = next(k for k in KINDS if k is not kind)
    refused = [
        (kind(17, seed=0).state_dict(), "capacity must be 16; got 17"),
        (other(16, seed=0).state_dict(), f"kind must be '{kind.__name__}'"),
        ({}, "kind must be"),
    ]
    refused += [
        ({key: value for key, value in before.items() if key != gone}, gone)
        for gone in before
        if gone not in ("kind", "capacity")
    ]
    refused += [({**before, "rng": text}, "rng must be") for text in ("{}", "", '"PCG64"')]
    for state, text in refused:
        with pytest.raises(InvalidSamples, match=f"{kind.__name__}.load_state_dict: .*{text}"):
            replay.load_state_dict(state)
        assert same_bits(replay.state_dict(), before)


# What may be passed -----------------------------------------------------------------------


@EACH
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"target": np.zeros(3)}, "one N; got .*'target': 3"),
        ({"target": 1.0}, "'target': -1"),
        ({"target": np.zeros((2, 1))}, r"target was \(\(\), .*, got \(\(1,\), 'float64'\)"),
        ({"target": np.zeros(2, np.float32)}, r"got \(\(\), 'float32'\)"),
        ({"more": np.zeros(2)}, r"more was None, got"),
        ({"obs": np.zeros(2)}, r"obs.speed was .*, got None"),
    ],
)  # fmt: skip
def test_rows_unlike_the_first_are_refused_and_nothing_is_added(kind, change, text):
    replay = filled(kind)
    before = replay.state_dict()
    with pytest.raises(InvalidSamples, match=text):
        add(replay, {**rows(0, 2), **change}, [0, 1])
    assert same_bits(replay.state_dict(), before)


@EACH
def test_texts_and_nothing_at_all_are_refused(kind):
    replay = kind(4, seed=0)
    for samples in ({}, {"name": np.array(["a"])}, {"any": np.array([None])}):
        with pytest.raises(InvalidSamples, match=kind.__name__):
            add(replay, samples, [0])
    assert len(replay) == 0


@EACH
def test_draws_from_nothing_and_of_nothing_are_refused(kind):
    replay = kind(4, seed=0)
    add(replay, rows(0, 0), np.zeros(0, int))
    for ask in (lambda: replay.sample(1), replay.all):
        with pytest.raises(ReplayEmpty, match=f"{kind.__name__}: there must be rows"):
            ask()
    with pytest.raises(InvalidOption, match="batch_size must be an integer >= 1; got 0"):
        filled(kind).sample(0)
    with pytest.raises(InvalidOption, match="capacity must be an integer >= 1; got 0"):
        kind(0, seed=0)


@pytest.mark.parametrize("priorities", [[1.0], [1.0, -1.0], [1.0, np.nan], [1.0, np.inf]])
def test_priorities_that_cannot_be_are_refused(priorities):
    replay = filled(PrioritizedReplay)
    before = replay.state_dict()
    with pytest.raises(InvalidSamples, match="priorities must be 2 finite numbers >= 0"):
        replay.add(rows(0, 2), priorities=priorities)
    with pytest.raises(InvalidSamples, match="priorities must be 2 finite numbers >= 0"):
        replay.update_priorities([0, 1], priorities)
    for indices in ([10], [-1], [[0]]):
        with pytest.raises(InvalidSamples, match="indices must be"):
            replay.update_priorities(indices, [1.0])
    assert same_bits(replay.state_dict(), before)


def test_priorities_that_are_all_zero_leave_nothing_to_draw():
    replay = PrioritizedReplay(4, seed=0)
    replay.add(rows(0, 2), priorities=[0.0, 0.0])
    with pytest.raises(ReplayEmpty, match="all 2 have 0"):
        replay.sample(1)


@pytest.mark.parametrize("groups", [None, [0], [0.5, 1.0], [[0], [1], [2]], [[0, 1], [0, 1]], 3])
def test_groups_that_do_not_fit_are_refused(groups):
    replay = filled(BalancedReplay)
    before = replay.state_dict()
    with pytest.raises(InvalidSamples, match=r"groups must be ints or bools.*\[2, 1\]"):
        replay.add(rows(0, 2), groups=groups)
    assert same_bits(replay.state_dict(), before)


@pytest.mark.parametrize("option", ["alpha", "beta"])
def test_exponents_lie_between_0_and_1(option):
    with pytest.raises(InvalidOption, match=f"{option} must be a finite number in"):
        PrioritizedReplay(4, seed=0, **{option: 1.5})


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplay])
def test_samples_may_be_tuples(kind):
    replay, rows = kind(8, seed=0), np.arange(5.0)
    replay.add({"obs": (rows, np.stack([rows, -rows], axis=1)), "t": rows})
    first, second = replay.sample(4).samples["obs"]
    assert (second == np.stack([first, -first], axis=1)).all()
    other = kind(8, seed=1)
    other.load_state_dict(replay.state_dict())
    one, another = replay.sample(4).samples, other.sample(4).samples
    assert one["obs"][1].tobytes() == another["obs"][1].tobytes()
