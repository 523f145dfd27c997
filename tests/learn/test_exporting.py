"""Networks leave for other programs with a free number of rows, by torch.export and by a trace."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium import spaces  # noqa: E402

from plangym_ext.learn import (  # noqa: E402
    AgentConfig,
    Inputs,
    NetworkConfig,
    make_agent_network,
    make_network,
)
from plangym_ext.learn.networks.config import QAgentConfig  # noqa: E402

VECTOR, ACTIONS = spaces.Box(-1, 1, (4,), np.float32), spaces.Discrete(3)
FORCES = spaces.Box(-2, 2, (2,), np.float32)
TANH = {"activation": "tanh", "shared_body": False, "init": "orthogonal"}

NETWORKS = {
    "mlp": (VECTOR, ACTIONS, AgentConfig()),
    "tanh": (VECTOR, FORCES, AgentConfig(**TANH)),
    "normalised": (VECTOR, ACTIONS, AgentConfig(normalize_obs=True, layer_norm=True)),
    "nature": (spaces.Box(0, 255, (4, 84, 84), np.uint8), ACTIONS, AgentConfig(kind="nature")),
    "board": (spaces.Box(0, 255, (8, 8, 3), np.uint8), ACTIONS, AgentConfig()),
    "discrete": (spaces.Discrete(5), ACTIONS, AgentConfig()),
    "multi": (spaces.MultiDiscrete([3, 4]), ACTIONS, AgentConfig()),
    "q": (VECTOR, ACTIONS, QAgentConfig(dueling=True, noisy=True, returns="atoms")),
    "squashed": (VECTOR, FORCES, AgentConfig(heads=("policy",), log_std="state", squash=True)),
}


class Heads(torch.nn.Module):
    """A network of an agent as a function of observations alone."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, obs):
        first = torch.zeros(obs.shape[0], dtype=torch.bool)
        heads, _ = self.network(Inputs(obs, None, None, first), None)
        return tuple(head for head in heads if head is not None)


def seen(space, count):
    space.seed(count)
    return torch.from_numpy(np.stack([space.sample() for _ in range(count)]))


def exported(module, obs):
    rows = torch.export.Dim("rows", min=2)
    return torch.export.export(module, (obs,), dynamic_shapes=({0: rows},)).module()


def traced(module, obs):
    with torch.no_grad():
        return torch.jit.trace(module, (obs,))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's own
@pytest.mark.parametrize("how", [exported, traced])
@pytest.mark.parametrize("name", NETWORKS)
def test_any_number_of_rows(name, how):
    space, actions, config = NETWORKS[name]
    module = Heads(make_agent_network(space, actions, config, seed=0)).eval()
    left = how(module, seen(space, 3))
    for count in (2, 7):
        obs = seen(space, count)
        for found, wanted in zip(left(obs), module(obs), strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_network_of_a_planner():
    network = make_network(VECTOR, ACTIONS, NetworkConfig(), seed=0).eval()
    left = exported(network, seen(VECTOR, 3))
    torch.testing.assert_close(left(seen(VECTOR, 7)).value, network(seen(VECTOR, 7)).value)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_step_of_a_recurrent_network(kind):
    class Step(torch.nn.Module):
        def __init__(self, network):
            super().__init__()
            self.network = network

        def forward(self, obs, first, carry):
            return self.network(Inputs(obs, None, None, first), carry)

    network = make_agent_network(
        VECTOR, ACTIONS, AgentConfig(recurrent=kind, recurrent_size=8), seed=0
    ).eval()

    def inputs(count):
        first = torch.arange(count) == 1
        return (
            seen(VECTOR, count),
            first,
            {k: v + 1 for k, v in network.initial_carry(count).items()},
        )

    rows, given = torch.export.Dim("rows", min=2), inputs(3)
    shapes = ({0: rows}, {0: rows}, {name: {0: rows} for name in given[2]})
    left = torch.export.export(Step(network), given, dynamic_shapes=shapes).module()
    out, carry = left(*inputs(5))
    wanted, kept = Step(network)(*inputs(5))
    torch.testing.assert_close(out.policy_logits, wanted.policy_logits)
    for name, part in kept.items():
        torch.testing.assert_close(carry[name], part)
