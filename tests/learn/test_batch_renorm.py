"""Batch renormalization beside the formulas of its paper, in numpy."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plangym_ext.learn.networks.critics import BatchRenorm  # noqa: E402


def test_batches_are_corrected_to_running_means_after_the_warm_up():
    norm, rng = BatchRenorm(2, 3, warm_up=2), np.random.default_rng(0)
    running_mean, running_variance = np.zeros((2, 3)), np.ones((2, 3))
    for batch in range(6):
        # Far enough from the running means that both corrections are limited.
        x = rng.normal(3.0 * batch, 4.0, (2, 10, 3))
        x[..., 0] *= 0.01
        found = norm(torch.from_numpy(x.astype(np.float32))).detach().numpy()
        mean, variance = x.mean(axis=1), x.var(axis=1)
        wanted = (x - mean[:, None]) / np.sqrt(variance + 1e-3)[:, None]
        if batch > 2:
            deviation = np.sqrt(running_variance + 1e-3)
            factor = np.clip(np.sqrt(variance + 1e-3) / deviation, 1 / 3, 3)
            shift = np.clip((mean - running_mean) / deviation, -5, 5)
            assert (abs(shift) == 5).any()
            wanted = wanted * factor[:, None] + shift[:, None]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        running_mean += 0.01 * (mean - running_mean)
        running_variance += 0.01 * (variance - running_variance)
    norm.eval()
    x = rng.normal(size=(1, 4, 3)).astype(np.float32)
    wanted = (x - running_mean[:1, None]) / np.sqrt(running_variance[:1, None] + 1e-3)
    # The first stack alone; nothing is counted.
    np.testing.assert_allclose(norm(torch.from_numpy(x)).detach(), wanted, rtol=1e-4, atol=1e-5)
    assert int(norm.batches) == 6


def test_frozen_layers_get_no_gradient():
    norm = BatchRenorm(1, 2).eval()
    x = torch.ones(1, 5, 2, requires_grad=True)
    norm(x, frozen=True).sum().backward()
    assert norm.scales.grad is None
    assert x.grad is not None
