"""iCEM: cross-entropy method with coloured noise and kept elites."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from plangym_ext.planners.continuous.base import Population, Round, Row, Shooting
from plangym_ext.planners.continuous.cem import differ, fit, top
from plangym_ext.planners.continuous.spline import Floats


@dataclass(eq=False, kw_only=True)
class ICEM(Shooting):
    """Cross-entropy method with coloured noise, kept elites and shrinking rounds.

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
    noise_beta: float = 0.25
    init_std: float = 0.5
    num_elites: int = 10
    keep_fraction: float = 0.3
    decay: float = 1.25
    momentum: float = 0.1

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        for name, low, high in (
            ("noise_beta", 0.0, math.inf),
            ("init_std", 0.0, math.inf),
            ("keep_fraction", 0.0, 1.0),
            ("decay", 1.0, math.inf),
            ("momentum", 0.0, 1.0),
        ):
            setattr(self, name, self._number(name, low, high))
        self.num_elites = self._integer("num_elites", 2)

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

    def _answer(self, row: Row) -> Floats:
        """Return the best sequence that was tried, `[K, D]`."""
        return row.best

    def _begin(self, row: Row) -> None:
        """Open the distribution again."""
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
