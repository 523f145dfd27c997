"""Bandit shooting: rollouts go to the first actions that look best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidOption
from plangym_ext.planners.base import (
    Clock,
    Planner,
    Rng,
    SearchModel,
    States,
    at_least,
    check_obs,
    check_rows,
    discrete_actions,
    finite_between,
)
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.playouts import Policy, Starts, play_out, returns_of
from plangym_ext.planners.rating import Evaluator, check_prior


@dataclass(eq=False, kw_only=True)
class BanditShooting(Planner):
    """A bandit over the first action, whose arms pay what rollouts return.

    A simulation plays the arm with the highest Q(a) + c P(a) sqrt(N) / (1 + N(a)),
    where Q is a running mean that begins at 0, and then `num_rollouts` rollouts. The
    most played arm is the action.

    Args:
        wave_size: simulations in flight at once, counted as played; 1 is the source's.
        rollout_depth: most steps of a rollout, after its first action.
        num_rollouts: rollouts per simulation, averaged.
        c_puct: c; the source advises 7 over the number of legal actions.
        rollout_policy: `obs [L, *obs] -> probabilities [L, A]` that rollouts follow, and
            P; None: both uniform.
        evaluator: `obs [L, *obs] -> (ignored, value [L])`: what would follow a rollout
            that was not terminated.
        root_noise: share of Dirichlet noise in P, in [0, 1].
        dirichlet_alpha: concentration of that noise.
        temperature: above 0.01 the action is drawn in proportion to
            N(a)**(1 / temperature).

    Source: Alpacka's Bandit agent.
    """

    wave_size: int = 8
    rollout_depth: int = 20
    num_rollouts: int = 1
    c_puct: float = 2.5
    rollout_policy: Policy | None = None
    evaluator: Evaluator | None = None
    root_noise: float = 0.0
    dirichlet_alpha: float = 0.3
    temperature: float = 0.0

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        for name, least in (("wave_size", 1), ("rollout_depth", 0), ("num_rollouts", 1)):
            setattr(self, name, at_least(self._option(name), getattr(self, name), least))
        for name, low, high in (
            ("c_puct", 0.0, math.inf),
            ("root_noise", 0.0, 1.0),
            ("dirichlet_alpha", 1e-6, math.inf),
            ("temperature", 0.0, math.inf),
        ):
            setattr(self, name, finite_between(self._option(name), getattr(self, name), low, high))
        self._cost = self.num_rollouts * (1 + self.rollout_depth)
        if self.max_model_steps is not None and self.max_model_steps < self._cost:
            raise InvalidOption(
                f"{self._option('max_model_steps')} must pay for one simulation of "
                f"{self._cost} steps; got {self.max_model_steps}."
            )

    def plan_batch(
        self,
        env: SearchModel,
        states: States,
        *,
        rngs: Sequence[Rng],
        obs: Any = None,
        legal: npt.NDArray[np.bool_] | None = None,
    ) -> list[Plan]:
        """Play B bandits at once; see `Planner.plan_batch`."""
        clock, name = Clock(self.max_seconds), type(self).__name__
        num_actions, origin = discrete_actions(env.action_space, name)
        states = np.asarray(states)
        check_rows(name, states, rngs)
        if self.rollout_policy is not None:
            check_obs(name, obs, len(states))
        arms = self._arms(rngs, obs, legal, num_actions)
        while self._wave(env, arms, states, rngs, obs, legal) and not clock.over:
            pass
        seconds = clock.seconds / len(arms)
        return [self._plan(arm, rng, origin, seconds) for arm, rng in zip(arms, rngs, strict=True)]

    def _arms(
        self,
        rngs: Sequence[Rng],
        obs: Any,
        legal: npt.NDArray[np.bool_] | None,
        num_actions: int,
    ) -> list[_Arms]:
        """Return B fresh bandits with their priors."""
        batch = len(rngs)
        mask = np.ones((batch, num_actions), np.bool_) if legal is None else np.asarray(legal)
        prior = np.full((batch, num_actions), 1.0 / num_actions)
        if self.rollout_policy is not None:
            prior[:] = check_prior(self.rollout_policy(obs), batch, num_actions)
        arms = []
        for b, rng in enumerate(rngs):
            order = rng.permutation(num_actions)
            if self.root_noise > 0.0:
                noise = rng.dirichlet(np.full(num_actions, self.dirichlet_alpha))
                prior[b] = (1.0 - self.root_noise) * prior[b] + self.root_noise * noise
            arms.append(_Arms(prior[b], mask[b], order, asked=self.rollout_policy is not None))
        return arms

    def _wave(
        self,
        env: SearchModel,
        arms: list[_Arms],
        states: States,
        rngs: Sequence[Rng],
        obs: Any,
        legal: npt.NDArray[np.bool_] | None,
    ) -> bool:
        """Play a wave of arms in every bandit; False if there was none left."""
        chosen = [arm.choose(self._allowance(arm), self.c_puct) for arm in arms]
        of = np.repeat(np.arange(len(arms)), [len(c) * self.num_rollouts for c in chosen])
        if of.size == 0:
            return False
        first = np.repeat(np.concatenate(chosen), self.num_rollouts).astype(np.int64)
        seen = obs[of] if self.rollout_policy is not None else None
        allowed = None if legal is None else legal[of]
        starts = Starts(of, states[of], seen, first, allowed)
        out = play_out(env, starts, 1 + self.rollout_depth, rngs, self.rollout_policy)
        num_actions = len(arms[0].prior)
        returns = returns_of(out, self.discount, self.evaluator, num_actions)
        if not np.isfinite(returns).all():
            raise ValueError(
                f"BanditShooting: returns must be finite; got {returns[:8]}. Look for rewards "
                f"that are not finite."
            )
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
        """How many simulations a bandit may have in the next wave."""
        left = min(self.wave_size, self.most_simulations - int(arm.visits.sum()))
        if self.max_model_steps is not None:
            left = min(left, (self.max_model_steps - arm.budget.model_steps) // self._cost)
        return left

    def _plan(self, arm: _Arms, rng: Rng, origin: int, seconds: float) -> Plan:
        """Read the plan off a bandit."""
        visits, q = arm.visits, np.where(arm.visits > 0, arm.mean, np.nan)
        if self.temperature > 0.01:
            logits = np.where(visits > 0, np.log(np.maximum(visits, 1)), -np.inf)
            action = int(np.argmax(logits + self.temperature * rng.gumbel(size=len(visits))))
        else:
            # Among the most played the best, then the first in the order.
            top = arm.order[visits[arm.order] == visits.max()]
            action = int(top[np.argmax(arm.mean[top])])
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
        """Return the next `count` arms, each counted as played for those after it."""
        visits, chosen = self.visits.copy(), np.zeros(max(count, 0), np.int64)
        for i in range(len(chosen)):
            score = self.mean + c * self.prior * math.sqrt(visits.sum()) / (1 + visits)
            score[~self.legal] = -np.inf
            chosen[i] = self.order[np.argmax(score[self.order])]
            visits[chosen[i]] += 1
        return chosen

    def add(self, chosen: npt.NDArray[np.int64], returns: npt.NDArray[np.float64]) -> None:
        """Take in what the arms paid, `[n, num_rollouts]`."""
        for arm, paid in zip(chosen.tolist(), returns.tolist(), strict=True):
            self.visits[arm] += 1
            self.mean[arm] += (sum(paid) / len(paid) - self.mean[arm]) / self.visits[arm]
