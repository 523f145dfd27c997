"""Items of varying length: pointers, rewriting, wrapping, overflow."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plangym_ext.arrays import Array, JaggedArray
from plangym_ext.errors import ArrayClosed

STORAGES = ["local", "shared", "inherited"]


def make(batch_shape=(3, 2), dtype=np.int64, max_mean_num_elem=4, **spec):
    return Array(batch_shape, dtype, kind="jagged", max_mean_num_elem=max_mean_num_elem, **spec)


@pytest.fixture(params=STORAGES)
def j(request):
    """parllel's table T5."""
    with make(storage=request.param) as array:
        array[0, 0] = [1, 2]
        array[1, 0] = [3]
        array[2, 0] = [4, 5, 6]
        array[0, 1] = [9, 9, 9]
        yield array


def check(view, pos, ptr):
    got = view.to_ndarray()
    np.testing.assert_array_equal(got["pos"], pos)
    np.testing.assert_array_equal(got["ptr"], ptr)


def items(view):
    got = view.to_ndarray()
    return [part.tolist() for part in np.split(got["pos"], got["ptr"][1:-1])]


def test_positions_and_pointers_in_c_order(j):
    assert isinstance(j, JaggedArray)
    check(j[0], [1, 2, 9, 9, 9], [0, 2, 5])
    check(j, [1, 2, 9, 9, 9, 3, 4, 5, 6], [0, 2, 5, 6, 6, 9, 9])
    check(j[[2, 0, 0], [0, 1, 0]], [4, 5, 6, 9, 9, 9, 1, 2], [0, 3, 6, 8])
    check(j[:, 1][::-1], [9, 9, 9], [0, 0, 0, 3])
    check(j[2, 0], [4, 5, 6], [0, 3])
    np.testing.assert_array_equal(j[2, 0], [4, 5, 6])
    np.testing.assert_array_equal(j.lengths, [[2, 3], [1, 0], [3, 0]])


def test_rewriting_an_item_leaves_its_neighbours_alone(j):
    j[0, 0] = [7]
    assert items(j) == [[7], [9, 9, 9], [3], [], [4, 5, 6], []]
    j[0, 0] = [8] * 4
    assert items(j) == [[8] * 4, [9, 9, 9], [3], [], [4, 5, 6], []]


def test_the_spec_is_that_of_an_array(j):
    assert (j.shape, j.batch_shape, j.feature_shape, j.kind) == ((3, 2, 4), (3, 2), (), "jagged")
    assert (j.first, j.last, j[:, 0].last, j[0].n_batch_dims) == (0, 2, 2, 1)
    assert repr(j[0]) == "JaggedArray(lengths=[2, 3], dtype=int64)"
    assert [row.batch_shape for row in j] == [(2,)] * 3
    with pytest.raises(IndexError, match="at most 2 parts"):
        j[0, 0, 0]
    with pytest.raises(IndexError, match="single element"):
        _ = j[0, 0].last


def test_values_may_be_arrays_lists_jagged_or_nothing(j):
    j[0] = np.array([5, 5])
    assert items(j[0]) == [[5, 5], [5, 5]]
    j[1] = [[1], []]
    assert items(j[1]) == [[1], []]
    j[1:3] = j[0:2]
    assert items(j[1:]) == [[5, 5], [5, 5], [1], []]
    j[0:2] = j[1:3].to_ndarray()
    assert items(j) == [[5, 5], [5, 5], [1], [], [1], []]
    j[...] = 0
    assert items(j) == [[]] * 6
    j[1:1] = j[2:2]


@pytest.mark.parametrize(
    ("index", "value", "error", "message"),
    [
        ((0, 0), 3, TypeError, "array of points, or 0 for no points; got int 3"),
        ((0, 0), 0.0, TypeError, "got float"),
        ((0, 0), False, TypeError, "got bool"),
        ((0, 0), None, TypeError, "got NoneType"),
        ((0, 0), [[1, 2]], ValueError, r"shape \(points, \*\(\)\); got \(1, 2\)"),
        ((0, 0), [[1], [1, 2]], ValueError, "rows of different lengths"),
        (0, [[1]], ValueError, "one value per row, 2 for batch shape .2,.; got 1"),
        (0, make()[:, 0], ValueError, r"batch shape \(2,\); got \(3,\)"),
        (0, {"pos": np.zeros(1), "ptr": [0]}, ValueError, "'ptr' with 3 entries"),
    ],
    ids=repr,
)
def test_wrong_items_say_what_came(index, value, error, message):
    with pytest.raises(error, match=message):
        make()[index] = value


@pytest.mark.parametrize("function", [np.array_equal, np.array_equiv, np.allclose])
def test_numpy_functions_take_no_several_items(j, function):
    with pytest.raises(TypeError, match="single cell"):
        function(j, j)
    assert np.shape(j) == j.shape


def test_numpy_functions_take_single_items(j):
    j[0, 0] = [1, 2]
    assert np.array_equal(j[0, 0], [1, 2])
    assert not np.array_equal([1, 3], j[0, 0])
    assert np.concatenate([j[0, 0], j[0, 0]], axis=0).shape[0] == 4


def test_only_a_cell_is_a_numpy_array(j):
    with pytest.raises(TypeError, match=r"got batch shape \(3, 2\)"):
        np.asarray(j)
    with pytest.raises(ValueError, match="copy"):
        np.array(j[0, 0], copy=False)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_mean_num_elem": 0}, ValueError, "max_mean_num_elem must have entries of at least 1"),
        ({"max_mean_num_elem": 1.5}, TypeError, "max_mean_num_elem"),
        ({"on_overflow": "wrap"}, ValueError, "'raise', 'grow', 'drop'.*got 'wrap'"),
        ({"dtype": object}, ValueError, "no Python objects"),
    ],
)
def test_wrong_arguments_say_what_came(arguments, error, message):
    with pytest.raises(error, match=message):
        make(**arguments)


@pytest.mark.parametrize("storage", STORAGES)
def test_features_and_dtype_are_kept(storage):
    j = make((2,), np.float32, feature_shape=(3,), storage=storage)
    j[0] = np.arange(6).reshape(2, 3)
    j[1] = []
    got = j.to_ndarray()["pos"]
    assert (got.dtype, got.tolist()) == (np.float32, [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("storage", STORAGES)
def test_a_window_of_average_items_always_fits(storage):
    # 3 rows of 4 points on average; the old items are still there while the
    # new ones are written, in whatever order.
    j = make(storage=storage)
    for sizes in [(12, 0, 0), (0, 0, 12), (4, 4, 4), (0, 12, 0), (1, 10, 1)]:
        for row in (2, 0, 1):
            j[row, 0] = np.full(sizes[row], row)
        assert items(j[:, 0]) == [[row] * sizes[row] for row in range(3)]


def test_overflow_raises_and_changes_nothing():
    j = make((2,), max_mean_num_elem=2)
    j[0] = [1, 2, 3]
    j[1] = [4] * 5
    with pytest.raises(ValueError, match="at most 8 points together; with the new one there are 9"):
        j[0] = [5] * 4
    assert items(j) == [[1, 2, 3], [4] * 5]


def test_overflow_drops_with_a_warning():
    j = make((2,), max_mean_num_elem=1, on_overflow="drop")
    j[0] = [1, 2, 3]
    with pytest.warns(RuntimeWarning, match="item of 5 points was dropped") as caught:
        j[1] = [4] * 5
    assert caught[0].filename == __file__
    assert items(j) == [[1, 2, 3], []]


@pytest.mark.parametrize("storage", STORAGES)
def test_overflow_grows(storage):
    j = make((2, 2), max_mean_num_elem=1, on_overflow="grow", storage=storage)
    view = j[1]
    j[0] = [[1] * 5, [2] * 9]
    view[0] = [3] * 20
    assert items(j) == [[1] * 5, [2] * 9, [3] * 20, []]
    if storage != "local":
        # Four points reserved eightfold.
        with pytest.raises(ValueError, match="at most 32 points together"):
            j[0, 0] = [1] * 13
        assert items(j[0]) == [[1] * 5, [2] * 9]


@pytest.mark.parametrize("storage", STORAGES)
def test_rotation_carries_items_over(storage):
    j = make((2, 1), storage=storage, padding=1)
    j[0], j[1], j[2] = [[1]], [[2, 2]], [[3, 3, 3]]
    j.rotate()
    # Rows -1..2 are now what rows 1 and 2 were, twice, as in an Array.
    assert items(j[-1:3]) == [[2, 2], [3, 3, 3], [2, 2], [3, 3, 3]]
    # Two cells share an item until one is written.
    j[0, 0] = [4] * 5
    assert items(j[-1:3]) == [[2, 2], [4] * 5, [2, 2], [3, 3, 3]]
    for _ in range(20):
        j[1, 0] = [6] * 4
    assert items(j[-1:3]) == [[2, 2], [4] * 5, [6] * 4, [3, 3, 3]]


def test_a_shared_item_takes_its_room_once():
    j = make((2,), max_mean_num_elem=1, padding=1)
    j[1] = [9]
    j[1], j[2] = [1, 1], [2]
    j.rotate()
    # Six points of room; the two items of four cells and the new one take them.
    j[1] = [3] * 3
    assert items(j[-1:3]) == [[1, 1], [2], [3] * 3, [2]]
    with pytest.raises(ValueError, match="at most 6 points"):
        j[1] = [3] * 4


@pytest.mark.parametrize("storage", STORAGES)
def test_circular_storage_wraps(storage):
    j = make((2,), storage=storage, full_size=6, padding=1)
    for k in range(11):
        j[0:3] = [[10 * k] * (k % 4), [10 * k + 1] * ((k + 1) % 5), [10 * k + 2] * 2]
        assert items(j[0:2]) == [[10 * k] * (k % 4), [10 * k + 1] * ((k + 1) % 5)]
        if k:
            assert items(j[-1]) == [[10 * (k - 1) + 1] * (k % 5)]
        j.rotate()
    full = items(j.full[[0, 1, 2, 3, 4, 5]])
    assert full[2:4] == [[100] * 2, [101]]
    j.reset()
    j.rotate()
    # The row after block 2, last written in round 8, was carried to row 0.
    assert items(j[0]) == [[82, 82]]


def test_next_previous_and_full_are_those_of_an_array(j):
    assert items(j[1].previous) == [[1, 2], [9, 9, 9]]
    assert items(j[0, 0].next) == [[3]]
    assert items(j[1].full) == items(j)
    with pytest.raises(IndexError, match=r"Array\.next"):
        _ = j.next


def test_views_write_through_and_keep_their_place(j):
    view = j[1:, 0]
    view[0] = [8]
    assert items(j[1, 0]) == [[8]]
    j.rotate()
    assert items(view) == [[8], [4, 5, 6]]


def test_closing_closes_the_views(j):
    view = j[0]
    j.close()
    j.close()
    assert "closed" in repr(view)
    for use in (view.to_ndarray, lambda: view[0], lambda: view.lengths, lambda: pickle.dumps(view)):
        with pytest.raises(ArrayClosed):
            use()
    with pytest.raises(ArrayClosed):
        view[0] = [1]


def test_copies_are_independent(j):
    want = items(j)
    whole, view, cell = copy.deepcopy(j), copy.deepcopy(j[:, 0]), copy.deepcopy(j[0, 1])
    assert items(whole) == want
    assert items(view) == want[::2]
    assert items(cell) == [[9, 9, 9]]
    whole[...] = view[...] = cell[...] = 0
    whole.rotate()
    assert items(j) == want


def test_pickling_copies_local_items():
    j = make(padding=1)
    j[...] = [[[1], [2, 2]], [[3], []], [[4, 4], [5]]]
    for view in (j, j[1:], j[:, 1], j[0, 1], j[[2, 0]]):
        other = pickle.loads(pickle.dumps(view))
        assert items(other) == items(view)
        other[...] = 0
    assert items(j) == [[1], [2, 2], [3], [], [4, 4], [5]]
    pickle.loads(pickle.dumps(j)).rotate()


@pytest.mark.parametrize("on_overflow", ["raise", "grow"])
def test_pickling_refers_to_shared_items(on_overflow):
    j = make(storage="shared", padding=1, on_overflow=on_overflow)
    for index in [..., slice(0, 2), (0, 1), [2, 0]]:
        pickled = pickle.dumps(j[index])
        assert len(pickled) < 1000
        other = pickle.loads(pickled)
        other[...] = np.array([7, 8])
        assert items(j[index]) == items(other)
        assert items(other)[0] == [7, 8]


WRITES = st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 1), st.integers(0, 6)), max_size=40)


@pytest.mark.slow
@given(WRITES)
def test_any_order_of_writes_agrees_with_a_dict_of_lists(writes):
    j = make((3, 2), padding=1, max_mean_num_elem=6)
    model = {}
    for number, (row, column, length) in enumerate(writes):
        j[row, column] = np.full(length, number)
        model[row, column] = [number] * length
    for row in range(-1, 4):
        assert items(j[row]) == [model.get((row, column), []) for column in (0, 1)]
