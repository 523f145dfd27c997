"""What the calls of a `PlanEnv` return: named tuples that unpack as plangym's do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plangym_ext.core.infos import InfoBatch


class Transition(NamedTuple):
    """One step. `reward` is summed over the steps taken."""

    obs: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class StateTransition(NamedTuple):
    """One step, with the `[S]` uint8 state after it."""

    state: np.ndarray
    obs: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Transitions(NamedTuple):
    """A batch of steps; fresh arrays that belong to the caller.

    obs `[B, *obs]` (nested as the space), rewards `[B]` float64, terminateds and
    truncateds `[B]` bool.
    """

    obs: Any
    rewards: np.ndarray
    terminateds: np.ndarray
    truncateds: np.ndarray
    infos: InfoBatch


class StateTransitions(NamedTuple):
    """A batch of steps with the states after them, `[B, S]` uint8."""

    states: np.ndarray
    obs: Any
    rewards: np.ndarray
    terminateds: np.ndarray
    truncateds: np.ndarray
    infos: InfoBatch


class Rollouts(NamedTuple):
    """A batch of action sequences played from states; fresh arrays.

    states `[B, S]` uint8 and obs `[B, *obs]` are those after the last action taken,
    rewards `[B, H]` float64 (zero after an ending), terminateds and truncateds `[B]`
    bool, steps `[B]` int32 the number of actions taken.
    """

    states: np.ndarray
    obs: Any
    rewards: np.ndarray
    terminateds: np.ndarray
    truncateds: np.ndarray
    steps: np.ndarray
    infos: InfoBatch
