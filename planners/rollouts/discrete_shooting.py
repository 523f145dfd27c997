"""DiscreteShooting: the first action of the best rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.base import Planner
from plangym_ext.planners.finite import check_finite
from plangym_ext.planners.plans import Budget, Plan, one_hot
from plangym_ext.planners.rating import Evaluator, Policy
from plangym_ext.planners.registry import check_name
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.rollouts.playouts import play_out, returns_of, starts_from

# Rollouts per round where only time bounds them.
_ROUND = 64


@dataclass(eq=False, kw_only=True)
class DiscreteShooting(Planner):
    """Plays rollouts and takes the first action of the best ones.

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

    rollout_depth: int = 20
    score: str = "mean"
    rollout_policy: Policy | None = None
    evaluator: Evaluator | None = None

    plays_policy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self._check_function("rollout_policy")
        self._check_function("evaluator")
        self.rollout_depth = self._integer("rollout_depth", 1)
        check_name(self._option("score"), self.score, ["mean", "max"])
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
        """Return what the plan of row b cost."""
        return Budget(int(self.steps[b]), 0, int(self.rows[b]), int(self.restores[b]), seconds)
