"""Factory of the start-state distribution that a run's settings name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.arrays.nested import num_rows
from plangym_ext.core.state_set import StateSet
from plangym_ext.errors import IncompleteState, InvalidOption
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.agents.inputs import first_inputs
from plangym_ext.learn.algorithms.value_units import in_rewards
from plangym_ext.learn.sampling.starts import BackwardStarts, Starts, StoredStarts, UnsureStarts
from plangym_ext.run.settings.starts import StartsSettings


def make_starts(
    settings: StartsSettings, env: Any, agent: Agent, algorithm: Any = None
) -> Starts | None:
    """Make the start distribution; None if the settings name no file.

    Args:
        settings: of the run.
        env: that the states belong to.
        agent: whose values are compared with what episodes return.
        algorithm: settings of the one that the values learn by.

    Raises:
        IncompleteState: states of the env are not exact.
        DamagedState, ForeignState: the file cannot be used; see `StateSet.load`.
        InvalidOption: the kind has no such option.
    """
    if not settings.file:
        return None
    if env.exact is False:
        raise IncompleteState(
            f"settings: starts.file: episodes cannot begin from stored states of {env.name}, which "
            f"are not exact. Leave it out."
        )
    states = StateSet.load(settings.file, env)
    common = {"share": settings.share, **settings.options}
    try:
        if settings.kind == "stored":
            return StoredStarts(states, **common)
        if settings.kind == "backward":
            return BackwardStarts(states, **common)
        value = AgentValue(agent, env.action_space, _to_rewards(algorithm))
        return UnsureStarts(states, value, **common)
    # Of a constructor that has no argument of an option's name.
    except TypeError as error:
        raise InvalidOption(f"settings: starts.options of {settings.kind!r}: {error}") from None


def _to_rewards(algorithm: Any) -> Callable[[Any], Any]:
    """Return what brings values to the scale of returns.

    Raises:
        InvalidOption: nothing does.
    """
    for name in ("normalize_reward", "clip_reward"):
        if getattr(algorithm, name, None):
            raise InvalidOption(
                "settings: starts.kind 'unsure' compares what episodes return with the critic, "
                f"which learns on another scale by algorithm.{name}. Choose 'stored', or leave "
                f"{name} out."
            )
    return in_rewards(algorithm, {})


class AgentValue:
    """An agent's values of observations, taken as first ones of an episode.

    Args:
        agent: that has values.
        action_space: of one row.
        in_rewards: what brings values to the scale of the env's rewards; None: they are on it.
    """

    def __init__(
        self,
        agent: Agent,
        action_space: Any,
        in_rewards: Callable[[Any], Any] | None = None,
    ) -> None:
        self._agent, self._space, self._in_rewards = agent, action_space, in_rewards

    def __call__(self, obs: Any) -> Any:
        """Return `[n]` float64 of observations `[n, *obs]`."""
        rows = num_rows(obs)
        inputs = first_inputs(obs, self._space, rows)
        found = self._agent.value(inputs, self._agent.initial_carry(rows))
        values = np.asarray(found, np.float64)
        return values if self._in_rewards is None else self._in_rewards(values)
