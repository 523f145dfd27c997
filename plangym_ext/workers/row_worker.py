"""The env inside a worker: what its requests are answered with."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.row_loop import row_error, run_rows
from plangym_ext.core.rows import RowBatch
from plangym_ext.workers.rows_message import NO_ROW, ROW, RowsMessage, worker_lines


class WorkerEnv:
    """One `GymEnv` and the batches in shared memory that it runs rows of.

    Args:
        constructor: returns a `GymEnv`, or a gymnasium env to make one of.
    """

    def __init__(self, constructor: Any) -> None:
        env = constructor()
        if isinstance(env, gym.Env):
            made = env
            env = GymEnv(lambda: made)
        if getattr(env, "backend", "process") != "process":
            # A native backend runs batches for an env of this process: a worker steps that.
            env = getattr(env, "plan_env", env)
        if not isinstance(env, GymEnv):
            raise TypeError(
                "constructor: expected it to return a gymnasium.Env or a plangym_ext GymEnv; got "
                f"{type(env).__module__}.{type(env).__qualname__}"
            )
        self._env = env
        self._blocks: dict[int, SharedBlock] = {}
        self._plans: dict[int, RowsMessage] = {}
        #: Views for a plan: making them costs as much as a few rows.
        self._batches: dict[tuple[int, int], RowBatch] = {}

    def description(self) -> dict[str, Any]:
        """Name, spaces and row layout; what the parent checks and shows."""
        env = self._env
        return {
            "name": env.name,
            "observation_space": env.observation_space,
            "action_space": env.action_space,
            "autoreset": env.autoreset,
            "layout": env.layout,
            "info": env.layout.info,
            "identity": env.envelope.identity,
            "payload_width": env.codec.width,
            "exact": env.codec.exact,
        }

    def open_block(self, number: int, fd: int, nbytes: int) -> None:
        """Map shared memory, to be known by a number."""
        self._blocks[number] = SharedBlock.attach(fd, nbytes)

    def learn(self, number: int, what: RowsMessage) -> None:
        """Know a kind of batch by a number."""
        self._plans[number] = what

    def forget(self, kind: str, number: int) -> None:
        """Let go of a "block" or a "plan", and of the views of it."""
        self._batches.clear()
        if kind == "block":
            self._blocks.pop(number).close()
        else:
            del self._plans[number]

    def run(self, plan: int, worker: int, ranges: Iterable[tuple[int, int]]) -> bytes:
        """Run the given row ranges of a batch in place.

        Args:
            plan: the kind of batch.
            worker: number of this worker, which tells where its progress is written.
            ranges: rows, each range as first and behind the last.

        Returns:
            Pickle of the infos of the rows whose fields do not fit the shared columns, and
            of the observations that are no arrays, both by row; empty if there are none.

        Raises:
            RowError: the env raised, or an info cannot be pickled.
            StateError: a state is damaged or belongs to another env, which the env has not
                been shown.
        """
        what = self._plans[plan]
        batch = self._batches.get((plan, worker))
        if batch is None:
            batch = self._batches[plan, worker] = self._batch(what, worker)
        batch.drop_own()
        try:
            for first, stop in ranges:
                if what.unchecked:
                    self._check(batch.states_in[first:stop], what.unchecked)
                run_rows(self._env, batch, first, stop)
        finally:
            batch.progress[ROW] = NO_ROW
        return _pickled(batch) if batch.own_infos or batch.own_objects else b""

    def _check(self, states: np.ndarray, where: str) -> None:
        envelope = self._env.envelope
        if not envelope.holds_own(states):
            envelope.check(states, where)

    def _batch(self, what: RowsMessage, worker: int) -> RowBatch:
        page = self._blocks[what.page]
        memory = page.ndarray((page.nbytes,), np.uint8)
        given = {place.field: place.view(self._blocks[place.block]) for place in what.places}
        store = given.pop("store", None)
        batch = RowBatch(self._env.layout, what.num_rows, what.horizon, memory, given, what.infos)
        batch.store, batch.single = store, what.single
        batch.sources = batch.field("sources") if what.by_source else None
        batch.targets = batch.field("targets") if what.by_target else None
        batch.progress = worker_lines(memory, worker + 1)[worker].data
        return batch

    def widen(self, width: int) -> None:
        """Make rows wider; batches are viewed anew."""
        self._env.widen(width)
        self._batches.clear()

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the env."""
        return getattr(self._env, name)(*args, **kwargs)

    def get(self, name: str) -> Any:
        """Attribute of the env, or of the gymnasium env that it wraps."""
        if hasattr(self._env, name):
            return getattr(self._env, name)
        return self._env.gym_env.get_wrapper_attr(name)

    def close(self) -> None:
        """Close the env."""
        self._env.close()


def _pickled(batch: RowBatch) -> bytes:
    try:
        return pickle.dumps((batch.own_infos, batch.own_objects), protocol=5)
    except Exception:  # whatever a value's own reduction raises
        for row, info in batch.own_infos.items():
            for key, value in info.items():
                try:
                    pickle.dumps(value, protocol=5)
                except Exception as error:  # likewise
                    reason = TypeError(
                        f"infos: the field {key!r} cannot leave its worker: {error}. Ask for "
                        "infos='numeric', or have a wrapper leave the field out."
                    )
                    raise row_error(batch, row, reason) from error
        for row, values in batch.own_objects.items():
            try:
                pickle.dumps(values, protocol=5)
            except Exception as error:  # likewise
                reason = TypeError(
                    f"observation: it cannot leave its worker: {error}. Use backend='serial', "
                    "or have a wrapper turn it into arrays."
                )
                raise row_error(batch, row, reason) from error
        raise
