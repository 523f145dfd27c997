"""Returns and advantages: pure functions over `[T, B]` numpy arrays and torch tensors."""

from plangym_ext.learn.returns.advantages import (
    branch_returns,
    deltas,
    forked_advantages,
    gae,
    normalized,
    td_lambda,
    vtrace,
)
from plangym_ext.learn.returns.discounted import (
    NStep,
    multistep,
    n_step_rewards,
    past_returns,
    returns,
)

__all__ = [
    "NStep",
    "branch_returns",
    "deltas",
    "forked_advantages",
    "gae",
    "multistep",
    "n_step_rewards",
    "normalized",
    "past_returns",
    "returns",
    "td_lambda",
    "vtrace",
]
