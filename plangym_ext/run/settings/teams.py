"""Networks, agents and algorithms of teams, from sections within those of agent and algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plangym_ext.errors import InvalidOption, UnknownName

#: An agent without a network.
_RANDOM = "random"
_Sections = Mapping[str, Mapping[str, Any]]


def make_network(
    kind: Any, sections: _Sections, observation_space: Any, action_space: Any, seed: int
) -> Any:
    """Make the network of all teams.

    Args:
        kind: `AgentSettings`.
        sections: of the agents, by team.
        observation_space: of the env.
        action_space: likewise.
        seed: of the weights.

    Raises:
        InvalidOption: a team has no members, or settings of no agent; or see `make_teams`.
    """
    from plangym_ext.learn import TeamsNetwork, make_teams

    if not sections or not all(one.get("members") for one in sections.values()):
        raise InvalidOption(
            f"settings: agent.teams must have a section for each team, with members; got "
            f"{dict(sections)}."
        )
    members = {name: one["members"] for name, one in sections.items()}
    teams = make_teams(observation_space, action_space, members)
    parts = {}
    for name, team in teams.items():
        if (agent := _agent(kind, sections, name)) is not None:
            parts[name] = agent.make_network(team.observation_space, team.action_space, seed)
    return TeamsNetwork(teams, parts)


def make_agent(kind: Any, sections: _Sections, network: Any, device: str) -> Any:
    """Make the agent that plays for all teams."""
    from plangym_ext.learn import RandomAgent, TeamsAgent

    agents: dict[str, Any] = {}
    for name, team in network.teams.items():
        own = _agent(kind, sections, name)
        if own is None:
            agents[name] = RandomAgent(team.action_space)
        else:
            agents[name] = own.make(network.parts[name], device)
    return TeamsAgent(network, agents)


def make_learning(kind: Any, config: Any, network: Any, seed: int) -> Any:
    """Make the algorithms of the teams that learn.

    Raises:
        UnknownName: a team of `algorithm.teams` is none, or has no network.
    """
    from plangym_ext.learn import TeamsLearning

    algorithms = {}
    for name, one in config.teams.items():
        if name not in network.parts:
            raise UnknownName(
                f"settings: algorithm.teams.{name}: the teams with a network are "
                f"{sorted(network.parts)}."
            )
        settings = kind.from_settings(one, f"algorithm.teams.{name}")
        algorithms[name] = settings.make(network.parts[name], seed)
    return TeamsLearning(network, config, algorithms=algorithms, seed=seed)


def _agent(kind: Any, sections: _Sections, name: str) -> Any:
    """Return the settings of a team's agent; None for one that plays at random."""
    where = f"agent.teams.{name}"
    rest = {key: value for key, value in sections[name].items() if key != "members"}
    if rest.get("name") == _RANDOM:
        return None
    found = kind.from_settings(rest, where)
    if found.kind.network == "TeamsNetwork" or found.kind.agent == "EvaluatorAgent":
        raise InvalidOption(f"settings: {where}.name cannot be {found.name!r} within a team.")
    return found
