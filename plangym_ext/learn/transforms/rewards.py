"""RewardNormalizer: rewards scaled by the deviation of returns, and back. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.group import ALONE, LearnerGroup
from plangym_ext.learn.transforms.moments import Moments, moments_of, no_moments

Ndarray = npt.NDArray[Any]
#: Added to the variance, so that equal returns stay finite.
_REWARD_EPSILON = 1e-8


class RewardNormalizer:
    """Divides rewards by the deviation of the running discounted return.

    The sum of an env, R_t = r_t + discount R_{t-1}, begins at 0 with every episode, and goes on
    from a fragment to the next. Its variance is that of all steps until now, those of the
    fragment that is being scaled among them. Nothing is subtracted: the signs of rewards remain.

    It is a part of the algorithm, as returns are: samplers and evaluations tell the rewards of
    the env.

    Args:
        discount: of the sum.

    Attributes:
        seen: moments of the sums.
        group: learners whose sums count as well.

    Source: Engstrom et al. 2020, "Implementation matters in deep policy gradients", A.1; the
    wrappers of gymnasium and Stable-Baselines3 scale each step by the moments until then.
    """

    def __init__(self, discount: float) -> None:
        self.discount = discount
        self.group: LearnerGroup = ALONE
        self.seen: Moments = no_moments()
        self._sums: Ndarray = np.zeros(0)

    def scaled(self, reward: Ndarray, ended: Ndarray, valid: Ndarray | None = None) -> Ndarray:
        """Update the moments with a fragment's rewards, and return the rewards scaled.

        Args:
            reward: `[T, B]` float32; row b goes on where row b of the last fragment ended.
                Another B than before begins new sums.
            ended: `[T, B]` bool, whether the episode ended with the step.
            valid: `[T, B]` bool: only these steps count; None: all.

        Returns:
            `[T, B]` float32, fresh; what is not finite stays so, and does not count.
        """
        finite = np.isfinite(reward)
        if not finite.all():
            # Learning refuses such a fragment; those after it are to be learned from.
            valid = finite if valid is None else valid & finite
        sums = np.zeros(reward.shape)
        running = self._sums if len(self._sums) == reward.shape[1] else np.zeros(reward.shape[1])
        for t in range(len(reward)):
            after = reward[t] + self.discount * running
            running = after if valid is None else np.where(valid[t], after, running)
            # Before the end is taken into account: the last step's sum counts, too.
            sums[t] = running
            running = np.where(ended[t], 0.0, running)
        self._sums = running
        # Merged before the division, so that all learners divide by the same number.
        (found,) = self.group.merged([moments_of(sums, valid)])
        self.seen = self.seen.merged(found)
        return (reward / self.deviation).astype(np.float32)

    @property
    def deviation(self) -> np.float64:
        """The present divisor of rewards."""
        return np.float64(np.sqrt(self.seen.variance + _REWARD_EPSILON))

    def state_dict(self) -> dict[str, Any]:
        """Return the moments, and the sums of episodes in progress."""
        seen = self.seen
        numbers = {
            "num_rows": seen.num_rows,
            "mean": float(seen.mean),
            "squares": float(seen.squares),
        }
        return {**numbers, "sums": self._sums.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""
        mean, squares = np.asarray(state["mean"], float), np.asarray(state["squares"], float)
        self.seen = Moments(float(state["num_rows"]), mean, squares)
        self._sums = np.array(state["sums"], np.float64)


Floats = npt.NDArray[np.float64]


def in_rewards(settings: Any, learned: Mapping[str, Any]) -> Callable[[Floats], Floats]:
    """Return a function that converts values `[n]` to the env's reward scale.

    Clipped rewards cannot be brought back.
    """
    if getattr(settings, "rescale", False):
        return _unscaled
    deviation = reward_deviation(settings, learned)
    return lambda values: values * deviation


def reward_deviation(settings: Any, learned: Mapping[str, Any]) -> float:
    """Return the divisor of rewards in a critic's training; 1 without normalisation."""
    if learned.get("rewards") is None:
        return 1.0
    rewards = RewardNormalizer(settings.discount)
    rewards.load_state_dict(learned["rewards"])
    return float(rewards.deviation)


def _unscaled(values: Floats) -> Floats:
    from plangym_ext.learn.losses.q_values import unscaled
    from plangym_ext.learn.torch_extra import torch

    found: Floats = unscaled(torch.from_numpy(values)).numpy()
    return found
