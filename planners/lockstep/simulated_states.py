"""SimulatedStates: node states that compiled env rules step in place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.lockstep.node_states import ArrayStates, Index
from plangym_ext.planners.players import PLAYER, TO_PLAY, num_players
from plangym_ext.planners.simulator import (
    SearchModel,
    Simulator,
    SimulatorFunctions,
    States,
    Transitions,
    simulator_of,
)

#: Compiled code steps one row after the other, with the scratch of one thread.
_LANE = 0


class Steps(NamedTuple):
    """L steps: source nodes, target nodes, actions."""

    capacity: int  # N, nodes of a tree: row b * N + n is node n of tree b
    actions: npt.NDArray[np.int64]  # [L]
    trees: npt.NDArray[np.int32]  # [L]
    parents: npt.NDArray[np.int32]  # [L]
    nodes: npt.NDArray[np.int32]  # [L]


class Outcome(NamedTuple):
    """Arrays for the results of L steps."""

    rewards: npt.NDArray[np.float64]  # [L]
    terminateds: npt.NDArray[np.bool_]  # [L]
    truncateds: npt.NDArray[np.bool_]  # [L]
    legal: npt.NDArray[np.bool_]  # [L, A]; [0, A] if states allow every action
    swaps: npt.NDArray[np.bool_]  # [L] whether the other player moves next


class Answer(NamedTuple):
    """Result in the form of `SearchModel.step_batch`, without the states.

    Observations are a fresh array; the others are written again by the next step.
    """

    obs: npt.NDArray[Any]
    rewards: npt.NDArray[np.float64]
    terminateds: npt.NDArray[np.bool_]
    truncateds: npt.NDArray[np.bool_]
    infos: dict[str, npt.NDArray[Any]]


class SimulatedStates(ArrayStates):
    """States in one array that compiled code steps in place, bit for bit as in batches.

    Steps that compiled code cannot handle, such as one to an observation that is not finite, are
    taken by the model, which raises its own error if there is one.

    Args:
        model: whose rules they are, and what is asked in such a case.
        simulator: its rules.
        batch: B.
        capacity: N.
        num_actions: A.
    """

    checks = True

    def __init__(
        self, model: SearchModel, simulator: Simulator, batch: int, capacity: int, num_actions: int
    ) -> None:
        super().__init__(model, batch, capacity, simulator.width)
        self._simulator, self._num_actions = simulator, num_actions
        self._two_players = num_players(model) == 2
        self._obs_is_number = _space_of(model).shape == ()
        self._context = simulator.context(1)
        # What compiled code sees of the rows, and of which rows that is.
        self._viewed, self._views = self.rows, self._views_of(self.rows)
        self._outcome = self._room(0)
        self._loop: Callable[..., bool] | None = None

    def put(self, trees: Index, node: int, states: States) -> None:
        """Write states, if the model takes them: compiled code would not notice damage."""
        if len(states):
            self._simulator.check(states, "step_batch")
        super().put(trees, node, states)

    def step(
        self, actions: npt.NDArray[Any], trees: Index, parents: Index, nodes: Index
    ) -> Transitions:
        """Step in place; the answer has no states."""
        size, capacity = len(actions), self.rows.shape[1]
        if len(self._outcome.rewards) != size:
            self._outcome = self._room(size)
        seen = self._context.obs
        obs = np.empty((size, *seen.shape[1:]), seen.dtype)
        # Compiled code looks at no type: indices are those that it was compiled for.
        indices = (np.ascontiguousarray(given, np.int32) for given in (trees, parents, nodes))
        steps = Steps(capacity, np.ascontiguousarray(actions, np.int64), *indices)
        # They are wider where the model has returned wider ones, which its rules here do not know.
        if self.rows.shape[2] == self._simulator.width and self._stepped(steps, obs):
            return self._answer(obs)  # type: ignore[return-value]
        return super().step(actions, trees, parents, nodes)

    def _room(self, size: int) -> Outcome:
        over, cut, swaps = np.empty((3, size), np.bool_)
        masked = size if self._simulator.has_masks else 0
        legal = np.empty((masked, self._num_actions), np.bool_)
        return Outcome(np.empty(size), over, cut, legal, swaps)

    def _stepped(self, steps: Steps, obs: npt.NDArray[Any]) -> bool:
        """Step in compiled code; return whether that went well."""
        if self._viewed is not self.rows:  # they were copied, as other trees or wider
            self._viewed, self._views = self.rows, self._views_of(self.rows)
        arguments = self._context, self._views, steps, self._outcome, obs
        # Not before it is needed: a search in compiled code never is.
        if self._loop is None:
            maker = _maker(self._simulator.has_masks)
            self._loop = self._simulator.build(maker, arguments)
        try:
            return self._loop(*arguments)
        # Errors of compiled code have no message: the model steps again and raises its own.
        except Exception:
            return False

    def _views_of(self, rows: States) -> Any:
        return self._simulator.rows(rows.reshape(-1, rows.shape[2]))

    def _answer(self, obs: npt.NDArray[Any]) -> Answer:
        rewards, over, cut, legal, swaps = self._outcome
        infos: dict[str, npt.NDArray[Any]] = {}
        if self._simulator.has_masks:
            infos["action_mask"] = legal
        if self._two_players:
            infos |= {PLAYER: np.zeros(len(swaps), np.bool_), TO_PLAY: swaps}
        return Answer(obs[:, 0] if self._obs_is_number else obs, rewards, over, cut, infos)


@functools.cache
def _maker(has_masks: bool) -> Callable[[SimulatorFunctions], Callable[..., bool]]:
    """Return the same function for the same argument: compiled code is cached by it."""
    return functools.partial(make_step, has_masks)


def make_step(has_masks: bool, functions: SimulatorFunctions) -> Callable[..., bool]:
    """Return `step(context, rows, steps, outcome, obs) -> bool`, to be compiled.

    It writes what is seen to `obs` `[L, *obs]`, or `[L, 1]` for numbers. It returns False if it
    cannot step a row, or if the result is invalid.
    """
    check, copy, advance, seal = functions.check, functions.copy, functions.advance, functions.seal
    can_observe, observe = functions.can_observe, functions.observe
    mask, swaps = functions.mask, functions.swaps

    def step(context: Any, rows: Any, steps: Steps, outcome: Outcome, obs: Any) -> bool:
        lane = _LANE
        for i in range(len(steps.actions)):
            first = steps.trees[i] * np.int64(steps.capacity)
            source, row = first + steps.parents[i], first + steps.nodes[i]
            if not check(context, rows, source):
                return False
            copy(rows, source, rows, row)
            reward, over, cut = advance(context, rows, row, steps.actions[i], lane)
            seal(context, rows, row)
            outcome.rewards[i], outcome.terminateds[i], outcome.truncateds[i] = reward, over, cut
            outcome.swaps[i] = swaps(context, lane)
            if has_masks:
                legal, any_legal = outcome.legal[i], over or cut
                mask(context, lane, legal)
                for a in range(legal.size):
                    any_legal = any_legal or legal[a]
                if not any_legal:
                    return False
            if not np.isfinite(reward) or not can_observe(context, rows, row, lane):
                return False
            observe(context, rows, row, lane)
            seen, shown = context.obs[lane], obs[i]
            for k in range(shown.size):
                shown.flat[k] = seen.flat[k]
        return True

    return step


def _space_of(model: Any) -> Any:
    return getattr(model, "observation_space", None)


def simulated_states(
    model: SearchModel, batch: int, capacity: int, width: int, num_actions: int
) -> SimulatedStates | None:
    """Return states that compiled code steps, or None.

    Args:
        model: what steps.
        batch: B.
        capacity: N.
        width: S, the bytes of a state.
        num_actions: A.
    """
    simulator = simulator_of(model)
    if simulator is None or simulator.width != width or capacity == 1:
        return None
    # What is seen lies in one array there. A model need not say what that is.
    space = _space_of(model)
    if space is None or hasattr(space, "spaces"):
        return None
    return SimulatedStates(model, simulator, batch, capacity, num_actions)
