"""QMIX and VDN: Q-learning of a team's return from Q values of its agents."""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.off_policy.config import DQNConfig, QMIXConfig, VDNConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps
from plangym_ext.learn.algorithms.off_policy.q_learning import QLearning
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.engines.q_values import Learned
from plangym_ext.learn.losses.q_values import bootstrapped, chosen, error_loss
from plangym_ext.learn.several.axis import torch_rows
from plangym_ext.learn.torch_extra import functional, nn, torch


class VDN(QLearning):
    """Value decomposition: the team's Q value is the sum of its agents' Q values.

    For agents of equal spaces with discrete actions that share one reward. Each agent plays the
    best of its own Q values, of its own observation; only the sum is learned from the env's reward.
    An agent that has left counts with the value of the zeros that it observes.

    The agent is "agents_q"; the network is made by `make_agents_network` of `AgentsQConfig`.
    Different from the source: networks without memory, and updates from single steps.

    Source: Sunehag et al. 2018, "Value-decomposition networks for cooperative multi-agent learning
    based on team reward".
    """

    config_class: ClassVar[type[DQNConfig]] = VDNConfig
    _needed = "AgentsQConfig()"
    _takes_agents = True
    #: By autograd; each update is made as it is drawn.
    _can_be_recorded = False

    def _build(self) -> None:
        self._count = int(self.network.num_agents)
        self.modules["mixer"] = self._make_mixer().to(self._device)
        super()._build()

    def _check_network(self) -> None:
        super()._check_network()
        if not hasattr(self.network, "num_agents"):
            raise InvalidOption(
                f"{type(self).__name__}: the network must be of several agents; got a "
                f"{type(self.network).__name__}. Set agent.name = 'agents_q', or call "
                f"make_agents_network with AgentsQConfig()."
            )

    def _learned(self) -> nn.Module:
        return nn.ModuleList([self.network, self.modules["mixer"]])

    def _make_mixer(self) -> nn.Module:
        """Return what makes the team's value `[N]` of its agents' `[N, A]` and observations."""
        return _Sum()

    def _loss(self, steps: Steps) -> Learned:
        network, mixer = self.network, self.modules["mixer"]
        with torch.no_grad():
            target_network, target_mixer = self._target.module
            following = self._values(target_network, steps.next_obs)
            q = self._values(network, steps.next_obs) if self.config.double else following
            legal = steps.next_legal
            best = masked(q, None if legal is None else legal.view(q.shape)).argmax(dim=1)
            team = target_mixer(self._of_agents(following, best), steps.next_obs)
            target = bootstrapped(steps.reward, steps.discount, team)
        q = self._of_agents(self._values(network, steps.obs), steps.action.flatten())
        value = mixer(q, steps.obs)
        loss = error_loss(value, target, self.config.loss, steps.weight)
        value = value.detach()
        return Learned(loss, value, (target - value).abs())

    def _values(self, network: Any, obs: Any) -> Any:
        """Return `[N * A, K]`, the Q values of each agent of each step."""
        whole = isinstance(self.network.observation_space, spaces.Dict)
        return self._out(network, torch_rows(obs, whole=whole)).q

    def _of_agents(self, q: Any, index: Any) -> Any:
        """Return `[N, A]`, the values of actions `[N * A]`."""
        return chosen(q, index).view(-1, self._count)


@final
class QMIX(VDN):
    """Value decomposition by a network that grows with each agent's Q value.

    As `VDN`, where what an action is worth depends on what the others do. The mixing weights are
    not negative, so that the best action of the team is the best of each agent; they are computed
    from all observations, which only learning sees.

    Different from the source: the state is all agents' observations; as `VDN` otherwise.

    Source: Rashid et al. 2018, "QMIX: monotonic value function factorisation for deep multi-agent
    reinforcement learning".
    """

    config_class: ClassVar[type[DQNConfig]] = QMIXConfig
    config: QMIXConfig

    def _make_mixer(self) -> nn.Module:
        space: Any = self.network.observation_space
        own: Any = space["own"] if isinstance(space, spaces.Dict) else space
        return _Mixer(self._count, self._count * math.prod(own.shape), self.config.mixing_size)


class _Sum(nn.Module):
    def forward(self, q: torch.Tensor, obs: Any) -> torch.Tensor:  # noqa: ARG002
        return q.sum(dim=1)


class _Mixer(nn.Module):
    """Two layers whose weights are made of the state; equations 4 to 6 of the source.

    Args:
        count: of agents, A.
        width: numbers of a state.
        size: of the layer between.
    """

    def __init__(self, count: int, width: int, size: int) -> None:
        super().__init__()
        self._shape = count, size
        self.first = nn.Linear(width, count * size)
        self.first_bias = nn.Linear(width, size)
        self.second = nn.Linear(width, size)
        self.second_bias = nn.Sequential(nn.Linear(width, size), nn.ReLU(), nn.Linear(size, 1))

    def forward(self, q: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        """Return `[N]` of Q values `[N, A]` and observations `[N, A, *obs]`."""
        state = obs.flatten(1).float()
        # Not negative: the team's value never falls where an agent's rises.
        weights = self.first(state).abs().unflatten(1, self._shape)
        between = (q[:, None] @ weights)[:, 0] + self.first_bias(state)
        mixed = (functional.elu(between) * self.second(state).abs()).sum(dim=1)
        return mixed + self.second_bias(state)[:, 0]
