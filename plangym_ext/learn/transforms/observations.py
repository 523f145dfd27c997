"""ObservationNormalizer: running normalisation of observations inside the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays import ArrayDict
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.arrays.tree import part_at
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.learn.networks.inputs import integer_range
from plangym_ext.learn.torch_extra import nn, torch
from plangym_ext.learn.transforms.moments import Moments, moments_of

#: Added to variances, so that what never varies stays finite.
_EPSILON = 1e-8


class ObservationNormalizer(nn.Module):
    """Subtracts the running mean, divides by the running deviation, and clips.

    It is a part of the network: its moments are buffers, so they are saved with the weights
    and travel with them, and stay as they are until a learner adds to them. That it does once
    for each fragment, of the whole tree, after it has learned from it: learning normalises
    observations as play did, and no number depends on which worker played which rows.

    Boxes are normalised number by number, but for integers that are brought to [0, 1] by their
    bounds. Discrete parts stay as they are. Before anything was seen, nothing is subtracted.

    Args:
        space: of one row.
        clip: normalised numbers are clipped to [-clip, clip].
    """

    @checking_arguments
    def __init__(self, space: spaces.Space[Any], clip: SupportsFloat) -> None:
        super().__init__()
        self._layout = SpaceLayout(space, objects=True)
        self._which = [
            i for i, leaf in enumerate(self._layout.leaves) if _is_normalized(leaf.space)
        ]
        self.parts = nn.ModuleList(
            _Part(self._layout.leaves[i].shape, float(clip)) for i in self._which
        )

    def forward(self, obs: Any) -> Any:
        """Return `[N, *obs]`, nested as the space, the normalised parts float32."""
        leaves = list(self._layout.split(obs))
        for i, part in zip(self._which, self.parts, strict=True):
            leaves[i] = part(leaves[i])
        return self._layout.join(tuple(leaves))

    def moments(self, tree: ArrayDict) -> list[Moments]:
        """Return the moments of a fragment, to be added later; see `build_sample_tree`.

        Of every step that was played it is the observation that was answered to, `obs[:T]`.
        """
        valid: Any = tree["valid"].to_ndarray(copy=False)
        counted = None if valid.all() else valid
        wanted: list[Any] = [part_at(tree["obs"], self._layout.leaves[i].path) for i in self._which]
        steps = slice(0, len(valid))
        return [moments_of(leaf[steps].to_ndarray(copy=False), counted) for leaf in wanted]

    def add(self, seen: Sequence[Moments]) -> None:
        """Merge the moments of a fragment into the running moments."""
        part: Any
        for part, moments in zip(self.parts, seen, strict=True):
            part.add(moments)


class _Part(nn.Module):
    """One array of an observation; buffers have one axis more, as rows have."""

    count: Any
    mean: Any
    squares: Any
    scale: Any

    def __init__(self, shape: tuple[int, ...], clip: float) -> None:
        super().__init__()
        self._clip = clip
        zeros = torch.zeros((1, *shape), dtype=torch.float64)
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", zeros)
        # Memory of its own: both are written in place.
        self.register_buffer("squares", zeros.clone())
        self.register_buffer("scale", torch.ones_like(zeros))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        # In float64, as the mean may be large beside the deviation.
        scaled = (rows - self.mean).mul_(self.scale)
        return scaled.clamp_(-self._clip, self._clip).to(torch.float32)

    def add(self, seen: Moments) -> None:
        before = Moments(
            float(self.count), self.mean[0].cpu().numpy(), self.squares[0].cpu().numpy()
        )
        after = before.merged(seen)
        # No row counted: the variance of none is no number.
        if not after.num_rows:
            return
        scale = 1.0 / np.sqrt(after.variance + _EPSILON)
        self.count.fill_(after.num_rows)
        named = {"mean": after.mean, "squares": after.squares, "scale": scale}
        for name, value in named.items():
            getattr(self, name).copy_(torch.from_numpy(np.asarray(value)))


def _is_normalized(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and integer_range(space) is None
