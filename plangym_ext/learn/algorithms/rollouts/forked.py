"""Rows that a policy learns from, out of the branches of a fragment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plangym_ext.arrays.nested import mapped
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.algorithms.rollouts.rollout import Rollout, Rows
from plangym_ext.learn.returns import branch_returns, forked_advantages
from plangym_ext.learn.sampling.forking import Forks
from plangym_ext.learn.torch_extra import torch


def forked_rows(
    rollout: Rollout, forks: Forks, discount: float, scaled: Callable[[Any], Any]
) -> Rows:
    """Return a row for each branch: what it began with, and what that was worth.

    The advantage of a first action is its return less the mean of the others of its state; the
    target of the value of the state is the mean of all. See `forked_advantages`.

    Args:
        rollout: the fragment that states were visited in, with values.
        forks: N states with k branches each.
        discount: of returns.
        scaled: rewards, a tensor, in units that values are learned in.

    Returns:
        `[1, N k]` single steps, all of which count.
    """
    device, count = rollout.value.device, forks.num_branches
    # `[H, N k]`, `[N k]` and `[N k]`.
    reward, length, rest = (torch.from_numpy(part).to(device) for part in forks.branches)
    # `[N, k]`: the branches of a state lie side by side.
    returned = branch_returns(scaled(reward), length, rest, gamma=discount).view(-1, count)
    # `[N, k]`: all branches of a state teach its value the same.
    target = returned.mean(dim=1, keepdim=True).expand(-1, count)
    step, row = (torch.from_numpy(part).to(device) for part in (forks.step, forks.row))

    def shown(leaf: Any) -> Any:
        """Return `[1, N k, ...]`, the same in all branches of a state."""
        return leaf[step, row].repeat_interleave(count, dim=0).unsqueeze(0)

    def begun(array: Any) -> Any:
        return torch.from_numpy(array).to(device).unsqueeze(0)

    inputs = Inputs(*(None if part is None else mapped(shown, part) for part in rollout.inputs))
    return Rows(
        inputs=inputs,
        action=mapped(begun, forks.action),
        log_prob=begun(forks.log_prob),
        value=shown(rollout.value),
        advantage=forked_advantages(returned).reshape(1, -1),
        target=target.reshape(1, -1),
        valid=None,
        carry=None,
    )
