"""Every algorithm with every kind of space: a round learns, and what broke off goes on."""

from __future__ import annotations

import copy
import pickle

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gpus import DEVICES  # noqa: E402
from gymnasium import spaces  # noqa: E402

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.errors import WrongKind  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    A2C,
    PPO,
    PQN,
    REINFORCE,
    A2CConfig,
    ActorCriticAgent,
    AgentConfig,
    PPOConfig,
    PQNConfig,
    QAgent,
    ReinforceConfig,
    SerialSampler,
    VTrace,
    VTraceConfig,
    make_agent_network,
)

VECTOR = spaces.Box(-np.inf, np.inf, (3,))
OBSERVATIONS = {
    "vector": VECTOR,
    "dict": spaces.Dict({"level": spaces.Discrete(3), "vector": VECTOR}),
}
ACTIONS = {
    "discrete": spaces.Discrete(3, start=1),
    "multi": spaces.MultiDiscrete([2, 3]),
    "box": spaces.Box(-1, 2, (2,)),
}
ALGORITHMS = {
    "reinforce": (REINFORCE, ReinforceConfig()),
    "a2c": (A2C, A2CConfig(normalize_reward=True)),
    "vtrace": (VTrace, VTraceConfig()),
    "ppo": (PPO, PPOConfig(epochs=2, batch_size=16, entropy_weight=0.01)),
    "recurrent ppo": (PPO, PPOConfig(epochs=2, batch_size=20, minibatch="env")),
    "pqn": (PQN, PQNConfig(epochs=2, batch_size=16)),
    "recurrent pqn": (PQN, PQNConfig(epochs=2, batch_size=20, minibatch="env")),
}
#: Algorithm, observations, actions, recurrent layer: each kind with each, but not all at once.
CASES = [
    *((name, "vector", actions, "none") for name in ("a2c", "ppo") for actions in ACTIONS),
    *((name, "dict", "discrete", "none") for name in ("reinforce", "vtrace", "ppo", "pqn")),
    *(("a2c", "dict", actions, "gru") for actions in ACTIONS),
    *(("recurrent ppo", "vector", actions, "lstm") for actions in ACTIONS),
    ("recurrent ppo", "dict", "box", "gru"),
    ("vtrace", "vector", "box", "lstm"),
    ("pqn", "vector", "discrete", "none"),
    ("recurrent pqn", "vector", "discrete", "lstm"),
    ("recurrent pqn", "dict", "discrete", "gru"),
]


class Shown(gymnasium.Env):
    """Shows numbers that are drawn; episodes terminate after 7 steps, or are cut after 5."""

    def __init__(self, observations, actions):
        self.observation_space, self.action_space = observations, actions
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._shown(), {}

    def _shown(self):
        vector = self.np_random.normal(size=3).astype(np.float32)
        if self.observation_space is VECTOR:
            return vector
        return {"level": int(self.np_random.integers(3)), "vector": vector}

    def step(self, action):
        self._steps += 1
        reward = float(np.sum(action) + self.np_random.normal())
        cut = self._steps == 5 and self.np_random.random() < 0.5
        return self._shown(), reward, self._steps == 7, bool(cut), {}


def made(case, device="cpu"):
    name, observations, actions, recurrent = case
    space, action_space = OBSERVATIONS[observations], ACTIONS[actions]
    kind, config = ALGORITHMS[name]
    is_q = kind is PQN
    network = make_agent_network(
        space,
        action_space,
        AgentConfig(
            hidden=(8,),
            heads=("q",) if is_q else ("policy", "value"),
            layer_norm=is_q,
            activation="tanh",
            init="orthogonal",
            normalize_obs=observations == "dict",
            recurrent=recurrent,
            recurrent_size=6,
            recurrent_first=recurrent == "lstm",
            shared_body=recurrent == "lstm",
            previous_action=recurrent != "none",
            previous_reward=recurrent != "none",
        ),
        seed=1,
    )
    agent = (QAgent if is_q else ActorCriticAgent)(network, device=device)
    venv = make_vec(lambda: Shown(space, action_space), 4, autoreset_mode="same_step")
    return SerialSampler(venv, agent, 20, seed=1), agent, kind(network, config, seed=2)


def rounds(sampler, agent, algorithm, count):
    found = []
    for _ in range(count):
        algorithm.prepare(agent)
        algorithm.take(sampler.collect(version=algorithm.updates))
        found.append(algorithm.train())
    return found


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_rounds_learn_and_go_on_bit_for_bit(case):
    (sampler, agent, algorithm), (other_sampler, other_agent, other) = made(case), made(case)
    before = {name: part.clone() for name, part in algorithm.network.named_parameters()}
    with sampler, other_sampler:
        (logged,) = rounds(sampler, agent, algorithm, 1)
        assert all(np.isfinite(list(logged.values())))
        assert any(
            not torch.equal(part, before[name])
            for name, part in algorithm.network.named_parameters()
        )
        other.load_state_dict(copy.deepcopy(algorithm.state_dict()))
        other_sampler.load_state_dict(sampler.state_dict())
        wanted = rounds(sampler, agent, algorithm, 2)
        assert rounds(other_sampler, other_agent, other, 2) == wanted
        assert other.updates == algorithm.updates > 0
        assert other.steps == algorithm.steps == 3 * 4 * 20
        for name, tensor in algorithm.network.state_dict().items():
            assert torch.equal(other.network.state_dict()[name], tensor), name


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_algorithm_says_that_it_cannot_be_copied_and_how_another_goes_on(copying):
    sampler, _, algorithm = made(CASES[0])
    with sampler, pytest.raises(WrongKind, match="load_state_dict with this one's state_dict"):
        copying(algorithm)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_what_was_played_teaches_alike_on_each_device(case, device):
    (sampler, agent, algorithm), (unused, other_agent, other) = made(case), made(case, device)
    with sampler, unused:
        algorithm.prepare(agent)
        other.prepare(other_agent)
        played = sampler.collect(version=0)
        learned = []
        for one in (algorithm, other):
            one.take(copy.deepcopy(played))
            learned.append(one.train())
    assert {part.device.type for part in other.network.parameters()} == {device}
    assert learned[1] == pytest.approx(learned[0], rel=1e-3, abs=1e-4)
    weights = other.network.state_dict()
    for name, tensor in algorithm.network.state_dict().items():
        # Adam's first steps are of one length however small a gradient is, so that rounding
        # moves a weight by some of them.
        np.testing.assert_allclose(weights[name].cpu(), tensor, rtol=1e-3, atol=2e-3, err_msg=name)
