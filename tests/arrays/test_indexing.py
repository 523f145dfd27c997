"""Index rules: relative to the window, on every axis, through every view."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plangym_ext.arrays import Array


@pytest.fixture
def a():
    """Five visible rows 102..106 between two hidden ones on either side."""
    array = Array((5,), np.int64, padding=2)
    array[-2:7] = np.arange(100, 109)
    return array


@pytest.fixture
def c():
    array = Array((3, 4), np.int64)
    array[...] = np.arange(12).reshape(3, 4)
    return array


MASK = np.array([True, False, True, False, True])


@pytest.mark.parametrize(
    ("index", "want"),
    [
        (-1, 101),
        (-2, 100),
        (5, 107),
        (6, 108),
        (np.int64(-1), 101),
        (slice(-2, 0), [100, 101]),
        (slice(5, 7), [107, 108]),
        (slice(-1, None), [101, 102, 103, 104, 105, 106]),
        (slice(None, 7), [102, 103, 104, 105, 106, 107, 108]),
        (slice(None, -1), []),
        (slice(None, None, -1), [106, 105, 104, 103, 102]),
        (slice(6, None, -1), [108, 107, 106, 105, 104, 103, 102]),
        (slice(4, -2, -1), [106, 105, 104, 103, 102, 101]),
        (slice(None, None, np.int64(2)), [102, 104, 106]),
        (np.array([-2, 0, 6]), [100, 102, 108]),
        ([-2, 0, 6], [100, 102, 108]),
        ((..., 1), 103),
        ((), [102, 103, 104, 105, 106]),
        ([], []),
        (MASK, [102, 104, 106]),
        (MASK.tolist(), [102, 104, 106]),
    ],
    ids=repr,
)
def test_positions_count_from_the_window(a, index, want):
    # parllel's table T1, but for the mask, which it reads as [1, 0, 1, 0, 1].
    np.testing.assert_array_equal(a[index].to_ndarray(), want)
    assert a[index].shape == np.shape(want)
    assert a[index].batch_shape == np.shape(want)


@pytest.mark.parametrize(
    ("index", "got"),
    [(-3, -3), (7, 7), (99, 99), (slice(-5, None), -5), (slice(0, 20), 20), ([0, 7], 7)],
)
def test_what_leaves_the_buffer_raises_at_once(a, index, got):
    with pytest.raises(IndexError, match=rf"axis 0 must lie in -2\.\.\d.*0\.\.4.*got {got}\b"):
        a[index]


@pytest.mark.parametrize(
    ("view", "index", "want"),
    [
        (slice(1, 4), -1, 102),
        (slice(1, 4), -3, 100),
        (slice(1, 4), 3, 106),
        (slice(1, 4), 5, 108),
        (slice(None, None, 2), -1, 100),
        (slice(None, None, 2), 3, 108),
        (slice(None, None, -1), -1, 107),
        (slice(None, None, -1), 5, 101),
        (slice(1, 4), slice(-3, 0), [100, 101, 102]),
        (slice(None, None, 2), slice(None, None, -1), [106, 104, 102]),
        (slice(3, 3), -1, 104),
    ],
    ids=repr,
)
def test_views_reach_the_whole_buffer(a, view, index, want):
    np.testing.assert_array_equal(a[view][index].to_ndarray(), want)
    a[view][index] = 7
    np.testing.assert_array_equal(a[view][index].to_ndarray(), np.full_like(want, 7))


@pytest.mark.parametrize(
    ("view", "index"),
    [(slice(1, 4), 6), (slice(1, 4), -4), (slice(None, None, 2), 4), (slice(None, None, -1), 7)],
)
def test_views_end_where_the_buffer_ends(a, view, index):
    with pytest.raises(IndexError, match=f"got {index}"):
        a[view][index]


def test_writing_obeys_the_same_limits():
    a = Array((3, 4), np.int64, padding=1)
    for index in [-2, 4, (-2, 0), (4, 0), (0, -1), (0, 4), (slice(0, 5), 0), (0, slice(-1, 2))]:
        with pytest.raises(IndexError, match="must lie in"):
            a[index] = 1
    assert not a.full[-1:4].to_ndarray().any()


def test_writing_a_row_stays_inside_the_visible_part():
    a = Array((3, 4, 2), np.int64, padding=1)
    a[:, 1:3][0] = 1
    a[:, :, 1:][1, 2] = 2
    a[1:][1][1:3] = 3
    want = np.zeros((5, 4, 2))
    want[1, 1:3], want[2, 2, 1], want[3, 1:3] = 1, 2, 3
    np.testing.assert_array_equal(a[-1:4], want)


def test_inner_axes_follow_the_same_rules(c):
    for index in [(0, -1), (slice(None), slice(-2, None)), (slice(None), slice(None, -1))]:
        with pytest.raises(IndexError, match=r"axis 1 must lie in 0\.\.[34]"):
            c[index].to_ndarray()
    d = c[:, 1:3]
    np.testing.assert_array_equal(d[:, -1], [0, 4, 8])
    np.testing.assert_array_equal(d[:, 2], [3, 7, 11])
    d[:, 2] = -1
    np.testing.assert_array_equal(c[:, 3], [-1, -1, -1])
    np.testing.assert_array_equal(d[1][-1], 4)
    np.testing.assert_array_equal(c[2][1:][::-1], [-1, 10, 9])


def test_feature_axes_can_be_indexed_too():
    array = Array((2, 3), np.int64, feature_shape=(4, 5))
    array[...] = np.arange(120).reshape(2, 3, 4, 5)
    assert array[1, 2, 3, 4].to_ndarray() == 119
    view = array[1, :, 1:3]
    assert (view.batch_shape, view.feature_shape) == ((3,), (2, 5))
    assert (array[:, 0, 2].batch_shape, array[:, 0, 2].feature_shape) == ((2,), (5,))
    np.testing.assert_array_equal(view[0, -1], array[1, 0, 0])


@pytest.mark.parametrize(
    ("index", "batch_shape"),
    [
        (0, (4,)),
        ((0, 1), ()),
        (([0, 1], [1, 2]), (2,)),
        ((slice(None), [0]), (5, 1)),
        (..., (5, 4)),
    ],
)
def test_batch_shape_follows_indexing(index, batch_shape):
    view = Array((5, 4), np.float32, feature_shape=(3,))[index]
    assert view.batch_shape == batch_shape
    assert view.shape == (*batch_shape, 3)
    assert view.n_batch_dims == len(batch_shape)
    assert view.feature_shape == (3,)


def test_arrays_pick_as_numpy_does():
    array = Array((4, 3, 2), np.int64, feature_shape=(5,))
    plain = np.arange(120).reshape(4, 3, 2, 5)
    array[...] = plain
    i, j, k = np.array([3, 0, 0]), np.array([[1], [2]]), np.array([1, 0, 1])
    every = slice(None)
    for index in [
        i,
        (i, j),
        (every, i[1:]),
        (slice(1, 3), [2, 0]),
        (i, every, k),
        (0, every, k),
        (i, 1),
        (plain[..., 0] % 3 == 0,),
        (every, plain[0, :, :, 0] % 4 == 0),
        (i, every, slice(None, None, -1)),
        (every, every, k),
        plain[:, :, 0, 0] % 2 == 0,
        np.zeros((0,), int),
    ]:
        np.testing.assert_array_equal(array[index].to_ndarray(), plain[index])
        assert array[index].shape == plain[index].shape
        array[index] = plain[index] + 1
        plain[index] += 1
        np.testing.assert_array_equal(array.to_ndarray(), plain)


def test_a_picked_view_can_be_indexed_and_written():
    array = Array((5, 4), np.int64, feature_shape=(2,))
    array[...] = plain = np.arange(40).reshape(5, 4, 2)
    picked, want = array[[3, 1, 0]], plain[[3, 1, 0]]
    for index in [0, (1, 2), (slice(1, 3), 0), [2, 0], np.array([True, False, True]), (..., 1)]:
        np.testing.assert_array_equal(picked[index].to_ndarray(), want[index])
    picked[1, 2] = -5
    np.testing.assert_array_equal(array[1, 2], [-5, -5])
    pairs = array[[3, 1], [0, 2]]
    pairs[1] = 9
    np.testing.assert_array_equal(array[1, 2], [9, 9])
    # It has no neighbours along what was picked, and keeps them elsewhere.
    with pytest.raises(IndexError, match=r"axis 0 must lie in 0\.\.2 .*got -1"):
        picked[-1]
    np.testing.assert_array_equal(array[[3, 1], 1:3][:, -1], array[[3, 1], 0])


def test_changing_an_index_later_leaves_the_view_alone(a, c):
    rows, columns, listed = np.array([0, 1]), np.array([1, 2]), [0, 1]
    mask = np.array([True, True, False, False, False])
    views = [a[rows], a[listed], a[mask], c[rows, columns], c[:, columns], c[rows, 1], c[listed, 1]]
    rows[:], columns[:], mask[:], listed[:] = 2, 0, True, [2, 2]
    wants = [[102, 103]] * 3 + [[1, 6], [[1, 2], [5, 6], [9, 10]], [1, 5], [1, 5]]
    for view, want in zip(views, wants, strict=True):
        np.testing.assert_array_equal(view, want)


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (None, TypeError, "got NoneType in None"),
        (1.0, TypeError, "got float"),
        (True, TypeError, "got bool"),
        (np.array(True), TypeError, "got bool"),
        ([0.5], TypeError, "got float64"),
        ("x", TypeError, "got str"),
        (slice(0.5, None), TypeError, "slice bounds on axis 0 must be integers"),
        (slice(None, None, 0), ValueError, "step of a slice on axis 0 must not be 0"),
        ((0, 0, 0), IndexError, "at most 2 parts"),
        ((..., ...), IndexError, "one '...'"),
        (np.ones(4, bool), IndexError, r"must have the shape \(3,\).*got \(4,\)"),
        (np.ones((3, 3), bool), IndexError, r"must have the shape \(3, 4\).*got \(3, 3\)"),
        (([0, 1], [0, 1, 2]), IndexError, r"broadcast together; got shapes \[\(2,\), \(3,\)\]"),
    ],
    ids=repr,
)
def test_wrong_indices_say_what_came(c, index, error, message):
    with pytest.raises(error, match=message):
        c[index].to_ndarray()
    with pytest.raises(error, match=message):
        c[index] = 0


USES = [
    lambda view: view.shape,
    lambda view: view.batch_shape,
    lambda view: view.to_ndarray(),
    lambda view: np.asarray(view),
    lambda view: view[0],
    lambda view: view.next,
    lambda view: view.__setitem__(..., 1),
    lambda view: view.__setitem__(0, 1),
    lambda view: pickle.dumps(view),
    lambda view: copy.deepcopy(view),
]


@pytest.mark.parametrize("use", USES)
def test_a_wrong_index_that_was_put_off_raises_at_every_use(c, use):
    # Taking these views raises nothing: they are looked at on first use.
    wrong = [
        ((slice(None), 9), "axis 1 must lie in .*got 9"),
        (slice(None, 9, 2), "axis 0 must lie in .*got 9"),
        ((np.array([0, 3]), np.array([1, 1])), "axis 0 must lie in .*got 3"),
    ]
    for index, message in wrong:
        view = c[index]
        for _ in range(2):
            with pytest.raises(IndexError, match=message):
                use(view)
    before = c.to_ndarray().copy()
    late = c.next
    with pytest.raises(IndexError, match=r"Array\.next: .*buffer of 3 rows"):
        use(late)
    np.testing.assert_array_equal(c, before)


@pytest.mark.parametrize("index", [3, -1, (0, 4), (3, 0), slice(0, 4), [0, 3], "x", None, 1.5])
def test_wrong_rows_elements_and_windows_raise_at_once(c, index):
    with pytest.raises((IndexError, TypeError), match="Array: "):
        c[index]


def test_arrays_stay_off_features_and_apart():
    array = Array((2, 3, 4), int, feature_shape=(5,))
    with pytest.raises(IndexError, match="feature axis 3"):
        array[0, 0, 0, [1]].to_ndarray()
    with pytest.raises(IndexError, match=r"must be neighbours.*axes \[1, 3\]"):
        Array((2, 3, 4, 5), int)[:, [0], :, [0]].to_ndarray()
    with pytest.raises(IndexError, match="picked axes only"):
        array[[0]][:, [0]].to_ndarray()


@pytest.mark.parametrize(
    ("index", "following", "before"),
    [
        (..., [1, 2, 3, 4, 5], [-1, 0, 1, 2, 3]),
        (2, 3, 1),
        (slice(1, 4), [2, 3, 4], [0, 1, 2]),
        (slice(None, None, 2), [1, 3, 5], [-1, 1, 3]),
        (slice(None, None, -1), [3, 2, 1, 0, -1], [5, 4, 3, 2, 1]),
        ([0, 2, 4], [1, 3, 5], [-1, 1, 3]),
        (4, 5, 3),
        (slice(2, 2), [], []),
    ],
    ids=repr,
)
def test_next_and_previous_shift_in_time(index, following, before):
    # Table T4: rows -1..5 hold their own index.
    array = Array((5,), np.int64, padding=1)
    array[-1:6] = np.arange(-1, 6)
    np.testing.assert_array_equal(array[index].next, following)
    np.testing.assert_array_equal(array[index].previous, before)
    array[index].next[...] = 50
    np.testing.assert_array_equal(array[index].next, np.full_like(following, 50))


def test_next_and_previous_never_wrap_or_shrink():
    padded, bare = Array((5,), int, padding=1), Array((5,), int)
    for array, name in [
        (padded.next, "next"),
        (padded[4].next, "next"),
        (padded[0].previous, "previous"),
        (bare, "next"),
        (bare, "previous"),
        (bare[0], "previous"),
        (bare[[0, 4]], "next"),
    ]:
        with pytest.raises(IndexError, match=rf"Array\.{name}: .*buffer of \d rows"):
            getattr(array, name).to_ndarray()


def test_next_keeps_the_other_axes():
    array = Array((3, 4), np.int64, padding=1)
    array[-1:4] = plain = np.arange(20).reshape(5, 4)
    np.testing.assert_array_equal(array[:, 2].next, plain[2:, 2])
    np.testing.assert_array_equal(array[::2][1].previous, plain[2])
    np.testing.assert_array_equal(array[::2, ::-1][1, 0].previous, plain[2, 3])
    np.testing.assert_array_equal(array[1, 1:3].next, plain[3, 1:3])
    np.testing.assert_array_equal(array[1, 1:3].next[-1], plain[3, 0])
    np.testing.assert_array_equal(array[[0, 1], [3, 2]].previous, plain[[0, 1], [3, 2]])
    np.testing.assert_array_equal(array[[0, 1]][1].next, plain[3])


SLICES = st.tuples(
    *[st.one_of(st.none(), st.integers(-6, 9))] * 2, st.sampled_from([None, 1, 2, 3, -1, -2])
)


@pytest.mark.slow
@given(st.lists(SLICES, max_size=4), st.integers(-8, 10))
def test_chains_of_slices_agree_with_a_list_of_positions(slices, index):
    # The model keeps, for every index of the view, the row of the buffer.
    array = Array((5,), np.int64, padding=2)
    array[-2:7] = np.arange(9)
    view, start, step, length = array, 2, 1, 5
    for bounds in slices:
        k = bounds[2] or 1
        lo = bounds[0] if bounds[0] is not None else (0 if k > 0 else length - 1)
        hi = bounds[1] if bounds[1] is not None else (length if k > 0 else -1)
        reach = [i for i in range(-20, 20) if 0 <= start + step * i < 9]
        if not reach:  # an empty slice with a step beyond the buffer
            return
        edges = range(reach[0], reach[-1] + 2) if k > 0 else range(reach[0] - 1, reach[-1] + 1)
        if lo not in edges or hi not in edges:
            with pytest.raises(IndexError):
                view[slice(*bounds)].to_ndarray()
            return
        view = view[slice(*bounds)]
        start, step, length = start + step * lo, step * k, len(range(lo, hi, k))
        np.testing.assert_array_equal(view, [start + step * i for i in range(length)])
    row = start + step * index
    if 0 <= row < 9:
        assert view[index].to_ndarray() == row
    else:
        with pytest.raises(IndexError):
            view[index]
