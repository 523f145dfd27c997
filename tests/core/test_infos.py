"""Infos of a batch: columns to compute with, rows equal to the infos of the env."""

import numpy as np
import pytest

from plangym_ext.core.infos import InfoBatch, InfoWriter

EXAMPLE = {
    "lives": 3,
    "score": 0.5,
    "alive": True,
    "small": np.float32(1.5),
    "vector": np.zeros(2, np.int16),
    "label": "text",
    "nothing": None,
}


def stored(example, infos):
    """`InfoBatch` of some infos, written as the row loop does."""
    writer = InfoWriter(example)
    size = len(infos)
    arrays = tuple(np.full((size, *c.shape), 7).astype(c.dtype) for c in writer.columns)
    own = {}
    for i, info in enumerate(infos):
        odd = writer.into(arrays)(i, info)
        if odd is not None:
            own[i] = odd
    columns = {c.key: array for c, array in zip(writer.columns, arrays, strict=True)}
    steps = {"n_step": np.ones(size, np.int32), "dt": np.ones(size, np.int32)}
    return InfoBatch({**columns, **steps}, own), own


def numeric(info):
    return {k: v for k, v in info.items() if v is not None and not isinstance(v, str)}


def assert_rows(batch, infos):
    for row, info in zip(batch, infos, strict=True):
        assert (row.pop("n_step"), row.pop("dt")) == (1, 1)
        wanted = numeric(info)
        assert row.keys() == wanted.keys()
        for key, value in wanted.items():
            np.testing.assert_array_equal(row[key], value)


def test_numeric_fields_become_columns_with_their_own_types():
    columns = {c.key: (c.dtype, c.shape) for c in InfoWriter(EXAMPLE).columns}
    assert columns == {
        "lives": ("<i8", ()),
        "score": ("<f8", ()),
        "alive": ("|b1", ()),
        "small": ("<f4", ()),
        "vector": ("<i2", (2,)),
    }


def test_rows_that_fit_are_columns_alone():
    infos = [{**EXAMPLE, "lives": k, "vector": np.array([k, -k], np.int16)} for k in range(4)]
    batch, own = stored(EXAMPLE, infos)
    assert own == {}
    assert batch["lives"].tolist() == [0, 1, 2, 3]
    assert_rows(batch, infos)


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"lives": 3.0},
        {"lives": True},
        {"lives": None},
        {"lives": "three"},
        {"vector": np.zeros(3, np.int16)},
        {"vector": np.zeros(2, np.int32)},
        {"vector": [0, 0]},
        {"label": 4},
        {"lives": 2**70},
    ],
    ids=repr,
)
def test_row_that_differs_keeps_its_fields_and_disturbs_no_other(change):
    infos = [EXAMPLE, {**EXAMPLE, **change}, EXAMPLE]
    batch, own = stored(EXAMPLE, infos)
    assert list(own) == [1]
    kept = {k: v for k, v in infos[1].items() if not isinstance(v, list)}
    assert_rows(batch, [infos[0], kept, infos[2]])


def test_row_that_lacks_a_field_does_not_get_it():
    infos = [EXAMPLE, {"lives": 1}, {}]
    batch, own = stored(EXAMPLE, infos)
    assert list(own) == [1, 2]
    assert_rows(batch, infos)
    # Where a row lacks the field its column is 0, never what an earlier batch left.
    assert batch["score"].tolist() == [0.5, 0.0, 0.0]


def test_infos_without_numbers_need_no_columns():
    batch, own = stored({"label": "a"}, [{"label": "b"}, {"label": "c"}])
    assert own == {}
    assert batch.keys() == ["n_step", "dt"]


def test_batch_is_a_sequence_with_named_columns():
    batch, _ = stored({"x": 1}, [{"x": k} for k in range(5)])
    assert len(batch) == 5
    assert batch[-1]["x"] == 4
    assert [row["x"] for row in batch[1:4]] == [1, 2, 3]
    assert [row["x"] for row in reversed(batch)] == [4, 3, 2, 1, 0]
    with pytest.raises(IndexError, match="row 5 of 5"):
        batch[5]
    with pytest.raises(IndexError):
        batch[-6]
    with pytest.raises(KeyError, match=r"no column 'y'; columns are \['x', 'n_step', 'dt'\]"):
        batch["y"]
    assert type(batch[0]["x"]) is int


def test_rows_have_the_types_of_the_env():
    batch, _ = stored(EXAMPLE, [EXAMPLE, EXAMPLE])
    assert {key: type(value) for key, value in batch[1].items()} == {
        "lives": int,
        "score": float,
        "alive": bool,
        # Python has no such number; as a float it would have other bytes.
        "small": np.float32,
        "vector": np.ndarray,
        "n_step": int,
        "dt": int,
    }


def test_rows_are_copies():
    batch, _ = stored({"v": np.zeros(2)}, [{"v": np.array([1.0, 2.0])}])
    batch[0]["v"][0] = 9.0
    assert batch[0]["v"].tolist() == [1.0, 2.0]
