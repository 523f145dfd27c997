"""SearchModel: the protocol of envs that planners search in.

Nothing here knows how, or in how many processes, that is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, stacked

States = npt.NDArray[np.uint8]
Rng = np.random.Generator


class Transitions(Protocol):
    """Result of `SearchModel.step_batch`; a named tuple in practice."""

    @property
    def states(self) -> States:
        """`[B, S]` uint8, the rows after the step."""

    @property
    def obs(self) -> Any:
        """`[B, *obs]` observations of `states`, nested as the observation space."""

    @property
    def rewards(self) -> npt.NDArray[np.float64]:
        """`[B]` float64, in the env's reward units."""

    @property
    def terminateds(self) -> npt.NDArray[np.bool_]:
        """`[B]` bool, True where the episode is over."""

    @property
    def truncateds(self) -> npt.NDArray[np.bool_]:
        """`[B]` bool, True where the episode was cut although it could continue."""

    @property
    def infos(self) -> Any:
        """Mapping of names to `[B, ...]` columns; masks and players are looked at."""


class Rollout(Protocol):
    """Result of `SearchModel.rollout_batch`; states and obs are the last ones."""

    @property
    def obs(self) -> Any:
        """`[B, *obs]` after the last step that was taken."""

    @property
    def rewards(self) -> npt.NDArray[np.float64]:
        """`[B, H]` float64, zero after an ending."""

    @property
    def terminateds(self) -> npt.NDArray[np.bool_]:
        """`[B]` bool, as in `Transitions`."""

    @property
    def steps(self) -> npt.NDArray[np.int32]:
        """`[B]` int32, how many of the H steps were taken."""


class SearchModel(Protocol):
    """Protocol of an env that steps any states it is given.

    Row i of a result depends on row i of the inputs alone. States hold the
    env's random generator, so (state, action) decides what happens. Returned
    arrays belong to the caller.
    """

    @property
    def action_space(self) -> Any:
        """A gymnasium space; planners for discrete actions need `Discrete`."""

    def step_batch(self, actions: npt.NDArray[Any], states: States) -> Transitions:
        """Restore `states` `[B, S]`, play `actions` `[B]`, one step each; return fresh arrays."""

    def rollout_batch(self, actions: npt.NDArray[Any], states: States) -> Rollout:
        """Restore each row once and play `actions` `[B, H]` until an ending."""


def stacked_obs(env: SearchModel, observations: Sequence[Any]) -> Any:
    """Return a batch `[L, *obs]` of L observations, as `step_batch` would return them.

    Args:
        env: which they come from. Only of one with an `observation_space` may they be
            anything but arrays of one shape.
        observations: as `reset` and `step` return them.
    """
    space = getattr(env, "observation_space", None)
    first = observations[0]
    # Most observations are one array each, and this is done for every move.
    if space is None or (isinstance(first, np.ndarray) and first.shape == space.shape):
        return np.stack(observations)
    # Here, as it imports gymnasium, which models of one's own can do without.
    from plangym_ext.arrays.spaces import SpaceLayout

    return SpaceLayout(space, objects=True).stack(observations)


def stacked_actions(env: SearchModel, actions: Sequence[Any]) -> Any:
    """Return a batch `[L, *act]` of L actions, nested as the action space; a fresh copy."""
    space = env.action_space
    if not hasattr(space, "spaces"):
        return stacked(actions)
    from plangym_ext.arrays.spaces import SpaceLayout

    return SpaceLayout(space).stack(actions)


def numbers_of(obs: Any, count: int) -> npt.NDArray[np.float64]:
    """Return `[L, F]` all numbers in L nested observations; texts and objects are left out."""
    parts = [part for part in map(np.asarray, leaves(obs)) if part.dtype.kind in "biuf"]
    flat = [part.reshape(count, -1).astype(np.float64) for part in parts]
    return np.concatenate([np.zeros((count, 0)), *flat], axis=1)
