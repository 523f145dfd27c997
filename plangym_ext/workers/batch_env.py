"""BatchEnv: several worker processes stepped as one batch."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from plangym_ext.arrays.closing import Closing
from plangym_ext.arrays.nested import as_array
from plangym_ext.core.numbers import check_kind, seconds_or_none
from plangym_ext.core.one_caller import OneCaller, one_call
from plangym_ext.core.pending import Pending
from plangym_ext.core.results import StateTransitions, Transitions
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import EnvClosed, InvalidOption, ResetNeeded, StateError, WorkerDied
from plangym_ext.states.envelope import HEADER, Envelope, as_wide, difference, stacked_rows
from plangym_ext.workers.batch_run import WorkerStepper
from plangym_ext.workers.limits import CLOSE_GRACE, ROW_TIMEOUT, start_limit
from plangym_ext.workers.process_rows import ProcessRows
from plangym_ext.workers.protocol import Get
from plangym_ext.workers.remote_errors import warn_of
from plangym_ext.workers.shared_batch import Pages
from plangym_ext.workers.worker_handle import WorkerHandle, requests
from plangym_ext.workers.worker_pool import WorkerPool


class BatchEnv(Closing, WorkerStepper):
    """Combine envs in worker processes to step them together.

    With states, any number of rows is shared out among the workers. Without, row i
    goes on from where `reset`, `sync_states` or the last step left it.

    Args:
        envs: `ExternalProcess` of equal envs.
        blocking: step in one process after another rather than in parallel.
        timeout: seconds that a worker may spend on one row before it is held to hang:
            it is stopped, replaced and named. None waits for ever. Building an env may take
            as long, and two minutes at least. From 30 on so may the first rows, long
            rollouts a second a step, and later rows thrice as long as the longest so far.
        on_widening: called with the new width when state rows have become wider.
        one_caller: the guard of a handle that this one is part of.

    Raises:
        ValueError: no envs, or two of them differ.
    """

    slot_storage = "shared"
    transport = ProcessRows

    @checking_arguments
    def __init__(
        self,
        envs: Iterable[ExternalProcess],
        blocking: bool = False,
        *,
        timeout: float | None = ROW_TIMEOUT,
        on_widening: Callable[[int], None] | None = None,
        one_caller: OneCaller | None = None,
    ) -> None:
        super().__init__()
        if one_caller is not None:
            self._one_caller = one_caller
        self._one_caller.bind_to_process()
        self._envs = list(envs)
        for env in self._envs:
            check_kind("BatchEnv: envs", env, ExternalProcess, "ExternalProcess")
        self.blocking = blocking
        self.row_timeout = seconds_or_none("BatchEnv: timeout", timeout)
        self._on_widening = on_widening
        if not self._envs:
            raise InvalidOption("BatchEnv: expected at least one env; got none")
        # All of them start before any is waited for.
        for env in self._envs:
            env.start_timeout = start_limit(self.row_timeout)
            env.build()
        first, *others = [env.describe() for env in self._envs]
        for index, other in enumerate(others, start=1):
            _check_equal(index, other, first)
        self.layout, self.autoreset = first["layout"], first["autoreset"]
        self.envelope = Envelope(first["identity"], first["payload_width"], first["way"])
        for env in self._envs:
            env.one_caller = self._one_caller
        # After the check: a pool is for workers that can run each other's rows.
        self.pool = WorkerPool(self._envs)
        self.runs, self.pages = self.pool.runs, Pages()
        self._closed = False
        #: States of rows that were reset before one in front of them.
        self._waiting: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._envs)

    def __getitem__(self, index: int) -> ExternalProcess:
        return self._envs[index]

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the first env; the envs are equal."""
        # Else a look-up before `__init__` has set `_envs` would ask for `_envs` without end.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._envs[0], name)

    @one_call
    def sync_states(self, state: np.ndarray, blocking: bool = True) -> None:
        """Set every process's env and every row to one `[S]` state.

        Args:
            state: from `get_state` of an equal env.
            blocking: set one process after another rather than all at once.

        Raises:
            ValueError: not one state.
            StateError: the state is damaged or belongs to another env.
        """
        found = as_array(state, "sync_states: state", StateError)
        if found.ndim != 1:
            raise StateError(
                f"sync_states: state must be ({self.state_width},) uint8 from get_state; "
                f"got shape {found.shape}"
            )
        self.set_row_states(np.broadcast_to(found, (len(self._envs), len(found))))
        # Every row has a state now.
        self._waiting.clear()
        for envs in [[env] for env in self._envs] if blocking else [self._envs]:
            asked(envs, [functools.partial(env.set_state, state, blocking=False) for env in envs])

    @one_call
    def reset(
        self, indices: Sequence[int] | None = None, return_states: bool = True, **kwargs: Any
    ) -> Any:
        """Reset some envs; their rows begin at the new episodes' first states.

        Args:
            indices: which; all if None.
            return_states: whether to return their states too.
            kwargs: passed to each env's reset; an int `seed` becomes `seed + i` for env i.
                Without a seed a row draws from its own random numbers as it has left them.

        Returns:
            obs `[len(indices), *obs]`, or `(obs, states)` with states `[len(indices), S]`.
        """
        everyone = range(len(self._envs))
        chosen = list(everyone) if indices is None else [everyone[int(i)] for i in indices]
        if not chosen:
            raise InvalidOption("reset: indices must name at least one env; got none")
        self._check_rows_free("reset")
        seed = kwargs.pop("seed", None)
        requests = [
            functools.partial(
                _reset,
                self._envs[i],
                None if seed is not None else self._row_state(i),
                seed=None if seed is None else seed + i,
                **kwargs,
            )
            for i in chosen
        ]
        found = asked([self._envs[i] for i in chosen], requests)
        # Widths may differ where one env has outgrown its rows in this very reset.
        states = stacked_rows([state for state, _, _ in found])
        if states.shape[1] > self.layout.state_width:
            self.widen(states.shape[1])
        states = as_wide(states, self.layout.state_width)
        self._begin_rows(dict(zip(chosen, states, strict=True)))
        obs = self.layout.obs.stack([obs for _, obs, _ in found])
        return (obs, states) if return_states else obs

    def _row_state(self, row: int) -> np.ndarray | None:
        """Return the `[S]` state at which a row is; None if it was never reset."""
        if row < len(self._continued.states):
            found: np.ndarray = self._continued.states[row]
            return found
        return self._waiting.get(row)

    def _begin_rows(self, states: dict[int, np.ndarray]) -> None:
        """Start rows from these `[S]` states; later rows wait for those without a state."""
        self._waiting |= states
        count = len(self._continued.states)
        while count in self._waiting:
            count += 1
        rows, ended = [*self._continued.states], [*self._continued.ended]
        for i in range(count):
            state = self._waiting.pop(i, None)
            if state is not None:
                rows[i : i + 1], ended[i : i + 1] = [state], [False]
        if count:
            width = self.layout.state_width
            self._continued.keep(as_wide(stacked_rows(rows), width), np.array(ended, bool))

    def _first_state(self) -> np.ndarray:
        self._owner()
        raise ResetNeeded(
            f"BatchEnv: only rows that were reset can go on without states, at most "
            f"{len(self._envs)}. Call reset or sync_states first, or pass states."
        )

    def _owner(self) -> BatchEnv:
        if self._closed:
            raise EnvClosed("BatchEnv: this batch of envs is closed. Make a new one.")
        return self

    def widen(self, width: int) -> None:
        # Rows of batches in flight keep the width of their beginning.
        self.runs.settle()
        envelope = self.envelope.widened(width - HEADER)
        layout = dataclasses.replace(self.layout, state_width=envelope.width)
        # Together: an interrupt comes before both or after both. Workers follow the layout of
        # their next batch.
        self.envelope, self.layout = envelope, layout
        if self._on_widening is not None:
            self._on_widening(self.envelope.width)

    def close(self) -> None:
        with self._one_caller.after_interrupting(self._kill, CLOSE_GRACE):
            self._closed = True
            if self._one_caller.inherited:
                return  # workers and queues are the parent's
            # All are told before any is waited for, and share one grace.
            for env in self._envs:
                env.begin_close()
            deadline = time.monotonic() + CLOSE_GRACE
            errors = [env.end(max(0.0, deadline - time.monotonic())) for env in self._envs]
            self.pool.close(EnvClosed("BatchEnv: closed before this batch was done."))
            self.pages.close()
        warn_of(errors)

    def _kill(self) -> None:
        """Fail a call that another thread is in the middle of."""
        self._closed = True
        for env in self._envs:
            env.kill()

    def _end_abandoned(self) -> None:
        self.runs.end_abandoned()


def _reset(env: ExternalProcess, state: np.ndarray | None, **kwargs: Any) -> Callable[[], Any]:
    """Reset the env of one worker, brought to a state before; returns a promise."""
    # The worker's env is wherever the last row has left it that it ran, or is a new one.
    placed = None if state is None else env.set_state(state, blocking=False)
    promise: Pending[Any] = env.reset(blocking=False, return_states=True, **kwargs)

    def wait() -> Any:
        if placed is not None:
            placed()
        return promise()

    return wait


def asked(
    envs: Sequence[WorkerHandle], requests: Sequence[Callable[[], Callable[[], Any]]]
) -> list[Any]:
    """Return the results of one request for each env; a dead worker is replaced, asked again."""
    # All are asked before any is waited for.
    promises = [_begun(request) for request in requests]
    found = []
    for env, request, promise in zip(envs, requests, promises, strict=True):
        if promise is not None:
            try:
                found.append(promise())
                continue
            except WorkerDied:
                pass
        # Once more, and in the call itself: a second death is the caller's to see.
        env.restart()
        found.append(request()())
    return found


def _begun(request: Callable[[], Callable[[], Any]]) -> Callable[[], Any] | None:
    try:
        return request()
    except WorkerDied:
        return None


def _check_equal(index: int, other: dict[str, Any], first: dict[str, Any]) -> None:
    """Check that an env is described as the first one is."""
    for what in ("observation_space", "action_space", "identity", "info", "payload_width"):
        where, there, here = what, other[what], first[what]
        if what == "identity":
            where, there, here = difference(there, here)
            if not where:
                continue
        elif there == here:
            continue
        raise InvalidOption(
            f"BatchEnv: all envs must be equal; env {index} has {where} {there}, env 0 has "
            f"{here}. Make all of them by one constructor, with equal arguments."
        )


# ExternalProcess: one env in its own worker process ---------------------------


class ExternalProcess(WorkerHandle):
    """One env in a separate process, which `build` or the first call starts.

    Methods that take `blocking` return their result, or with `blocking=False` a
    promise: a callable that waits for the result and returns it. Errors of the env's constructor,
    and its process's death, are raised by the first call.

    Args:
        constructor: callable that returns a gymnasium env or a `GymEnv`; it is
            called in the worker. Lambdas and local classes travel by cloudpickle.
        index: number of the worker, for messages.

    Raises:
        TypeError: the constructor is not callable or cannot be pickled.
    """

    @property
    def observation_space(self) -> Any:
        """Observation space of the env."""
        return self.describe()["observation_space"]

    @property
    def action_space(self) -> Any:
        """Action space of the env."""
        return self.describe()["action_space"]

    def __getattr__(self, name: str) -> Any:
        """Read an attribute of the env; one round trip to the worker."""
        if name.startswith("_") or name == "process":  # there is none before `build`
            raise AttributeError(name)
        return self._ask(Get(next(requests), name))()

    def reset(self, blocking: bool = True, return_states: bool = False, **kwargs: Any) -> Any:
        """Reset the env.

        Returns:
            `(obs, info)`, or `(state, obs, info)` with `return_states`.
        """
        return _now(self.call("reset", return_state=return_states, **kwargs), blocking)

    def set_state(self, state: np.ndarray, blocking: bool = True) -> Any:
        """Set the env to a saved state, `[S]` uint8, of which the worker keeps a copy."""
        return _now(self.call("set_state", state), blocking)

    def step(
        self,
        action: Any,
        state: np.ndarray | None = None,
        dt: int = 1,
        blocking: bool = True,
        return_state: bool | None = None,
    ) -> Any:
        """Step the env; arguments and result as `PlanEnv.step`."""
        return _now(self.call("step", action, state, dt, return_state), blocking)

    def step_batch(
        self,
        actions: Any,
        states: np.ndarray | None = None,
        dt: int | np.ndarray | None = None,
        return_state: bool | None = None,
        blocking: bool = True,
    ) -> Transitions | StateTransitions | Pending[Any]:
        """Step rows; arguments and result as `PlanEnv.step_batch`; `dt` None is 1."""
        dt = 1 if dt is None else dt
        return _now(self.call("step_batch", actions, states, dt, return_state), blocking)


def _now(promise: Pending[Any], blocking: bool) -> Any:
    return promise() if blocking else promise
