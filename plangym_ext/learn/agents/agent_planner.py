"""AgentPlanner: adapter that presents an agent as a planner without model steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import num_rows, rows_of
from plangym_ext.core.masks import checked_mask
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import Inputs, Mode, checked_mode, zeros_of
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.distributions.noise import GeneratorNoise
from plangym_ext.planners.base import Planner
from plangym_ext.planners.kept import Kept
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.simulator import Rng


@dataclass(eq=False)
class AgentPlanner(Planner):
    """A planner that plays an agent and takes no model steps.

    So `planners.play` and all other callers of planners can play it. It keeps the carry, the
    previous action and the previous reward of every game from one plan to the next. The limits that
    planners have mean nothing here.

    A plan has the "value", "q" and "probabilities" that are among the infos of the step.

    Args:
        agent: any agent; it is in `mode` while it is asked, and then as it was.
        mode: "eval" plays as well as it can, "sample" explores.
    """

    num_simulations: int | None = None
    _: KW_ONLY
    agent: Any
    mode: Mode = "eval"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.num_simulations = None  # none are made, whatever a planner's default is
        self.mode = checked_mode(self.mode, type(self).__name__)
        self._kept: _KeptSteps = _KeptSteps()
        self._checked: Any = None  # the last env that the agent has let pass

    @property
    def two_players(self) -> bool:
        """Whether the agent can move for both players: it has no memory of its moves."""
        # An agent that does not say so may look at all.
        looks_at = getattr(self.agent, "looks_at", True)
        return self.agent.initial_carry(1) is None and not looks_at

    @property
    def for_two_players(self) -> str:
        return (
            f"An agent that moves for either of two must carry nothing, and not look at the "
            f"previous action and reward, which are the other's; {type(self.agent).__name__} does. "
            f"Set its looks_at = frozenset() if it does not."
        )

    def take_rewards(self, rewards: npt.NDArray[np.float64]) -> None:
        self._kept.rewards = np.asarray(rewards, np.float32)

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Ask the agent about B observations; nothing is stepped."""
        obs = request.needed_obs("an agent")
        space = getattr(request.env, "action_space", None)
        self._check_spaces(request.env)
        inputs, carry = self._inputs(obs, request.batch, space, request.rngs, request.legal)
        acted = self._asked(inputs, carry)
        # After the agent has acted: a step that raised must leave nothing to continue from.
        self._kept.put(acted.carry, acted.action)
        cost = Budget(evaluator_rows=1, seconds=request.clock.seconds / request.batch)
        rows = [_told(acted.info, b, request.legal) for b in range(request.batch)]
        return [
            Plan(action=rows_of(acted.action, b), budget=cost, **row) for b, row in enumerate(rows)
        ]

    def _inputs(
        self,
        obs: Any,
        batch: int,
        action_space: Any,
        rngs: Sequence[Rng] | None,
        legal: npt.NDArray[np.bool_] | None,
    ) -> tuple[Inputs, Any]:
        """Return the agent's inputs, and the carry of its games."""
        noise = None if rngs is None else GeneratorNoise(rngs)
        if legal is not None and action_space is not None:
            # Planners heed masks of all kinds of actions, agents those of their distributions.
            checked_mask(legal[0], action_space, "play")
        kept = self._kept.taken(batch)
        if kept is None:
            first = np.ones(batch, np.bool_)
            action = None if action_space is None else zeros_of(action_space, batch)
            reward, carry = np.zeros(batch, np.float32), self.agent.initial_carry(batch)
        else:
            first, action, reward, carry = kept
            reward = self._rewards(reward, batch)
        return Inputs(obs, action, reward, first, noise, legal), carry

    def _check_spaces(self, env: Any) -> None:
        """Let the agent check the env's spaces, once per env."""
        check = getattr(self.agent, "check_spaces", None)
        if check is not None and env is not None and env is not self._checked:
            check(env.observation_space, env.action_space)
            self._checked = env

    def _rewards(self, reward: Any, batch: int) -> Any:
        """Return the rewards that were told; zeros where the agent does not look at them."""
        if reward is not None:
            return reward
        if "reward" in getattr(getattr(self.agent, "network", None), "inputs_used", ()):
            raise InvalidOption(
                f"{type(self).__name__}: the agent needs the previous reward; got none. "
                f"Call take_rewards(rewards) after each step, as planners.play does."
            )
        return np.zeros(batch, np.float32)

    def _asked(self, inputs: Inputs, carry: Any) -> Any:
        """Run the agent in this planner's mode."""
        before = self.agent.mode
        if before == self.mode:
            return self.agent.step(inputs, carry)
        self.agent.set_mode(self.mode)
        try:
            return self.agent.step(inputs, carry)
        finally:
            self.agent.set_mode(before)


class _KeptSteps(Kept):
    """Carries, actions and rewards of the last plan's games.

    Attributes:
        rewards: `[B]` float32, as told since then; None: not told.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._steps: tuple[Any, Any] | None = None
        self._first = np.zeros(0, np.bool_)
        self.rewards: Any = None

    def put(self, carry: Any, action: Any) -> None:
        """Keep a carry (None: there is none) and the actions of a plan."""
        self._steps, self.rewards = (carry, action), None
        # No row is in its first step any more, until `forget` says so.
        self._first = np.zeros(num_rows(action), np.bool_)

    def taken(self, batch: int) -> tuple[Any, Any, Any, Any] | None:
        """Take out first, action, reward and carry; None if nothing is kept of such a batch."""
        steps, first, rewards = self._steps, self._first, self.rewards
        # So that no step continues from one that raised.
        self.clear()
        # Another number of games: there is no telling which rows they were, so all begin anew.
        if steps is None or len(first) != batch:
            return None
        carry, action = steps
        return first, action, rewards, carry

    def keep(self, which: npt.NDArray[np.intp]) -> None:
        if self._steps is None:
            return
        carry, action = self._steps
        self._steps = (None if carry is None else rows_of(carry, which), rows_of(action, which))
        self._first = self._first[which]
        self.rewards = None if self.rewards is None else self.rewards[which]

    def forget(self, which: npt.NDArray[np.intp]) -> None:
        """Reset some rows: the agent resets its carry where `first`."""
        if self._steps is not None:
            self._first[which] = True


def _told(info: dict[str, Any], row: int, legal: Any) -> dict[str, Any]:
    """Return the fields of one plan that the infos of a step tell."""
    q, weights, value, allowed = (
        None if rows is None else rows[row]
        for rows in (*map(info.get, ("q", "probabilities", "value")), legal)
    )
    if value is None:
        value = np.nan if q is None else masked(q, allowed).max()
    return {
        # Several agents have a value each, of which the sum is worth the sum of their rewards.
        "value": float(np.sum(value)),
        "q": None if q is None else q.astype(np.float64),
        "weights": None if weights is None else weights.astype(np.float64),
    }
