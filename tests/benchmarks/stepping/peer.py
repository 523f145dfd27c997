"""plangym's `ParallelEnv` or `RayEnv`, stepped from the same states as ours.

Its states are the simulator's own, read from our env by plangym's own `get_state`. So
both sides play the same actions from the same places, and what they see is compared.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np

from stepping.cases import Case

#: The version that the targets were set for.
VERSION = "0.1.32"


def version() -> str | None:
    """plangym's version, or None where it is not installed."""
    try:
        return str(importlib.import_module("plangym").__version__)
    except ImportError:
        return None


class Peer:
    """plangym's env of a case.

    Args:
        case: names its class and arguments.
        n_workers: its processes, or actors.
        kind: of plangym's `vectorization`, "module:name".
    """

    def __init__(self, case: Case, n_workers: int, kind: str = "parallel:ParallelEnv") -> None:
        module, _, name = kind.partition(":")
        vectorized = getattr(importlib.import_module(f"plangym.vectorization.{module}"), name)
        module, _, name = case.peer_class.partition(":")
        self._class = getattr(importlib.import_module(module), name)
        self.env = vectorized(
            env_class=self._class,
            name=case.env_id,
            frameskip=1,
            n_workers=n_workers,
            **case.peer_kwargs,
        )
        self.env.reset()

    def states_of(self, ours: Any, states: np.ndarray) -> list[Any]:
        """plangym's states for the rows of `states`."""
        found = []
        for state in states:
            ours.set_state(state)
            there = SimpleNamespace(gym_env=ours.plan_env.gym_env, STATE_IS_ARRAY=True)
            found.append(self._class.get_state(there))
        return found

    def step_batch(self, actions: list[Any], states: list[Any]) -> Any:
        """`(states, obs, rewards, terminals, truncateds, infos)`, lists."""
        return self.env.step_batch(actions, states)

    def close(self) -> None:
        """End its processes."""
        self.env.close()


def check_same_work(case: Case, ours: Any, theirs: Any) -> None:
    """Make sure that both batches simulated the same and returned the same bytes.

    Raises:
        AssertionError: they did not.
    """
    obs = np.stack(theirs[1])
    assert obs.shape == ours.obs.shape, (case.name, obs.shape, ours.obs.shape)
    assert obs.dtype == ours.obs.dtype, (case.name, obs.dtype, ours.obs.dtype)
    if "frame_number" in ours.infos.keys():  # noqa: SIM118 - no mapping
        # plangym leaves the generator out, so sticky actions make the pictures differ.
        frames = [info["frame_number"] for info in theirs[5]]
        assert (ours.infos["frame_number"] == frames).all(), f"{case.name}: other frames"
    else:
        # plangym brings MuJoCo's solver to a warm start of its own.
        assert np.allclose(obs, ours.obs, rtol=1e-6, atol=1e-6), f"{case.name}: other steps"
