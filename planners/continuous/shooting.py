"""Shooting by a distribution of sequences: random, CEM, iCEM, MPPI, DIAL, predictive sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from plangym_ext.core.options import Range, Share, Weight
from plangym_ext.planners.continuous.base import Population, Round, Row, Shooting, evenly
from plangym_ext.planners.continuous.spline import Floats
from plangym_ext.planners.rating import spread_of


@dataclass(eq=False, kw_only=True)
class CEM(Shooting):
    """Cross-entropy method: repeatedly fits a normal distribution to the best sequences.

    For continuous actions, if iCEM's noise does not suit the task.

    The mean of the last distribution is played; the last of the simulations tries it. A
    plan that time cuts short plays the best sequence instead. Bounded by seconds alone, the
    rounds begin again with the full width around the mean, as often as there is time, and
    the best of the means that they ended with is played. Each plan begins with the full
    width; with `warm_start` it begins around the last plan, shifted.

    Args:
        iterations: rounds among which the simulations are divided, two sequences in each at
            least.
        init_std: standard deviation of the first round, in units in which the action
            space is [-1, 1].
        elite_fraction: share of a round's sequences that the next is fitted to; two
            at least.
        momentum: share of the old distribution in the new one, in [0, 1]; with 1 it
            stays as it is.

    Source: Rubinstein 1999; for control Kobilarov 2012, "Cross-entropy motion
    planning"; constants as in Pinneri et al. 2020, table S1.
    """

    iterations: int = 4
    init_std: Weight = 0.5
    elite_fraction: Share = 0.1
    momentum: Share = 0.1

    plays_tried: ClassVar[bool] = False

    def _begin(self, row: Row) -> None:
        row.std = np.full(row.mean.shape, self.init_std)

    def _counts(self, total: int) -> list[int]:
        """Leave two sequences to every round: one has no spread to fit to."""
        return evenly(total, max(1, min(self.iterations, total // 2)))

    def _propose(self, row: Row, turn: Round) -> Floats:
        """Draw from the distribution."""
        # A width for each number, no covariances: to fit those takes more elites than numbers.
        knots = row.mean + row.std * row.rng.standard_normal((turn.count, *row.mean.shape))
        if turn.first and self.policy is not None:
            knots[0] = row.mean
        return knots

    def _learn(self, row: Row, tried: Population) -> None:
        """Fit the distribution to the elites."""
        count = max(2, round(self.elite_fraction * len(tried.returns)))
        if differ(tried):
            fit(row, top(tried, count), self.momentum)


def differ(tried: Population) -> bool:
    """Return whether the returns of the sequences differ.

    Where they do not, such as before anything is earned, elites are chosen by chance: fitted to
    them, the distribution would narrow around nothing, and find nothing else.
    """
    return bool(tried.returns.min() < tried.returns.max())


def top(tried: Population, count: int) -> Population:
    """Return the `count` best sequences, best first; equals in the order they were tried."""
    # Stable, or which of equal returns are elites would differ between versions of numpy.
    order = np.argsort(-tried.returns, kind="stable")[:count]
    return Population(tried.knots[order], tried.returns[order])


def fit(row: Row, elites: Population, momentum: float) -> None:
    """Move the distribution of a row to its elites, less `momentum`; its width to two or more."""
    row.mean = momentum * row.mean + (1.0 - momentum) * elites.knots.mean(axis=0)
    # One elite has no width: a distribution of width 0 would propose nothing else any more.
    if len(elites.returns) > 1:
        row.std = momentum * row.std + (1.0 - momentum) * elites.knots.std(axis=0)


@dataclass(eq=False, kw_only=True)
class RandomShooting(Shooting):
    """Samples action sequences uniformly and plays the best.

    The baseline for continuous actions.

    With `warm_start` the last plan, shifted, is one of the sequences.

    Source: Rao 2009, "A survey of numerical methods for optimal control"; as a
    baseline for learned models Nagabandi et al. 2018, section IV.B.
    """

    def _propose(self, row: Row, turn: Round) -> Floats:
        """Draw uniformly; the warm start is the very first."""
        knots = row.rng.uniform(-1.0, 1.0, (turn.count, *row.mean.shape))
        if row.warm and turn.first:
            knots[0] = row.mean
        return np.asarray(knots)


@dataclass(eq=False, kw_only=True)
class ICEM(Shooting):
    """Cross-entropy method with coloured noise, kept elites and shrinking rounds.

    The first choice for continuous actions.

    Elites of a round stay candidates in the next one at no cost, since the model is
    deterministic; those of the last plan are shifted and tried again. The mean is
    among the last round's sequences, and the best sequence of the plan is played. The
    next plan begins around the mean, shifted.

    Args:
        iterations: rounds among which the simulations are divided.
        noise_beta: exponent of the noise's power spectrum 1 / f**beta: 0 is white,
            1 pink, 2 red; larger is smoother. The authors take 0.25 for HalfCheetah,
            2 for a humanoid that stands up, 3 and more for arms and hands.
        init_std: standard deviation of the first round, in units in which the action
            space is [-1, 1].
        num_elites: sequences that the next round is fitted to; two at least.
        keep_fraction: share of the elites that stay candidates.
        decay: each round has this times fewer sequences than the one before, but at
            least twice `num_elites`.
        momentum: share of the old distribution in the new one, in [0, 1]; with 1 it
            stays as it is.

    Source: Pinneri et al. 2020, "Sample-efficient cross-entropy method for real-time
    planning", algorithm 1; constants as in the authors' repository, martius-lab/iCEM,
    for HalfCheetah.
    """

    iterations: int = 3
    noise_beta: Weight = 0.25
    init_std: Weight = 0.5
    num_elites: Annotated[int, Range(2)] = 10
    keep_fraction: Share = 0.3
    decay: Annotated[float, Range(1.0)] = 1.25
    momentum: Share = 0.1

    def _counts(self, total: int) -> list[int]:
        """Shrink the rounds from one to the next."""
        rounds = max(1, min(self.iterations, total // (2 * self.num_elites)))
        shares, least = self.decay ** -np.arange(rounds), min(total // rounds, 2 * self.num_elites)
        shares /= shares.sum()
        counts = np.maximum((total * shares).astype(int), least)
        if counts[1:].sum() > total - counts[1:].max(initial=0):
            # The least sizes have taken so much that the first round would be smaller than others:
            # only what is above them is shared out.
            counts = least + ((total - rounds * least) * shares).astype(int)
        # What rounding left over, or what the least sizes took, is the first round's.
        counts[0] += total - counts.sum()
        return [int(count) for count in counts]

    def _begin(self, row: Row) -> None:
        row.std = np.full(row.mean.shape, self.init_std)

    def _propose(self, row: Row, turn: Round) -> Floats:
        """Draw coloured noise around the mean; put in the last plan's elites, and the mean."""
        noise = coloured_noise(row.rng, (turn.count, *row.mean.shape), self.noise_beta)
        knots = row.mean + row.std * noise
        if turn.first and len(row.elites.returns):
            old = row.elites.knots[: min(self._kept_elites, turn.count)]
            # What comes after the end of the last plan is not known: it stays as drawn.
            knots[: len(old), :-1] = old[:, :-1]
            row.elites = Population(knots[:0], np.zeros(0))
        if turn.last or (turn.first and self.policy is not None):
            knots[-1] = row.mean
        return knots

    def _learn(self, row: Row, tried: Population) -> None:
        """Fit to the elites of this round and of those before."""
        if len(row.elites.returns):
            kept = top(row.elites, self._kept_elites)
            knots = np.concatenate([tried.knots, kept.knots])
            tried = Population(knots, np.concatenate([tried.returns, kept.returns]))
        row.elites = top(tried, self.num_elites)
        if differ(tried):
            fit(row, row.elites, self.momentum)

    @property
    def _kept_elites(self) -> int:
        return round(self.keep_fraction * self.num_elites)


def coloured_noise(rng: np.random.Generator, shape: tuple[int, int, int], beta: float) -> Floats:
    """Return `[n, K, D]` float64 normal numbers of variance 1, with power 1 / f**beta along K.

    The frequency 0 has the power of the lowest frequency above it.

    Source: Timmer & König 1995, "On generating power law noise".
    """
    count, length, size = shape
    if length == 1:
        return rng.standard_normal(shape)
    frequency = np.fft.rfftfreq(length)
    frequency[0] = frequency[1]
    amplitude = frequency ** (-beta / 2)
    parts = rng.standard_normal((2, count, size, len(amplitude)))
    spectrum = amplitude * (parts[0] + 1j * parts[1])
    # The mean, and the highest frequency of an even length, have no phase; their
    # real part carries the power of both.
    power = amplitude**2 * 2.0
    real = [0, -1] if length % 2 == 0 else [0]
    spectrum[..., real] = spectrum[..., real].real * math.sqrt(2.0)
    power[real] /= 2.0
    series = np.fft.irfft(spectrum, n=length, axis=2)
    # Parseval: each frequency above is there twice, once as its conjugate.
    scale = length / math.sqrt(2.0 * power.sum())
    return np.ascontiguousarray((series * scale).swapaxes(1, 2))


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

    For continuous actions and noisy returns, which it averages.

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

    For continuous actions in contact, such as legs.

    Round i of N, from 0, draws knot k of K, from 0, with the standard deviation
    noise_std * exp(-i / (beta_rounds N) - (K - 1 - k) / (beta_horizon K)): the first rounds
    look for a good region and the last ones refine it, and what is to be played soon, and was
    planned before, changes least. Rounds, weights and what is played are those of `MPPI`.

    Args:
        iterations: N, rounds among which the simulations are divided.
        num_knots: K, points of the spline that a sequence follows; None: one per step.
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

    For smooth control with few simulations.

    The nominal sequence is always among those tried. With a knot per step it is the last
    plan's, shifted, so that in an env that goes as planned no plan is worse than the rest
    of the last one. With fewer knots it is what they can follow of it (least squares),
    which may be worse.

    Source: Howell et al. 2022, "Predictive Sampling: real-time behaviour synthesis
    with MuJoCo", algorithm 1.
    """

    noise_std: Weight = 0.4
