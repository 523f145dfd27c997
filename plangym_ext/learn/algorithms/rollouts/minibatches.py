"""Random minibatches of a fragment: single steps, or whole env columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.torch_extra import torch


def minibatches(rows: Any, batch_size: int, *, by_step: bool) -> Iterator[Any]:
    """Yield all rows once, in an order that is drawn; sizes differ by one row at most.

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
    """Refuse a recurrent network that is to learn from single steps.

    Raises:
        InvalidOption: it is to.
    """
    if algorithm.config.minibatch == "step" and algorithm.network.initial_carry(1) is not None:
        raise InvalidOption(
            f"{type(algorithm).__name__}: a recurrent network needs minibatch='env', whole "
            f"sequences; got 'step'. Set {type(algorithm.config).__name__}(minibatch='env')."
        )
