"""Parts: actions of any space as a flat list of discrete choices and bounded numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidAnswer

if TYPE_CHECKING:  # it brings gymnasium, which models of one's own can do without
    from plangym_ext.arrays.spaces import SpaceLayout

Floats = npt.NDArray[np.float64]


class Parts:
    """The P parts of an action: choices from 0, and numbers between bounds.

    Row i of a distribution has the weights of the choices of a part, or the mean and the standard
    deviation of a number, one part after the other: W numbers. NaN as a mean stands for a number
    that is drawn between its bounds.

    Args:
        layout: of a space whose leaves are all Discrete, MultiDiscrete, MultiBinary or Box.

    Attributes:
        counts: `[P]` int64, the choices of each part; 0 for a number.
        low: `[P]` float64, the lower bounds of numbers, 0 for choices.
        high: `[P]` float64, the upper ones.
        total: the number of joint actions; None with numbers among the parts.
        begins: `[P + 1]` int64, where each part's columns begin in a distribution.
        is_choice: `[W]` bool, the columns that are weights of choices.
    """

    def __init__(self, layout: SpaceLayout) -> None:
        self._layout = layout
        columns = [_columns(leaf.space) for leaf in layout.leaves]
        counts, low, high = (np.concatenate(of) for of in zip(*columns, strict=True))
        self.counts, self.low, self.high = counts.astype(np.int64), low, high
        numbers = self.counts == 0
        self.total = None if numbers.any() else math.prod(self.counts.tolist())
        widths = np.where(numbers, 2, self.counts)
        self.begins = np.concatenate([[0], np.cumsum(widths)])
        self.is_choice = np.repeat(~numbers, widths)

    def joined(self, values: npt.NDArray[Any]) -> Any:
        """Return actions `[..., *act]` of values `[..., P]`, nested as the space; fresh arrays."""
        found, begin, lead = [], 0, values.shape[:-1]
        for leaf in self._layout.leaves:
            end = begin + math.prod(leaf.shape)
            rows = values[..., begin:end].reshape((*lead, *leaf.shape))
            space: Any = leaf.space
            if hasattr(space, "low"):
                rows = rows if leaf.dtype.kind == "f" else np.rint(rows)
                # Rounding to the space's own type may step over its edge.
                rows = np.clip(rows.astype(leaf.dtype), space.low, space.high)
            else:
                rows = (rows + np.asarray(getattr(space, "start", 0))).astype(leaf.dtype)
            found.append(rows)
            begin = end
        return self._layout.join(tuple(found))

    def no_preference(self, count: int) -> Floats:
        """Return uniform distributions `[count, W]`; NaN for numbers, as in `drawn`."""
        return np.where(self.is_choice, 1.0, np.nan) * np.ones((count, 1))

    def drawn(self, uniforms: Floats, distributions: Floats | None) -> Floats:
        """Return values `[L, P]` of actions.

        Args:
            uniforms: `[L, P, 2]` numbers in [0, 1), which decide.
            distributions: `[L, W]`; None: no preference. Numbers without bounds are normal then,
                and those with one bound exponential, as gymnasium draws them.
        """
        first, second = uniforms[..., 0], uniforms[..., 1]
        values = np.where(self.counts > 0, np.floor(first * self.counts), 0.0)
        normal = np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second)
        numbers = np.flatnonzero(self.counts == 0)
        at = first[:, numbers], normal[:, numbers]
        values[:, numbers] = between(self.low[numbers], self.high[numbers], *at)
        if distributions is None:
            return values
        for part, (begin, end) in enumerate(zip(self.begins[:-1], self.begins[1:], strict=True)):
            told = distributions[:, begin:end]
            if self.counts[part]:
                values[:, part] = _inverted(told, first[:, part])
                continue
            wanted = told[:, 0] + told[:, 1] * normal[:, part]
            wanted = np.clip(wanted, self.low[part], self.high[part])
            values[:, part] = np.where(np.isnan(told[:, 0]), values[:, part], wanted)
        return values

    def checked(self, answer: Any, count: int) -> Floats:
        """Return the answer of a proposal, `[count, W]` float64, after a check.

        Raises:
            InvalidAnswer: it is none for these parts.
        """
        found = np.asarray(answer)
        shape = (count, len(self.is_choice))
        if found.shape != shape or found.dtype.kind not in "biuf" or np.isnan(found).any():
            raise InvalidAnswer(
                f"proposal: must return {shape} numbers, for each observation the weights of the "
                f"choices, or mean and standard deviation, of one part after the other; got shape "
                f"{found.shape} {found.dtype}. Return them for all observations, without nan."
            )
        scales = self.begins[:-1][self.counts == 0] + 1
        if (found[:, self.is_choice] < 0).any() or (found[:, scales] < 0).any():
            raise InvalidAnswer(
                "proposal: weights and standard deviations must be 0 or more; got negative ones. "
                "Apply softmax to logits first."
            )
        return found.astype(np.float64)

    def allowed(self, distributions: Floats, legal: npt.NDArray[np.bool_]) -> Floats:
        """Return distributions `[L, W]` without weight on illegal choices.

        Args:
            distributions: `[L, W]`.
            legal: `[L, C]`, for each choice of each part.
        """
        found = distributions.copy()
        choices = found[:, self.is_choice] * legal
        ends = np.cumsum(self.counts[self.counts > 0])
        for end, count in zip(ends, self.counts[self.counts > 0], strict=True):
            part = choices[:, end - count : end]
            weightless = ~(part > 0.0).any(axis=1)
            part[weightless] = legal[weightless, end - count : end]
        found[:, self.is_choice] = choices
        return found

    def playable(self, distributions: Floats) -> npt.NDArray[np.bool_]:
        """Return `[L]` bool, whether every part has a choice with positive weight."""
        found = np.ones(len(distributions), np.bool_)
        for part in np.flatnonzero(self.counts):
            weights = distributions[:, self.begins[part] : self.begins[part + 1]]
            found &= (weights > 0.0).any(axis=1)
        return found


def between(low: Floats, high: Floats, uniform: Floats, normal: Floats) -> Floats:
    """Return numbers `[L, P]` between bounds `[P]`, of which some may be infinite.

    Args:
        low: the lower ones.
        high: the upper ones.
        uniform: `[L, P]` in [0, 1).
        normal: `[L, P]`, for what has no bound.
    """
    has_low, has_high = np.isfinite(low), np.isfinite(high)
    finite_low, finite_high = np.where(has_low, low, 0.0), np.where(has_high, high, 0.0)
    tail = -np.log1p(-uniform)
    one_sided = np.where(has_low, finite_low + tail, finite_high - tail)
    found = np.where(has_low & has_high, finite_low + uniform * (finite_high - finite_low), normal)
    return np.where(has_low ^ has_high, one_sided, found)


def parts_of(space: Any) -> Parts | None:
    """Return the parts of an action space; None if it holds anything but choices and numbers."""
    if not any(hasattr(space, name) for name in ("spaces", "nvec", "n", "low")):
        return None
    from plangym_ext.arrays.spaces import SpaceLayout

    layout = SpaceLayout(space, objects=True)
    known = all(
        any(hasattr(leaf.space, name) for name in ("nvec", "n", "low")) for leaf in layout.leaves
    )
    return Parts(layout) if known and layout.leaves else None


def _columns(space: Any) -> tuple[npt.NDArray[Any], Floats, Floats]:
    """Return choices and bounds of each number of a leaf."""
    if hasattr(space, "low"):
        low, high = (np.ravel(bound).astype(np.float64) for bound in (space.low, space.high))
        return np.zeros(low.size, np.int64), low, high
    if hasattr(space, "nvec"):
        counts = np.ravel(space.nvec)
    elif hasattr(space, "start"):
        counts = np.array([space.n])
    else:  # MultiBinary
        counts = np.full(math.prod(space.shape), 2)
    return counts, np.zeros(counts.size), np.zeros(counts.size)


def _inverted(weights: Floats, uniform: Floats) -> Floats:
    """Return the choice `[L]` that a number in [0, 1) stands for, by weights `[L, n]`."""
    bounds = np.cumsum(weights, axis=1)
    last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0.0, axis=1)
    found = (bounds <= (uniform * bounds[:, -1])[:, None]).sum(axis=1)
    return np.minimum(found, last).astype(np.float64)
