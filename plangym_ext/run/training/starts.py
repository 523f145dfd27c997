"""The stored states that the settings of a run ask for."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.arrays.nested import num_rows
from plangym_ext.core.state_set import StateSet
from plangym_ext.errors import IncompleteState, InvalidOption
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.agents.inputs import first_inputs
from plangym_ext.learn.sampling.starts import BackwardStarts, Starts, StoredStarts, UnsureStarts
from plangym_ext.run.settings.starts import StartsSettings


def make_starts(settings: StartsSettings, env: Any, agent: Agent) -> Starts | None:
    """Make them; None if the settings name no file.

    Args:
        settings: of the run.
        env: that the states belong to.
        agent: whose values are compared with what episodes return.

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
        return UnsureStarts(states, AgentValue(agent, env.action_space), **common)
    # Of a constructor that has no argument of an option's name.
    except TypeError as error:
        raise InvalidOption(f"settings: starts.options of {settings.kind!r}: {error}") from None


class AgentValue:
    """What an agent says that observations are worth, as the first of an episode.

    Args:
        agent: that has values.
        action_space: of one row.
    """

    def __init__(self, agent: Agent, action_space: Any) -> None:
        self._agent, self._space = agent, action_space

    def __call__(self, obs: Any) -> Any:
        """Return `[n]` float64 of observations `[n, *obs]`."""
        rows = num_rows(obs)
        inputs = first_inputs(obs, self._space, rows)
        found = self._agent.value(inputs, self._agent.initial_carry(rows))
        return np.asarray(found, np.float64)
