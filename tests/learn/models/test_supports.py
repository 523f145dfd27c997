"""Numbers as distributions over atoms, by hand."""

from __future__ import annotations

import math

import numpy as np
import torch

from plangym_ext.learn.models.latent import Support, compress, expand


def test_compression_is_the_formula_and_is_undone():
    x = torch.tensor([-300.0, -8.0, -1e-3, 0.0, 0.5, 1.0, 15.0, 1e4])
    wanted = [math.copysign(math.sqrt(abs(v) + 1) - 1, v) + 0.001 * v for v in x.tolist()]
    np.testing.assert_allclose(compress(x), wanted, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(expand(compress(x)), x, rtol=2e-6, atol=1e-6)


def test_two_hot_by_hand():
    support = Support(3)
    # h(3) = 1.003, h(-0.5) = -(sqrt(1.5) - 1) - 0.0005 = -0.22524.
    found = support.encode(torch.tensor([0.0, 3.0, -0.5, 1e6]))
    wanted = [
        [0, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0.997, 0.003, 0],
        [0, 0, 0.2252449, 0.7747551, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 1],
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_what_was_encoded_is_decoded():
    numbers = torch.linspace(-150.0, 150.0, 301).reshape(7, 43)
    support = Support(12)
    logits = torch.log(support.encode(numbers) + 1e-30)
    np.testing.assert_allclose(support.decode(logits), numbers, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        support.loss(logits, numbers), support.least_loss(numbers), rtol=1e-4, atol=1e-6
    )
    even = support.loss(torch.zeros(7, 43, support.width), numbers)
    np.testing.assert_allclose(even, math.log(25), rtol=1e-6)


def test_plain_numbers_stand_for_themselves():
    support, numbers = Support(0), torch.tensor([2.0, -1.0])
    out = torch.tensor([[1.5], [-1.0]])
    assert support.width == 1
    assert support.decode(out).tolist() == [1.5, -1.0]
    assert support.loss(out, numbers).tolist() == [0.25, 0.0]
    assert support.least_loss(numbers).tolist() == [0.0, 0.0]


def test_what_is_no_number_has_a_loss_that_is_none():
    # An update then refuses it, and says in which field it is.
    for size in (0, 3):
        support = Support(size)
        for wrong in (math.nan, math.inf, -math.inf):
            out = torch.zeros(2, support.width)
            loss = support.loss(out, torch.tensor([wrong, 1.0]))
            assert not math.isfinite(loss[0])
            assert math.isfinite(loss[1])
