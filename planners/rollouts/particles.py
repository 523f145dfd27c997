"""Particles: weighted, resampled groups of walkers from states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.rating import spread_of
from plangym_ext.planners.request import PlanRequest

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
        """Return where the particles of a group are."""
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
        """Count a step of the particles `at`, and evaluator rows of those `asked`."""
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
            # Alone these would be over: what others do makes no difference to them.
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
