"""Returns of several branches from one state, and the advantage of each first action."""

from __future__ import annotations

from typing import Any

from plangym_ext.core.numbers import finite_between
from plangym_ext.errors import InvalidSamples
from plangym_ext.learn.returns.checked import checked_array
from plangym_ext.learn.returns.rows import converter, namespace_of


def branch_returns(reward: Any, length: Any, rest: Any, *, gamma: float) -> Any:
    """Return the returns of branches: G = sum_h γ^h r_h + γ^L rest.

    Args:
        reward: `[H, ...]`, array or tensor; 0 once a branch has ended.
        length: `[...]` int, L: steps that were taken.
        rest: `[...]`, worth of where the branch was cut; 0 where it terminated.
        gamma: discount.

    Returns:
        `[...]`, fresh.

    Source: Schulman et al. 2015, "Trust region policy optimization", equation 16, for the sum;
    the critic's part is that of an n-step return.
    """
    library, where = converter(reward, length, rest), "branch_returns"
    gamma = finite_between(f"{where}: gamma", gamma, 0.0, 1.0)
    reward = checked_array(where, library, "reward", reward)
    length = checked_array(where, library, "length", length)
    rest = checked_array(where, library, "rest", rest)
    if not reward.ndim or not (reward.shape[1:] == length.shape == rest.shape):
        raise InvalidSamples(
            f"{where}: reward must be [H, ...], length and rest [...] of each branch; got "
            f"{tuple(reward.shape)}, {tuple(length.shape)} and {tuple(rest.shape)}."
        )
    # What follows is worth its value after L steps, also where a branch was shorter than H.
    total = gamma**length * rest
    for h in range(len(reward)):
        total = total + gamma**h * reward[h]
    return total


def forked_advantages(returned: Any) -> Any:
    """Return advantages of first actions: A_i = G_i - mean of the other G_j.

    Unbiased of the advantage of action i if the k first actions were drawn from the policy
    apart from each other, and G_i is unbiased of what action i is worth; whether what follows was
    drawn alike in all branches (common random numbers) or not changes the variance alone: the
    baseline depends on the other actions, and on nothing that action i was drawn with.

    Args:
        returned: `[..., k]` returns of k >= 2 branches from each state, array or tensor.

    Returns:
        `[..., k]`, fresh.

    Source: Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free!", section 3, for
    the baseline; Schulman et al. 2015, section 5.2, for branches from one state and common random
    numbers ("vine").
    """
    where = "forked_advantages"
    returned = checked_array(where, converter(returned), "returned", returned)
    count = returned.shape[-1] if returned.ndim else 0
    if count < 2:
        raise InvalidSamples(
            f"{where}: returned must be [..., k] of k >= 2 branches; got {tuple(returned.shape)}. "
            "One branch has no other to be compared with."
        )
    xp = namespace_of(returned)
    mean = xp.sum(returned, -1) / count
    # The mean with G_i itself, scaled: G_i - mean of the others is that times k / (k - 1).
    return (returned - mean[..., None]) * (count / (count - 1))
