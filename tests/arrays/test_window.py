"""Padding, rotation and circular buffers."""

import numpy as np
import pytest

from plangym_ext.arrays import Array

STORAGES = ["local", "shared", "inherited"]


@pytest.mark.parametrize("storage", STORAGES)
def test_padding_carries_over_a_rotation(storage):
    # parllel's table T2.
    a = Array((5, 4), np.float32, padding=1, storage=storage)
    assert (a.first, a.last, a.shape, a.full_size) == (0, 4, (5, 4), 5)
    a[:] = np.arange(4)
    a[a.last + 1] = [4, 5, 6, 7]
    assert a.to_ndarray().shape == (5, 4)
    assert not (a.to_ndarray() == [4, 5, 6, 7]).any(axis=0).all()
    np.testing.assert_array_equal(a[5], [4, 5, 6, 7])
    a[...] = 0
    np.testing.assert_array_equal(a[5], [4, 5, 6, 7])
    a.rotate()
    np.testing.assert_array_equal(a[0], [4, 5, 6, 7])
    np.testing.assert_array_equal(a[1:], np.zeros((4, 4)))
    np.testing.assert_array_equal(a[-1], np.zeros(4))
    np.testing.assert_array_equal(a[5], [4, 5, 6, 7])
    a[4] = [42, 7, 42, 7]
    a.rotate()
    np.testing.assert_array_equal(a[-1], [42, 7, 42, 7])
    np.testing.assert_array_equal(a[4], [42, 7, 42, 7])
    np.testing.assert_array_equal(a[0], [4, 5, 6, 7])
    for index in (6, -2):
        with pytest.raises(IndexError, match=f"got {index}"):
            a[index]


def test_wide_padding_carries_both_sides():
    a = Array((5,), np.int64, padding=2)
    a[-2:7] = np.arange(-2, 7)
    a.rotate()
    np.testing.assert_array_equal(a[-2:7], [3, 4, 5, 6, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(a, [5, 6, 2, 3, 4])


def test_padding_may_be_as_wide_as_the_window():
    # The copied ranges overlap: rows 2..5 move to 0..3.
    a = Array((2,), np.int64, padding=2)
    a[-2:4] = np.arange(6)
    a.rotate()
    np.testing.assert_array_equal(a[-2:4], [2, 3, 4, 5, 4, 5])


def test_a_circular_buffer_wraps():
    # Table T3: visible rows, row -1 and the whole buffer in each round.
    a = Array((2,), np.int64, full_size=6, padding=1)
    rounds = [
        ([0, 1], 0, [0, 0, 1, 2, 0, 0, 0, 0]),
        ([10, 11], 1, [0, 0, 1, 10, 11, 12, 0, 0]),
        ([20, 21], 11, [0, 0, 1, 10, 11, 20, 21, 22]),
        ([30, 31], 21, [21, 30, 31, 32, 11, 20, 21, 22]),
        ([40, 41], 31, [21, 30, 31, 40, 41, 42, 21, 22]),
    ]
    for k, (visible, before, base) in enumerate(rounds):
        a[0:3] = [10 * k, 10 * k + 1, 10 * k + 2]
        np.testing.assert_array_equal(a, visible)
        assert a[-1].to_ndarray() == before
        np.testing.assert_array_equal(a.full[-1:7], base)
        a.rotate()


def test_full_size_without_padding_slides_over_blocks():
    a = Array((5,), np.int64, full_size=10)
    a[...] = 7
    a.rotate()
    a[...] = 42
    a.rotate()
    np.testing.assert_array_equal(a, [7] * 5)
    a.rotate()
    np.testing.assert_array_equal(a, [42] * 5)
    a.rotate()
    a[5:10] = 9
    a.rotate()
    np.testing.assert_array_equal(a, [9] * 5)
    a[-5:0] = 3
    np.testing.assert_array_equal(a.full, [3] * 5 + [9] * 5)


def test_reset_makes_the_next_rotation_land_on_row_zero():
    a = Array((2,), np.int64, full_size=6, padding=1)
    a.full[-1:7] = np.arange(8)
    a.rotate()
    a.reset()
    np.testing.assert_array_equal(a, [5, 6])
    a.rotate()
    np.testing.assert_array_equal(a[-1:2], [6, 7, 2])


def test_full_reaches_the_padding_and_does_not_rotate():
    a = Array((2, 3), np.int64, full_size=4, padding=1)
    a.rotate()
    a[...] = 5
    full = a.full
    assert full.shape == (4, 3)
    np.testing.assert_array_equal(full[2:], a)
    full[-1], full[4] = 8, 9
    np.testing.assert_array_equal(a[2], [9, 9, 9])
    with pytest.raises(ValueError, match=r"Array\.rotate: .*view of shape \(4, 3\)"):
        full.rotate()


def test_full_leaves_the_view_it_is_asked_of_alone():
    a = Array((5,), np.int64)
    a[...] = np.arange(5)
    s = a[1:3]
    np.testing.assert_array_equal(s.full, np.arange(5))
    np.testing.assert_array_equal(s, [1, 2])


def test_views_keep_pointing_at_the_data_they_were_taken_from():
    a = Array((2,), np.int64, full_size=4)
    row, rows, whole, picked = a[0], a[0:2], a[...], a[[0, 1]]
    pairs, reversed_, mask = a[np.array([0, 1])], a[::-1], a[np.array([True, False])]
    later, part = a[0].next, a[...][::-1]
    read = a[1]
    read.to_ndarray()
    a[...] = [1, 2]
    a.rotate()
    a[...] = [3, 4]
    wants = [
        *[(row, 1), (rows, [1, 2]), (whole, [1, 2]), (picked, [1, 2]), (read, 2)],
        *[(pairs, [1, 2]), (reversed_, [2, 1]), (mask, [1]), (later, 2), (part, [2, 1])],
    ]
    for view, want in wants:
        np.testing.assert_array_equal(view, want)
    np.testing.assert_array_equal(rows[2:4], [3, 4])
    np.testing.assert_array_equal(row.next.next, 3)


@pytest.mark.parametrize("view", [0, slice(None), ..., [0, 1]], ids=repr)
@pytest.mark.parametrize("verb", ["rotate", "reset"])
def test_only_the_whole_array_rotates(view, verb):
    with pytest.raises(ValueError, match=f"Array.{verb}: must be called on the whole array"):
        getattr(Array((2,), int)[view], verb)()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"padding": -1}, r"padding must be in 0\.\.4.*got -1"),
        ({"padding": 5}, r"padding must be in 0\.\.4.*got 5"),
        ({"full_size": 3}, "full_size must be a positive multiple of 4.*got 3.*nearest is 4"),
        ({"full_size": 10}, "full_size must be a positive multiple of 4.*got 10"),
    ],
)
def test_windows_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Array((4, 2), int, **arguments)


@pytest.mark.parametrize("name", ["padding", "full_size"])
def test_windows_are_whole_numbers(name):
    with pytest.raises(TypeError, match=f"{name} must be an integer; got 4.0"):
        Array((4, 2), int, **{name: 4.0})
