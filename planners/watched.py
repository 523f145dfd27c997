"""SearchCallback: hooks on a search's model steps and waves; WatchedModel, which calls them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from plangym_ext.planners.clock import Clock
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.simulator import SearchModel, States

#: Ways to step of which a callback would see nothing.
_HIDDEN = ("simulator", "step_slots", "step_batch_async")


class SearchCallback:
    """Base class of what sees searches from inside; override any of its methods.

    It is the option `callback` of a planner, whose plans it does not change: waves that would run
    in compiled code, in slots of the env or ahead run step by step instead. Arrays belong to the
    search; they are to be read at once, and not written to.
    """

    def on_model_step(self, states: States, actions: Any, results: Any) -> None:
        """See n steps, or sequences of steps, of the model.

        Args:
            states: `[n, S]` before.
            actions: `[n, *act]`, or `[n, H, *act]` of sequences that are played in one call.
            results: of `step_batch`, or of `rollout_batch`.
        """

    def on_pass(self, number: int, search: Any) -> None:
        """See the end of a pass: a wave of simulations, a layer, a step or a round of samples.

        Args:
            number: 1 for the first of a plan, or of a batch of plans.
            search: of tree searches, with its `tree`, the simulations `done` `[B]` and `costs`;
                None of other planners. With `wave_size` 1 a pass is one simulation.
        """


class WatchedClock(Clock):
    """A clock that tells a callback whenever it is looked at, which is after every pass."""

    def __init__(self, max_seconds: float | None, callback: SearchCallback) -> None:
        super().__init__(max_seconds)
        self._callback, self._passes = callback, 0

    @property
    def over(self) -> bool:
        self._passes += 1
        self._callback.on_pass(self._passes, self.search)
        return super().over


class WatchedModel:
    """A model that tells a callback of its steps."""

    def __init__(self, model: SearchModel, callback: SearchCallback) -> None:
        self._model, self._callback = model, callback

    def __getattr__(self, name: str) -> Any:
        # "_model" is looked for before it is there, by `copy`.
        if name in _HIDDEN or name == "_model":
            raise AttributeError(name)
        return getattr(self._model, name)

    def __repr__(self) -> str:
        """Return the env's own text: messages are about it."""
        return repr(self._model)

    def step_batch(self, actions: npt.NDArray[Any], states: States) -> Any:
        """Step `states` `[n, S]`; see `SearchModel.step_batch`."""
        results = self._model.step_batch(actions, states=states)
        self._callback.on_model_step(states, actions, results)
        return results

    def rollout_batch(self, actions: npt.NDArray[Any], states: States) -> Any:
        """Play `actions` `[n, H, *act]`; see `SearchModel.rollout_batch`."""
        results = self._model.rollout_batch(actions, states)
        self._callback.on_model_step(states, actions, results)
        return results

    def plan_clock(self, max_seconds: float | None) -> Clock:
        """Return the clock of a plan in this model."""
        return WatchedClock(max_seconds, self._callback)

    def planned(self, planner: Any, states: States, rngs: Any, obs: Any, legal: Any) -> list[Plan]:
        """Return what a planner plans in this model; see `Planner.plan_batch`."""
        plans: list[Plan] = planner.plan_batch(self, states, rngs=rngs, obs=obs, legal=legal)
        return plans
