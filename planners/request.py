"""PlanRequest: the inputs of one batch of plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import num_rows
from plangym_ext.errors import InvalidOption, NoLegalAction, WrongKind
from plangym_ext.planners.clock import Clock
from plangym_ext.planners.masks import discrete_actions
from plangym_ext.planners.simulator import Rng, SearchModel, States


def no_legal_action(planner: str, rows: npt.NDArray[np.integer[Any]]) -> NoLegalAction:
    """Return the error for states of some rows without a legal action."""
    return NoLegalAction(
        f"{planner}: every state must allow an action; those of rows {rows.tolist()[:8]} allow "
        f"none. Do not plan from a state whose episode has ended."
    )


#: Methods of which a model has one at least; see `SearchModel`.
_STEPPING = ("step_batch", "step_batch_async", "rollout_batch")


@dataclass(frozen=True, slots=True, eq=False)
class PlanRequest:
    """A request of plans for B states at once; see `Planner.plan_batch`.

    Attributes:
        planner: who is asked, as messages call it.
        env: the model.
        states: `[B, S]` uint8.
        rngs: B generators.
        obs: `[B, *obs]` of the states, nested as the observation space; None if they did
            not come along.
        legal: `[B, A]` bool, the actions that the states allow; None: all.
        clock: runs since the planner was asked.

    Raises:
        ValueError: the states are not `[B, S]` uint8 with one generator each.
    """

    planner: str
    env: SearchModel
    states: States
    rngs: Sequence[Rng]
    obs: Any
    legal: npt.NDArray[np.bool_] | None
    clock: Clock

    def __post_init__(self) -> None:
        states, rngs = self.states, self.rngs
        if states.ndim != 2 or states.dtype != np.uint8 or 0 in states.shape:
            raise InvalidOption(
                f"{self.planner}: states must be [B, S] uint8, B and S at least 1; got shape "
                f"{states.shape} {states.dtype}. Take them from get_state, reset or step."
            )
        # None where the planner asks no model, as `NetworkPolicy`.
        if self.env is not None and not any(hasattr(self.env, name) for name in _STEPPING):
            raise WrongKind(
                f"{self.planner}: env must step batches from states, as envs of plangym_ext.make "
                f"do; got {self.env}. Make it with plangym_ext.make."
            )
        kinds = {*map(type, rngs)} if isinstance(rngs, Sequence) else {None}
        # By their classes, of which there is one, as a rule.
        if not all(kind is not None and issubclass(kind, Rng) for kind in kinds):
            raise WrongKind(
                f"{self.planner}: rngs must be a list of numpy generators, one per state; got "
                f"{rngs!r}. np.random.default_rng(seed).spawn({len(states)}) makes that many."
            )
        if len(rngs) != len(states):
            raise InvalidOption(
                f"{self.planner}: needs one generator per state, {len(states)}; got {len(rngs)}. "
                f"np.random.default_rng(seed).spawn({len(states)}) makes that many."
            )

    @property
    def batch(self) -> int:
        """Number of requested plans, B."""
        return len(self.states)

    def discrete_actions(self) -> tuple[int, int]:
        """Return the number A of the env's actions, and its first action.

        Raises:
            InvalidOption: its actions are not discrete.
            ValueError: `legal` is not `[B, A]`.
            NoLegalAction: a row of `legal` allows nothing.
        """
        num_actions, first_action = discrete_actions(self.env.action_space, self.planner)
        if self.legal is not None and self.legal.shape != (self.batch, num_actions):
            raise InvalidOption(
                f"{self.planner}: legal must be {(self.batch, num_actions)}, one row per state and "
                f"one column per action, or None for all; got shape {self.legal.shape}."
            )
        # Here, once: planners rely on every root having an action to begin with.
        if self.legal is not None and not self.legal.any(axis=1).all():
            raise no_legal_action(self.planner, np.flatnonzero(~self.legal.any(axis=1)))
        return num_actions, first_action

    def masks(self) -> npt.NDArray[np.bool_]:
        """Return `[B, A]` bool, the legal actions of each state."""
        if self.legal is not None:
            return self.legal
        return np.ones((self.batch, self.discrete_actions()[0]), np.bool_)

    def needed_obs(self, who: str) -> Any:
        """Return the observations `[B, *obs]`; raise if the request has none.

        Raises:
            ValueError: they did not come along.
        """
        count = "none" if self.obs is None else num_rows(self.obs)
        if count != self.batch:
            raise InvalidOption(
                f"{self.planner}: {who} needs obs, one per state, {self.batch}; got "
                f"{count}. Pass what reset or step "
                f"returned beside the state."
            )
        return self.obs
