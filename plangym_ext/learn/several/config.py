"""AgentsConfig: the networks of several agents. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from plangym_ext.core.options import OneOf, Whole
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.networks.agent_config import AgentConfig

CRITICS = ("own", "central")


@dataclass(frozen=True, kw_only=True)
class AgentsConfig(AgentConfig):
    """Configuration of the networks of several agents.

    Args:
        critic: what values are estimated from: the agent's "own" observation, or "central": those
            of all agents, by a network of its own. Policies see the agent's own alone.
        groups: number of the network that each agent plays, from 0 on: (0, 1, 2) gives each of
            three its own, (0, 0, 1) lets two share one; (): all share one.
    """

    critic: Annotated[str, OneOf(CRITICS)] = "own"
    groups: tuple[Whole, ...] = ()

    def __post_init__(self) -> None:
        """Check what can be checked without spaces."""
        super().__post_init__()
        if self.groups and set(self.groups) != set(range(max(self.groups) + 1)):
            raise InvalidOption(
                f"AgentsConfig: groups must be numbered from 0 on without gaps; got {self.groups}."
            )
        if self.heads != ("policy", "value"):
            raise InvalidOption(
                f"AgentsConfig: several agents have heads ('policy', 'value'); got {self.heads}."
            )
        if self.previous_reward:
            raise InvalidOption(
                "AgentsConfig: the previous reward that agents are shown is that of all together; "
                "got previous_reward=True. Leave it out."
            )
        if self.normalize_obs and not self.is_plain:
            raise InvalidOption(
                "AgentsConfig: normalize_obs is for one network of all agents with their own "
                "critic; normalise in the env, or leave it out."
            )

    @property
    def is_plain(self) -> bool:
        """Whether one network, of one agent's observations, is all that there is."""
        return self.critic == "own" and not any(self.groups)
