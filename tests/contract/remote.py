"""An env in a process of its own, with the methods that the contract uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.workers.batch_env import ExternalProcess


class Remote:
    """For simulators of which a process can hold but one.

    Args:
        constructor: picklable constructor of a `GymEnv`.
    """

    def __init__(self, constructor: Callable[[], Any]) -> None:
        self._process = ExternalProcess(constructor)
        self._process.describe()  # what a fixture starts is not left behind by a test

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)  # methods of the process, values of the env

    def reset(self, *, blocking: bool = True, return_states: bool = True, **arguments: Any) -> Any:
        promise = self._process.call("reset", return_state=return_states, **arguments)
        return promise() if blocking else promise

    def get_state(self) -> np.ndarray:
        return self._process.call("get_state")()

    def render(self) -> Any:
        return self._process.call("render")()

    def sample_action(self) -> Any:
        return self._process.action_space.sample()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()
