"""What is given as a network and is none: agents, classes, modules that lack what is read."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gymnasium as gym  # noqa: E402
from gymnasium import spaces  # noqa: E402

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.errors import InvalidOption  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    PPO,
    ActorCriticAgent,
    AgentConfig,
    Inputs,
    NetworkEvaluator,
    NetworkOutput,
    PolicyAgent,
    QAgent,
    SerialSampler,
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


class Lazy(Own):
    """Whose first layer has its size when it is called first."""

    observation_space = action_space = None

    def __init__(self):
        super().__init__()
        self.body = torch.nn.LazyLinear(2)

    def forward(self, inputs, carry=None):
        logits = self.body(inputs.obs)
        return NetworkOutput(logits, logits[..., 0], None), None


class Late(Lazy):
    """Makes its first layer when it is called first."""

    def __init__(self):
        Own.__init__(self)
        self.body = None
        self.bias = torch.nn.Parameter(torch.zeros(2))

    def forward(self, inputs, carry=None):
        if self.body is None:
            self.body = torch.nn.Linear(3, 2)
        logits = self.body(inputs.obs) + self.bias
        return NetworkOutput(logits, logits[..., 0], None), None


@pytest.mark.parametrize("made", [ActorCriticAgent, PPO, NetworkEvaluator])
def test_weights_without_a_size_are_refused(made):
    with pytest.raises(InvalidOption, match=r"body.weight is of a lazy layer.*Call the network"):
        made(Lazy())
    network = Lazy()
    network(example_inputs())
    assert made(network)


def example_inputs():
    return Inputs(torch.zeros(2, 3), None, None, torch.zeros(2, dtype=torch.bool))


def test_weights_that_no_optimiser_knows_are_refused():
    network = Late()
    agent, algorithm = ActorCriticAgent(network), PPO(network)
    venv = make_vec(OneStep, 2, autoreset_mode="same_step")
    with SerialSampler(venv, agent, 8) as sampler:
        algorithm.take(sampler.collect())
        with pytest.raises(
            InvalidOption, match=r"PPO: .*body.weight, body.bias were added or removed"
        ):
            algorithm.train()


class OneStep(gym.Env):
    """An episode of one step, of an action whose bounds are those of float32."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        assert np.all(np.abs(action) < 100)
        return np.zeros(3, np.float32), 1.0, True, False, {}


class Unbounded(OneStep):
    action_space = spaces.Box(-np.finfo(np.float32).max, np.finfo(np.float32).max, (2,), np.float32)


def test_bounds_of_float32_are_no_bounds():
    venv = make_vec(Unbounded, 2, autoreset_mode="same_step")
    room = venv.single_observation_space, venv.single_action_space
    network = make_agent_network(*room, AgentConfig(hidden=(8,)), seed=0)
    algorithm = PPO(network)
    with SerialSampler(venv, ActorCriticAgent(network), 8) as sampler:
        algorithm.take(sampler.collect())
        assert np.isfinite(algorithm.train()["train/loss"])
    with pytest.raises(InvalidOption, match="two finite bounds"):
        make_agent_network(*room, AgentConfig(hidden=(8,), squash=True), seed=0)
