"""What an `Array` is made of, converts to, copies and closes."""

import copy
import gc
import pickle
import sys
import types

import numpy as np
import pytest

from plangym_ext.arrays import Array, JaggedArray
from plangym_ext.errors import ArrayClosed, MissingExtra, StorageError

STORAGES = ["local", "shared", "inherited"]


@pytest.mark.parametrize("storage", STORAGES)
def test_it_starts_as_zeros_of_the_asked_shape(storage):
    a = Array((5, 4), "f4", feature_shape=(3,), storage=storage, padding=1, full_size=10)
    assert (a.shape, a.batch_shape, a.feature_shape) == ((5, 4, 3), (5, 4), (3,))
    assert (a.dtype, a.kind, a.storage) == (np.float32, "default", storage)
    assert (a.padding, a.full_size, a.n_batch_dims) == (1, 10, 2)
    np.testing.assert_array_equal(a.full[-1:11], np.zeros((12, 4, 3)))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batch_shape": ()}, ValueError, r"at least one dimension; got \(\)"),
        ({"batch_shape": (0, 2)}, ValueError, r"batch_shape must have entries of at least 1"),
        ({"batch_shape": 5}, TypeError, r"batch_shape must be a tuple of integers; got 5"),
        ({"batch_shape": (2.5,)}, TypeError, r"got \(2.5,\)"),
        ({"feature_shape": (-1,)}, ValueError, "feature_shape must have entries of at least 0"),
        ({"dtype": object}, ValueError, r"hold no Python objects; got dtype\('O'\)"),
        ({"dtype": np.dtype(("f4", (3,)))}, ValueError, "feature_shape"),
        ({"kind": "sparse"}, ValueError, "'default' or 'jagged'; got 'sparse'"),
        ({"storage": "disk"}, ValueError, r"\('local', 'shared', 'inherited'\); got 'disk'"),
        ({"max_mean_num_elem": 3}, TypeError, "max_mean_num_elem.*kind='jagged'"),
        ({"batch_shape": (1 << 60,), "storage": "shared"}, StorageError, "could not reserve"),
    ],
    ids=repr,
)
def test_wrong_arguments_say_what_came(arguments, error, message):
    with pytest.raises(error, match=message):
        Array(**{"batch_shape": (2,), "dtype": "f8", **arguments})


@pytest.mark.parametrize("storage", STORAGES)
def test_features_may_be_empty(storage):
    a = Array((2,), "f4", feature_shape=(0,), storage=storage)
    assert a[1].to_ndarray().shape == (0,)


def test_from_numpy_takes_shape_and_dtype_from_one_element():
    cases = [
        (np.zeros((2, 3)), True, np.float32, (2, 3)),
        (np.zeros(2, np.int64), "float", np.int64, (2,)),
        (np.zeros(2, np.int64), "int", np.int32, (2,)),
        (1.5, "int", np.float64, ()),
        ([1, 2, 3], True, np.int32, (3,)),
        (7, False, np.int64, ()),
        (True, True, np.bool_, ()),
        (np.uint8(3), True, np.uint8, ()),
    ]
    for example, force, dtype, shape in cases:
        a = Array.from_numpy(example, batch_shape=(4,), force_32bit=force, padding=1)
        assert (a.dtype, a.shape, a.padding) == (dtype, (4, *shape), 1)
        np.testing.assert_array_equal(a, np.zeros((4, *shape)))
    assert Array.from_numpy(1.0, batch_shape=(4,), dtype="f8").dtype == np.float64
    jagged = Array.from_numpy(np.ones((9, 3)), batch_shape=(4,), kind="jagged", max_mean_num_elem=5)
    assert (jagged.kind, jagged.feature_shape) == ("jagged", (3,))


def test_new_array_keeps_the_spec():
    a = Array((5, 4), "f4", feature_shape=(3,), storage="shared", padding=1, full_size=10)
    b = a.new_array()
    assert (b.shape, b.dtype, b.storage, b.padding, b.full_size) == (
        (5, 4, 3),
        "f4",
        "shared",
        1,
        5,
    )
    assert a.new_array(inherit_full_size=True).full_size == 10
    # A view has neither the padding nor the full size of its array.
    c = a[0].new_array(storage="local", inherit_full_size=True)
    assert (c.shape, c.storage, c.padding, c.full_size) == ((4, 3), "local", 0, 4)
    d = a.new_array(dtype="i8", batch_shape=(2,), feature_shape=())
    assert (d.shape, d.dtype) == ((2,), "i8")
    e = a.new_array(kind="jagged", max_mean_num_elem=2)
    assert isinstance(e, JaggedArray)
    assert (e.padding, e.feature_shape) == (1, (3,))
    assert (e.new_array().max_mean_num_elem, e.new_array(kind="default").shape) == (2, (5, 4, 3))


def test_numpy_sees_the_same_memory():
    a = Array((3, 2), np.int64, padding=1)
    view = a.to_ndarray()
    view[1] = 5
    assert np.shares_memory(np.asarray(a), view)
    np.testing.assert_array_equal(a[1], [5, 5])
    element = a[1, 1].to_ndarray()
    assert (element.shape, element) == ((), 5)
    element[...] = 6
    assert a[1, 1] == 6
    assert not np.shares_memory(a[[0, 1]].to_ndarray(), view)


def test_array_protocol_converts_and_copies_as_asked():
    a = Array((3,), np.int64)
    assert np.asarray(a, np.float32).dtype == np.float32
    assert not np.shares_memory(np.array(a), a.to_ndarray())
    assert np.shares_memory(np.array(a, copy=False), a.to_ndarray())
    with pytest.raises(ValueError, match="copy"):
        np.array(a, np.float32, copy=False)


def test_comparison_is_elementwise_and_printing_shows_the_values():
    a = Array((3,), np.int64)
    a[...] = [1, 2, 3]
    np.testing.assert_array_equal(a == [1, 0, 3], [True, False, True])
    np.testing.assert_array_equal(a != a[...], [False] * 3)
    np.testing.assert_array_equal(np.array([1, 0, 3]) == a, [True, False, True])
    assert str(a) == "[1 2 3]"
    assert repr(a) == "Array([1, 2, 3])"
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)


def test_iteration_stays_inside_the_window():
    a = Array((3, 2), np.int64, padding=1)
    a[-1:4] = [[9, 9], [0, 1], [2, 3], [4, 5], [9, 9]]
    assert [row.to_ndarray().tolist() for row in a] == [[0, 1], [2, 3], [4, 5]]
    assert [row.to_ndarray().tolist() for row in a[[2, 0]]] == [[4, 5], [0, 1]]
    with pytest.raises(TypeError, match="got a single element"):
        iter(a[0, 0])
    with pytest.raises(IndexError, match=r"Array\.last"):
        _ = a[0, 0].last


@pytest.mark.parametrize("index", [0, (0, 1), slice(1, 3), (slice(None), 1), ..., [0, 2]], ids=repr)
def test_values_of_the_wrong_shape_or_type_are_named(index):
    a = Array((3, 4), np.float32)
    with pytest.raises(ValueError, match=r"view of shape \(.*float32.*got ndarray of shape \(7,\)"):
        a[index] = np.zeros(7)
    with pytest.raises(TypeError, match=r"got dict \{\}"):
        a[index] = {}
    with pytest.raises(ValueError, match="got str 'x'"):
        a[index] = "x"


def test_values_may_be_arrays_and_may_overlap():
    a = Array((5,), np.int64)
    a[...] = np.arange(5)
    a[1:5] = a[0:4]
    np.testing.assert_array_equal(a, [0, 0, 1, 2, 3])
    a[0] = a[4]
    a[[1, 2]] = a[[2, 1]]
    np.testing.assert_array_equal(a, [3, 1, 0, 2, 3])


@pytest.mark.parametrize("storage", STORAGES)
def test_reading_after_close_raises(storage):
    a = Array((3, 4), np.float32, storage=storage, padding=1)
    views = [a, a[0], a[0, 1], a[1:], a[[0, 1]], a.full, a.next, a[...]]
    kept = a[1:].to_ndarray()
    a[...] = 3
    a.close()
    a.close()
    assert a.closed
    assert "closed" in repr(a)
    assert "closed" in str(views[1])
    for view in views:
        for use in [
            view.to_ndarray,
            lambda view=view: np.asarray(view),
            lambda view=view: view[...],
            lambda view=view: view.__setitem__(..., 1),
            lambda view=view: view.next,
            lambda view=view: view.full,
            lambda view=view: view.dtype,
            lambda view=view: view == 0,
            lambda view=view: pickle.dumps(view),
            lambda view=view: copy.deepcopy(view),
            view.rotate,
            view.reset,
        ]:
            with pytest.raises(ArrayClosed, match=f"storage '{storage}' that was closed"):
                use()
    with pytest.raises(ArrayClosed):
        a[0] = 1
    with pytest.raises(ArrayClosed):
        _ = a[0, 1]
    # What numpy holds stays mapped.
    assert (kept == 3).all()


@pytest.mark.parametrize("storage", STORAGES)
def test_a_context_manager_closes(storage):
    with Array((3,), int, storage=storage) as a:
        view = a[0]
    with pytest.raises(ArrayClosed):
        view.to_ndarray()


@pytest.mark.parametrize("storage", STORAGES)
def test_a_view_keeps_its_memory_alive(storage):
    view = Array((1000, 4), np.int64, storage=storage, padding=1)[3:5]
    data = Array((1000, 4), np.int64, storage=storage)[7].to_ndarray()
    gc.collect()
    view[-1] = 5
    data[:] = 6
    np.testing.assert_array_equal(view[-1], [5] * 4)
    assert (data == 6).all()


@pytest.mark.parametrize("storage", STORAGES)
def test_deep_copies_are_independent(storage):
    a = Array((2, 3), np.int64, storage=storage, padding=1, full_size=4)
    a.full[-1:5] = np.arange(18).reshape(6, 3)
    a.rotate()
    b = copy.deepcopy(a)
    b[0] = -1
    np.testing.assert_array_equal(a.full[-1:5], np.arange(18).reshape(6, 3))
    assert (b.storage, b.padding, b.full_size) == (storage, 1, 4)
    b.rotate()
    np.testing.assert_array_equal(b[-1:3], [[12, 13, 14], [15, 16, 17], [6, 7, 8], [-1] * 3])
    c = copy.deepcopy(a[0, 1:])
    np.testing.assert_array_equal(c, [10, 11])
    with pytest.raises(IndexError):
        c[-1]
    assert copy.deepcopy(a[0, 1]).shape == ()
    a.close()
    assert b.shape == (2, 3)
    shallow = copy.copy(b)
    shallow[0] = 4
    np.testing.assert_array_equal(b[0], [4] * 3)


def test_pickling_local_memory_copies():
    a = Array((2, 3), np.int64, full_size=4)
    a[...] = [[1, 2, 3], [4, 5, 6]]
    a.rotate()
    b = pickle.loads(pickle.dumps(a))
    b.rotate()
    np.testing.assert_array_equal(b, [[1, 2, 3], [4, 5, 6]])
    b[...] = 0
    a.rotate()
    np.testing.assert_array_equal(a, [[1, 2, 3], [4, 5, 6]])
    for view in (a[0], a[1, 2], a[:, 1:], a[[1, 0]]):
        c = pickle.loads(pickle.dumps(view))
        np.testing.assert_array_equal(c, view)
        assert c.batch_shape == view.batch_shape
    large = Array((100_000,), np.int64)
    assert len(pickle.dumps(large[7])) < 1000


VIEWS = [
    ...,
    1,
    (1, 2),
    slice(1, 3),
    slice(None, None, -1),
    (slice(None), 2),
    [0, 2],
    ([0, 1], [3, 1]),
]


@pytest.mark.parametrize("index", [*VIEWS, np.eye(3, 4, dtype=bool)], ids=repr)
def test_pickling_shared_memory_refers_to_it(index):
    a = Array((3, 4), np.float32, feature_shape=(1000,), storage="shared", padding=1)
    view = a[index]
    pickled = pickle.dumps(view)
    assert len(pickled) < 1000
    other = pickle.loads(pickled)
    assert (other.shape, other.batch_shape) == (view.shape, view.batch_shape)
    other[...] = 42
    want = np.zeros((3, 4, 1000))
    want[index] = 42
    np.testing.assert_array_equal(a, want)
    # It reaches the padding, closes on its own, and does not rotate.
    if not isinstance(index, (list, np.ndarray, tuple)):
        other.next[...] = 7
        np.testing.assert_array_equal(view.next, other.next)
    with pytest.raises(ValueError, match="in the process that made it"):
        other.rotate()
    other.close()
    assert not view.closed


def test_an_unpickled_array_outlives_its_source():
    a = Array((3,), np.int64, storage="shared")
    b = pickle.loads(pickle.dumps(a))
    a[...] = 5
    a.close()
    del a
    np.testing.assert_array_equal(b, [5] * 3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(b[1:])), [5, 5])


def test_a_pickle_keeps_fields_and_empty_shapes():
    for dtype, feature in [([("x", "i4"), ("y", "f8")], ()), ("f4", (0,)), ("datetime64[ns]", ())]:
        a = Array((2,), dtype, feature_shape=feature, storage="shared")
        b = pickle.loads(pickle.dumps(a[1]))
        assert (b.dtype, b.shape) == (a.dtype, feature)


def test_inherited_memory_stays_out_of_pickles():
    a = Array((3,), int, storage="inherited")
    with pytest.raises(StorageError, match=r"argument of a multiprocessing Process.*'shared'"):
        pickle.dumps(a[0])


def test_torch_is_imported_only_when_asked_for(monkeypatch):
    a = Array((3, 2), np.float32, padding=1)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"pip install -c constraints.txt '\.\[learn\]'"):
        a.to_torch()

    def from_numpy(data):
        if data.dtype == np.complex128:
            raise TypeError("no such type")
        return data

    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(from_numpy=from_numpy))
    a[...].to_torch()[1] = 3
    np.testing.assert_array_equal(a[1], [3, 3])
    with pytest.raises(ValueError, match="strides must not be negative"):
        a[::-1].to_torch()
    with pytest.raises(TypeError, match="got complex128"):
        Array((1,), complex).to_torch()


def test_a_torch_tensor_shares_and_keeps_the_memory():
    torch = pytest.importorskip("torch")
    a = Array((3, 2), np.float32, storage="shared", padding=1)
    tensor = a[1:].to_torch()
    tensor += 2
    np.testing.assert_array_equal(a, [[0, 0], [2, 2], [2, 2]])
    del a
    gc.collect()
    assert torch.equal(tensor, torch.full((2, 2), 2.0))


def test_a_copy_that_is_asked_for_is_one():
    a = Array((3, 2), np.float32, padding=1)
    copied, shown = a[1:].to_ndarray(copy=True), a[1:].to_ndarray()
    assert not np.shares_memory(copied, shown)
    assert np.shares_memory(a[1:].to_ndarray(copy=False), shown)
    a[...] = 5
    np.testing.assert_array_equal(copied, 0)
    np.testing.assert_array_equal(shown, 5)
