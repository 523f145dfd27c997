"""VenvRows: a contiguous part of a vector env's sub-envs, for one actor."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.items import has_items, item_rows
from plangym_ext.vector.vector_env import PlanVectorEnv

Ndarray = npt.NDArray[Any]


class VenvRows:
    """b adjoining sub-envs of a vector env, numbered from 0.

    Args:
        venv: the vector env.
        rows: which; None for all.
    """

    #: Whether a step of all rows writes its results to `out`; else they are returned alone.
    writes = True

    def __init__(self, venv: PlanVectorEnv, rows: range | None = None) -> None:
        self.venv = venv
        self.single_observation_space = venv.single_observation_space
        self.single_action_space = venv.single_action_space
        self._ids = np.arange(venv.num_envs) if rows is None else np.array(rows)
        self._whole = len(self._ids) == venv.num_envs
        self.num_envs = len(self._ids)
        #: Rows of the same vector env, whose steps may be in flight beside those of these.
        self.others: Sequence[VenvRows] = ()
        #: Returns what came of the step that was begun; None: there is none.
        self._finish: Callable[[], Any] | None = None

    def _of(self, rows: Ndarray | None) -> Ndarray | None:
        """Return the numbers of rows in the vector env; None for all of it."""
        if rows is None:
            return None if self._whole else self._ids
        return self._ids[rows]

    def reset(self, seeds: Sequence[int]) -> tuple[Any, dict[str, Any]]:
        """Reset all rows, each by a seed; return observations `[b, *obs]` and infos."""
        if self._whole:
            return self.venv.reset(seed=seeds)
        return self.venv.reset_some(self._ids, seed=seeds)

    def reset_rows(self, rows: Ndarray, seeds: Sequence[int]) -> tuple[Any, dict[str, Any]]:
        """Reset `[k]` rows, none of them in flight; return their observations and infos."""
        for other in self.others:
            other.hold()
        return self.venv.reset_some(self._ids[rows], seed=seeds)

    def step(self, actions: Any, rows: Ndarray) -> Any:
        """Step `[k]` rows; see `PlanVectorEnv.step`."""
        return self.venv.step(actions, self._of(rows))

    def step_out(self, out: Any, infos: Iterable[str] | None) -> Any:
        """Return the arrays of an `out` for all rows, checked once for many calls.

        Args:
            out: as for `PlanVectorEnv.step`.
            infos: names of those that such a step returns; None for all.
        """
        return self.venv.step_out(out, self.num_envs, infos=infos)

    def step_async(self, actions: Any, rows: Ndarray | None, out: Any) -> None:
        """Begin a step of `[k]` rows, or of all; that of another half may be in flight."""
        ids = self._of(rows)
        if ids is None:  # nothing else can be in flight beside a step of all rows
            self._finish = functools.partial(self.venv.step, actions, out=out)
        else:
            self._finish = functools.partial(self.venv.step_wait, env_ids=ids)
            self.venv.step_async(actions, ids, out=out)

    def step_wait(self) -> Any:
        """Wait for the step; return the result of `PlanVectorEnv.step`."""
        finish, self._finish = self._finish, None
        assert finish is not None
        return finish()

    def hold(self) -> None:
        """Wait for a step in flight, and keep its result for `step_wait`."""
        if self._finish is not None:
            held = self.step_wait()
            self._finish = lambda: held

    def restore(self, rows: Ndarray, states: Ndarray) -> None:
        """Set `[k]` of these rows to states `[k, S]`; none of them is in flight.

        Steps of other rows are waited for: states are set while nothing is in flight.
        """
        for other in self.others:
            other.hold()
        self._set(self._ids[rows], states)

    def settle(self) -> None:
        """Wait for everything in flight in the vector env, ignoring errors."""
        self._finish = None
        # An interrupt may have come at any moment, so only the vector env knows.
        with contextlib.suppress(gym.error.NoAsyncCallError):
            # Two halves at most may be in flight.
            for _ in range(2):
                try:
                    self.venv.step_wait()
                except gym.error.NoAsyncCallError:
                    raise
                except Exception:
                    continue

    def state_dict(self) -> dict[str, Any]:
        """Return arrays `[b, ...]` by name, of what the states of the envs do not hold."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`, which may have other names, too."""

    def get_states(self) -> Ndarray:
        """Return `[b, S]` uint8, fresh.

        Raises:
            IncompleteState: the state of a sub-env cannot be captured.
        """
        return self.venv.get_states()[self._ids]

    def set_states(self, states: Ndarray) -> None:
        """Set the rows to states `[b, S]`."""
        try:
            self._set(self._ids, states)
        except gym.error.ResetNeeded:  # sub-envs could not be brought back after a fault
            self.venv.reset()
            self._set(self._ids, states)

    def _set(self, ids: Ndarray, states: Ndarray) -> None:
        every = np.zeros((self.venv.num_envs, states.shape[1]), np.uint8)
        every[ids] = states
        mask = np.zeros(self.venv.num_envs, bool)
        mask[ids] = True
        self.venv.set_states(every, mask)


class ItemRows(VenvRows):
    """`VenvRows` for observations with items: batches are those of `item_rows`."""

    writes = False

    def _items(self, result: Any) -> Any:
        obs, *rest = result
        return (item_rows(self.single_observation_space, obs), *rest)

    def reset(self, seeds: Sequence[int]) -> tuple[Any, dict[str, Any]]:
        return self._items(super().reset(seeds))

    def reset_rows(self, rows: Ndarray, seeds: Sequence[int]) -> tuple[Any, dict[str, Any]]:
        return self._items(super().reset_rows(rows, seeds))

    def step(self, actions: Any, rows: Ndarray) -> Any:
        return self._items(super().step(actions, rows))

    def step_wait(self) -> Any:
        """Wait for the step; its infos have "final_obs" as the envs gave them."""
        return self._items(super().step_wait())


def venv_rows(venv: PlanVectorEnv, rows: range | None = None) -> VenvRows:
    """Return some sub-envs of a vector env."""
    return (ItemRows if has_items(venv.single_observation_space) else VenvRows)(venv, rows)
