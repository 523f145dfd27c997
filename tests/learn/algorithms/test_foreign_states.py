"""States that an algorithm cannot go on from: refused by name, with nothing changed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.errors import ForeignNetwork  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    DQN,
    PPO,
    SAC,
    ActorCriticAgent,
    AgentConfig,
    DQNConfig,
    PolicyAgent,
    PPOConfig,
    QAgent,
    QAgentConfig,
    SACConfig,
    SerialSampler,
    SoftPolicyConfig,
    make_agent_network,
)
from plangym_ext.learn.engines import flat_optimizer  # noqa: E402

KINDS = {
    "ppo": (PPO, PPOConfig, AgentConfig, ActorCriticAgent),
    "dqn": (DQN, DQNConfig, QAgentConfig, QAgent),
    "sac": (SAC, SACConfig, SoftPolicyConfig, PolicyAgent),
}
ENVS = {"ppo": "CartPole-v1", "dqn": "CartPole-v1", "sac": "Pendulum-v1"}
OPTIONS = {
    "ppo": {"epochs": 1, "batch_size": 16},
    "dqn": {"learning_starts": 16, "capacity": 200, "batch_size": 8},
    "sac": {"learning_starts": 16, "capacity": 200, "batch_size": 8, "critic_hidden": (8,)},
}


def made(name, seed=0, **options):
    algorithm, config, network, agent = KINDS[name]
    venv = make_vec(ENVS[name], 2, backend="serial", autoreset_mode="same_step")
    space, actions = venv.single_observation_space, venv.single_action_space
    net = make_agent_network(space, actions, network(hidden=(8,)), seed=seed)
    return algorithm(net, config(**OPTIONS[name] | options), seed=seed), agent(net), venv


def taught(name, **options):
    algorithm, agent, venv = made(name, **options)
    with SerialSampler(venv, agent, 16, seed=0) as sampler:
        algorithm.prepare(agent)
        algorithm.take(sampler.collect())
        algorithm.train()
    assert algorithm.updates
    return algorithm.state_dict()


def refuse(algorithm, state, match):
    before = {name: part.clone() for name, part in algorithm.network.state_dict().items()}
    with pytest.raises(ForeignNetwork, match=match):
        algorithm.load_state_dict(state)
    assert algorithm.updates == algorithm.steps == 0
    for name, part in algorithm.network.state_dict().items():
        assert torch.equal(part, before[name]), name


@pytest.mark.parametrize("small", [0, 10**9], ids=["torch", "compiled"])
@pytest.mark.parametrize("name", KINDS)
def test_moments_of_other_weights_are_refused(name, small, monkeypatch):
    # torch's own steps would write beyond the end of such moments.
    monkeypatch.setattr(flat_optimizer, "_SMALL", small)
    refuse(made(name, 1, l2=0.1)[0], taught(name), "moments of the optimiser must be of")
    refuse(made(name, 1)[0], taught(name, l2=0.1), "moments of the optimiser must be of")


def test_a_temperature_that_is_not_learned_has_no_moments():
    fixed = made("sac", 1, learn_temperature=False)[0]
    refuse(fixed, taught("sac"), "moments")
    refuse(made("sac", 1)[0], taught("sac", learn_temperature=False), "moments")


@pytest.mark.parametrize("name", KINDS)
def test_what_is_no_state_of_an_algorithm_is_refused(name):
    algorithm, state = made(name, 1)[0], taught(name)
    refuse(algorithm, {}, "must have 'trainer', 'torch_random'")
    refuse(algorithm, None, "must have 'trainer'")
    refuse(algorithm, state["trainer"], "must have 'torch_random'|must have 'trainer'")
    refuse(algorithm, algorithm.network.state_dict(), "must have 'trainer'")
    for part in state["trainer"]:
        lacking = {key: value for key, value in state["trainer"].items() if key != part}
        refuse(algorithm, state | {"trainer": lacking}, f"its trainer must have '{part}'")
    moments = state["trainer"]["moments"]
    for wrong in (7, {0: 7}, {0: {"exp_avg": 7.0, "exp_avg_sq": torch.zeros(3)}}):
        broken = wrong if name == "ppo" else dict.fromkeys(moments, wrong)
        refuse(algorithm, state | {"trainer": state["trainer"] | {"moments": broken}}, "moments")
    algorithm.load_state_dict(state)
    assert algorithm.updates
