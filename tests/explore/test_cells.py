"""Cell functions against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.explore import FrameCells, InfoCells, ObsCells, cells_named
from plangym_ext.explore.cells import shrink


@pytest.mark.parametrize("run", [shrink, shrink.py_func], ids=["jit", "python"])
def test_a_pixel_of_a_small_screen_is_the_mean_of_its_tile(run):
    screens = np.zeros((1, 3, 4, 1), np.uint8)
    screens[0, :, :, 0] = [[0, 64, 255, 255], [0, 0, 0, 0], [128, 128, 10, 20]]
    small = np.zeros((1, 2, 2), np.uint8)
    run(screens, 8, small)
    # Rows 0 | 1, 2 and columns 0, 1 | 2, 3. Means 32, 255, 64, 7.5; of 8 levels, 32 wide each.
    assert small.tolist() == [[[1, 7], [2, 0]]]


def test_colours_count_as_the_eye_sees_them():
    screens = np.zeros((4, 1, 1, 3), np.uint8)
    screens[0, 0, 0, 0] = screens[1, 0, 0, 1] = screens[2, 0, 0, 2] = 255
    screens[3] = 255
    # 255 * (77, 150, 29, 256) / 256 is 76, 149, 28 and 255.
    assert FrameCells(1, 1, 256)(screens, {}).ravel().tolist() == [76, 149, 28, 255]


def test_fields_of_infos_are_put_in_intervals():
    infos = {"room": np.array([1, 2]), "x": np.array([15, 16]), "y": np.array([-1.0, 0.5])}
    found = InfoCells.of("room", x=8, y=1)(np.zeros((2, 1)), infos)
    assert found.tolist() == [[1, 1, -1], [2, 2, 0]]
    assert found.dtype == np.int64


def test_numbers_of_nested_observations_count_and_texts_do_not():
    obs = {
        "image": np.array([[[1, 2]], [[3, 4]]], np.uint8),
        "mission": np.array(["go", "stay"]),
        "speed": np.array([0.9, -0.1]),
    }
    assert ObsCells()(obs, {}).tolist() == [[1, 2, 0], [3, 4, -1]]
    assert ObsCells(0.5)(obs, {}).tolist() == [[2, 4, 1], [6, 8, -1]]


def test_cells_have_names():
    assert cells_named("frames") == FrameCells(8, 11, 8)
    assert cells_named("frames:4x5x6") == FrameCells(4, 5, 6)
    assert cells_named("obs:0.25") == ObsCells(0.25)
    assert cells_named("info:room,x/8") == InfoCells((("room", 1.0), ("x", 8.0)))


@pytest.mark.parametrize("text", ["rooms", "frames:4x5", "info:", "info:x/wide", "obs:0", ""])
def test_a_name_of_no_cells_is_refused(text):
    with pytest.raises(InvalidOption, match=r"must be"):
        cells_named(text)


def test_what_does_not_fit_the_env_is_refused():
    with pytest.raises(InvalidOption, match=r"no numeric field 'room'; they have lives"):
        InfoCells.of("room")(np.zeros((1, 1)), {"lives": np.array([3])})
    with pytest.raises(InvalidOption, match=r"must be screens.*got \[2, 4\] float64"):
        FrameCells()(np.zeros((2, 4)), {})
    with pytest.raises(InvalidOption, match="hold no numbers"):
        ObsCells()(np.array(["a"]), {})
