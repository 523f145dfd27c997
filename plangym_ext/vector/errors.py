"""Vector-env exceptions that derive from the library's and gymnasium's classes."""

from __future__ import annotations

import multiprocessing

import gymnasium as gym

from plangym_ext.errors import BatchPending, EnvClosed, ResetNeeded, WorkerTimeout


class VectorResetNeeded(ResetNeeded, gym.error.ResetNeeded):
    """A sub-env has to be reset before it can be stepped."""


class VectorClosed(EnvClosed, gym.error.ClosedEnvironmentError):
    """The vector env was closed."""


class VectorPending(BatchPending, gym.error.AlreadyPendingCallError):
    """Another call was begun and has not been waited for.

    Attributes:
        name: of that call.
    """

    def __init__(self, message: str, name: str) -> None:
        gym.error.AlreadyPendingCallError.__init__(self, message, name)


class VectorTimeout(WorkerTimeout, multiprocessing.TimeoutError):
    """Sub-envs did not answer in time; they were stopped, and the call was rolled back."""
