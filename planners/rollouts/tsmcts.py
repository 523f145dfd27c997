"""TSMCTS: particle rollouts with sequential halving of root actions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.options import Count
from plangym_ext.planners.masks import weights_over_legal
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.rollouts.particle_search import Floats, Particles, ParticleSearch, tilted
from plangym_ext.planners.simulator import Rng


@dataclass(eq=False, kw_only=True)
class TSMCTS(ParticleSearch):
    """Twice sequential Monte Carlo tree search: particles, with sequential halving at the root.

    For a good policy and few actions to compare.

    Actions to consider are drawn without replacement from the evaluator's policy. Particles walk
    from each of them, in groups of their own, so that drawing anew never loses an action. Then the
    half of lower value is dropped, and the others have as many particles again in all; what an
    action is worth is the mean over all that walked from it. The best of the last two is
    played. `weights` are the policy, tilted by the values.

    A simulation is a particle; `num_simulations` of them walk `depth` steps, the first of which
    is the action considered.

    Args:
        num_considered: actions to begin with.

    Source: Oren et al. 2025, "Twice sequential Monte Carlo for tree search". Departures: rounds
    are of equal depth, and a group's value is that of its particles in the end, weighted as in
    `SPO`, not a mean over the steps of the walk; the temperature is found as there.
    """

    num_considered: Count = 16

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Halve the actions of B states in lockstep."""
        policy, value = self._rated_roots(request)
        prior = weights_over_legal(policy, request.masks())
        prior /= prior.sum(axis=1, keepdims=True)
        races = [
            Race(row, rng, self.num_considered, self._count())
            for row, rng in zip(prior, request.rngs, strict=True)
        ]
        tally = _Tally(request.batch, prior.shape[1])
        while True:
            heats = [race.next_heat(tally.mean(b)) for b, race in enumerate(races)]
            # `[G]`; a race that is over has no actions left to try, and so no group in this round.
            of = np.repeat(np.arange(request.batch), [len(heat.actions) for heat in heats])
            if not of.size:
                break
            actions = np.concatenate([heat.actions for heat in heats])
            counts = np.repeat([heat.each for heat in heats], [len(h.actions) for h in heats])
            walkers = Particles(request, of, counts, policy, value)
            self._walk(request, walkers, np.repeat(actions, counts))
            tally.add(walkers, actions, self.divergence)
            if request.clock.over:
                break
        seconds = request.clock.seconds / request.batch
        return [
            self._plan(request, tally, race, b, float(value[b]), seconds)
            for b, race in enumerate(races)
        ]

    def _plan(
        self, request: PlanRequest, tally: _Tally, race: Race, b: int, value: float, seconds: float
    ) -> Plan:
        """Read off state b: the best action that is left, and the policy tilted by values."""
        _, origin = request.discrete_actions()
        q = tally.mean(b)
        possible = np.flatnonzero(race.prior > 0)
        # An untried action has the state's value, or the lowest one if that is not known.
        unknown = np.nanmin(q) if self.evaluator is None else value
        known = np.where(np.isnan(q), unknown, q)
        weights = np.zeros(len(q))
        weights[possible] = tilted(known[possible], self.divergence, race.prior[possible])
        best = race.leading(q)
        return Plan(
            action=origin + best,
            value=float(q[best]),
            budget=Budget(
                model_steps=int(tally.steps[b]),
                evaluator_rows=int(tally.asked[b]) + self._root_rows(),
                restores=int(tally.steps[b]),
                seconds=seconds,
            ),
            visits=tally.tried[b].copy(),
            q=q,
            weights=weights,
            chosen_by_visits=False,
        )


class Heat(NamedTuple):
    """Actions of one halving round of a state, and particles for each."""

    actions: npt.NDArray[np.int64]  # [m]
    each: int  # particles for each


class Race:
    """Sequential halving of the actions of one state.

    Args:
        prior: `[A]`, sums to 1; 0: not to be tried.
        rng: draws the actions to begin with.
        considered: most of them.
        particles: of all rounds.

    Source: Karnin et al. 2013, "Almost optimal exploration in multi-armed bandits"; the actions
    by the Gumbel trick, as Danihelka et al. 2022.
    """

    def __init__(self, prior: Floats, rng: Rng, considered: int, particles: int) -> None:
        self.prior = prior
        # log prior + Gumbel noise: the largest k are k draws without replacement from the prior.
        noise = rng.gumbel(size=len(prior))
        marks = np.where(prior > 0, np.log(np.maximum(prior, 1e-300)) + noise, -np.inf)
        # With fewer particles than actions, some would be judged without ever being tried.
        most = min(considered, int((prior > 0).sum()), particles)
        # In the order of their marks, which also decides between equal values.
        self.actions = np.argsort(-marks, kind="stable")[:most]
        self._schedule = schedule(most, particles)

    def next_heat(self, q: Floats) -> Heat:
        """Return the next round, given values `[A]` of those before; no actions: it is over."""
        if not self._schedule:
            return Heat(self.actions[:0], 0)
        left, each = self._schedule.pop(0)
        # Never before the first round, in which q is NaN for all.
        if left < len(self.actions):
            self.actions = self.actions[np.argsort(-q[self.actions], kind="stable")][:left]
        return Heat(self.actions, each)

    def leading(self, q: Floats) -> int:
        """Return the best of the actions that are left, given values `[A]`."""
        return int(self.actions[np.argmax(q[self.actions])])


def schedule(considered: int, particles: int) -> list[tuple[int, int]]:
    """Return the halving rounds: numbers of actions, and particles for each.

    Every round has an equal share of the particles, but one for each action at least; what is
    left over is the last one's.

    Args:
        considered: actions to begin with, at least 1.
        particles: of all rounds, at least as many.
    """
    rounds, left, over = [], considered, particles
    share = particles // max(1, math.ceil(math.log2(considered)))
    while left > 2 and over >= left:
        each = min(max(1, share // left), over // left)
        rounds.append((left, each))
        over -= left * each
        left = max(2, (left + 1) // 2)
    # Of the last two, or one, each has as many: a remainder of less than one each is not spent.
    if over >= left:
        rounds.append((left, over // left))
    return rounds


class _Tally:
    """Particle results of B states, by action."""

    def __init__(self, batch: int, num_actions: int) -> None:
        self.sums, self.counts = np.zeros((2, batch, num_actions))
        self.steps, self.asked = np.zeros((2, batch), np.int64)
        self.tried = np.zeros((batch, num_actions), np.int64)

    def add(self, walkers: Particles, actions: npt.NDArray[np.int64], divergence: float) -> None:
        """Take in a round; group g of the particles began with `actions[g]`."""
        for group, (row, action) in enumerate(zip(walkers.of.tolist(), actions, strict=True)):
            value = float(walkers.weights(group, divergence) @ walkers.returns(group))
            # Weighted by the particles, as rounds have different numbers of them.
            self.sums[row, action] += walkers.counts[group] * value
            self.counts[row, action] += walkers.counts[group]
        self.steps += walkers.steps
        self.asked += walkers.asked
        self.tried += walkers.tried

    def mean(self, b: int) -> Floats:
        """Return what the actions of state b are worth, `[A]`; NaN: not known."""
        known = self.counts[b] > 0
        return np.where(known, self.sums[b] / np.maximum(self.counts[b], 1.0), np.nan)
