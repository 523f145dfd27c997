"""MPPI and DIAL, return-weighted means of noisy sequences; predictive sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from plangym_ext.core.options import Range, Weight
from plangym_ext.planners.continuous.base import Population, Round, Row, Shooting
from plangym_ext.planners.continuous.spline import Floats
from plangym_ext.planners.rating import spread_of


@dataclass(eq=False, kw_only=True)
class NoisySampling(Shooting):
    """Abstract base: draws sequences with normal noise around the mean.

    Args:
        noise_std: standard deviation of the noise, in units in which the action
            space is [-1, 1].
    """

    noise_std: Weight

    def _propose(self, row: Row, turn: Round) -> Floats:
        """Draw noise around the mean, which is a candidate itself."""
        knots = row.mean + row.rng.normal(0.0, self.noise_std, (turn.count, *row.mean.shape))
        # Without noise, so that a mean that is good already is among what is weighed.
        knots[0] = row.mean
        return knots


@dataclass(eq=False, kw_only=True)
class MPPI(NoisySampling):
    """Model predictive path integral control: a weighted mean of noisy sequences.

    mean <- sum_i w_i u_i with w_i proportional to exp((R_i - max R) / (T s)); the mean
    is played, and the last of the simulations tries it. A plan that time cuts short before
    that plays the best sequence instead. Departures from the source: the cost of control is
    left to the env's reward, and with `scale_returns` s is the standard deviation of the
    round's returns, so that one temperature fits any env; without, s = 1.

    Args:
        temperature: T; small follows the best sequence, large the mean.
        scale_returns: measure returns by their spread in the round.

    Source: Williams et al. 2017, "Information theoretic MPC for model-based
    reinforcement learning", algorithm 2.
    """

    noise_std: Weight = 0.5
    temperature: Annotated[float, Range(1e-12)] = 0.2
    scale_returns: bool = True

    plays_tried: ClassVar[bool] = False

    def _learn(self, row: Row, tried: Population) -> None:
        """Average what was tried."""
        row.mean = weighted_mean(tried, self.temperature, scaled=self.scale_returns)


def weighted_mean(tried: Population, temperature: float, *, scaled: bool) -> Floats:
    """Return `[K, D]`, fresh: sequences averaged by exp(return / (temperature * spread)).

    Args:
        tried: the sequences.
        temperature: small follows the best of them.
        scaled: whether the spread is that of the returns; if not it is 1.
    """
    spread = spread_of(tried.returns) if scaled else 1.0
    # Less the best, which cancels out in the shares: exp cannot overflow, and one weight is 1,
    # so that their sum is never 0.
    gap = tried.returns - tried.returns.max()
    # With equal returns all weigh the same, whatever the temperature.
    weights = np.exp(gap / (temperature * spread)) if spread > 0 else np.ones(len(gap))
    weights /= weights.sum()
    mean: Floats = (weights[:, None, None] * tried.knots).sum(axis=0)
    return mean


@dataclass(eq=False, kw_only=True)
class DIAL(MPPI):
    """Diffusion-inspired annealing: a weighted mean of sequences with decreasing noise.

    Round i of N, from 0, draws knot k of K, from 0, with the standard deviation
    noise_std * exp(-i / (beta_rounds N) - (K - 1 - k) / (beta_horizon K)): the first rounds
    look for a good region and the last ones refine it, and what is to be played soon, and was
    planned before, changes least. Rounds, weights and what is played are those of `MPPI`.

    Args:
        iterations: N, rounds among which the simulations are divided.
        num_knots: K, points of the spline that a sequence follows; None: one per step.
        spline: how knots are joined: "zero" (held), "linear" or "cubic".
        noise_std: the largest standard deviation, in units in which the action space is
            [-1, 1].
        beta_rounds: how slowly noise shrinks from round to round.
        beta_horizon: how slowly it shrinks from the horizon to the next action.

    Source: Xue et al. 2024, "Full-order sampling-based MPC for torque-level locomotion control
    via diffusion-style annealing" (DIAL-MPC), section IV.
    """

    iterations: int = 4
    noise_std: Weight = 0.8
    beta_rounds: Annotated[float, Range(1e-12)] = 1.0
    beta_horizon: Annotated[float, Range(1e-12)] = 2.0

    def _begin(self, row: Row) -> None:
        """Open the noise again; the mean stays at the warm start, or at the middle of the space."""
        count = len(row.mean)
        # `[K, 1]`, largest at the first knot and 0 at the horizon, where noise is widest.
        early = np.arange(count - 1, -1, -1)[:, None] / (self.beta_horizon * count)
        row.std = np.broadcast_to(self.noise_std * np.exp(-early), row.mean.shape)

    def _propose(self, row: Row, turn: Round) -> Floats:
        """Draw noise around the mean, which is a candidate itself."""
        knots = row.mean + row.std * row.rng.standard_normal((turn.count, *row.mean.shape))
        knots[0] = row.mean
        return knots

    def _learn(self, row: Row, tried: Population) -> None:
        """Average what was tried, and let the noise shrink."""
        row.mean = weighted_mean(tried, self.temperature, scaled=self.scale_returns)
        # Not in place: `_begin` leaves a view of one column, which cannot be written to.
        row.std = row.std * math.exp(-1.0 / (self.beta_rounds * self.iterations))


@dataclass(eq=False, kw_only=True)
class PredictiveSampling(NoisySampling):
    """Samples noisy copies of the last plan and plays the best of all.

    The nominal sequence is always among those tried. With a knot per step it is the last
    plan's, shifted, so that in an env that goes as planned no plan is worse than the rest
    of the last one. With fewer knots it is what they can follow of it (least squares),
    which may be worse.

    Source: Howell et al. 2022, "Predictive Sampling: real-time behaviour synthesis
    with MuJoCo", algorithm 1.
    """

    noise_std: Weight = 0.4
