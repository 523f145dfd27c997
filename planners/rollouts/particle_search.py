"""Particle planners with a policy: base class, and SPO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.options import Count, Range
from plangym_ext.planners.base import DiscretePlanner
from plangym_ext.planners.masks import action_masks, has_masks, weights_over_legal
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.rating import Evaluator, check_finite, evaluate, spread_of
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.rollouts.playouts import draw

Floats = npt.NDArray[np.float64]

_BISECTIONS = 50


class Arrivals(NamedTuple):
    """L particles after a step: states, policies, values."""

    at: npt.NDArray[np.intp]  # [L] which particles
    actions: npt.NDArray[np.int64]  # [L] what they took
    states: npt.NDArray[np.uint8]  # [L, S]
    policy: Floats  # [L, A] of the new states
    value: Floats  # [L], 0 after a termination
    ended: npt.NDArray[np.bool_]  # [L]
    legal: npt.NDArray[np.bool_] | None  # [L, A]; None: all


class Particles:
    """P particles in G groups; the particles of a group begin in one state.

    Attributes:
        group: `[P]` of each particle; ascending.
        rows: `[P]` which state of the request each began in; ascending.
        first: `[P]` the action that each began with; -1: none yet.
        ended: `[P]`, particles that walk no more.
        advantage: `[P]`, what they gained since they were drawn last.
        earned: `[P]`, discounted rewards since the beginning.
        ahead: `[P]`, the discounted value of where they are.
        steps: `[B]`, steps taken from each state of the request.
        asked: `[B]`, observations shown to the evaluator.
        tried: `[B, A]`, how many particles began with each action.
    """

    def __init__(
        self,
        request: PlanRequest,
        of: npt.NDArray[np.integer],
        counts: npt.NDArray[np.integer],
        policy: Floats,
        value: Floats,
    ) -> None:
        """Put `counts` `[G]` particles in the states `of` `[G]`, rated `[B, A]` and `[B]`."""
        self.of, self.counts = of, counts
        self.ends = np.cumsum(counts)
        self.group = np.repeat(np.arange(len(of)), counts)
        self.rows = of[self.group]
        total = len(self.group)
        self.states = request.states[self.rows]
        self.legal = request.masks()[self.rows]
        self.policy, self.value = policy[self.rows], value[self.rows]
        self.first = np.full(total, -1, np.int64)
        self.ended = np.zeros(total, np.bool_)
        self.earned, self.ahead = np.zeros(total), value[self.rows]
        self.advantage = np.zeros(total)
        self.steps, self.asked = np.zeros((2, request.batch), np.int64)
        self.tried = np.zeros((request.batch, self.legal.shape[1]), np.int64)

    def members(self, group: int) -> slice:
        """Return the positions of a group's particles in the arrays."""
        end = int(self.ends[group])
        return slice(end - int(self.counts[group]), end)

    def move(self, came: Arrivals) -> None:
        """Set the particles' states after a step."""
        at = came.at
        if came.states.shape[1] != self.states.shape[1]:
            # The env has widened its rows; narrower states followed by zeros stay good.
            more = came.states.shape[1] - self.states.shape[1]
            self.states = np.pad(self.states, ((0, 0), (0, more)))
        begun = self.first[at] < 0
        np.add.at(self.tried, (self.rows[at[begun]], came.actions[begun]), 1)
        self.first[at] = np.where(begun, came.actions, self.first[at])
        self.states[at], self.policy[at], self.value[at] = came.states, came.policy, came.value
        self.ended[at] = came.ended
        self.legal[at] = True if came.legal is None else came.legal

    def note(self, at: npt.NDArray[np.intp], asked: npt.NDArray[np.intp]) -> None:
        """Count a step of the particles `at`, and evaluator rows of the particles `asked`."""
        self.steps += np.bincount(self.rows[at], minlength=len(self.steps))
        self.asked += np.bincount(self.rows[asked], minlength=len(self.asked))

    def weights(self, group: int, divergence: float) -> Floats:
        """Return the weights `[N]` of the particles of a group."""
        return tilted(self.advantage[self.members(group)], divergence)

    def returns(self, group: int) -> Floats:
        """Return the returns of a group's particles, with values of their last states, `[N]`."""
        own = self.members(group)
        return self.earned[own] + self.ahead[own]

    def draw_anew(self, request: PlanRequest, divergence: float) -> None:
        """Resample the particles of each group, and reset their advantages."""
        chosen = []
        for group, row in enumerate(self.of.tolist()):
            own = self.members(group)
            # Alone these plans would be over: the steps of others must not change them.
            if self.ended[own].all():
                chosen.append(np.arange(own.start, own.stop))
                continue
            count = own.stop - own.start
            # One number for all: the counts differ from the weights by less than one.
            marks = (np.arange(count) + request.rngs[row].random()) / count
            found = np.searchsorted(np.cumsum(self.weights(group, divergence)), marks)
            chosen.append(own.start + np.minimum(found, count - 1))
            self.advantage[own] = 0.0
        at = np.concatenate(chosen)
        for name in ("states", "legal", "policy", "value", "first", "ended", "earned", "ahead"):
            setattr(self, name, getattr(self, name)[at])


def tilted(advantages: Floats, divergence: float, base: Floats | None = None) -> Floats:
    """Return weights `[N]` in proportion to base * exp(advantage / t), fresh.

    t is the temperature at which the Kullback-Leibler divergence of the weights from the base is
    `divergence`; if no temperature has so much, the largest advantages share the weight.

    Args:
        advantages: `[N]`.
        divergence: in nats.
        base: `[N]` positive numbers that sum to 1; None: equal ones.
    """
    start = np.full(len(advantages), 1.0 / len(advantages)) if base is None else base
    spread = spread_of(advantages)
    if spread == 0.0:
        return start.copy()
    found, low, high = np.zeros(len(advantages)), -6.0, 6.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        scaled = (advantages - advantages.max()) / (spread * 10.0**middle)
        found = start * np.exp(scaled)
        found /= found.sum()
        far = float((found * np.log(np.maximum(found / start, 1e-300))).sum())
        if far > divergence:
            low = middle
        else:
            high = middle
    return found


@dataclass(eq=False, kw_only=True)
class ParticleSearch(DiscretePlanner):
    """Abstract base: moves particles by an evaluator's policy; better ones multiply.

    A particle's weight is exp(sum of advantages / temperature), the advantage of a step being
    r + gamma * V' - V; every few steps particles are drawn anew by their weights, so that they
    multiply where it went better than the evaluator expected. The temperature is the one at which
    the weights are as far from equal as `divergence` says, so that it fits any scale of rewards.

    Args:
        depth: steps that each particle takes.
        resample_every: steps between two drawings.
        divergence: Kullback-Leibler divergence of weights from equal ones, in nats.
        evaluator: `obs [L, *obs] -> (prior [L, A] or None, value [L])`; None: uniform, and 0.
    """

    depth: Count = 16
    resample_every: Count = 4
    divergence: Annotated[float, Range(1e-6)] = 0.5
    evaluator: Evaluator | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_pays(self.depth, "particle")

    def _count(self) -> int:
        """Return how many particles walk for each state."""
        # None only where time alone limits the plan. It is never 0: `_check_pays` has seen to that.
        return self._affordable(self.depth) or self.default_simulations

    def _rated(
        self, obs: Any, count: int, num_actions: int, legal: npt.NDArray[np.bool_] | None
    ) -> tuple[Floats, Floats]:
        """Return policy `[L, A]` and value `[L]` of L observations; `legal` None: all actions."""
        uniform = np.full((count, num_actions), 1.0 / num_actions)
        if self.evaluator is None:
            return uniform, np.zeros(count)
        prior, value = evaluate(self.evaluator, obs, count, num_actions, legal=legal)
        return uniform if prior is None else prior.astype(np.float64), value

    def _rated_roots(self, request: PlanRequest) -> tuple[Floats, Floats]:
        """Return policy `[B, A]` and value `[B]` of the states that were asked about."""
        num_actions, _ = request.discrete_actions()
        if self.evaluator is not None:
            request.needed_obs("an evaluator")
        return self._rated(request.obs, request.batch, num_actions, request.legal)

    def _root_rows(self) -> int:
        """Return how many observations of a state itself the evaluator was given."""
        return int(self.evaluator is not None)

    def _walk(
        self, request: PlanRequest, walkers: Particles, first: npt.NDArray[np.int64] | None = None
    ) -> None:
        """Let particles walk `depth` steps, from `first` `[P]` actions on if they are given."""
        for step in range(self.depth):
            if not self._step(request, walkers, step, first if step == 0 else None):
                break
            # Not after the last step: the plan is read from the weights at that time.
            if (step + 1) % self.resample_every == 0 and step + 1 < self.depth:
                walkers.draw_anew(request, self.divergence)
            if request.clock.over:
                break

    def _step(
        self,
        request: PlanRequest,
        walkers: Particles,
        step: int,
        forced: npt.NDArray[np.int64] | None,
    ) -> bool:
        """Step all particles that go on; False if none does."""
        num_actions, origin = request.discrete_actions()
        going = np.flatnonzero(~walkers.ended)
        if not going.size:
            return False
        if forced is None:
            # `going` is ascending, and so are the rows of particles, as `draw` wants them.
            weights = weights_over_legal(walkers.policy[going], walkers.legal[going])
            actions = draw(weights, walkers.rows[going], request.rngs)
        else:
            actions = forced[going]
        # Where nothing is allowed a walk is over.
        walkers.ended[going[actions < 0]] = True
        going, actions = going[actions >= 0], actions[actions >= 0]
        if not going.size:
            return False
        out = request.env.step_batch(actions + origin, states=walkers.states[going])
        rewards = check_finite(f"{request.planner}: rewards", out.rewards)
        over = np.asarray(out.terminateds, np.bool_)
        ended = over | np.asarray(out.truncateds, np.bool_)
        # What terminated keeps these: its value is 0, and nothing is drawn from its policy.
        policy, value = np.full((len(going), num_actions), 1.0 / num_actions), np.zeros(len(going))
        # Truncated ones are rated: their value is what would have come.
        on = np.flatnonzero(~over)
        legal = action_masks(out.infos, ended, num_actions) if has_masks(out.infos) else None
        if on.size:
            allowed = None if legal is None else legal[on]
            asked = rows_of(out.obs, on), len(on), num_actions, allowed
            policy[on], value[on] = self._rated(*asked)
        discount = self.discount**step
        walkers.earned[going] += discount * rewards
        # Replaced, not added to: `earned` holds the way, and only the value at its end counts.
        walkers.ahead[going] = discount * self.discount * value
        # Before `move`, which replaces `value` by that of the new states.
        walkers.advantage[going] += rewards + self.discount * value - walkers.value[going]
        walkers.move(Arrivals(going, actions, out.states, policy, value, ended, legal))
        walkers.note(going, asked=going[on] if self.evaluator else going[:0])
        return True


@dataclass(eq=False, kw_only=True)
class SPO(ParticleSearch):
    """SPO's search: sequential Monte Carlo over trajectories of a policy.

    For a good policy that a search is to improve; all particles step side by side.

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
