"""FractalMC: Fractal Monte Carlo, a swarm of cloned walkers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plangym_ext.core.options import Count, Weight
from plangym_ext.planners.base import DiscretePlanner
from plangym_ext.planners.masks import action_masks
from plangym_ext.planners.plans import Budget, Plan, one_hot
from plangym_ext.planners.rating import check_finite, spread_of
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.rollouts.final_action import most_visited
from plangym_ext.planners.rollouts.playouts import draw
from plangym_ext.planners.simulator import Rng, States, numbers_of


@dataclass(eq=False, kw_only=True)
class FractalMC(DiscretePlanner):
    """Fractal Monte Carlo: a swarm of random walkers, cloned from poor to rich regions.

    For cheap steps and dense rewards, without an evaluator.

    After each step a walker compares itself with another one by its virtual reward,
    R**reward_weight * D**distance_weight: R is its return so far, D the distance of its
    observation to that of a third walker, both brought to the same scale. If the other
    one has more, it takes that one's place with probability (VR_j - VR_i) / VR_i. Walkers
    that have ended, or whose state allows nothing, always do. The action with which most
    walkers began is played, unless a walker that ended its episode had earned more than any
    that is there in the end: then that with which it began, such as the way to a goal. The plan's
    `q` is the mean return of the walkers that are there in the end, by the action they
    began with, NaN where none is left. The distance is one of
    numbers, those in all parts of a Dict or Tuple: texts, graphs and sequences are not
    looked at.

    A simulation is one walker; `num_simulations` of them walk `depth` steps.

    Args:
        depth: steps that each walker walks.
        reward_weight: exponent of the return in the virtual reward.
        distance_weight: exponent of the distance.

    Source: Cerezo & Ballester 2018, "Fractal AI: a fragile theory of intelligence". The
    action is the most frequent one, since actions are discrete here; rewards are
    discounted. There an episode that ends is a lost one; here it may have reached a goal.
    """

    depth: Count = 30
    reward_weight: Weight = 1.0
    distance_weight: Weight = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_pays(self.depth, "walker")

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Walk B swarms in lockstep."""
        num_actions, origin = request.discrete_actions()
        rows = zip(request.states, request.masks(), request.rngs, strict=True)
        walkers = self._affordable(self.depth) or self.default_simulations
        swarms = [_Swarm(state, legal, walkers, rng) for state, legal, rng in rows]
        for depth in range(self.depth):
            if not self._step(request, swarms, self.discount**depth):
                break
            for swarm, rng in zip(swarms, request.rngs, strict=True):
                swarm.clone(rng, self.reward_weight, self.distance_weight)
            if request.clock.over:
                break
        seconds = request.clock.seconds / len(swarms)
        return [swarm.plan(origin, num_actions, seconds) for swarm in swarms]

    def _step(self, request: PlanRequest, swarms: list[_Swarm], discount: float) -> bool:
        """Step all walkers that are alive; False if none is."""
        alive = [np.flatnonzero(~swarm.ended) for swarm in swarms]
        rows = np.repeat(np.arange(len(swarms)), [len(one) for one in alive])
        if rows.size == 0:
            return False
        # Rows of one swarm lie side by side, in the order of the swarms: `draw` wants them so.
        legal = np.concatenate([s.legal[i] for s, i in zip(swarms, alive, strict=True)])
        before = np.concatenate([s.states[i] for s, i in zip(swarms, alive, strict=True)])
        _, origin = request.discrete_actions()
        actions = draw(legal, rows, request.rngs)
        out = request.env.step_batch(actions + origin, states=before)
        rewards = check_finite(f"{request.planner}: rewards", out.rewards)
        over = np.asarray(out.terminateds, np.bool_) | np.asarray(out.truncateds, np.bool_)
        masks = action_masks(out.infos, over, legal.shape[1])
        seen = numbers_of(out.obs, len(rows))
        for b, swarm in enumerate(swarms):
            own = rows == b
            if own.any():
                earned = discount * rewards[own]
                swarm.move(
                    alive[b],
                    actions[own],
                    out.states[own],
                    seen[own],
                    earned,
                    over[own],
                    masks[own],
                )
        return True


class _Swarm:
    """W walkers from one state."""

    def __init__(self, state: States, legal: npt.NDArray[np.bool_], walkers: int, rng: Rng) -> None:
        self.states = np.repeat(state[None], walkers, axis=0)
        self.legal = np.repeat(legal[None], walkers, axis=0)
        self.returns = np.zeros(walkers)
        self.first = np.full(walkers, -1, np.int64)
        self.ended = np.zeros(walkers, np.bool_)
        # How many numbers an observation has is known with the first step; see `move`.
        self.seen = np.zeros((walkers, 1))
        self.order = rng.permutation(legal.shape[0])
        self.steps = 0
        #: Of the walker that had earned most when its episode ended: its return, its first action.
        self.best_end = (-np.inf, -1)

    def move(
        self,
        alive: npt.NDArray[np.intp],
        actions: npt.NDArray[np.int64],
        states: States,
        seen: npt.NDArray[np.float64],
        earned: npt.NDArray[np.float64],
        over: npt.NDArray[np.bool_],
        masks: npt.NDArray[np.bool_],
    ) -> None:
        """Take in a step of the walkers `alive` `[n]`."""
        if self.seen.shape[1] != seen.shape[1]:
            self.seen = np.zeros((len(self.returns), seen.shape[1]))
        if states.shape[1] != self.states.shape[1]:
            # The env has widened its rows; narrower states followed by zeros stay good.
            more = states.shape[1] - self.states.shape[1]
            self.states = np.pad(self.states, ((0, 0), (0, more)))
        self.first[alive] = np.where(self.first[alive] < 0, actions, self.first[alive])
        self.states[alive], self.seen[alive] = states, seen
        # Where nothing is allowed a walk is over, too.
        self.ended[alive], self.legal[alive] = over | ~masks.any(axis=1), masks
        self.returns[alive] += earned
        if over.any():
            best = alive[over][self.returns[alive[over]].argmax()]
            self.best_end = max(self.best_end, (self.returns[best], self.first[best]))
        self.steps += len(alive)

    def clone(self, rng: Rng, reward_weight: float, distance_weight: float) -> None:
        """Let poor walkers take the place of richer ones."""
        count = len(self.returns)
        on = np.flatnonzero(~self.ended)
        if on.size == 0 or count == 1:
            return
        # Two independent draws, as in the source: one says how far apart a walker is, the other
        # what it may become.
        third, other = on[rng.integers(on.size, size=(2, count))]
        distance = np.sqrt(((self.seen - self.seen[third]) ** 2).sum(axis=1))
        virtual = relativize(self.returns) ** reward_weight
        virtual *= relativize(distance) ** distance_weight
        # Large exponents may bring a virtual reward down to 0.
        chance = (virtual[other] - virtual) / np.maximum(virtual, 1e-12)
        # Of a poorer walker the chance is negative, and nothing drawn is below it.
        moves = self.ended | (rng.random(count) < chance)
        # Fancy indexing copies first: walkers take what others were before any of them moved.
        at = other[moves]
        for field in (self.states, self.legal, self.returns, self.first, self.seen, self.ended):
            field[moves] = field[at]

    def plan(self, origin: int, num_actions: int, seconds: float) -> Plan:
        """Read off with which action most walkers began; among equals the best mean return."""
        # No walker is at -1: the root allows an action, so that all have taken a step.
        visits = np.bincount(self.first, minlength=num_actions)
        sums = np.bincount(self.first, self.returns, minlength=num_actions)
        q = np.where(visits > 0, sums / np.maximum(visits, 1), np.nan)
        action, weights = most_visited(visits, q, self.order), visits / visits.sum()
        end, first = self.best_end
        if end > self.returns.max():
            action, weights = int(first), one_hot(int(first), num_actions)
        return Plan(
            action=origin + action,
            value=float(self.returns.mean()),
            budget=Budget(model_steps=self.steps, restores=self.steps, seconds=seconds),
            visits=visits,
            q=q,
            weights=weights,
        )


def relativize(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scale values `[W]` to positive numbers around 1, in a fresh array.

    z = (x - mean) / std; 1 + log(1 + z) above the mean, exp(z) below. All 1 if they
    are equal but for rounding.

    Source: Cerezo & Ballester 2018, section 3.3 ("relativize").
    """
    spread = spread_of(values)
    if spread == 0.0:
        return np.ones(len(values))
    z = (values - values.mean()) / spread
    return np.where(z > 0, 1.0 + np.log1p(np.maximum(z, 0.0)), np.exp(np.minimum(z, 0.0)))
