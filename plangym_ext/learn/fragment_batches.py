"""Minibatches of fragments and joined fragments, for training loops of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from plangym_ext.arrays import ArrayDict, JaggedArray, dict_map
from plangym_ext.arrays.nested import leaves
from plangym_ext.core.numbers import at_least
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.engines.rows import Rows
from plangym_ext.learn.sampling.collected import Collected
from plangym_ext.learn.sampling.episode_statistics import merged_episodes
from plangym_ext.learn.torch_extra import torch
from plangym_ext.planners.plans import Budget


def minibatches(
    batch: Any,
    batch_size: int,
    *,
    epochs: int = 1,
    by: Literal["step", "env"] = "step",
    valid: Any = None,
    per_env: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Iterator[Any]:
    """Yield the steps of a fragment in minibatches; each epoch has every step once, in a new order.

    Args:
        batch: tensors or arrays `[T, B, ...]` in dicts and tuples, an `ArrayDict` of such arrays,
            or the `Rows` of a `Rollout`, which alone may have observations with items.
        batch_size: most steps of a minibatch; sizes differ by one step, or one env, at most.
        epochs: how often all is gone through.
        by: "step": minibatches are `[n, ...]`; "env": whole sequences `[T, b, ...]`, at least one,
            as recurrent networks need.
        valid: `[T, B]` bool, the steps that count; None: all. For `by="step"` without `Rows`, which
            have their own.
        per_env: tensors `[B, ...]` by name, such as carries, for `by="env"`; minibatches are then
            pairs of a part of `batch` and of these.
        seed: of the orders; None: torch's own generator.

    Raises:
        InvalidOption: a number is below 1, `by` is unknown, or an argument does not go with it.
    """
    at_least("minibatches: batch_size", batch_size, 1)
    at_least("minibatches: epochs", epochs, 1)
    if by not in ("step", "env"):
        raise InvalidOption(f"minibatches: by must be 'step' or 'env'; got {by!r}.")
    by_step, rows = by == "step", isinstance(batch, Rows)
    if (valid is not None and (rows or not by_step)) or (per_env is not None and (rows or by_step)):
        raise InvalidOption(
            "minibatches: valid is for by='step' and per_env for by='env', both for other batches "
            "than Rows. Leave them out."
        )
    if isinstance(batch, ArrayDict):
        if any(isinstance(leaf, JaggedArray) for _, leaf in batch.leaves()):
            raise InvalidOption(
                "minibatches: of observations with items pass the Rows of a Rollout."
            )
        batch = batch.to_torch()
    if rows:
        steps, count = batch.target.shape
        batch = batch.steps() if by_step else batch
        count = len(batch.target) if by_step else count
    else:
        batch = dict_map(torch.as_tensor, batch)
        steps, count = next(leaf for leaf in leaves(batch) if leaf is not None).shape[:2]
        if by_step:
            which = torch.ones(steps, count) if valid is None else torch.as_tensor(valid)
            kept = which.flatten().nonzero()[:, 0]
            batch = dict_map(lambda leaf: leaf.flatten(0, 1)[kept], batch)
            count = len(kept)
    if not count:
        return
    parts = -(-count // (batch_size if by_step else max(1, batch_size // steps)))
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for index in torch.tensor_split(torch.randperm(count, generator=generator), parts):
            if rows:
                yield batch.take(index) if by_step else batch.columns(index)
                continue
            part = dict_map(lambda leaf, i=index: leaf[i] if by_step else leaf[:, i], batch)
            own = dict_map(lambda leaf, i=index: leaf[i], per_env or {})
            yield part if per_env is None else (part, own)


@checking_arguments
def joined(fragments: Sequence[Collected]) -> Collected:
    """Return fragments of several samplers as one, their envs side by side; a copy.

    Args:
        fragments: of samplers with equal T, spaces and agents.

    Returns:
        `data` has all of their columns; rows of the table of episodes are numbered on; the version
        is the oldest. Algorithms take it like a fragment of one sampler.

    Raises:
        InvalidOption: there is none, or one has branches or a planner's labels of older states.
    """
    if not fragments or any(
        extra is not None for one in fragments for extra in (one.forks, one.again)
    ):
        raise InvalidOption(
            "joined: expected at least one fragment, without forks and again; got "
            f"{len(fragments)}."
        )
    tables, first = [], 0
    for one in fragments:
        tables.append({**one.episodes, "row": one.episodes["row"] + first})
        first += one.data["reward"].shape[1]
    return Collected(
        _joined([one.data for one in fragments]),
        merged_episodes(tables),
        sum((one.cost for one in fragments), Budget()),
        min(one.version for one in fragments),
        played=sum(one.steps for one in fragments),
    )


def _joined(parts: Sequence[Any]) -> Any:
    first = parts[0]
    if first is None:
        return None
    if isinstance(first, ArrayDict):
        return ArrayDict({name: _joined([part[name] for part in parts]) for name in first})
    # Of each row, such as carries, or over time, with row T where there is one.
    axis = first.n_batch_dims - 1
    ends = np.cumsum([0, *(part.batch_shape[axis] for part in parts)]).tolist()
    shape = (*first.batch_shape[:axis], ends[-1])
    whole = first.new_array(batch_shape=shape, padding=first.padding, storage="local")
    for part, start, end in zip(parts, ends, ends[1:], strict=False):
        if axis:
            steps = slice(0, part.batch_shape[0] + min(1, part.padding))
            whole[steps, start:end] = part[steps]
        else:
            whole[start:end] = part
    return whole
