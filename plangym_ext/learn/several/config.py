"""TeamsConfig and TeamsLearningConfig: settings of agents with algorithms of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plangym_ext.core.options import CheckedOptions, Share


@dataclass(frozen=True, kw_only=True)
class TeamsConfig(CheckedOptions):
    """Settings of the teams of an env of several agents.

    Args:
        teams: by name, the settings of the agent that plays for a team, as in a section `agent`,
            and "members": the names of its agents in the env's Dict, or their numbers on its axis.
    """

    teams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TeamsLearningConfig(CheckedOptions):
    """Settings of what teams learn by.

    Args:
        teams: by name, the settings of a team's algorithm, as in a section `algorithm`; one that is
            not named learns nothing.
        discount: of the rewards that samplers sum up for the log; each team learns by its own.
    """

    teams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    discount: Share = 0.99
