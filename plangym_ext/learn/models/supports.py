"""Support: numbers as distributions over atoms on a compressed scale (two-hot)."""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.torch_extra import functional, torch

#: Slope of the compression far from zero.
_EPSILON = 1e-3


def compress(x: Any) -> Any:
    """Return h(x) = sign(x) (sqrt(|x| + 1) - 1) + 0.001 x, a fresh tensor of the same shape.

    Source: Pohlen et al. 2018, "Observe and look further".
    """
    # The root less 1 as a quotient: near zero the difference would cancel all digits.
    size = x.abs()
    return x.sign() * size / ((size + 1.0).sqrt() + 1.0) + _EPSILON * x


def expand(y: Any) -> Any:
    """Return x with h(x) = y, a fresh tensor of the same shape."""
    size = y.abs()
    # In float64: the root of 1 + 0.004 (y + 1.001) is near 1, and 1 is taken from it.
    wide = size.double()
    root = (1.0 + 4.0 * _EPSILON * (wide + 1.0 + _EPSILON)).sqrt()
    found = ((root - 1.0) / (2.0 * _EPSILON)) ** 2 - 1.0
    return y.sign() * found.to(y.dtype)


class Support:
    """Numbers as distributions over the 2 n + 1 atoms -n, ..., n of their compressed values.

    With n = 0 there are no atoms: a number stands for itself, and its loss is a squared error.

    Source: Schrittwieser et al. 2020, "Mastering Atari, Go, chess and shogi by planning with a
    learned model", appendix F.

    Args:
        size: n.

    Attributes:
        width: numbers that a network puts out for one.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.width = 2 * size + 1

    def decode(self, out: Any) -> Any:
        """Return the expected numbers `[...]` of outputs `[..., width]`, a fresh tensor."""
        if not self.size:
            return out[..., 0]
        atoms = torch.arange(-self.size, self.size + 1, device=out.device, dtype=out.dtype)
        return expand((torch.softmax(out, -1) * atoms).sum(-1))

    def encode(self, numbers: Any) -> Any:
        """Return the two-hot targets `[..., width]` of `[...]`; numbers beyond the ends are cut."""
        if not self.size:
            return numbers[..., None]
        place = compress(numbers).clamp(-self.size, self.size) + self.size
        low = place.floor().clamp(max=2 * self.size - 1)
        share = (place - low)[..., None]
        index = low.long()
        first = functional.one_hot(index, self.width)
        second = functional.one_hot(index + 1, self.width)
        return first * (1.0 - share) + second * share

    def loss(self, out: Any, numbers: Any) -> Any:
        """Return `[...]`: the cross-entropy of outputs `[..., width]` to the targets of `[...]`."""
        if not self.size:
            return (out[..., 0] - numbers) ** 2
        return -(self.encode(numbers) * torch.log_softmax(out, -1)).sum(-1)

    def least_loss(self, numbers: Any) -> Any:
        """Return `[...]`, below which the loss of these numbers cannot fall."""
        if not self.size:
            return torch.zeros_like(numbers)
        return torch.special.entr(self.encode(numbers)).sum(-1)
