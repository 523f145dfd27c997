"""The table "What differs from parllel" of docs/arrays.md, row by row."""

import copy
import dataclasses
import gc
import pathlib
import pickle

import numpy as np
import pytest

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.errors import ArrayClosed

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "arrays.md"
CHECKS = {}


def row(topic):
    def register(check):
        CHECKS[topic] = check
        return check

    return register


def counted(n=5, **spec):
    array = Array((n,), np.int64, **spec)
    array[...] = np.arange(n)
    return array


def jagged(**spec):
    return Array((2,), np.int64, kind="jagged", max_mean_num_elem=3, **spec)


@row("boolean masks")
def _():
    assert counted()[np.array([1, 0, 1, 0, 0], bool)].to_ndarray().tolist() == [0, 2]


@row("lists and numpy integers")
def _():
    assert counted()[[1, 3]].to_ndarray().tolist() == [1, 3]
    assert counted()[np.int32(2)] == 2


@row("slices beyond the buffer")
def _():
    with pytest.raises(IndexError):
        counted()[0:6]


@row("wrong index")
def _():
    with pytest.raises(IndexError, match="got 99"):
        counted()[99]
    view = counted()[:99:2]
    with pytest.raises(IndexError, match="got 99"):
        view.to_ndarray()


@row("views made by arrays")
def _():
    assert counted()[np.array([4, 2, 0])][1:].to_ndarray().tolist() == [2, 0]


@row("`next`, `previous` at the end")
def _():
    for use in (lambda: counted().previous.shape, lambda: counted(padding=1).next.next.shape):
        with pytest.raises(IndexError):
            use()


@row("rotation")
def _():
    array = counted(2, full_size=4)
    unread, read = array[...], array[...]
    read.to_ndarray()
    array.rotate()
    assert unread.to_ndarray().tolist() == read.to_ndarray().tolist() == [0, 1]


@row("`view.full`")
def _():
    view = counted()[1:3]
    assert view.full.shape == (5,)
    assert view.to_ndarray().tolist() == [1, 2]


@row("`new_array` of a view")
def _():
    assert Array((5, 4), int, padding=1)[0].new_array().padding == 0


@row("iteration")
def _():
    assert [int(item.to_ndarray()) for item in counted(padding=1)] == [0, 1, 2, 3, 4]


@row("single element")
def _():
    array = counted()
    array[2].to_ndarray()[...] = 9
    assert array[2] == 9


@row("deep copy of shared memory")
def _():
    array = counted(storage="shared")
    copy.deepcopy(array)[...] = 7
    assert array[1] == 1


@row("reading after `close`")
def _():
    array = counted(storage="shared")
    array.close()
    with pytest.raises(ArrayClosed):
        array.to_ndarray()


@row("view of a collected array")
def _():
    view = counted(storage="shared")[1:3]
    gc.collect()
    assert view.to_ndarray().tolist() == [1, 2]


@row("shared memory")
def _():
    assert counted(storage="shared")._buffer.block._name is None


@row("local pickle of a view")
def _():
    view = pickle.loads(pickle.dumps(counted()[1:3]))
    assert view.to_ndarray().tolist() == [1, 2]
    with pytest.raises(IndexError):
        view[-1]


@row("rewriting a jagged item")
def _():
    array = jagged()
    array[...] = [[1], [2]]
    array[0] = [3, 3, 3]
    assert array[1].to_ndarray()["pos"].tolist() == [2]


@row("jagged circular storage")
def _():
    array = jagged(full_size=4)
    array.full[1:3] = [[1], [2, 2]]
    array.rotate()
    assert array[-1:1].to_ndarray()["pos"].tolist() == [1, 2, 2]


@row("jagged overflow")
def _():
    with pytest.raises(ValueError, match="at most 12 points"):
        jagged()[0] = np.zeros(13)
    grown = jagged(on_overflow="grow")
    grown[0] = np.zeros(13)
    assert grown[0].lengths == 13
    with pytest.warns(RuntimeWarning, match="dropped"):
        jagged(on_overflow="drop")[0] = np.zeros(13)


@row("jagged values")
def _():
    array = jagged()
    array[0] = [1, 2]
    array[1] = array[0]
    assert array.lengths.tolist() == [2, 2]


@row("points of a jagged item")
def _():
    with pytest.raises(IndexError):
        jagged()[0, 0:1]


@row("numpy functions of several jagged items")
def _():
    array = jagged()
    for function in (np.asarray, lambda one: np.array_equal(one, one)):
        with pytest.raises(TypeError, match="to_ndarray"):
            function(array)


@row("writing a mapping into a tree")
def _():
    for value in ({"x": 1}, {"x": 1, "y": 2, "z": 3}):
        with pytest.raises(ValueError, match="names"):
            ArrayDict(x=counted(), y=counted())[0] = value


@row("writing a dataclass into a tree")
def _():
    @dataclasses.dataclass
    class Sample:
        x: int

    tree = ArrayDict(x=counted())
    tree[0] = Sample(8)
    assert tree["x"][0] == 8


@row("trees of numpy arrays or tensors")
def _():
    with pytest.raises(TypeError, match="must be an array, a mapping of arrays or None"):
        ArrayDict(x=np.zeros(3))
    assert type(ArrayDict(x=counted()).to_ndarray()["x"]) is np.ndarray


@row("attributes of a tree")
def _():
    tree = ArrayDict(x=counted(padding=1))
    assert tree.x is tree["x"]
    with pytest.raises(AttributeError):
        _ = tree.padding
    assert tree.apply("padding") == {"x": 1}


def table():
    section = DOCS.read_text().split("## What differs from parllel")[1]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


@pytest.mark.parametrize("topic", CHECKS)
def test_difference(topic):
    CHECKS[topic]()


def test_every_row_of_the_table_is_tested():
    assert table() == list(CHECKS)


def test_the_page_runs():
    blocks = DOCS.read_text().split("```python\n")[1:]
    namespace = {}
    for block in blocks:
        exec(block.split("```")[0], namespace)
