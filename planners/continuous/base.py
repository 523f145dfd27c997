"""Shooting: base class of planners that sample sequences of continuous actions."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.core.options import Count, OneOf, Range, Weight
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.action_spaces import VECTORS
from plangym_ext.planners.base import Planner
from plangym_ext.planners.continuous.spline import SPLINES, ActionPolicy, Floats, Spline, proposed
from plangym_ext.planners.kept import KeptRows
from plangym_ext.planners.masks import Box, box_actions
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.rating import Evaluator, check_finite, evaluate
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.rollouts.playouts import bootstrapped
from plangym_ext.planners.simulator import Rng, numbers_of

#: Decisions whose observations are remembered, the latest.
REMEMBERED = 1000


class Shown:
    """Observations at an episode's decisions, and the spread of the sequences' ends."""

    def __init__(self) -> None:
        self._seen: Floats = np.zeros((0, 0))
        self._variance: Floats = np.zeros(0)
        self._spreads = 0

    def add(self, obs: Floats) -> None:
        """Remember the observation `[F]` of a decision; the oldest goes if there are many."""
        self._seen = np.concatenate([self._seen.reshape(-1, obs.size), obs[None]])[-REMEMBERED:]

    def measure(self, ends: Floats) -> None:
        """Take in how widely the last observations `[n, F]` of sequences differ.

        The unit of each number is their standard deviation, its variance averaged over the plans
        of the episode.
        """
        self._spreads += 1
        before = self._variance if self._variance.size else np.zeros(ends.shape[1])
        self._variance = before + (ends.var(axis=0) - before) / self._spreads

    def novelty(self, ends: Floats) -> Floats:
        """Return `[n]` in [0, 1], distances of the last observations `[n, F]` from earlier ones.

        d / (1 + d), where d is the root mean square difference to the nearest, over the numbers
        that differ at all; 0 where a number is not finite.
        """
        varies = self._variance > 0.0
        weights = np.zeros(len(varies))
        weights[varies] = 1.0 / (self._variance[varies] * np.count_nonzero(varies))
        squares = np.empty(len(ends))
        nearest(np.ascontiguousarray(ends), self._seen, weights, squares)
        distance = np.sqrt(np.where(np.isfinite(squares), squares, 0.0))
        return np.asarray(distance / (1.0 + distance))


@kernel
def nearest(ends: Floats, seen: Floats, weights: Floats, squares: Floats) -> None:
    """Write the distances of n observations to the nearest of m.

    Args:
        ends: `[n, F]`.
        seen: `[m, F]`.
        weights: `[F]` of the squared differences.
        squares: `[n]` written: their sum; infinite where no sum is a number.
    """
    for i in range(len(ends)):
        least = np.inf
        for j in range(len(seen)):
            total = 0.0
            for f in range(len(weights)):
                gap = ends[i, f] - seen[j, f]
                total += weights[f] * gap * gap
                # It can only grow.
                if total >= least:
                    break
            least = min(least, total)
        squares[i] = least


#: Longest horizon: how steps hang on knots takes memory that grows with its square.
_FARTHEST = 10_000
_SHORTEN = "Shorten it, and let an evaluator value what follows."


class Population(NamedTuple):
    """n sampled sequences, as knots in [-1, 1], with their returns."""

    knots: Floats  # [n, K, D]
    returns: Floats  # [n]


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a plan. With time left, another cycle of rounds begins."""

    count: int  # sequences to try from every state
    first: bool  # of the plan
    opens: bool  # the first of its cycle
    last: bool  # the last of its cycle from which is learned
    judges: bool = False  # tries the answer, and nothing is learned from it


@dataclass(eq=False)
class Row:
    """Planner data of one of the states in a batch.

    Attributes:
        rng: draws for this row.
        mean: `[K, D]`, where sequences are drawn around.
        std: `[K, D]`, how widely.
        best: `[K, D]`, the best sequence of this plan.
        best_return: what it returned, with the bonus for novelty.
        best_value: what it returned without that.
        answer: `[K, D]`, the best of the answers that were tried; see `plays_tried`.
        answer_return: what it returned, with the bonus for novelty; -inf: none was tried.
        answer_value: what it returned without that.
        elites: good sequences, best first; what they are is the planner's business.
        shown: what the episode has shown, for `novelty_bonus`.
        warm: whether `mean` comes from a policy, or it and `elites` from the last plan.
        goes_on: whether the next plan begins with this one, or knows no more than `shown`.
        steps: control steps of the model that were taken for this plan.
        tried: sequences played for this plan.
        asked: observations shown to the policy.
    """

    rng: Rng
    mean: Floats
    std: Floats
    best: Floats
    best_return: float = -np.inf
    best_value: float = -np.inf
    answer: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    answer_return: float = -np.inf
    answer_value: float = -np.inf
    elites: Population = field(default_factory=lambda: Population(np.zeros((0, 0, 0)), np.zeros(0)))
    shown: Shown = field(default_factory=Shown)
    warm: bool = False
    goes_on: bool = True
    steps: int = 0
    tried: int = 0
    asked: int = 0


@dataclass(eq=False, kw_only=True)
class Shooting(Planner):
    """Abstract base: samples action sequences, plays them in one `rollout_batch`, and updates.

    For bounded continuous actions. A simulation is one sequence played from the
    state. Sequences live in units in which the action space is [-1, 1].

    Args:
        horizon: control steps that a sequence looks ahead, at most 10,000.
        action_repeat: steps for which a sequence holds each action, the last one perhaps
            for fewer; 1 leaves it to the spline.
        num_knots: points that a sequence is drawn through; fewer make it smoother.
            None: one per step.
        spline: how knots are joined: "zero" (held), "linear" or "cubic".
        iterations: rounds among which the simulations are divided; each learns from
            the one before.
        warm_start: begin with the last plan, shifted by one step.
        evaluator: `obs [n, *obs] -> (ignored, value [n])`. Its value is what follows the last
            step of a sequence, unless that ended the episode: so a short horizon will do.
        policy: `obs [n, *obs] -> actions [n, *act]`. The first round tries what it would play,
            and draws around that in place of the last plan. Playing it in the model takes `horizon`
            steps besides those of the sequences.
        novelty_bonus: maximum bonus of a sequence for a new end: this times d / (1 + d), where d
            is the distance of its last observation to the nearest one at an earlier
            decision, in standard deviations of such ends. Small relative
            to rewards, it decides only where there are none. A plan's value excludes it.
            0: none, and no observations are needed.
    """

    horizon: Annotated[int, Range(1, _FARTHEST, advice=_SHORTEN)] = 30
    action_repeat: Count = 1
    num_knots: Count | None = None
    spline: Annotated[str, OneOf(SPLINES)] = "linear"
    iterations: Count = 1
    warm_start: bool = True
    evaluator: Evaluator | None = None
    policy: ActionPolicy | None = None
    novelty_bonus: Weight = 0.0

    plans_over: ClassVar[str] = VECTORS
    default_simulations = 128
    #: Whether the sequence that is played is one of those that rounds have tried. If not it
    #: is tried once in the end, as one of the simulations, so that its return is known.
    plays_tried: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        repeat, knots, kind = self.action_repeat, self.num_knots, self.spline
        if repeat > 1:
            if knots is not None:
                raise InvalidOption(
                    f"{self._option('action_repeat')} and num_knots exclude each other; got "
                    f"{repeat} and {knots}. Set one of them."
                )
            knots, kind = -(-self.horizon // repeat), "zero"
        knots = self.horizon if knots is None else knots
        if knots > self.horizon:
            raise InvalidOption(
                f"{self._option('num_knots')} must be at most the horizon, {self.horizon}; "
                f"got {knots}."
            )
        if self.policy is None:
            self._check_pays(self.horizon, "sequence")
        else:
            self._check_pays(2 * self.horizon, "sequence and what the policy plays,")
        self._curve = Spline(self.horizon, knots, kind, repeat if repeat > 1 else None)
        self._kept: KeptRows[Row] = KeptRows()

    def _memory_options(self) -> tuple[Any, ...]:
        """Return the options that determine the shape of the last plan."""
        return self.horizon, self.num_knots, self.action_repeat, self.spline

    # What a planner of this kind says -------------------------------------------

    def _begin(self, row: Row) -> None:
        """Set what a cycle's first round draws from: the warm start, or the middle of the space."""

    @abstractmethod
    def _propose(self, row: Row, turn: Round) -> Floats:
        """Return `[turn.count, K, D]` knots to try; they will be clipped to [-1, 1]."""

    def _learn(self, row: Row, tried: Population) -> None:  # noqa: ARG002
        """Learn from the returns of a round: here, draw around the best so far.

        The next plan begins with `row.mean`, shifted.
        """
        row.mean = row.best

    def _answer(self, row: Row) -> Floats:
        """Return `[K, D]`, the sequence to play: the best, or the mean unless `plays_tried`."""
        return row.best if self.plays_tried else row.mean

    def _counts(self, total: int) -> list[int]:
        """Return how many sequences to try in each round: `total` spread evenly; none is 0."""
        return evenly(total, min(total, self.iterations))

    # What they share ------------------------------------------------------------

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Improve B sequences in lockstep."""
        box = box_actions(request.env.action_space, request.planner)
        rows = self._begun(request, box)
        if self.novelty_bonus > 0.0:
            seen = numbers_of(request.needed_obs("novelty_bonus"), request.batch)
            for row, obs in zip(rows, seen, strict=True):
                row.shown.add(obs)
        for turn in self._rounds():
            if turn.opens and not turn.first:
                for row in rows:
                    self._begin(row)
            self._run(request, rows, box, turn)
            if request.clock.over:
                break
        for row in rows:
            row.goes_on = self.warm_start
        if self.warm_start or self.novelty_bonus > 0.0:
            self._kept.put(request.env, rows)
        seconds = request.clock.seconds / len(rows)
        return [self._plan(row, box, seconds) for row in rows]

    def _rounds(self) -> Iterator[Round]:
        """Yield the rounds of a plan; without end if only time bounds them."""
        # The policy's first sequence costs as many steps as any other.
        before = 0 if self.policy is None else self.horizon
        total = self._affordable(self.horizon, before)
        tried = self.default_simulations if total is None else total
        judged = not self.plays_tried and tried > 1
        counts = self._counts(tried - judged)
        for cycle in itertools.count() if total is None else range(1):
            for k, count in enumerate(counts):
                first = cycle == 0 and k == 0
                yield Round(count, first=first, opens=k == 0, last=k == len(counts) - 1)
            if judged:
                yield Round(1, first=False, opens=False, last=False, judges=True)

    def _begun(self, request: PlanRequest, box: Box) -> list[Row]:
        """Return the rows that B plans begin with."""
        kept = self._kept.take(request.env, request.batch)
        rows = [self._row(rng, box, last) for rng, last in zip(request.rngs, kept, strict=True)]
        if self.policy is not None:
            played = proposed(request, box, self.policy, self.horizon)
            means = self._curve.fitted(played.units)
            for row, mean, steps in zip(rows, means, played.steps.tolist(), strict=True):
                row.warm, row.mean, row.steps, row.asked = True, mean, steps, steps
        for row in rows:
            self._begin(row)
        return rows

    def _row(self, rng: Rng, box: Box, last: Row | None) -> Row:
        """Return a row, with what is kept of the last plan's if there is one."""
        shape = (self._curve.num_knots, box.size)
        row = Row(rng, np.zeros(shape), np.ones(shape), np.zeros(shape))
        if last is not None:
            row.shown = last.shown
        if last is not None and last.goes_on:
            row.warm = True
            row.mean = self._curve.shifted(last.mean[None])[0]
            if len(last.elites.returns):
                knots = self._curve.shifted(last.elites.knots)
                row.elites = Population(knots, np.full(len(knots), np.nan))
        return row

    def _run(self, request: PlanRequest, rows: list[Row], box: Box, turn: Round) -> None:
        """Try as many sequences from every state as the round has, and learn from them."""
        count = turn.count
        propose = self._judged if turn.judges else self._propose
        knots = [np.clip(propose(row, turn), -1.0, 1.0) for row in rows]
        actions = np.concatenate([box.actions(self._curve.sequences(k)) for k in knots])
        out = request.env.rollout_batch(actions, np.repeat(request.states, count, axis=0))
        tail = None
        if self.evaluator is not None:
            _, tail = evaluate(self.evaluator, out.obs, len(out.steps), None)
        values = bootstrapped(out, self.discount, tail)
        check_finite(f"{request.planner}: returns", values)
        # Sequences are compared with the bonus; a plan tells what its sequence returns.
        returns = values.copy()
        ends = numbers_of(out.obs, len(actions)) if self.novelty_bonus > 0.0 else None
        for b, row in enumerate(rows):
            own = slice(b * count, (b + 1) * count)
            if ends is not None:
                if turn.first:
                    row.shown.measure(ends[own])
                returns[own] += self.novelty_bonus * row.shown.novelty(ends[own])
            row.steps += int(out.steps[own].sum())
            row.tried += count
            tried = Population(knots[b], returns[own])
            _note_best(row, tried, values[own])
            if not turn.judges:
                self._learn(row, tried)
            elif tried.returns[0] > row.answer_return:
                row.answer, row.answer_return = tried.knots[0], float(tried.returns[0])
                row.answer_value = float(values[own][0])

    def _judged(self, row: Row, turn: Round) -> Floats:  # noqa: ARG002 - as `_propose`
        """Return the answer alone, `[1, K, D]`."""
        return self._answer(row)[None]

    def _plan(self, row: Row, box: Box, seconds: float) -> Plan:
        """Read the plan off a row; the next one begins with what is played."""
        answer, value = row.best, row.best_value
        if np.isfinite(row.answer_return):
            answer = row.mean = row.answer
            value = row.answer_value
        actions = box.actions(self._curve.sequences(answer[None]))[0]
        rated = 0 if self.evaluator is None else row.tried
        budget = Budget(
            model_steps=row.steps,
            evaluator_rows=rated + row.asked,
            restores=row.tried + row.asked,
            seconds=seconds,
        )
        return Plan(action=actions[0].copy(), value=value, budget=budget, actions=actions)


def _note_best(row: Row, tried: Population, values: Floats) -> None:
    """Keep the best of the sequences that were tried, if it is the best of the plan."""
    top = int(np.argmax(tried.returns))
    if tried.returns[top] > row.best_return:
        row.best, row.best_return = tried.knots[top], float(tried.returns[top])
        row.best_value = float(values[top])


def evenly(total: int, rounds: int) -> list[int]:
    """Split `total` into rounds that differ by one at most, the larger ones first."""
    even, more = divmod(total, rounds)
    return [even + (i < more) for i in range(rounds)]
