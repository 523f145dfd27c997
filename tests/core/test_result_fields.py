"""One list of result fields: memory, `out`, results and what travels follow from it."""

import sys
from typing import NamedTuple

import numpy as np
import pytest

import plangym_ext
from plangym_ext.core import out_fields, row_stepper, rows
from plangym_ext.core.results import (
    RESULT_FIELDS,
    ResultField,
    Rollouts,
    RowResults,
    StateTransitions,
    Transitions,
    shapes_by_axis,
)
from plangym_ext.core.row_loop import RowLoop
from plangym_ext.native.kernel.row_kernel import RowArrays

NAMES = [one.name for one in RESULT_FIELDS]
#: A field that no result has: the number of every row, times ten.
TENS = ResultField("tens", "all_tens", "tens_out", "", "<i2", (np.dtype(np.int64),))


def test_named_tuples_have_the_fields_of_the_list():
    assert list(RowResults._fields) == [*NAMES, "obs", "infos", "resets"]
    shown = {one.shown for one in RESULT_FIELDS} | {"obs", "infos"}
    assert {*Rollouts._fields} == shown
    assert {*Transitions._fields} < {*StateTransitions._fields} < shown
    # The compiled loop steps the states in place; its other results follow the observations.
    first = RowArrays._fields.index("obs") + 1
    assert list(RowArrays._fields[first:])[: len(NAMES) - 1] == NAMES[1:]


def test_shapes_by_hand():
    assert shapes_by_axis((5, 3), 16) == {"": (5,), "H": (5, 3), "S": (5, 16)}
    assert shapes_by_axis((5,), 16)["H"] == (5,)  # one reward a row


def extended(kind, name):
    """Return a named tuple with a field more, before those that have a default."""
    found = {one: np.ndarray for one in kind._fields if one != "resets"}
    first = list(found)[: len(NAMES)] if kind is RowResults else list(found)
    rest = [one for one in kind._fields if one not in first]
    made = NamedTuple(kind.__name__, [(one, object) for one in (*first, name, *rest)])
    made.__new__.__defaults__ = tuple(kind._field_defaults.values())
    return made


@pytest.fixture
def longer_list(monkeypatch):
    """Add `TENS` to the list, and nothing else but a loop that writes it."""
    longer = (*RESULT_FIELDS, TENS)
    for name, module in [*sys.modules.items()]:
        if name.startswith("plangym_ext.") and hasattr(module, "RESULT_FIELDS"):
            monkeypatch.setattr(module, "RESULT_FIELDS", longer)
    monkeypatch.setattr(rows, "RowResults", extended(RowResults, TENS.name))
    for module in (out_fields, row_stepper):
        monkeypatch.setattr(module, "Rollouts", extended(Rollouts, TENS.shown))
    run = RowLoop.run

    def with_tens(loop, first, stop):
        loop.batch.field(TENS.stored)[first:stop] = 10 * np.arange(first, stop)
        run(loop, first, stop)

    monkeypatch.setattr(RowLoop, "run", with_tens)


@pytest.mark.usefixtures("longer_list")
@pytest.mark.parametrize("dtype", [None, np.int16, np.int64])
def test_a_field_more_comes_back_and_goes_into_out(dtype):
    with plangym_ext.make("CartPole-v1", backend="serial") as env:
        state, _, _ = env.reset(seed=0)
        batch = np.zeros((4, 2), np.int64), np.repeat(state[None], 4, axis=0)
        given = None if dtype is None else np.zeros(4, dtype)
        out = None if given is None else {TENS.shown: given}
        found = env.rollout_batch(*batch, out=out)
        np.testing.assert_array_equal(found.all_tens, [0, 10, 20, 30])
        assert found.all_tens.dtype == (dtype or np.int16)
        assert given is None or found.all_tens is given
        assert found.steps.tolist() == [2] * 4  # beside the others
        with pytest.raises(ValueError, match=r"all_tens.*int16 or int64; got \(3,\)"):
            env.rollout_batch(*batch, out={TENS.shown: np.zeros(3, np.int16)})


@pytest.mark.usefixtures("longer_list")
def test_a_field_more_has_a_place_in_memory_and_travels():
    from plangym_ext.workers.ray.row_actor import result_names

    with plangym_ext.make("CartPole-v1", backend="serial") as env:
        layout = env.layout
    assert layout.fields(4, 2)[TENS.stored] == ((4,), "<i2")
    assert TENS.stored in layout.offsets(4, 2)[0]
    assert TENS.stored in result_names(layout, "numeric")
