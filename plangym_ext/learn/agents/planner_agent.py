"""A planner where an agent is expected."""

from __future__ import annotations

from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import InvalidOption, ResetNeeded
from plangym_ext.learn.agents.agent import Acted, Agent
from plangym_ext.learn.agents.inputs import Inputs, needed_noise
from plangym_ext.learn.agents.modes import Mode
from plangym_ext.planners.base import Planner
from plangym_ext.planners.episode import PlayableEnv
from plangym_ext.planners.plans import Plan


class StatefulEnvs(Protocol):
    """A vector env whose states can be read, such as `make_vec` returns."""

    def get_states(self) -> npt.NDArray[np.uint8]:
        """Return `[n, S]` uint8, the states of all sub-envs."""


@final
class PlannerAgent(Agent):
    """Plays what a planner plans from the states of the envs that are played in.

    An agent is shown observations, a planner needs states: this agent reads them from the
    vector env itself. So it plays only in the process that has the vector env, in sub-envs
    that have begun and not ended (`autoreset_mode="same_step"`), and not while another step of
    that vector env is in flight.

    The infos of a step are "value" `[B]` float32, NaN where the planner knows none,
    "model_steps" `[B]` int64, and "weights" `[B, A]` float32 if the planner gives any.

    Args:
        planner: of any kind; it keeps what it keeps from step to step, forgets the rows in which
            an episode begins, and all of them at `set_mode`: a fragment that is played again, or
            after a checkpoint, is the same.
        model: what it steps, such as `plangym_ext.make` returns for the same env. It is reset
            if a step is asked for before the vector env is.
        venv: where it is played, all of its rows at once.
    """

    def __init__(self, planner: Planner, model: PlayableEnv, venv: StatefulEnvs) -> None:
        self.planner, self._model, self._venv = planner, model, venv
        self._layout = SpaceLayout(model.action_space)
        self._num_rows = 0

    def set_mode(self, mode: Mode) -> None:
        """Change the mode, and forget what the planner keeps; see `Agent.set_mode`."""
        super().set_mode(mode)
        self.planner.reset()

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        """Plan for B rows; see `Agent.step`."""
        noise = needed_noise(inputs, type(self).__name__)
        # A seed per row of 53 bits, as many as a uniform number has.
        seeds = (noise.uniform()[:, 0] * 2.0**53).astype(np.uint64)
        if len(seeds) != self._num_rows:
            # Other rows than before: trees by position would be those of other games.
            self.planner.reset()
        elif np.any(inputs.first):
            self.planner.forget_rows(np.flatnonzero(inputs.first))
        self._num_rows = len(seeds)
        plans = self.planner.plan_batch(
            self._model,
            self._states(len(seeds)),
            rngs=[np.random.default_rng(seed) for seed in seeds],
            obs=inputs.obs,
            legal=inputs.legal,
        )
        return Acted(self._layout.stack([plan.action for plan in plans]), _told(plans), carry)

    def _states(self, count: int) -> npt.NDArray[np.uint8]:
        """Return `[B, S]`: where the rows of the vector env are.

        Raises:
            InvalidOption: these are some of its rows; there is no telling which.
        """
        try:
            states = self._venv.get_states()
        except ResetNeeded:
            # Before the first reset only an example step is asked for, as by `check_agent`.
            state, _, _ = self._model.reset(seed=0)
            return np.repeat(state[None], count, axis=0)
        if len(states) != count:
            raise InvalidOption(
                f"PlannerAgent: it plays all {len(states)} rows of its vector env at once; it was "
                f"asked for {count}."
            )
        return states

    def as_planner(self) -> Planner:
        """Return the planner itself."""
        return self.planner


def _told(plans: list[Plan]) -> dict[str, Any]:
    """Return the infos of a step."""
    info: dict[str, Any] = {
        "value": np.array([plan.value for plan in plans], np.float32),
        "model_steps": np.array([plan.budget.model_steps for plan in plans], np.int64),
    }
    weights = [plan.weights for plan in plans if plan.weights is not None]
    # Of all rows or of none: an array has a number everywhere.
    if len(weights) == len(plans):
        info["weights"] = np.stack(weights).astype(np.float32)
    return info
