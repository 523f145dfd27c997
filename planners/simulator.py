"""Protocols of envs for planners: SearchModel steps batches, Simulator has compiled rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, stacked


class SimulatorFunctions(Protocol):
    """Protocol: functions that a compiled loop may call, compiled as part of it.

    `rows` is what `Simulator.rows` makes of an array of states, and an integer is an
    index into it. `lane` is a lane of the context: each thread has one of its own.
    """

    check: Callable[..., bool]  # (context, rows, row): whether it is safe to step
    copy: Callable[..., None]  # (rows, row, others, other)
    advance: Callable[..., tuple[float, bool, bool]]  # (context, rows, row, action, lane)
    seal: Callable[..., None]  # (context, rows, row): afterwards any env takes it
    observe: Callable[..., None]  # (context, rows, row, lane), writes `context.obs[lane]`, [*obs]
    can_observe: Callable[..., bool]  # (context, rows, row, lane): nothing in it is invalid
    mask: Callable[..., None]  # (context, lane, out [A]): what the row last advanced allows
    swaps: Callable[..., bool]  # (context, lane): whether the other player moves next there


class Threads(Protocol):
    """Protocol: threads that run compiled code together."""

    @property
    def most(self) -> int:
        """Number of threads, the caller's included."""

    def run(self, function: Callable[..., Any], shares: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the function's result for each share of arguments, one thread each."""


class Simulator(Protocol):
    """Protocol: an env with compiled rules, as returned by `env.simulator()`.

    Planners know no backend: they ask an env for this, and step batches if it has none.
    """

    @property
    def functions(self) -> SimulatorFunctions:
        """The argument of `make` in `build`."""

    @property
    def width(self) -> int:
        """S, the bytes of the states that `rows` takes."""

    @property
    def has_masks(self) -> bool:
        """Whether some states have illegal actions."""

    @property
    def threads(self) -> Threads:
        """Threads that may share the trees of a search."""

    def rows(self, states: States) -> Any:
        """Return views of `[M, S]` uint8, M at least 2, that functions step in place."""

    def context(self, lanes: int) -> Any:
        """Return constants and scratch memory of the functions, for a number of threads."""

    def check(self, states: States, where: str) -> None:
        """Raise the env's errors for damaged or foreign states `[B, S]`."""

    def build(self, make: Callable[[SimulatorFunctions], Callable[..., Any]], example: Any) -> Any:
        """Return `make(functions)`, compiled for arguments like those of `example`."""


class RaterCode(NamedTuple):
    """A compiled leaf rater: rollouts, and a value function of observations."""

    depth: int  # steps of a rollout, 0 for none
    num_rollouts: int
    value: Callable[[Any], float] | None  # obs [*obs] -> value; None: 0


def simulator_of(model: SearchModel) -> Simulator | None:
    """Return the model's simulator, or None."""
    offer: Callable[[], Simulator | None] | None = getattr(model, "simulator", None)
    return None if offer is None else offer()


# Nothing here knows how, or in how many processes, that is done.

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
        """Mapping of names to `[B, ...]` columns; planners read masks and players."""


class Rollout(Protocol):
    """Result of `SearchModel.rollout_batch`; states and obs are the last ones."""

    @property
    def obs(self) -> Any:
        """`[B, *obs]` after the last step that was taken."""

    @property
    def rewards(self) -> npt.NDArray[np.float64]:
        """`[B, H]` float64, 0 after an ending."""

    @property
    def terminateds(self) -> npt.NDArray[np.bool_]:
        """`[B]` bool, as in `Transitions`."""

    @property
    def steps(self) -> npt.NDArray[np.int32]:
        """`[B]` int32, number of steps taken, at most H."""


class SearchModel(Protocol):
    """Protocol of an env that steps batches from any given states.

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
