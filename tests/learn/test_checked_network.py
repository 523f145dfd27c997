"""What is given as a network and is none: agents, classes, modules that lack what is read."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium import spaces  # noqa: E402

from plangym_ext.errors import InvalidOption  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    PPO,
    ActorCriticAgent,
    AgentConfig,
    PolicyAgent,
    QAgent,
    make_agent_network,
)
from plangym_ext.learn.networks.agent_network import AgentNetwork  # noqa: E402

NETWORK = make_agent_network(
    spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2), AgentConfig(hidden=(8,)), seed=0
)


class Own(torch.nn.Module):
    """Does not say what actions it is for."""

    inputs_used = ("obs",)
    distribution = NETWORK.distribution

    def initial_carry(self, num_rows):
        return None

    def forward(self, inputs, carry=None):
        return NETWORK(inputs, carry)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: PPO(ActorCriticAgent(NETWORK)), "PPO: network .*an object of ActorCriticAgent"),
        (lambda: PPO(None), "PPO: network must be a torch.nn.Module.*an object of NoneType"),
        (lambda: ActorCriticAgent(AgentNetwork), "got the class AgentNetwork"),
        (lambda: QAgent(torch.nn.Linear(3, 2)), "Linear, which has no distribution, inputs_used"),
        (lambda: PolicyAgent(Own()), "Own, which has no action_space"),
        (lambda: PPO(NETWORK, seed=-1), "PPO: seed must be an integer >= 0; got -1"),
        (lambda: PPO(NETWORK, seed=None), "PPO: seed must be an integer >= 0; got None"),
    ],
)
def test_what_cannot_be_asked_is_refused(made, message):
    with pytest.raises(InvalidOption, match=message):
        made()


def test_a_network_of_ones_own_can_be_played():
    assert ActorCriticAgent(Own()).network.inputs_used == ("obs",)
