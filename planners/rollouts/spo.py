"""SPO: sequential Monte Carlo search with a policy and resampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.rollouts.particle_search import ParticleSearch
from plangym_ext.planners.rollouts.particles import Particles


@dataclass(eq=False, kw_only=True)
class SPO(ParticleSearch):
    """SPO's search: sequential Monte Carlo over trajectories of a policy.

    Particles start in the state and take actions of the evaluator's policy. The share of the
    weight that began with an action is the policy; the action with most of it is played. A
    simulation is a particle; `num_simulations` of them walk `depth` steps.

    Source: Macfarlane et al. 2024, "SPO: Sequential Monte Carlo policy optimisation", section 4.1;
    the temperature solves its constraint for the particles at hand, where SPO learns one.
    """

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Walk the particles of B states in lockstep."""
        policy, value = self._rated_roots(request)
        counts = np.full(request.batch, self._count())
        walkers = Particles(request, np.arange(request.batch), counts, policy, value)
        # Ties are broken in a random order.
        orders = [rng.permutation(policy.shape[1]) for rng in request.rngs]
        self._walk(request, walkers)
        seconds = request.clock.seconds / request.batch
        return [self._plan(request, walkers, b, order, seconds) for b, order in enumerate(orders)]

    def _plan(
        self,
        request: PlanRequest,
        walkers: Particles,
        b: int,
        order: np.ndarray[tuple[int], np.dtype[np.int64]],
        seconds: float,
    ) -> Plan:
        """Read off state b: where most weight began, and the mean return from there."""
        num_actions, origin = request.discrete_actions()
        weights, returns = walkers.weights(b, self.divergence), walkers.returns(b)
        # None is -1: a root allows an action, so that every particle has taken its first step.
        first = walkers.first[walkers.members(b)]
        share = np.bincount(first, weights, num_actions)
        sums = np.bincount(first, weights * returns, num_actions)
        return Plan(
            action=origin + int(order[np.argmax(share[order])]),
            value=float(weights @ returns),
            budget=Budget(
                model_steps=int(walkers.steps[b]),
                evaluator_rows=int(walkers.asked[b]) + self._root_rows(),
                restores=int(walkers.steps[b]),
                seconds=seconds,
            ),
            visits=walkers.tried[b].copy(),
            # The least divisor is only for actions without weight, of which `where` takes NaN.
            q=np.where(share > 0, sums / np.maximum(share, 1e-300), np.nan),
            weights=share / share.sum(),
            chosen_by_visits=False,
        )
