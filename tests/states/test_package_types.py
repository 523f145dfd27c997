"""Values of torch, pandas and PIL come back from a graph as they were, without pickle."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.states.graph.reader import GraphReader
from plangym_ext.states.graph.writer import GraphWriter
from plangym_ext.states.nameable import AnyThing
from plangym_ext.states.plain import NotPlain


def written(value) -> bytes:
    writer = GraphWriter({}, {})
    writer.put(value)
    return writer.data()


def copied(value):
    (back,) = GraphReader(written(value), lambda *_: None, AnyThing({})).get()
    assert type(back) is type(value)
    # What comes back can be written again, and what was written has not changed.
    assert written(back) == written(value)
    return back


def test_tensors_come_back():
    torch = pytest.importorskip("torch")
    for value in (
        torch.arange(6.0).reshape(2, 3).clone(),
        torch.tensor(3),
        torch.zeros(0, 3),
        torch.ones(3, dtype=torch.bfloat16),
        torch.tensor([True, False]),
        torch.nn.Parameter(torch.ones(2)),
    ):
        back = copied(value)
        assert back.dtype == value.dtype
        assert back.requires_grad == value.requires_grad
        assert torch.equal(back, value)
    for value in (torch.Size([1, 2]), torch.float32, torch.device("cpu")):
        assert copied(value) == value
    generator = torch.Generator().manual_seed(3)
    assert torch.equal(
        torch.rand(3, generator=copied(generator)), torch.rand(3, generator=generator)
    )
    layer = torch.nn.Linear(2, 3)
    assert torch.equal(copied(layer)(torch.ones(2)), layer(torch.ones(2)))


def test_tensors_that_share_memory_are_no_plain_data():
    torch = pytest.importorskip("torch")
    tensor = torch.ones(4)
    for shared in ([tensor, tensor[1:]], [tensor, tensor.detach()], torch.from_numpy(np.ones(3))):
        with pytest.raises(NotPlain):
            written(shared)


def test_tables_come_back():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"a": [1, 2, 3], "b": [0.5, np.nan, 2], "c": ["x", None, "z"], "d": [True, False, True]}
    )
    for value in (frame, frame.set_index("c"), frame[["a", "b"]][1:]):
        pd.testing.assert_frame_equal(copied(value), value)
    for name in frame.columns:
        pd.testing.assert_series_equal(copied(frame[name]), frame[name])
    for index in (frame.index, frame.columns, pd.Index([3, 1], name="n")):
        pd.testing.assert_index_equal(copied(index), index, exact=True)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "1", "F"])
def test_images_come_back(mode):
    image = pytest.importorskip("PIL.Image")
    value = image.new(mode, (9, 2), 1)
    back = copied(value)
    assert (back.mode, back.size, back.tobytes()) == (value.mode, value.size, value.tobytes())
    back.putpixel((0, 0), back.getpixel((1, 1)))
