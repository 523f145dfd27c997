"""MixedModel: the true env for the first steps of a search, a learned model after them."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import StateError
from plangym_ext.learn.models.model_env import ModelEnv

Bytes = npt.NDArray[np.uint8]


class Stepped(NamedTuple):
    """N rows after steps, as of a `SearchModel`."""

    states: Bytes
    obs: Any
    rewards: npt.NDArray[np.float64]
    terminateds: npt.NDArray[np.bool_]
    truncateds: npt.NDArray[np.bool_]
    infos: Any
    steps: npt.NDArray[np.int32]


@final
class MixedModel:
    """A `SearchModel` that steps the true env for the first `true_steps` steps, then the model.

    A state is a byte, the true steps that are left, and a state of env or model, filled up with
    zeros. The last true step leads to where the model begins at its observation. Observations are
    the model's. Masks of the env are not passed on.

    Args:
        env: with exact states, all equally wide.
        model: of it.
        true_steps: 1 to 255.
    """

    def __init__(self, env: Any, model: ModelEnv, true_steps: int) -> None:
        self.env, self.model, self._true_steps = env, model, true_steps
        self.action_space: Any = model.action_space
        self.observation_space: Any = model.observation_space

    def states_of(self, states: Bytes) -> Bytes:
        """Return the rows `[B, 1 + S]` at which states `[B, S]` of the env begin."""
        return self._rows(states, np.full(len(states), self._true_steps, np.uint8))

    def _rows(self, states: Bytes, left: Bytes) -> Bytes:
        width = max(self.env.state_width, self.model.state_width)
        if states.shape[1] > width:
            raise StateError(
                f"MixedModel: states of {self.env} must be {width} bytes wide; got "
                f"{states.shape[1]}. Plan with true_steps=0 in an env whose states grow."
            )
        rows = np.zeros((len(states), 1 + width), np.uint8)
        rows[:, 0], rows[:, 1 : 1 + states.shape[1]] = left, states
        return rows

    def step_batch(self, actions: Any, states: Bytes) -> Stepped:
        """Play actions `[B, *act]`, one in each row; see `SearchModel.step_batch`."""
        found = self.rollout_batch(np.asarray(actions)[:, None], states)
        return found._replace(rewards=found.rewards[:, 0])

    def rollout_batch(self, actions: Any, states: Bytes) -> Stepped:
        """Play actions `[B, H, *act]` until an ending; see `SearchModel.rollout_batch`."""
        count, horizon = np.shape(actions)[:2]
        space, rows = self.observation_space, np.array(states)
        seen = np.zeros((count, *space.shape), space.dtype)
        rewards, steps = np.zeros((count, horizon)), np.zeros(count, np.int32)
        over, cut = np.zeros((2, count), np.bool_)
        for h in range(horizon):
            going, true = ~over & ~cut, rows[:, 0] > 0
            steps += going
            for some in (np.flatnonzero(going & true), np.flatnonzero(going & ~true)):
                if len(some):
                    found = self._stepped(actions[some, h], rows[some])
                    rows[some], seen[some], rewards[some, h], over[some], cut[some] = found
        return Stepped(rows, seen, rewards, over, cut, {}, steps)

    def _stepped(self, actions: Any, rows: Bytes) -> Any:
        """Step rows of one kind; return rows, observations, rewards and endings."""
        true = rows[0, 0] > 0
        own = self.env if true else self.model
        out = own.step_batch(actions, states=rows[:, 1 : 1 + own.state_width].copy())
        told: Any = out.rewards, out.terminateds, out.truncateds
        if not true:
            return self._rows(out.states, rows[:, 0]), out.obs, *told
        begun, left = self.model.states_of(out.obs), rows[:, 0] - 1
        found = self._rows(out.states, left)
        found[left == 0] = self._rows(begun[left == 0], left[left == 0])
        return found, self.model.obs_of(begun), *told
