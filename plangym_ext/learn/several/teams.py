"""Teams of agents in one env, each with a network, an agent and an algorithm of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from gymnasium import spaces

from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import ForeignNetwork, InvalidOption
from plangym_ext.learn.agents.agent import Acted, Agent
from plangym_ext.learn.agents.inputs import Inputs, Mode
from plangym_ext.learn.algorithms.agent_algorithm import AgentAlgorithm
from plangym_ext.learn.networks.state import load_network_state, network_state
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.several.axis import (
    NEEDED_INFOS,
    AgentsNoise,
    agent_rows,
    agent_spaces,
    apart,
    rows,
)
from plangym_ext.learn.several.config import TeamsLearningConfig
from plangym_ext.learn.torch_extra import nn


class Team(NamedTuple):
    """The agents of an env that share a network and an algorithm.

    Attributes:
        name: of the team.
        members: names of its M agents in the env's Dict, or their numbers on its axis.
        numbers: their places among all A agents.
        observation_space: of each of them.
        action_space: likewise.
    """

    name: str
    members: tuple[Any, ...]
    numbers: tuple[int, ...]
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]

    def of(self, value: Any, axis: int = 1) -> Any:
        """Return `[..., M, *x]` of its members, fresh; `axis` is that of the agents."""
        if isinstance(value, Mapping):
            return np.stack([value[name] for name in self.members], axis=axis)
        return np.take(value, self.numbers, axis=axis)


def make_teams(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    members: Mapping[str, Sequence[Any]],
) -> dict[str, Team]:
    """Return the teams of an env.

    Args:
        observation_space: a Dict by agent of Boxes; or with an axis of agents, see `agent_spaces`.
        action_space: likewise; the parts of a Dict are Discrete, MultiDiscrete or Boxes.
        members: of each team, by its name.

    Raises:
        InvalidOption: an agent is in no team or in two, or those of a team have other spaces.
    """
    alone: dict[Any, tuple[Any, Any]]
    if isinstance(action_space, spaces.Dict) and isinstance(observation_space, spaces.Dict):
        names: list[Any] = list(action_space)
        alone = {name: (observation_space[name], action_space[name]) for name in names}
    else:
        *both, count = agent_spaces(observation_space, action_space)
        names, alone = list(range(count)), dict.fromkeys(range(count), (both[0], both[1]))
    told = {name: [*team] if _is_list(team) else [team] for name, team in members.items()}
    placed = [one for team in told.values() for one in team]
    # As texts: files and commands have numbers as either.
    if sorted(map(str, placed)) != sorted(map(str, names)) or not all(told.values()):
        raise InvalidOption(
            f"make_teams: each of the agents {names} must be in one team; got {told}."
        )
    known = {str(one): one for one in names}
    found = {}
    for name, texts in told.items():
        team = [known[str(one)] for one in texts]
        seen, acts = alone[team[0]]
        kinds = isinstance(seen, spaces.Box) and isinstance(
            acts, spaces.Discrete | spaces.MultiDiscrete | spaces.Box
        )
        if not kinds or any(alone[one] != (seen, acts) for one in team):
            raise InvalidOption(
                f"make_teams: the agents of {name!r} must have equal spaces, a Box to see and "
                f"Discrete, MultiDiscrete or Box to act; got {[alone[one] for one in team]}. Make "
                f"a team for each kind."
            )
        numbers = tuple(names.index(one) for one in team)
        found[name] = Team(name, tuple(team), numbers, seen, acts)
    return found


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


class TeamsNetwork(nn.Module):
    """The networks of all teams; each is asked by its own agent.

    Args:
        teams: of `make_teams`.
        parts: the network of each by name, of rows of one agent; a team without one is played by
            an agent that has none.

    Attributes:
        teams: as given.
        parts: as given.
    """

    @checking_arguments
    def __init__(
        self, teams: Mapping[str, Team], parts: Mapping[str, nn.Module] | nn.ModuleDict
    ) -> None:
        super().__init__()
        self.teams, self.parts = dict(teams), nn.ModuleDict(dict(parts.items()))


@final
class TeamsAgent(Agent):
    """Plays all agents of an env, those of each team by an agent of its own.

    A team's agent plays rows of one agent each, `[B * M]`. Infos and carries are `[B, M, ...]` by
    team.

    Args:
        network: of the teams.
        agents: what plays for each team, by name: a `NetworkAgent`, or any `Agent`.

    Raises:
        InvalidOption: they are of other teams, or a network is shown the previous reward, which is
            that of all agents together.
    """

    #: The infos that samplers keep for its learners.
    episode_sums = ("agent_reward",)

    @checking_arguments
    def __init__(self, network: TeamsNetwork, agents: Mapping[str, Agent]) -> None:
        if set(agents) != set(network.teams):
            raise InvalidOption(
                f"TeamsAgent: there must be an agent for each of the teams "
                f"{sorted(network.teams)}; got {sorted(agents)}."
            )
        for name, part in network.parts.items():
            if "reward" in getattr(part, "inputs_used", ()):
                raise InvalidOption(
                    f"TeamsAgent: the previous reward is that of all agents together; the network "
                    f"of {name!r} is shown it. Leave out previous_reward."
                )
        self.network, self.teams, self.agents = network, network.teams, dict(agents)

    @property
    def env_info(self) -> dict[str, Any]:
        """The infos that samplers keep for its learners; see `SamplerOptions.env_info`."""
        count = sum(len(team.members) for team in self.teams.values())
        return {name: (dtype, (count,)) for name, dtype in NEEDED_INFOS.items()}

    def set_mode(self, mode: Mode) -> None:
        super().set_mode(mode)
        for agent in self.agents.values():
            agent.set_mode(mode)

    def check_spaces(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
    ) -> None:
        """Refuse envs whose agents are others than those of the teams.

        Raises:
            InvalidOption: they are.
        """
        members = {name: team.members for name, team in self.teams.items()}
        if make_teams(observation_space, action_space, members) != self.teams:
            raise InvalidOption(
                f"TeamsAgent: the teams are {list(self.teams.values())}; the env has agents that "
                f"see {observation_space} and play {action_space}. Make them with its spaces."
            )

    def initial_carry(self, num_rows: int) -> Any:
        """Return the carries `[B, M, ...]` of the agents that have one, by team; None for none."""
        found = {}
        for name, agent in self.agents.items():
            count = len(self.teams[name].members)
            carry = agent.initial_carry(num_rows * count)
            if carry is not None:
                found[name] = apart(carry, count)
        return found or None

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        """Choose the actions of all agents; see `Agent.step`."""
        actions: dict[Any, Any] = {}
        info, after = {}, {}
        for name, agent in self.agents.items():
            members = self.teams[name].members
            acted = agent.step(*self._rows(name, inputs, carry))
            played = apart(acted.action, len(members))
            actions |= {one: played[:, i] for i, one in enumerate(members)}
            if acted.info:
                info[name] = apart(acted.info, len(members))
            if acted.carry is not None:
                after[name] = apart(acted.carry, len(members))
        if isinstance(inputs.obs, Mapping):
            return Acted({name: actions[name] for name in inputs.action}, info, after or None)
        return Acted(np.stack([actions[i] for i in range(len(actions))], 1), info, after or None)

    def _rows(self, name: str, inputs: Inputs, carry: Any) -> tuple[Inputs, Any]:
        """Return the inputs of a team's agent, `[B * M, ...]`, and its carry."""
        team, rest = self.teams[name], inputs.legal
        count = len(team.members)
        if rest is not None:
            everyone = sum(len(one.members) for one in self.teams.values())
            rest = rows(team.of(rest.reshape(len(rest), everyone, -1)))
        found = Inputs(
            obs=rows(team.of(inputs.obs)),
            action=rows(team.of(inputs.action)),
            reward=np.repeat(inputs.reward, count),
            first=np.repeat(inputs.first, count),
            noise=None if inputs.noise is None else AgentsNoise(inputs.noise, count),
            legal=rest,
        )
        return found, rows(carry[name]) if carry and name in carry else None

    def sent_to(self, num_rows: int) -> None:
        for name, agent in self.agents.items():
            agent.sent_to(num_rows * len(self.teams[name].members))

    def state_dict(self) -> dict[str, Any]:
        """Return "version", and what each agent returns by team and name."""
        found: dict[str, Any] = {"version": self.version}
        for team, agent in self.agents.items():
            # An array, as weights travel in shared memory.
            state = {"version": np.array(agent.version)}
            found |= {f"{team}/{k}": v for k, v in (agent.state_dict() | state).items()}
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for team, agent in self.agents.items():
            begin = f"{team}/"
            own = {k.removeprefix(begin): v for k, v in state.items() if k.startswith(begin)}
            agent.load_state_dict(own)
        super().load_state_dict(state)


class _Replays(NamedTuple):
    """The replays of the algorithms that have one, by team, saved as one."""

    of: dict[str, Any]

    def state_dict(self) -> dict[str, Any]:
        return {name: one.state_dict() for name, one in self.of.items()}


@final
class TeamsLearning(AgentAlgorithm):
    """Learning of several teams, each by an algorithm of its own from its agents' rows.

    Rewards and endings are each agent's own. Names in the log end with that of the team. What is
    saved is what each algorithm and agent saves by `state_dict`: of classes of your own nothing
    else.

    Source: parllel's ensembles of agents, with an algorithm for each of them.

    Args:
        network: of the teams.
        config: None: the defaults.
        algorithms: by team, made with the team's network; a team without one stays as it is.
        seed: has no meaning here: each algorithm has its own.

    Raises:
        InvalidOption: there is no such team.
    """

    config_class = TeamsLearningConfig

    def __init__(
        self,
        network: TeamsNetwork,
        config: TeamsLearningConfig | None = None,
        *,
        algorithms: Mapping[str, AgentAlgorithm],
        seed: int = 0,
    ) -> None:
        super().__init__(network, config, seed=seed)
        self.algorithms = dict(algorithms)
        if not algorithms or not set(algorithms) <= set(network.parts):
            raise InvalidOption(
                f"TeamsLearning: algorithms must be of some of the teams with a network, "
                f"{sorted(network.parts)}; got {sorted(algorithms)}."
            )
        replays = {name: one.replay for name, one in algorithms.items() if one.replay is not None}
        self.replay = _Replays(replays) if replays else None

    def prepare(self, agent: TeamsAgent) -> None:
        """Set versions and exploration of all teams; see `Algorithm.prepare`."""
        super().prepare(agent)
        for name, part in agent.agents.items():
            if name in self.algorithms:
                self.algorithms[name].prepare(part)
            else:
                part.version = 1  # its weights are those that it is to play

    def take(self, collected: Collected) -> None:
        """Give each algorithm the rows of its team; see `Algorithm.take`."""
        lag = self.updates - collected.version
        for name, one in self.algorithms.items():
            data = agent_rows(collected.data, self.network.teams[name])
            one.take(collected._replace(data=data, version=one.updates - lag))
        self.steps += collected.steps

    def train(self, progress: Progress | None = None) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, one in self.algorithms.items():
            found |= {f"{key}.{name}": value for key, value in one.train(progress).items()}
        self.updates = sum(one.updates for one in self.algorithms.values())
        return {"updates": self.updates, **found}

    # Saving ---------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state, with what algorithms add to it; see `AgentAlgorithm.state_dict`."""
        more = {name: _more(one) for name, one in self.algorithms.items()}
        return super().state_dict() | ({"more": more} if any(more.values()) else {})

    def _own_state(self) -> dict[str, Any]:
        found = {}
        for name, one in self.algorithms.items():
            trainer, random = one.trainer_dict(), one._random.state_dict()
            # The weights are among those of all teams.
            del trainer["network"]
            found[name] = {"trainer": trainer, "torch_random": random}
        return {"teams": found}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`, bit for bit.

        Raises:
            ForeignNetwork: it is of other teams, networks or algorithms; what was loaded before
                the team that refuses it has changed.
        """
        theirs, where = state["trainer"], "TeamsLearning.load_state_dict"
        if sorted(theirs.get("teams", ())) != sorted(self.algorithms):
            raise ForeignNetwork(
                f"{where}: the state must be of the teams {sorted(self.algorithms)}; got "
                f"{sorted(theirs.get('teams', ()))}. Make it with the same config."
            )
        load_network_state(self.network, theirs["network"], where)
        for name, one in self.algorithms.items():
            own = theirs["teams"][name]
            whole = {**own, "trainer": {**own["trainer"], "network": network_state(one.network)}}
            if one.replay is not None:
                whole["replay"] = state["replay"][name]
            one.load_state_dict(whole | state.get("more", {}).get(name, {}))
        self.updates, self.steps = int(theirs["updates"]), int(theirs["steps"])
        self._random.load_state_dict(state["torch_random"])


def _more(algorithm: AgentAlgorithm) -> dict[str, Any]:
    """Return what the class of an algorithm adds to what all of them save."""
    if type(algorithm).state_dict is AgentAlgorithm.state_dict:
        return {}
    state = algorithm.state_dict()
    return {name: state[name] for name in state.keys() - {"trainer", "torch_random", "replay"}}
