"""What a checkpoint may hold comes back as it was; all else is refused before it is written."""

from __future__ import annotations

import datetime
import enum
import pathlib
import random
from collections import deque

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plangym_ext.errors import DamagedCheckpoint, WrongKind  # noqa: E402
from plangym_ext.learn import tensor_file  # noqa: E402

KEPT = {
    "deque": deque([1, {"a": np.arange(3)}], 5),
    "path": pathlib.Path("a/b"),
    "windows": pathlib.PureWindowsPath("a\\b"),
    "range": range(1, 9, 2),
    "slice": slice(1, None),
    "date": datetime.date(2020, 1, 2),
    "moment": datetime.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
    "length": datetime.timedelta(1, 2, 3),
    "set": {1, "a", (1, (2, 3))},
    "frozen": frozenset([1]),
    "large": 2**127,
    "small": -(2**90),
    "complex": 1 + 2j,
    "bytes": b"ab\0",
    "no bytes": b"",
    "mutable": bytearray(b"x"),
    "texts": np.array(["a", "bcd"]),
    "no texts": np.zeros((0, 3), "U3"),
    "big-endian": np.arange(4, dtype=">i4"),
    "dates": np.array(["2020-01-01", "NaT"], "M8[D]"),
    "fields": np.zeros(2, [("x", "f4"), ("y", "i8", (2,))]),
    "objects": np.array([{"a": 1}, None], dtype=object),
    "long": np.arange(3, dtype=np.longdouble) / 3,
    "one long": np.longdouble(1) / 3,
    "a date of numpy": np.datetime64("2020-01-01"),
    "keys": {(1, "a"): 2, 3: 4, None: 5},
    "like a mark": {"__kind__": 1, "__is__": 2},
    "like an array": {"__numpy__": 3},
    "dtype": torch.bfloat16,
}


@pytest.mark.parametrize("name", KEPT)
def test_values_come_back(name, tmp_path):
    value = KEPT[name]
    tensor_file.save(tmp_path / "a.pt", {"value": value})
    found = tensor_file.load(tmp_path / "a.pt")["value"]
    assert type(found) is type(value)
    if isinstance(value, np.ndarray):
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)
    elif isinstance(value, deque):
        assert (str(found), found.maxlen) == (str(value), value.maxlen)
    else:
        assert found == value


GENERATORS = {
    **{
        kind: np.random.Generator(getattr(np.random, kind)(3))
        for kind in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
    },
    "RandomState": np.random.RandomState(3),
    "Random": random.Random(3),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_go_on(name, tmp_path):
    generator = GENERATORS[name]
    generator.random()
    tensor_file.save(tmp_path / "a.pt", {"value": generator})
    found = tensor_file.load(tmp_path / "a.pt")["value"]
    assert [found.random() for _ in range(5)] == [generator.random() for _ in range(5)]


class Kind(enum.IntEnum):
    ONE = 1


class Own:
    pass


@pytest.mark.parametrize(
    "value",
    [Kind.ONE, Own(), len, Own, iter([1]), np.array([Own()], dtype=object), {Own(): 1}, np.random],
    ids=lambda value: type(value).__name__,
)
def test_other_objects_are_refused_by_their_place(value, tmp_path):
    (tmp_path / "a.pt").write_bytes(b"as it was")
    with pytest.raises(WrongKind, match=r"checkpoint: \['replay'\]\['rows'\]\[1\].* is of "):
        tensor_file.save(tmp_path / "a.pt", {"replay": {"rows": [1, value]}})
    assert (tmp_path / "a.pt").read_bytes() == b"as it was"


def test_what_holds_itself_is_refused(tmp_path):
    value = []
    value.append(value)
    with pytest.raises(WrongKind, match="nested more than 200 deep"):
        tensor_file.save(tmp_path / "a.pt", {"value": value})


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("array", ["'O'", [1], torch.zeros(9, dtype=torch.uint8)]),
        ("array", ["'f8'", [100], torch.zeros(9, dtype=torch.uint8)]),
        ("generator", {"bit_generator": "seed"}),
        ("dtype", "load"),
        ("system", "ls"),
    ],
)
def test_marks_that_are_never_written_are_refused(kind, content, tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_file, "packed", lambda value: value)
    tensor_file.save(tmp_path / "a.pt", {"value": {"__kind__": kind, "__is__": content}})
    with pytest.raises(DamagedCheckpoint):
        tensor_file.load(tmp_path / "a.pt")
