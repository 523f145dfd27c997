"""Networks for envs of several agents, and AgentsAgent, which plays all agents of an env."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
from gymnasium import spaces

from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent import Acted
from plangym_ext.learn.agents.inputs import Inputs, Mode
from plangym_ext.learn.agents.network_agent import ActorCriticAgent, NetworkAgent
from plangym_ext.learn.agents.q_agent import QAgent
from plangym_ext.learn.networks.agent_network import AgentNetwork
from plangym_ext.learn.networks.config import AgentConfig, AgentsConfig, AgentsQConfig
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.learn.repeatable import seeded
from plangym_ext.learn.several.axis import (
    NEEDED_INFOS,
    AgentsNoise,
    agent_spaces,
    apart,
    rows,
    shown,
    whole_space,
)
from plangym_ext.learn.torch_extra import nn, torch


def make_agents_network(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    config: AgentsConfig | AgentsQConfig | None = None,
    *,
    seed: int,
) -> Any:
    """Make the network of several agents, which takes rows of one agent each.

    Args:
        observation_space: of all agents, see `agent_spaces`.
        action_space: likewise.
        config: what it is made of.
        seed: of the weights; torch's own generator is left as it was.

    Returns:
        An `AgentNetwork` of one agent's spaces, if all share it and its critic sees their own
        observations; else an `AgentsNetwork`. Its attribute `num_agents` is A.

    Raises:
        InvalidOption: spaces and config do not go together.
    """
    config = config or AgentsConfig()
    seen, acts, count = agent_spaces(observation_space, action_space)
    if config.groups and len(config.groups) != count:
        raise InvalidOption(
            f"make_agents_network: groups must name the network of each of {count} agents; got "
            f"{config.groups}."
        )
    network: Any
    with seeded(seed):
        if config.is_plain:
            network = AgentNetwork(seen, acts, config)
            network.num_agents = count
        else:
            network = AgentsNetwork(seen, acts, config, count)
    return network


class AgentsNetwork(nn.Module):
    """A policy for each group of agents, and values by these or by a central critic.

    Every network is asked about every row, and each row takes the answer of its own: a row's
    numbers so do not depend on the others.

    Args:
        seen: space of one agent's observations.
        acts: space of one agent's actions.
        config: what it is made of.
        count: of agents.

    Attributes:
        num_agents: A.
        observation_space: of a row, see `whole_space`.
        action_space: of a row.
        distribution: what `policy_logits` are numbers of.
        inputs_used: names of the fields of `Inputs` that it looks at.
    """

    @checking_arguments
    def __init__(
        self,
        seen: spaces.Box,
        acts: spaces.Space[Any],
        config: AgentsConfig | AgentsQConfig,
        count: int,
    ) -> None:
        super().__init__()
        self.num_agents, self.config = count, config
        self.observation_space, self.action_space = whole_space(seen, count), acts
        self._groups = config.groups or (0,) * count
        central = config.critic == "central"
        own: Any = config.of_one
        one = _with_heads(own, ("policy",)) if central else own
        differing = config.networks or ({},) * (max(self._groups) + 1)
        networks = [AgentNetwork(seen, acts, dataclasses.replace(one, **o)) for o in differing]
        #: Of each agent, whether it learns.
        self.learned = tuple(group not in config.fixed for group in self._groups)
        for group in config.fixed:
            # Weight decay would move them, though no row of theirs is learned from.
            networks[group].requires_grad_(False)
        self.policies = nn.ModuleList(networks)
        self.critic: AgentNetwork | None = None
        if central:
            self.critic = AgentNetwork(self.observation_space, acts, _with_heads(own, ("value",)))
        self.distribution = networks[0].distribution
        used = [name for network in networks for name in network.inputs_used]
        self.inputs_used = tuple(dict.fromkeys(used))

    def initial_carry(self, num_rows: int) -> dict[str, torch.Tensor] | None:
        """Return the carry before the first step, tensors `[N, H]` by name; None for none."""
        found: dict[str, torch.Tensor] = {}
        for prefix, network in self._named():
            part = network.initial_carry(num_rows)
            found |= {prefix + name: leaf for name, leaf in (part or {}).items()}
        return found or None

    def forward(self, inputs: Inputs, carry: Any = None) -> tuple[NetworkOutput, Any]:
        """Evaluate tensors `[N, ...]`, or sequences `[T, N, ...]`; see `AgentNetwork.forward`."""
        seen = inputs.obs
        kept: dict[str, torch.Tensor] = {}
        outs = []
        for prefix, network in self._named():
            rows = inputs._replace(obs=seen if network is self.critic else seen["own"])
            before = None if carry is None else _under(prefix, carry)
            out, after = network(rows, before)
            kept |= {prefix + name: leaf for name, leaf in (after or {}).items()}
            outs.append(out)
        value = outs.pop().value if self.critic is not None else None
        chosen = outs[0]
        if len(outs) > 1:
            number = seen["agent"].argmax(dim=-1)
            group = torch.tensor(self._groups, device=number.device)[number]
            for i, out in enumerate(outs[1:], 1):
                chosen = _where(group == i, out, chosen)
        if value is not None:
            chosen = chosen._replace(value=value)
        return chosen, kept or None

    def _named(self) -> list[tuple[str, Any]]:
        """Return the networks, and what the names of their carries begin with; the critic last."""
        named = [(f"policy{i}_", policy) for i, policy in enumerate(self.policies)]
        return named if self.critic is None else [*named, ("critic_", self.critic)]


def _with_heads(config: Any, heads: tuple[str, ...]) -> Any:
    """Return the configuration of a network with some heads, which is one agent's."""
    names = [field.name for field in dataclasses.fields(AgentConfig)]
    return AgentConfig(**{name: getattr(config, name) for name in names} | {"heads": heads})


def _under(prefix: str, carry: Any) -> Any:
    found = {
        name.removeprefix(prefix): leaf for name, leaf in carry.items() if name.startswith(prefix)
    }
    return found or None


def _where(which: Any, one: NetworkOutput, other: NetworkOutput) -> NetworkOutput:
    def chosen(a: Any, b: Any) -> Any:
        if a is None:
            return None
        return torch.where(which if a.ndim == which.ndim else which[..., None], a, b)

    return NetworkOutput(*map(chosen, one, other))


class AgentsAgent(NetworkAgent):
    """Plays all A agents of an env, each as an `ActorCriticAgent` plays a row.

    The infos are those of an `ActorCriticAgent`, `[B, A, ...]`. A carry is one for each agent,
    reset where the env's episode begins; an agent that returns within an episode continues from the
    carry of its absence.

    Args:
        network: of `make_agents_network`.
        device: where it runs.

    Raises:
        InvalidOption: the network does not say of how many agents it is.
    """

    _read = (*NetworkAgent._read, "num_agents")
    #: Plays a row of one agent.
    _player: ClassVar[type[NetworkAgent]] = ActorCriticAgent
    #: Infos that samplers add up over an episode: the agents' returns.
    episode_sums = ("agent_reward",)

    def __init__(self, network: Any, *, device: str = "cpu") -> None:
        super().__init__(network, device=device)
        self._one: Any = self._player(network, device=device)
        self._count = int(network.num_agents)
        self._whole = isinstance(network.observation_space, spaces.Dict)

    @property
    def env_info(self) -> dict[str, Any]:
        """The infos that samplers keep for its learner; see `SamplerOptions.env_info`."""
        return {name: (dtype, (self._count,)) for name, dtype in NEEDED_INFOS.items()}

    def set_mode(self, mode: Mode) -> None:
        super().set_mode(mode)
        self._one.set_mode(mode)

    def check_spaces(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
    ) -> None:
        """Refuse envs whose agents are others than the network's.

        Raises:
            InvalidOption: number or spaces of the agents differ.
        """
        seen, acts, count = agent_spaces(observation_space, action_space)
        mine = self.network.observation_space
        own = mine["own"] if self._whole else mine
        found, wanted = (seen.shape, seen.dtype, acts, count), (own.shape, own.dtype)
        if found != (*wanted, self.network.action_space, self._count):
            raise InvalidOption(
                f"AgentsAgent: the network is of {self._count} agents that see {own} and play "
                f"{self.network.action_space}; the env has {count} that see {seen} and play "
                f"{acts}. Make it with the env's spaces."
            )

    def initial_carry(self, num_rows: int) -> Any:
        """Return zeros `[B, A, H]` float32 by name; None for a network without a carry."""
        carry = self._one.initial_carry(num_rows * self._count)
        return None if carry is None else apart(carry, self._count)

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        before = None if carry is None else rows(carry)
        acted = self._one.step(self._rows(inputs), before)
        after = None if acted.carry is None else apart(acted.carry, self._count)
        return Acted(apart(acted.action, self._count), apart(acted.info, self._count), after)

    def value(self, inputs: Inputs, carry: Any) -> Any:
        """Return `[B]` float32, the sum of the agents' values; see `Agent.value`."""
        before = None if carry is None else rows(carry)
        found = self._one.value(self._rows(inputs), before)
        return apart(found, self._count).sum(axis=1)

    def _rows(self, inputs: Inputs) -> Inputs:
        """Return inputs `[B * A, ...]`."""
        count, legal = self._count, inputs.legal
        return Inputs(
            obs=shown(inputs.obs, 1, whole=self._whole),
            action=rows(inputs.action),
            reward=np.repeat(inputs.reward, count),
            first=np.repeat(inputs.first, count),
            noise=None if inputs.noise is None else AgentsNoise(inputs.noise, count),
            legal=None if legal is None else legal.reshape(len(legal) * count, -1),
        )


@final
class AgentsQAgent(AgentsAgent):
    """Plays all A agents of an env, each as a `QAgent` plays a row; the infos are "q" `[B, A, K]`.

    Args:
        network: of `make_agents_network` with `AgentsQConfig`.
        device: where it runs.
    """

    _player = QAgent

    @property
    def env_info(self) -> dict[str, Any]:
        """The agents' rewards, for the log: a team learns from their sum."""
        return {"agent_reward": super().env_info["agent_reward"]}

    @property
    def epsilon(self) -> Any:
        """Share of random actions of each agent in modes "train" and "sample", float64."""
        return self._one.epsilon

    @epsilon.setter
    def epsilon(self, share: float) -> None:
        self._one.epsilon = share

    def state_dict(self) -> dict[str, Any]:
        """Return "version", "epsilon", and the weights as arrays by name."""
        return {**super().state_dict(), "epsilon": self.epsilon.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._one.load_state_dict(state)
        self.version = self._one.version
