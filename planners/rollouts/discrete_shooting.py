"""Shooting planners for discrete actions: DiscreteShooting and BanditShooting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from plangym_ext.core.options import Count, OneOf, Range, Share, Weight, Whole
from plangym_ext.planners.base import DiscretePlanner
from plangym_ext.planners.masks import weights_over_legal, with_noise
from plangym_ext.planners.plans import Budget, Plan, one_hot
from plangym_ext.planners.rating import Evaluator, Policy, check_finite, check_prior
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.rollouts.final_action import most_visited, sampled
from plangym_ext.planners.rollouts.playouts import play_out, returns_of, starts_from
from plangym_ext.planners.simulator import Rng

# Rollouts per round where only time bounds them.
_ROUND = 64


@dataclass(eq=False, kw_only=True)
class DiscreteShooting(DiscretePlanner):
    """Plays rollouts and takes the first action of the best ones.

    The baseline for discrete actions: cheap, and strong where random play earns something.

    A simulation is one rollout. An action that began none has no score. The plan's policy
    is the action that is played: `visits` say what the rollouts began with, which is
    drawn and no choice.

    Args:
        rollout_depth: steps of a rollout, its first action included.
        score: an action's score is the "mean" or the "max" of the returns that
            began with it.
        rollout_policy: `obs [L, *obs] -> probabilities [L, A]` that rollouts follow;
            None: random actions.
        evaluator: `obs [L, *obs] -> (ignored, value [L])`: what would follow a rollout
            that was not terminated.

    Source: Alpacka's Shooting agent.
    """

    rollout_depth: Count = 20
    score: Annotated[str, OneOf(("mean", "max"))] = "mean"
    rollout_policy: Policy | None = None
    evaluator: Evaluator | None = None

    plays_policy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_pays(self.rollout_depth, "rollout")

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Shoot from B states at once."""
        num_actions, _ = request.discrete_actions()
        tally = _Tally(request.batch, num_actions)
        while True:
            counts = self._counts(tally)
            if not counts.any():
                break
            of = np.repeat(np.arange(request.batch), counts)
            # The first action is a rollout's own, like those after it.
            starts = starts_from(request, of, None, self.rollout_policy)
            depth, rngs = self.rollout_depth, request.rngs
            out = play_out(request.env, starts, depth, rngs, self.rollout_policy)
            returns = returns_of(out, self.discount, self.evaluator, num_actions)
            check_finite(f"{request.planner}: returns", returns)
            tally.add(of, out, returns, evaluated=self.evaluator is not None)
            if request.clock.over:
                break
        return self._plans(request, tally)

    def _counts(self, tally: _Tally) -> npt.NDArray[np.int64]:
        """Rollouts to play next from each state, `[B]`."""
        left = self.most_simulations - tally.visits.sum(axis=1)
        if self.max_model_steps is not None:
            left = np.minimum(left, (self.max_model_steps - tally.steps) // self.rollout_depth)
        # In rounds, as the clock is only looked at between them.
        return np.minimum(left, _ROUND) if self.max_seconds is not None else left

    def _plans(self, request: PlanRequest, tally: _Tally) -> list[Plan]:
        """Read the B plans off the tally."""
        _, origin = request.discrete_actions()
        scores = tally.mean if self.score == "mean" else tally.best
        seconds = request.clock.seconds / request.batch
        plans = []
        for b, rng in enumerate(request.rngs):
            # The order of the actions is random, so that ties are.
            order = rng.permutation(scores.shape[1])
            # Without a rollout an action's mean is 0 here, which may be the highest.
            known = np.where(tally.visits[b] > 0, scores[b], -np.inf)
            action = int(order[np.argmax(known[order])])
            visits = tally.visits[b].copy()
            plans.append(
                Plan(
                    action=origin + action,
                    value=float((tally.mean[b] * visits).sum() / visits.sum()),
                    budget=tally.budget(b, seconds),
                    visits=visits,
                    q=np.where(visits > 0, scores[b], np.nan),
                    weights=one_hot(action, len(visits)),
                    chosen_by_visits=False,
                )
            )
        return plans


class _Tally:
    """Returns of B rows of rollouts, by first action."""

    def __init__(self, batch: int, num_actions: int) -> None:
        shape = (batch, num_actions)
        self.visits = np.zeros(shape, np.int64)
        self.mean, self.best = np.zeros(shape), np.full(shape, -np.inf)
        self.steps, self.restores, self.rows = np.zeros((3, batch), np.int64)

    def add(self, of: npt.NDArray[np.intp], out: Any, returns: Any, *, evaluated: bool) -> None:
        """Take in n rollouts from states `of` `[n]`."""
        for b, a, ret in zip(of.tolist(), out.first.tolist(), returns.tolist(), strict=True):
            self.visits[b, a] += 1
            # A running mean: equal returns give themselves, which a sum divided later may not.
            self.mean[b, a] += (ret - self.mean[b, a]) / self.visits[b, a]
            self.best[b, a] = max(self.best[b, a], ret)
        np.add.at(self.steps, of, out.steps)
        np.add.at(self.restores, of, out.restores)
        np.add.at(self.rows, of, out.evaluator_rows + int(evaluated))

    def budget(self, b: int, seconds: float) -> Budget:
        """Return the budget of row b's plan."""
        return Budget(int(self.steps[b]), 0, int(self.rows[b]), int(self.restores[b]), seconds)


@dataclass(eq=False, kw_only=True)
class BanditShooting(DiscretePlanner):
    """A bandit over first actions, with rollout returns as its rewards.

    For a few first actions whose returns are noisy.

    A simulation plays the arm with the highest Q(a) + c P(a) sqrt(N) / (1 + N(a)),
    where Q is a running mean that begins at 0, and then `num_rollouts` rollouts. The
    most played arm is the action.

    Args:
        wave_size: simulations in flight at once, counted as played; 1 is the source's.
        rollout_depth: most steps of a rollout, after its first action.
        num_rollouts: rollouts per simulation, averaged.
        c_puct: c; the source advises 7 over the number of legal actions.
        rollout_policy: `obs [L, *obs] -> probabilities [L, A]` that rollouts follow, and
            P, renormalised over the legal actions; None: both uniform.
        evaluator: `obs [L, *obs] -> (ignored, value [L])`: what would follow a rollout
            that was not terminated.
        root_noise: share of Dirichlet noise over the legal actions in P, in [0, 1].
        dirichlet_alpha: concentration of that noise.
        temperature: above 0.01 the action is drawn in proportion to
            N(a)**(1 / temperature).

    Source: Alpacka's Bandit agent.
    """

    noise_options: ClassVar[tuple[str, ...]] = ("root_noise", "temperature")

    wave_size: Count = 8
    rollout_depth: Whole = 20
    num_rollouts: Count = 1
    c_puct: Weight = 2.5
    rollout_policy: Policy | None = None
    evaluator: Evaluator | None = None
    root_noise: Share = 0.0
    dirichlet_alpha: Annotated[float, Range(1e-6)] = 0.3
    temperature: Weight = 0.0

    plays_policy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._cost = self.num_rollouts * (1 + self.rollout_depth)
        self._check_pays(self._cost, "simulation")

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Play B bandits at once."""
        _, origin = request.discrete_actions()
        arms = self._arms(request)
        while self._wave(request, arms) and not request.clock.over:
            pass
        seconds = request.clock.seconds / len(arms)
        pairs = zip(arms, request.rngs, strict=True)
        return [self._plan(arm, rng, origin, seconds) for arm, rng in pairs]

    def _arms(self, request: PlanRequest) -> list[_Arms]:
        """Return B fresh bandits with their priors."""
        num_actions, _ = request.discrete_actions()
        shape = (request.batch, num_actions)
        mask, prior = request.masks(), np.ones(shape)
        asked = self.rollout_policy is not None
        if self.rollout_policy is not None:
            obs = request.needed_obs("a rollout_policy")
            prior[:] = check_prior("rollout_policy", self.rollout_policy(obs), *shape)
        # After the mask: a policy's weight on illegal actions is shared out among the others.
        prior = weights_over_legal(prior, mask)
        prior /= prior.sum(axis=1, keepdims=True)
        arms = []
        for b, rng in enumerate(request.rngs):
            # Ties go by a random order, or else actions would win for their index.
            order = rng.permutation(num_actions)
            if self.root_noise > 0.0:
                share, alpha = self.root_noise, self.dirichlet_alpha
                prior[b] = with_noise(prior[b], mask[b], share, alpha, rng)
            arms.append(_Arms(prior[b], mask[b], order, asked=asked))
        return arms

    def _wave(self, request: PlanRequest, arms: list[_Arms]) -> bool:
        """Play a wave of arms in every bandit; False if there was none left."""
        chosen = [arm.choose(self._allowance(arm), self.c_puct) for arm in arms]
        # One batch of the model for the rollouts of all bandits.
        of = np.repeat(np.arange(len(arms)), [len(c) * self.num_rollouts for c in chosen])
        if of.size == 0:
            return False
        first = np.repeat(np.concatenate(chosen), self.num_rollouts).astype(np.int64)
        starts = starts_from(request, of, first, self.rollout_policy)
        depth = 1 + self.rollout_depth
        out = play_out(request.env, starts, depth, request.rngs, self.rollout_policy)
        num_actions = len(arms[0].prior)
        returns = returns_of(out, self.discount, self.evaluator, num_actions)
        check_finite(f"{request.planner}: returns", returns)
        evaluated = out.evaluator_rows + int(self.evaluator is not None)
        for b, arm in enumerate(arms):
            own = of == b
            arm.add(chosen[b], returns[own].reshape(-1, self.num_rollouts))
            arm.budget += Budget(
                int(out.steps[own].sum()),
                0,
                int(evaluated[own].sum()),
                int(out.restores[own].sum()),
            )
        return True

    def _allowance(self, arm: _Arms) -> int:
        """Return how many simulations a bandit may have in the next wave."""
        left = min(self.wave_size, self.most_simulations - int(arm.visits.sum()))
        if self.max_model_steps is not None:
            left = min(left, (self.max_model_steps - arm.budget.model_steps) // self._cost)
        return left

    def _plan(self, arm: _Arms, rng: Rng, origin: int, seconds: float) -> Plan:
        visits, q = arm.visits, np.where(arm.visits > 0, arm.mean, np.nan)
        if self.temperature > 0.01:
            action = sampled(visits, self.temperature, rng)
        else:
            action = most_visited(visits, arm.mean, arm.order)
        return Plan(
            action=origin + action,
            value=float((visits * arm.mean).sum() / visits.sum()),
            budget=arm.budget + Budget(seconds=seconds),
            visits=visits,
            q=q,
            weights=visits / visits.sum(),
        )


class _Arms:
    """One bandit: counts and running means by action."""

    def __init__(
        self,
        prior: npt.NDArray[np.float64],
        legal: npt.NDArray[np.bool_],
        order: npt.NDArray[np.int64],
        *,
        asked: bool,
    ) -> None:
        self.prior, self.legal, self.order = prior, legal, order
        self.visits = np.zeros(len(prior), np.int64)
        self.mean = np.zeros(len(prior))
        self.budget = Budget(evaluator_rows=int(asked))

    def choose(self, count: int, c: float) -> npt.NDArray[np.int64]:
        """Return the next arms `[count]`, each counted as played for those after it."""
        # Plays in flight count without a return, which spreads a wave over the arms.
        visits, chosen = self.visits.copy(), np.zeros(max(count, 0), np.int64)
        for i in range(len(chosen)):
            # Before the first play the root is 0: the order alone decides.
            score = self.mean + c * self.prior * math.sqrt(visits.sum()) / (1 + visits)
            # In the score, not by leaving them out: indices stay those of the actions.
            score[~self.legal] = -np.inf
            chosen[i] = self.order[np.argmax(score[self.order])]
            visits[chosen[i]] += 1
        return chosen

    def add(self, chosen: npt.NDArray[np.int64], returns: npt.NDArray[np.float64]) -> None:
        """Take in what the arms paid, `[n, num_rollouts]`."""
        for arm, paid in zip(chosen.tolist(), returns.tolist(), strict=True):
            self.visits[arm] += 1
            # A running mean: equal returns give themselves, which a sum divided later may not.
            self.mean[arm] += (sum(paid) / len(paid) - self.mean[arm]) / self.visits[arm]
