"""SPO's search: particles that a policy moves, weighted and drawn anew by their advantages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.planners.base import Planner
from plangym_ext.planners.finite import check_finite, spread_of
from plangym_ext.planners.masks import action_masks, has_masks, weights_over_legal
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.rating import Evaluator, evaluate
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.rollouts.playouts import draw

Floats = npt.NDArray[np.float64]

_BISECTIONS = 50


@dataclass(eq=False, kw_only=True)
class SPO(Planner):
    """Sequential Monte Carlo over trajectories: the search of SPO.

    Particles start in the state and take actions of the evaluator's policy. A particle's weight
    is exp(sum of advantages / temperature), the advantage of a step being r + gamma * V' - V; every
    few steps particles are drawn anew by their weights, so that they multiply where it went better
    than the evaluator expected. The share of the weight that began with an action is the
    policy; the action with most of it is played.

    The temperature is the one at which the weights are as far from equal as `divergence` says, so
    that it fits any scale of rewards. A simulation is a particle; `num_simulations` of them walk
    `depth` steps.

    Args:
        depth: steps that each particle takes.
        resample_every: steps between two drawings.
        divergence: Kullback-Leibler divergence of weights from equal ones, in nats.
        evaluator: `obs [L, *obs] -> (prior [L, A] or None, value [L])`; None: uniform, and 0.

    Source: Macfarlane et al. 2024, "SPO: Sequential Monte Carlo policy optimisation", section 4.1;
    the temperature solves its constraint for the particles at hand, where SPO learns one.
    """

    depth: int = 16
    resample_every: int = 4
    divergence: float = 0.5
    evaluator: Evaluator | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self._check_function("evaluator")
        self.depth = self._integer("depth", 1)
        self.resample_every = self._integer("resample_every", 1)
        self.divergence = self._number("divergence", 1e-6, math.inf)
        self._check_pays(self.depth, "particle")

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Walk the particles of B states in lockstep."""
        num_actions, origin = request.discrete_actions()
        if self.evaluator is not None:
            request.needed_obs("an evaluator")
        count = self._affordable(self.depth) or self.default_simulations
        walkers = _Particles(request, count, *self._rated(request.obs, request.batch, num_actions))
        for step in range(self.depth):
            if not self._step(request, walkers, self.discount**step):
                break
            if (step + 1) % self.resample_every == 0 and step + 1 < self.depth:
                walkers.draw_anew(request, self.divergence)
            if request.clock.over:
                break
        seconds = request.clock.seconds / request.batch
        return [
            walkers.plan(b, num_actions, origin, self.divergence, seconds)
            for b in range(request.batch)
        ]

    def _rated(self, obs: Any, count: int, num_actions: int) -> tuple[Floats, Floats]:
        """Return policy `[L, A]` and value `[L]` of L observations."""
        uniform = np.full((count, num_actions), 1.0 / num_actions)
        if self.evaluator is None:
            return uniform, np.zeros(count)
        prior, value = evaluate(self.evaluator, obs, count, num_actions)
        return uniform if prior is None else prior.astype(np.float64), value

    def _step(self, request: PlanRequest, walkers: _Particles, discount: float) -> bool:
        """Step all particles that go on; False if none does."""
        num_actions, origin = request.discrete_actions()
        going = np.flatnonzero(~walkers.ended)
        if not going.size:
            return False
        weights = weights_over_legal(walkers.policy[going], walkers.legal[going])
        actions = draw(weights, walkers.rows[going], request.rngs)
        # Where nothing is allowed a walk is over.
        walkers.ended[going[actions < 0]] = True
        going, actions = going[actions >= 0], actions[actions >= 0]
        if not going.size:
            return False
        out = request.env.step_batch(actions + origin, states=walkers.states[going])
        rewards = check_finite(f"{request.planner}: rewards", out.rewards)
        over = np.asarray(out.terminateds, np.bool_)
        ended = over | np.asarray(out.truncateds, np.bool_)
        policy, value = np.full((len(going), num_actions), 1.0 / num_actions), np.zeros(len(going))
        on = np.flatnonzero(~over)
        if on.size:
            policy[on], value[on] = self._rated(rows_of(out.obs, on), len(on), num_actions)
        legal = None
        if has_masks(out.infos):
            legal = action_masks(out.infos, ended, num_actions)
        advantage = rewards + self.discount * value - walkers.value[going]
        walkers.earned[going] += discount * rewards
        walkers.ahead[going] = discount * self.discount * value
        walkers.advantage[going] += advantage
        walkers.move(going, actions, out.states, policy, value, ended, legal)
        walkers.note(going, asked=going[on] if self.evaluator else going[:0])
        return True


class _Particles:
    """N particles for each of B states, one after the other."""

    def __init__(self, request: PlanRequest, count: int, policy: Floats, value: Floats) -> None:
        self.count, total = count, request.batch * count
        self.rows = np.repeat(np.arange(request.batch), count)
        self.states = request.states[self.rows]
        self.legal = request.masks()[self.rows]
        self.policy, self.value = policy[self.rows], value[self.rows]
        self.first = np.full(total, -1, np.int64)
        self.ended = np.zeros(total, np.bool_)
        self.earned, self.ahead = np.zeros(total), value[self.rows]
        self.advantage = np.zeros(total)
        self.order = [rng.permutation(self.legal.shape[1]) for rng in request.rngs]
        self.steps, self.asked = np.zeros((2, request.batch), np.int64)
        self.tried = np.zeros((request.batch, self.legal.shape[1]), np.int64)

    def move(
        self,
        at: npt.NDArray[np.intp],
        actions: npt.NDArray[np.int64],
        states: npt.NDArray[np.uint8],
        policy: Floats,
        value: Floats,
        ended: npt.NDArray[np.bool_],
        legal: npt.NDArray[np.bool_] | None,
    ) -> None:
        """Take in where the particles `at` `[n]` have come."""
        if states.shape[1] != self.states.shape[1]:
            # The env has widened its rows; narrower states followed by zeros stay good.
            more = states.shape[1] - self.states.shape[1]
            self.states = np.pad(self.states, ((0, 0), (0, more)))
        first = self.first[at] < 0
        np.add.at(self.tried, (self.rows[at[first]], actions[first]), 1)
        self.first[at] = np.where(first, actions, self.first[at])
        self.states[at], self.policy[at], self.value[at] = states, policy, value
        self.ended[at] = ended
        self.legal[at] = True if legal is None else legal

    def note(self, at: npt.NDArray[np.intp], asked: npt.NDArray[np.intp]) -> None:
        """Count a step of the particles `at`; of those `asked` the evaluator saw what came."""
        self.steps += np.bincount(self.rows[at], minlength=len(self.steps))
        self.asked += np.bincount(self.rows[asked], minlength=len(self.asked))

    def weights(self, b: int, divergence: float) -> Floats:
        """Return the weights `[N]` of the particles of state b."""
        return tilted(self.advantage[self.rows == b], divergence)

    def draw_anew(self, request: PlanRequest, divergence: float) -> None:
        """Replace the particles of each state by draws of them; their advantages begin anew."""
        chosen = []
        # Alone these would be over: what others do makes no difference to them.
        over: npt.NDArray[np.bool_] = np.all(self.ended.reshape(-1, self.count), axis=1)
        for b, rng in enumerate(request.rngs):
            if over[b]:
                chosen.append(np.flatnonzero(self.rows == b))
                continue
            # One number for all: the counts differ from the weights by less than one.
            marks = (np.arange(self.count) + rng.random()) / self.count
            found = np.searchsorted(np.cumsum(self.weights(b, divergence)), marks)
            chosen.append(b * self.count + np.minimum(found, self.count - 1))
        at = np.concatenate(chosen)
        for name in ("states", "legal", "policy", "value", "first", "ended", "earned", "ahead"):
            setattr(self, name, getattr(self, name)[at])
        self.advantage[~over[self.rows]] = 0.0

    def plan(
        self, b: int, num_actions: int, origin: int, divergence: float, seconds: float
    ) -> Plan:
        """Read off state b: where most weight began, and the mean return from there."""
        weights, own = self.weights(b, divergence), self.rows == b
        first, returns = self.first[own], self.earned[own] + self.ahead[own]
        share = np.bincount(first, weights, num_actions)
        sums = np.bincount(first, weights * returns, num_actions)
        q = np.where(share > 0, sums / np.maximum(share, 1e-300), np.nan)
        order = self.order[b]
        action = int(order[np.argmax(share[order])])
        return Plan(
            action=origin + action,
            value=float(weights @ returns),
            budget=Budget(
                model_steps=int(self.steps[b]),
                evaluator_rows=int(self.asked[b]),
                restores=int(self.steps[b]),
                seconds=seconds,
            ),
            visits=self.tried[b].copy(),
            q=q,
            weights=share / share.sum(),
            chosen_by_visits=False,
        )


def tilted(advantages: Floats, divergence: float) -> Floats:
    """Return weights `[N]` in proportion to exp(advantage / t), fresh.

    t is the temperature at which sum w log(N w) is `divergence`; if no temperature has so much,
    the largest advantages share the weight.
    """
    spread = spread_of(advantages)
    if spread == 0.0:
        return np.full(len(advantages), 1.0 / len(advantages))
    found, low, high = np.zeros(len(advantages)), -6.0, 6.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        scaled = (advantages - advantages.max()) / (spread * 10.0**middle)
        found = np.exp(scaled)
        found /= found.sum()
        far = float((found * np.log(np.maximum(found * len(found), 1e-300))).sum())
        if far > divergence:
            low = middle
        else:
            high = middle
    return found
