"""`RowNoise`: uniform and normal, the same for a row however the rows are shared out."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.sampling.noise import (
    DRAWS,
    RowNoise,
    fill_normal,
    fill_uniform,
    row_seeds,
)


def numbers(noise, steps=5):
    found = []
    for _ in range(steps):
        found.append(np.hstack([noise.uniform(3), noise.normal(2), noise.uniform()]))
        noise.advance()
    return np.stack(found)


def test_a_row_has_the_same_numbers_in_any_split_of_the_rows():
    whole = numbers(RowNoise(7, range(6)))
    parts = [numbers(RowNoise(7, rows)) for rows in ([0, 3], [1, 2, 5], [4])]
    np.testing.assert_array_equal(whole[:, [0, 3, 1, 2, 5, 4]], np.concatenate(parts, axis=1))


def test_seeds_rows_steps_and_streams_have_numbers_of_their_own():
    found = [numbers(RowNoise(7, [0, 1])), numbers(RowNoise(8, [0, 1])), numbers(RowNoise(7, [2]))]
    found.append(numbers(RowNoise(7, [0, 1], stream=1)))
    every = np.concatenate([one.ravel() for one in found])
    assert len(np.unique(every)) == len(every)


def test_a_step_can_be_drawn_again_and_a_noise_can_go_on_elsewhere():
    noise = RowNoise(3, [4, 5])
    numbers(noise, 3)
    first = noise.uniform(2)
    noise.move_to(noise.steps)
    np.testing.assert_array_equal(noise.uniform(2), first)
    other = RowNoise(3, [4, 5])
    other.move_to(noise.steps)
    np.testing.assert_array_equal(other.uniform(2), first)


def test_an_entry_can_be_given_another_row():
    noise = RowNoise(3, [4, 5])
    numbers(noise, 3)
    noise.assign(1, 9)
    noise.move_to(noise.steps)
    assert noise.rows.tolist() == [4, 9]
    np.testing.assert_array_equal(noise.uniform(4)[1:], RowNoise(3, [9]).uniform(4))


def test_moments_are_those_of_the_distributions():
    noise = RowNoise(0, range(100))
    uniform, normal = noise.uniform(1000), noise.normal(1000)
    # Of 1e5 numbers a mean is off by 1 in 316 standard deviations, a variance by little more.
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.004
    assert abs(uniform.var() - 1 / 12) < 0.002
    assert abs(normal.mean()) < 0.014
    assert abs(normal.var() - 1) < 0.02
    # Adjoining numbers, and adjoining rows, know nothing of each other.
    for block in (uniform, normal):
        for a, b in ((block[:, 1:], block[:, :-1]), (block[1:], block[:-1])):
            assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.015
    tenths = np.bincount((uniform.ravel() * 10).astype(int), minlength=10)
    assert abs(tenths - 10_000).max() < 400


@pytest.mark.parametrize("fill", [fill_uniform, fill_normal])
def test_kernels_are_the_same_as_python(fill):
    keys, steps = np.array([1, 2**63], np.uint64), np.array([0, 5], np.uint64)
    compiled, plain = np.empty((2, 3)), np.empty((2, 3))
    fill(keys, steps, np.uint64(2), compiled)
    with np.errstate(over="ignore"):
        fill.py_func(keys, steps, np.uint64(2), plain)
    np.testing.assert_allclose(compiled, plain, rtol=1e-15)


def test_the_known_numbers_of_splitmix64():
    # Its first three outputs for the state 1234567, as published with its code: here the
    # counter has moved on by one before the first is drawn.
    out = np.empty((1, 3))
    fill_uniform(np.array([1234567], np.uint64), np.zeros(1, np.uint64), np.uint64(1), out)
    known = np.array([6457827717110365317, 3203168211198807973, 9817491932198370423], np.uint64)
    np.testing.assert_array_equal(out[0], (known >> np.uint64(11)).astype(float) * 2.0**-53)


def test_more_numbers_than_a_step_has_are_refused():
    noise = RowNoise(0, [])
    noise.uniform(DRAWS - 1)
    with pytest.raises(InvalidOption, match=f"at most {DRAWS}.*2 more"):
        noise.normal()


def test_seeds_of_envs_do_not_depend_on_the_other_rows():
    assert row_seeds(5, [0, 1, 2]) == [row_seeds(5, [row])[0] for row in range(3)]
    assert len({*row_seeds(5, range(100)), *row_seeds(6, range(100))}) == 200
