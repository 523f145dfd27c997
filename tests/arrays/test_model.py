"""A state machine drives an Array and a plain numpy model side by side."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from plangym_ext.arrays import Array

STORAGES = ["local", "shared", "inherited"]
COLUMNS = 2

INT = st.integers(-9, 12)
SLICE = st.builds(slice, st.none() | INT, st.none() | INT, st.sampled_from([None, 1, 2, -1, -2]))
KEY = st.one_of(
    INT,
    SLICE,
    st.just(...),
    st.lists(INT, min_size=1, max_size=3),
    st.tuples(INT | SLICE, st.integers(-1, COLUMNS) | SLICE),
)


class Model:
    """The rule in one sentence: an axis is a list of positions, extended both ways.

    Each axis of a view is (first position, step, visible length), an int once
    indexed away, or a list once picked; the data is one numpy array.
    """

    def __init__(self, base, axes):
        self.base, self.axes = base, axes

    def positions(self):
        return [
            [axis] if isinstance(axis, int)
            else axis if isinstance(axis, list)
            else [axis[0] + axis[1] * i for i in range(axis[2])]
            for axis in self.axes
        ]  # fmt: skip

    def index(self):
        return np.ix_(*self.positions())

    def shape(self):
        return tuple(
            len(places)
            for places, axis in zip(self.positions(), self.axes, strict=True)
            if not isinstance(axis, int)
        )

    def select(self, key):
        key = list(key) if isinstance(key, tuple) else [key]
        axes = list(self.axes)
        open_axes = [at for at, axis in enumerate(axes) if not isinstance(axis, int)]
        if len(key) > len(open_axes) and key != [...]:
            raise IndexError
        for at, part in zip(open_axes, key, strict=False):
            axes[at] = self.narrow(axes[at], part, self.base.shape[at])
        return Model(self.base, axes)

    @staticmethod
    def narrow(axis, part, size):
        if part is ...:
            return axis
        if isinstance(axis, list):  # picked: like a buffer of its own
            inner = Model.narrow((0, 1, len(axis)), part, len(axis))
            if isinstance(inner, int):
                return axis[inner]
            if isinstance(inner, tuple):
                inner = [inner[0] + inner[1] * i for i in range(inner[2])]
            return [axis[i] for i in inner]
        first, step, length = axis
        held = [i for i in range(-40, 41) if 0 <= first + step * i < size]
        if isinstance(part, slice):
            k = part.step or 1
            start = part.start if part.start is not None else (0 if k > 0 else length - 1)
            stop = part.stop if part.stop is not None else (length if k > 0 else -1)
            edges = [*held, held[-1] + 1] if k > 0 else [held[0] - 1, *held]
            if start not in edges or stop not in edges:
                raise IndexError
            return (first + step * start, step * k, len(range(start, stop, k)))
        for i in part if isinstance(part, list) else [part]:
            if i not in held:
                raise IndexError
        return [first + step * i for i in part] if isinstance(part, list) else first + step * part

    def shifted(self, by):
        axis = self.axes[0]
        if isinstance(axis, int):
            moved = axis + by
        elif isinstance(axis, list):
            moved = [i + by for i in axis]
        else:
            moved = (axis[0] + (by if axis[1] > 0 else -by), *axis[1:])
        result = Model(self.base, [moved, *self.axes[1:]])
        if any(not 0 <= i < len(self.base) for i in result.positions()[0]):
            raise IndexError
        return result


class ArrayMachine(RuleBasedStateMachine):
    """Operations common to all kinds; a kind says how a cell is written and read."""

    storage = "local"
    views = Bundle("views")

    @initialize(
        rows=st.integers(1, 4), padding=st.integers(0, 4), blocks=st.integers(1, 3), target=views
    )
    def make(self, rows, padding, blocks):
        self.rows, self.padding, self.full = rows, min(padding, rows), rows * blocks
        self.start = 0
        self.array = self.new_array()
        base = self.blank((self.full + 2 * self.padding, COLUMNS))
        self.model = base
        self.kept = [(self.array, None)]
        return (self.array, None)

    def whole(self):
        return Model(self.model, [(self.padding + self.start, 1, self.rows), (0, 1, COLUMNS)])

    def model_of(self, pair):
        return pair[1] or self.whole()

    def keep(self, view, model):
        self.kept = [*self.kept[-6:], (view, model)]
        return (view, model)

    @rule(pair=views, key=KEY, target=views)
    def view(self, pair, key):
        view, model = pair[0], self.model_of(pair)
        try:
            inner = model.select(key)
        except IndexError:
            with pytest.raises(IndexError):
                view[key].to_ndarray()
            return pair
        if sum(isinstance(axis, list) for axis in inner.axes) > 1:
            return pair  # lists on two axes pair up instead of crossing
        if 0 in inner.shape():
            assert 0 in view[key].batch_shape
            return pair
        return self.keep(view[key], inner)

    @rule(pair=views, value=st.integers(1, 99))
    def write(self, pair, value):
        self.write_value(pair[0], self.model_of(pair), value)

    @rule(pair=views, key=KEY, value=st.integers(1, 99))
    def write_at(self, pair, key, value):
        view, model = pair[0], self.model_of(pair)
        try:
            inner = model.select(key)
        except IndexError:
            with pytest.raises(IndexError):
                view[key] = value
            return
        if sum(isinstance(axis, list) for axis in inner.axes) < 2:
            self.write_value(view, inner, value, key)

    @rule(pair=views, by=st.sampled_from([1, -1]), target=views)
    def neighbour(self, pair, by):
        name = "next" if by > 0 else "previous"
        try:
            moved = self.model_of(pair).shifted(by)
        except IndexError:
            with pytest.raises(IndexError, match=f"Array.{name}"):
                getattr(pair[0], name).to_ndarray()
            return pair
        return self.keep(getattr(pair[0], name), moved)

    @rule(pair=views, target=views)
    def all_rows(self, pair):
        axes = [(self.padding, 1, self.full), (0, 1, COLUMNS)]
        return self.keep(pair[0].full, Model(self.model_of(pair).base, axes))

    @rule()
    def rotate(self):
        self.array.rotate()
        self.start += self.rows
        if self.start == self.full:
            self.start = 0
            ends = self.model[self.full : self.full + 2 * self.padding].copy()
            self.model[: 2 * self.padding] = ends

    @rule()
    def reset(self):
        self.array.reset()
        self.start = self.full - self.rows

    @rule(pair=views, target=views)
    def pickle(self, pair):
        view, model = pair[0], self.model_of(pair)
        if self.storage == "inherited":
            with pytest.raises(OSError, match="argument of a multiprocessing Process"):
                pickle.dumps(view)
            return pair
        other = pickle.loads(pickle.dumps(view))
        if self.storage == "shared":
            return self.keep(other, model)
        self.compare(other, model)
        self.write_value(other, None, 55)
        return pair

    @rule(pair=views)
    def deep_copy(self, pair):
        other = copy.deepcopy(pair[0])
        self.compare(other, self.model_of(pair))
        self.write_value(other, None, 77)

    @invariant()
    def everything_agrees(self):
        if hasattr(self, "array"):
            for pair in [(self.array, None), *self.kept]:
                self.compare(pair[0], self.model_of(pair))


class DefaultMachine(ArrayMachine):
    def new_array(self):
        return Array(
            (self.rows, COLUMNS),
            np.int64,
            storage=self.storage,
            padding=self.padding,
            full_size=self.full,
        )

    def blank(self, shape):
        return np.zeros(shape, np.int64)

    def write_value(self, view, model, value, key=...):
        view[key] = value
        if model is not None:
            model.base[model.index()] = value

    def compare(self, view, model):
        assert view.shape == model.shape()
        want = model.base[model.index()].reshape(model.shape())
        np.testing.assert_array_equal(view, want)


class JaggedMachine(ArrayMachine):
    def new_array(self):
        return Array(
            (self.rows, COLUMNS),
            np.int64,
            kind="jagged",
            max_mean_num_elem=5,
            storage=self.storage,
            padding=self.padding,
            full_size=self.full,
        )

    def blank(self, shape):
        base = np.empty(shape, object)
        for at in np.ndindex(shape):
            base[at] = ()
        return base

    def write_value(self, view, model, value, key=...):
        item = (value,) * (value % 6)
        view[key] = np.array(item, np.int64)
        if model is not None:
            for at in zip(*(i.ravel() for i in np.broadcast_arrays(*model.index())), strict=True):
                model.base[at] = item

    def compare(self, view, model):
        assert view.batch_shape == model.shape()
        got = view.to_ndarray()
        parts = np.split(got["pos"], got["ptr"][1:-1])
        want = model.base[model.index()].ravel()
        assert [tuple(part) for part in parts] == list(want)


@pytest.mark.slow
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("machine", [DefaultMachine, JaggedMachine])
def test_array_and_model_stay_equal(machine, storage):
    case = type("Case", (machine,), {"storage": storage}).TestCase
    case.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
    case("runTest").runTest()
