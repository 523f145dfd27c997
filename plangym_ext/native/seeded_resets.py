"""SeededResets: batched resets by seed on a native backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.core.backend_env import LiveStepper
from plangym_ext.errors import IncompleteState
from plangym_ext.native.seed_streams import generator_at, put_streams

#: Seeds that the env and the native reset are compared on.
_SEEDS = (0, 1, 12345, 2**31 - 5)
_MOST = 2**64 - 1


class SeededResets:
    """Sets the generators of rows by seeds before their resets.

    A seeded reset is one without a seed after the generator was replaced, if nothing else of the
    env depends on the seed: that is tried, once, and compared byte for byte.

    Args:
        env: whose rows they are; the env proper is reset by the comparison.
    """

    def __init__(self, env: LiveStepper) -> None:
        self._env = env
        self._tried, self._at = False, -1
        self._example = np.zeros(0, np.uint8)

    def begun(
        self, states: np.ndarray, fresh: np.ndarray, seeds: Sequence[int | None]
    ) -> np.ndarray | None:
        """Return rows after a native reset by seeds, `[k, S]` uint8, fresh.

        Args:
            states: `[k, S]` uint8 of rows.
            fresh: `[k]` bool, which of them were never reset: these states say nothing.
            seeds: of each; None goes on with the generator of the row, which is not fresh.
        """
        numbers = [seed for seed in seeds if seed is not None and 0 <= seed <= _MOST]
        chosen = np.array([seed is not None for seed in seeds])
        # Seeds out of range are left to the env, which refuses them in its own words.
        if len(numbers) < chosen.sum() or (fresh & ~chosen).any() or not self._prove():
            return None
        found = states.copy()
        # Any state will do: after a reset by seed nothing depends on the one before.
        found[fresh] = self._example
        rows = found[chosen]
        put_streams(rows, self._at, numbers)
        # Back from the copy, which is what a mask gives.
        found[chosen] = rows
        return found

    def _prove(self) -> bool:
        """Return whether native resets by seed are the env's; found out once."""
        if not self._tried:
            found = self._place()
            self._at = -1 if found is None else found
            self._tried = True
        return self._at >= 0

    def _place(self) -> int | None:
        """Return where a row has its generator, if a reset by seed depends on nothing else."""
        env, leaf = self._env, self._env.layout.obs.leaves[0]
        shown = np.zeros((len(_SEEDS), *leaf.shape), leaf.dtype)
        write, states, infos, places = env.plan_env.obs_writer.into((shown,)), [], [], set()
        for k, seed in enumerate(_SEEDS):
            state, obs, info = env.reset(seed=seed)
            write(k, obs)
            states.append(state)
            infos.append(info)
            try:
                places.add(generator_at(state, env.gym_env.unwrapped.np_random))
            except IncompleteState:  # a generator of another kind
                return None
        if len(places) > 1 or (at := places.pop()) is None:
            return None
        wanted = np.stack(states)
        begun = wanted[::-1].copy()  # each begins with another one's
        put_streams(begun, at, _SEEDS)
        self._example = wanted[0]
        return at if self._are_same(begun, wanted, shown, infos) else None

    def _are_same(
        self, begun: np.ndarray, wanted: np.ndarray, shown: np.ndarray, infos: list[dict[str, Any]]
    ) -> bool:
        """Return whether a native reset of rows comes to states, observations and infos."""
        action = self._env.layout.action.leaves[0]
        ignored = np.zeros((len(begun), *action.shape), action.dtype)
        found = self._env.step_live(ignored, begun, np.ones(len(begun), bool), whole=False)
        columns = self._env.reset_columns
        if found is None or columns is None:
            return False
        told = all(
            np.array_equal(found.infos[column.key][k], np.asarray(info.get(column.key)))
            for k, info in enumerate(infos)
            for column in columns
        )
        same = self._env.sealed(found.states).tobytes() == wanted.tobytes()
        return told and same and found.obs[0].tobytes() == shown.tobytes()
