"""Batch renormalization of stacked layers: batch statistics, corrected by their running means."""

from __future__ import annotations

from typing import final

from plangym_ext.learn.torch_extra import nn, torch

#: Added to variances, and how fast running means move: those of CrossQ's authors.
_EPSILON, _RATE = 1e-3, 0.01
#: Most that running means correct the deviation (as a factor) and the mean (in deviations).
_MOST_SCALE, _MOST_SHIFT = 3.0, 5.0


@final
class BatchRenorm(nn.Module):
    """Normalises the inputs `[E, N, F]` of a layer of E stacks over N rows, and scales them.

    In training mode the statistics are those of the rows, and running means follow them; once
    there were `warm_up` batches they are corrected to the running means, through which no
    gradient passes. In evaluation mode the running means are the statistics.

    Args:
        count: E.
        width: F.
        warm_up: batches that are not corrected.

    Attributes:
        scales: `[E, F]`, learned.
        offsets: likewise.
        mean: `[E, F]`, the running mean.
        variance: likewise.
        batches: how many there were in training mode.

    Source: Ioffe 2017, "Batch renormalization: towards reducing minibatch dependence in
    batch-normalized models"; constants as in Bhatt et al. 2024 ("CrossQ").
    """

    mean: torch.Tensor
    variance: torch.Tensor
    batches: torch.Tensor

    def __init__(self, count: int, width: int, *, warm_up: int = 100_000) -> None:
        super().__init__()
        shape = count, width
        self.warm_up = warm_up
        self.scales = nn.Parameter(torch.ones(shape, dtype=torch.float32))
        self.offsets = nn.Parameter(torch.zeros(shape, dtype=torch.float32))
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float32))
        self.register_buffer("variance", torch.ones(shape, dtype=torch.float32))
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor, *, frozen: bool = False) -> torch.Tensor:
        """Return `[E, N, F]`; x may be of the first stacks alone, in evaluation mode.

        Args:
            x: `[E, N, F]`.
            frozen: whether no gradient reaches the scales and offsets.
        """
        here = slice(len(x))
        scales, offsets = self.scales[here], self.offsets[here]
        if frozen:
            scales, offsets = scales.detach(), offsets.detach()
        if self.training:
            mean, variance = x.mean(dim=1), x.var(dim=1, correction=0)
            factor, shift = self._corrections(mean.detach(), variance.detach())
            scales, offsets = scales * factor, offsets + scales * shift
        else:
            mean, variance = self.mean[here], self.variance[here]
        normal = (x - mean[:, None]) * (variance + _EPSILON).rsqrt()[:, None]
        return torch.addcmul(offsets[:, None], normal, scales[:, None])

    @torch.no_grad()
    def _corrections(self, mean: torch.Tensor, variance: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return factor and shift `[E, F]` of what is normalised, and count the batch."""
        deviation = (self.variance + _EPSILON).sqrt()
        factor = (variance + _EPSILON).sqrt() / deviation
        shift = (mean - self.mean) / deviation
        # On the device, so that an update can be recorded.
        late = self.batches > self.warm_up
        factor = torch.where(late, factor.clamp(1 / _MOST_SCALE, _MOST_SCALE), 1.0)
        shift = torch.where(late, shift.clamp(-_MOST_SHIFT, _MOST_SHIFT), 0.0)
        self.mean.lerp_(mean, _RATE)
        self.variance.lerp_(variance, _RATE)
        self.batches += 1
        return factor, shift
