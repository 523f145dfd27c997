"""Losses of Q values: errors, categorical projection, quantiles, value rescaling."""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.torch_extra import functional, torch


def chosen(q: Any, index: Any) -> Any:
    """Return the entries of `q` `[N, A, ...]` of the actions `[N]` int64: `[N, ...]`."""
    if q.ndim == 2:
        return q.gather(1, index[:, None])[:, 0]
    return q[torch.arange(len(index), device=q.device), index]


def weighted_mean(rows: Any, weight: Any = None) -> Any:
    """Return the mean of rows `[N]`, each times its weight `[N]`, a scalar."""
    return rows.mean() if weight is None else (rows * weight).mean()


def error_loss(value: Any, target: Any, kind: str = "huber", weight: Any = None) -> Any:
    """Return the mean loss of values, a scalar.

    Args:
        value: `[N]`.
        target: `[N]`, without gradient.
        kind: "squared", half the squared error; or "huber", which is the same up to an error
            of 1 and grows with slope 1 from there.
        weight: `[N]` importance weights; None: all are 1.

    Source: Huber 1964, "Robust estimation of a location parameter".
    """
    how = "mean" if weight is None else "none"
    if kind == "huber":
        rows = functional.smooth_l1_loss(value, target, reduction=how)
    else:
        rows = 0.5 * functional.mse_loss(value, target, reduction=how)
    return rows if weight is None else weighted_mean(rows, weight)


def moved_atoms(following: Any, reward: Any, discount: Any, support: Any) -> Any:
    """Return `[N, K]`, the distributions of reward + discount * Z, on the atoms themselves.

    What falls between two atoms is shared by them in proportion to how near it is, and what
    falls beyond the last ones is theirs.

    Args:
        following: `[N, K]` probabilities of the atoms, of what follows: Z.
        reward: `[N]`.
        discount: `[N]`.
        support: `[K]` returns that the atoms stand for, evenly spaced.

    Source: Bellemare et al. 2017, "A distributional perspective on reinforcement learning",
    equation 7.
    """
    last = len(support) - 1
    # An infinite one would go to the last atom; as none it is seen in the loss.
    reward = reward + 0 * reward
    moved = reward[:, None] + discount[:, None] * support
    # Before the shares: what falls beyond would be shared by no atom, and probability be lost.
    place = ((moved - support[0]) * (last / (support[-1] - support[0]))).clamp(0, last)
    # On a GPU additions to one number come in any order, and their rounding with them.
    return (shares_of_all if place.device.type == "cuda" else added_up)(following, place)


def added_up(following: Any, place: Any) -> Any:
    """Project probabilities `[N, K]` at positions between atoms onto the atoms, `[N, K]`.

    They are added up atom by atom; rows are apart, and each is summed in the order of its atoms.

    Args:
        following: probabilities.
        place: of each, from 0 to K - 1; atom i is at i.
    """
    lower = place.floor()
    upper_share = following * (place - lower)
    # A reward that is none gives no index, and a row of nothing that the loss is refused for.
    index = lower.nan_to_num(0).long()
    found = torch.zeros_like(following)
    found.scatter_add_(1, index, following - upper_share)
    # An atom on the last place has no share to hand on, but an index for it all the same.
    return found.scatter_add_(1, (index + 1).clamp(max=place.shape[1] - 1), upper_share)


def shares_of_all(following: Any, place: Any) -> Any:
    """Compute `added_up` by one dense sum per atom.

    It takes K times the work.
    """
    atoms = torch.arange(place.shape[1], device=place.device, dtype=place.dtype)
    # `[N, K, K]`: how much of each place an atom has, which falls to 0 over the distance of one.
    share = (1 - (place[:, None, :] - atoms[:, None]).abs()).clamp(min=0)
    return (share * following[:, None, :]).sum(dim=2)


def cross_entropy(logits: Any, target: Any) -> Any:
    """Return `[N]`, the cross-entropy of distributions `[N, K]` and the logits `[N, K]`."""
    return -(target * logits.log_softmax(dim=1)).sum(dim=1)


def divergence(rows: Any, target: Any) -> Any:
    """Return `[N]`, the cross-entropy minus the entropy of the targets `[N, K]`: >= 0."""
    # `xlogy`, as 0 log 0 is to be 0.
    entropy = -torch.special.xlogy(target, target).sum(dim=1)
    # Rounding may leave a row that is learned a little below its entropy.
    return (rows - entropy).clamp(min=0)


def quantile_rows(value: Any, target: Any, kappa: float = 1.0) -> Any:
    """Return `[N]`, the losses of quantiles.

    Of each pair of a quantile and a target it is the Huber loss of the error, times the share
    that the quantile is to have on that side; summed over quantiles, and their mean over
    targets.

    Args:
        value: `[N, K]`; number i is the quantile of (i + 1/2) / K.
        target: `[N, L]`, without gradient.
        kappa: error up to which the loss is squared.

    Source: Dabney et al. 2018, "Distributional reinforcement learning with quantile
    regression", equation 10.
    """
    count = value.shape[1]
    # The midpoints of K equal parts of [0, 1], which minimise the Wasserstein distance (lemma 2
    # there).
    shares = (torch.arange(count, device=value.device, dtype=value.dtype) + 0.5) / count
    error = target[:, None, :] - value[:, :, None]
    size = error.detach().sign().clamp(max=0).abs()  # 1 where the quantile is too large
    losses = functional.huber_loss(
        value[:, :, None].expand_as(error),
        target[:, None, :].expand_as(error),
        reduction="none",
        delta=kappa,
    )
    return ((shares[:, None] - size).abs() * losses / kappa).sum(dim=1).mean(dim=1)


def rescaled(value: Any, epsilon: float = 1e-3) -> Any:
    """Return `sign(x)(sqrt(|x| + 1) - 1) + epsilon x`, which makes large returns small.

    Source: Pohlen et al. 2018, "Observe and look further: achieving consistent performance on
    Atari", section 3.2.
    """
    size = value.abs()
    # sqrt(x + 1) - 1 without its difference, in which a small x loses its digits.
    return value.sign() * (size / ((size + 1).sqrt() + 1)) + epsilon * value


def unscaled(value: Any, epsilon: float = 1e-3) -> Any:
    """Return the inverse of `rescaled`; proposition A.2 of its source."""
    size = value.abs()
    root = (1 + 4 * epsilon * (size + 1 + epsilon)).sqrt()
    # ((root - 1) / (2 epsilon))^2 - 1 without its differences, in which a small x loses its digits.
    above = 2 * size / (root + 1 + 2 * epsilon)
    return value.sign() * above * (above + 2)


def sequence_errors(errors: Any, learned: Any, eta: float) -> Any:
    """Return `[N]` priorities of sequences: eta times their largest error, 1 - eta the mean.

    Args:
        errors: `[T, N]`, absolute.
        learned: `[T, N]` bool, those that count; a sequence without any has 0.
        eta: 0 to 1.

    Source: Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement
    learning", section 2.3.
    """
    # Rows of the burn-in have errors, too, and are not learned from.
    counted = torch.where(learned, errors, 0.0)
    mean = counted.sum(dim=0) / learned.sum(dim=0).clamp(min=1)
    return eta * counted.amax(dim=0) + (1 - eta) * mean


# Losses of critics, soft policies and the temperature --------------------------
# Some return a loss and its gradient by the outputs of networks; engines bring it to the weights.
# E critics see N rows. Targets and weights have no gradient. Rows whose `discount` is 0 ended by
# termination and bootstrap from nothing; truncated ones have the discount of any other.


def bootstrapped(reward: Any, discount: Any, next_value: Any) -> Any:
    """Return the targets `[N]`: reward + discount * next_value.

    Args:
        reward: `[N]`, the discounted sum of up to n rewards.
        discount: `[N]`, gamma to the power of their number; 0 where `terminated`.
        next_value: `[N]`, of what follows; not looked at where the discount is 0.
    """
    # Not 0 * value: what follows a termination may be anything, infinite too.
    return torch.where(discount == 0, reward, reward + discount * next_value)


def critic_loss(q: Any, target: Any, weights: Any = None) -> tuple[Any, Any]:
    """Return half the mean squared error of each critic, summed over them, and its gradient by q.

    Args:
        q: `[E, N]`, of the actions that were played.
        target: `[N]`.
        weights: `[N]` of the rows, from prioritised draws; None: all 1.
    """
    error, count = q - target, q.shape[1]
    weighted = error if weights is None else error * weights
    loss = torch.dot(error.flatten(), weighted.flatten()) * (0.5 / count)
    return loss, weighted / count


def soft_value(q: Any, log_prob: Any, temperature: Any) -> Any:
    """Return the entropy-regularised values of rows, `[N]`.

    Minus the mean of it is the loss of the policy, whose gradient comes by q and log_prob.

    Args:
        q: `[E, N]`, of actions that the policy drew; the lowest counts.
        log_prob: `[N]`, of these actions.
        temperature: of the entropy.

    Source: Haarnoja et al. 2018, "Soft actor-critic algorithms and applications", equation 3.
    """
    # The lowest of the critics: the policy seeks out errors upwards, which the highest or the mean
    # would reward.
    return q.amin(dim=0) - temperature * log_prob


def lowest_gradient(q: Any) -> Any:
    """Return `[E, N]`, the gradient of minus the mean of the lowest of critics."""
    lowest = (q == q.amin(dim=0)).to(q.dtype)
    # Of critics that agree each counts for its share.
    return lowest / (-q.shape[1] * lowest.sum(dim=0))


def temperature_loss(log_temperature: Any, entropy: Any, target_entropy: Any) -> tuple[Any, Any]:
    """Return a loss and its gradient, which lowers the temperature where the entropy is too high.

    Args:
        log_temperature: scalar.
        entropy: of the policy, a mean over rows; it is a constant in this loss.
        target_entropy: what it is to be.

    Source: Haarnoja et al. 2018, equation 18, with the logarithm in place of the temperature, as
    in the authors' code.
    """
    above = entropy - target_entropy
    return log_temperature * above, above


def discrete_soft_value(q: Any, log_probs: Any, temperature: Any) -> Any:
    """Return `[N]` as `soft_value`, as the exact mean over all discrete actions.

    Args:
        q: `[E, N, A]`; the lowest counts.
        log_probs: `[N, A]`, of the policy.
        temperature: of the entropy.

    Source: Christodoulou 2019, "Soft actor-critic for discrete action settings", equation 10.
    """
    return (log_probs.exp() * (q.amin(dim=0) - temperature * log_probs)).sum(dim=1)


def deterministic_policy_loss(q: Any) -> Any:
    """Return minus the mean of one critic's values `[N]`; its gradient reaches the policy.

    Source: Silver et al. 2014, "Deterministic policy gradient algorithms"; Lillicrap et al.
    2016, "Continuous control with deep reinforcement learning".
    """
    return -q.mean()


def smoothed(numbers: Any, normal: Any, deviation: float, clip: float) -> Any:
    """Return actions `[N, D]` with clipped noise, in units in which the bounds are -1 and 1.

    Args:
        numbers: `[N, D]`, the actions in these units.
        normal: `[N, D]`, of mean 0 and deviation 1.
        deviation: of the noise.
        clip: most noise.

    Source: Fujimoto et al. 2018, "Addressing function approximation error in actor-critic
    methods", equation 14.
    """
    # The noise is clipped first, then the action: both in units of the bounds, so one deviation
    # suits all actions.
    return (numbers + (deviation * normal).clamp(-clip, clip)).clamp(-1.0, 1.0)
