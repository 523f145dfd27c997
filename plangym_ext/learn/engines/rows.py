"""Rows: the data of an update, its minibatches, and advantages normalised over all learners."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.group import LearnerGroup
from plangym_ext.learn.networks.items import Items
from plangym_ext.learn.returns import normalized
from plangym_ext.learn.torch_extra import torch
from plangym_ext.learn.transforms.moments import moments_of


class Rows(NamedTuple):
    """The inputs of losses: T steps of B envs, `[T, B, ...]`, or N single steps `[N, ...]`."""

    inputs: Inputs  # what the network was shown; fields it does not look at are None
    action: Any  # as drawn, before it was clipped to the space
    log_prob: Any  # when it was played; None where nothing was drawn
    value: Any  # when it was played; None where nothing estimates it
    advantage: Any  # None where no policy learns
    target: Any  # of the value
    valid: Any  # bool; None: all rows count
    carry: Any  # [B, ...] before the first step; None where nothing is carried

    @property
    def num_valid(self) -> int:
        """Number of valid steps."""
        return self.target.numel() if self.valid is None else int(self.valid.sum())

    def steps(self, *, whole: bool = False) -> Rows:
        """Return the valid steps as single rows, `[N, ...]`, fresh.

        Args:
            whole: the others too, with `valid` `[N]`.
        """
        if whole and self.valid is not None:
            return self._changed(lambda leaf: leaf.flatten(0, 1), valid=self.valid.flatten())
        index = None if self.valid is None else self.valid.flatten().nonzero()[:, 0]

        def flat(leaf: Any) -> Any:
            leaf = leaf.flatten(0, 1)
            return leaf if index is None else leaf.index_select(0, index)

        return self._changed(flat, valid=None, carry=None)

    def take(self, index: Any) -> Rows:
        """Return some of N steps; `index` is an int64 tensor `[n]`."""
        index = index.to(self.target.device)
        valid = None if self.valid is None else self.valid[index]
        return self._changed(lambda leaf: _taken(leaf, index), valid=valid)

    def spread(self, most: int) -> Rows:
        """Return at most a given number of N steps, evenly spaced."""
        count = len(self.target)
        return self if count <= most else self.take(torch.arange(most) * count // most)

    def part(self, start: int, stop: int) -> Rows:
        """Return some of N steps, as views."""
        valid = None if self.valid is None else self.valid[start:stop]
        return self._changed(lambda leaf: leaf[start:stop], valid=valid)

    def columns(self, index: Any) -> Rows:
        """Return some envs, whole sequences; `index` are int64 `[b]`."""
        carry = None
        if self.carry is not None:
            carry = mapped(lambda leaf: leaf.index_select(0, index), self.carry)
        valid = None if self.valid is None else self.valid.index_select(1, index)
        return self._changed(lambda leaf: leaf.index_select(1, index), valid=valid, carry=carry)

    def _changed(self, change: Any, valid: Any = None, carry: Any = None) -> Rows:
        """Return all but `valid` and `carry` changed leaf by leaf."""
        inputs = changed_inputs(change, self.inputs)
        action, log_prob, value, advantage, target = (_or_none(change, part) for part in self[1:6])
        return Rows(inputs, action, log_prob, value, advantage, target, valid, carry)


def _taken(leaf: Any, index: Any) -> Any:
    """Return rows of a leaf `[N, ...]`, fresh, whose axes lie in memory as those of the leaf."""
    if isinstance(leaf, Items):
        return leaf[index]
    # `index_select` copies whole rows, which `leaf[index]` does number by number if axes are
    # turned around; but it forgets how they lie. So it is shown them in that order.
    order = sorted(range(leaf.ndim), key=lambda axis: (axis > 0, -leaf.stride(axis)))
    back = sorted(range(leaf.ndim), key=order.__getitem__)
    return leaf.permute(order).index_select(0, index).permute(back)


def minibatches(rows: Any, batch_size: int, *, by_step: bool) -> Iterator[Any]:
    """Yield all rows once, in random order; sizes differ by one row at most.

    Args:
        rows: `Rows` of N single steps, or what `Gradients.batch` made of them; or else of T steps
            of B envs.
        batch_size: most steps of a minibatch; a column is never cut.
        by_step: whether they are single steps.
    """
    yield from _steps(rows, batch_size) if by_step else _columns(rows, batch_size)


def _steps(rows: Any, batch_size: int) -> Iterator[Any]:
    count = len(rows.target)
    # Shuffled once, so that a minibatch is a view.
    shuffled = rows.take(torch.randperm(count))
    parts = -(-count // batch_size)
    for i in range(parts):
        yield shuffled.part(i * count // parts, (i + 1) * count // parts)


def _columns(rows: Any, batch_size: int) -> Iterator[Any]:
    steps, count = rows.target.shape
    parts = -(-count // max(1, batch_size // steps))
    # Drawn on the CPU, so that the order is the same wherever the network is.
    order = torch.randperm(count).to(rows.target.device)
    for index in torch.tensor_split(order, parts):
        yield rows.columns(index)


def check_minibatch(algorithm: Any) -> None:
    """Refuse minibatches of single steps for a recurrent network.

    Raises:
        InvalidOption: it is to.
    """
    if algorithm.config.minibatch == "step" and algorithm.network.initial_carry(1) is not None:
        raise InvalidOption(
            f"{type(algorithm).__name__}: a recurrent network needs minibatch='env', whole "
            f"sequences; got 'step'. Set {type(algorithm.config).__name__}(minibatch='env')."
        )


#: As of `normalized`.
_EPSILON = 1e-6


def standardized(parts: Sequence[Any], group: LearnerGroup) -> list[Any]:
    """Return parts with advantages of mean 0 and deviation 1 over the same part of all learners.

    One exchange serves all of the parts, so that it costs little beside those of the gradients.

    Args:
        parts: `Rows` of single steps or of sequences, or what `Gradients.batch` made of some.
        group: the learners.
    """
    if group.size == 1:
        return [part._replace(advantage=normalized(part.advantage, _valid(part))) for part in parts]
    # Moments of the rows of all learners: each divides its own by the same numbers.
    found = group.merged([moments_of(*_arrays(part)) for part in parts])
    return [
        part._replace(
            advantage=(part.advantage - float(moments.mean))
            / (math.sqrt(float(moments.variance)) + _EPSILON)
        )
        # As of `normalized`: a single row stays as it is.
        if moments.num_rows > 1
        else part
        for part, moments in zip(parts, found, strict=True)
    ]


def _valid(part: Any) -> Any:
    return getattr(part, "valid", None)


def _arrays(part: Any) -> tuple[Any, Any]:
    """Return advantages and which of them count as `[T, B]` arrays."""
    advantage, valid = part.advantage, _valid(part)
    if not isinstance(advantage, np.ndarray):
        advantage = advantage.cpu().numpy()
        valid = None if valid is None else valid.cpu().numpy()
    # `[N, 1]` of single steps: moments are taken of `[T, B]`.
    valid = None if valid is None else valid.reshape(len(valid), -1)
    return advantage.reshape(len(advantage), -1), valid


def changed_inputs(change: Any, inputs: Inputs) -> Inputs:
    """Return the inputs, changed leaf by leaf; without random numbers."""
    obs, action, reward, first = (_or_none(change, part) for part in inputs[:4])
    return Inputs(obs, action, reward, first, legal=_or_none(change, inputs.legal))


def _or_none(change: Any, value: Any) -> Any:
    if value is None or isinstance(value, torch.Tensor):
        return value if value is None else change(value)
    return mapped(change, value)
