"""AgentsAgent: plays all agents of an env by a network of one agent's rows."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent import Acted
from plangym_ext.learn.agents.inputs import Inputs, Mode
from plangym_ext.learn.agents.network_agent import ActorCriticAgent, NetworkAgent
from plangym_ext.learn.several.axis import (
    NEEDED_INFOS,
    AgentsNoise,
    agent_spaces,
    apart,
    rows,
    shown,
)


@final
class AgentsAgent(NetworkAgent):
    """Plays all A agents of an env, each as an `ActorCriticAgent` plays a row.

    The infos are those of an `ActorCriticAgent`, `[B, A, ...]`. A carry is one for each agent,
    reset where the env's episode begins; an agent that comes back within an episode goes on from
    what was carried while it was away.

    Args:
        network: of `make_agents_network`.
        device: where it runs.

    Raises:
        InvalidOption: the network does not say of how many agents it is.
    """

    _read = (*NetworkAgent._read, "num_agents")
    #: Infos that samplers add up over an episode: the agents' returns.
    episode_sums = ("agent_reward",)

    def __init__(self, network: Any, *, device: str = "cpu") -> None:
        super().__init__(network, device=device)
        self._one = ActorCriticAgent(network, device=device)
        self._count = int(network.num_agents)
        self._whole = isinstance(network.observation_space, spaces.Dict)

    @property
    def env_info(self) -> dict[str, Any]:
        """The infos that samplers keep for its learner; see `SamplerOptions.env_info`."""
        return {name: (dtype, (self._count,)) for name, dtype in NEEDED_INFOS.items()}

    def set_mode(self, mode: Mode) -> None:
        """Change the mode, and the network's."""
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
        """Choose the actions of all agents; see `Agent.step`."""
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
