"""MAPPO's losses by a second implementation; policies of groups of agents."""

import copy

import numpy as np
import pytest
import torch
from parallel_envs import numbered

import plangym_ext
from plangym_ext.errors import InvalidOption, PlangymExtError
from plangym_ext.learn import (
    PPO,
    AgentsAgent,
    AgentsConfig,
    PPOConfig,
    SerialSampler,
    make_agents_network,
)

STEPS, ENVS, COUNT = 24, 2, 3
GAMMA, LAMBDA, CLIP = 0.9, 0.8, 0.2


def _sampled(**config):
    venv = plangym_ext.make_vec(numbered, ENVS, autoreset_mode="same_step", n_workers=0)
    config = {"hidden": (8,), "init": "orthogonal", **config}
    spaces = venv.single_observation_space, venv.single_action_space
    network = make_agents_network(*spaces, AgentsConfig(**config), seed=5)
    agent = AgentsAgent(network)
    sampler = SerialSampler(venv, agent, STEPS, env_info=agent.env_info)
    collected = sampler.collect()
    sampler.close()
    return network, collected


def _array(leaf, steps=STEPS):
    return leaf[0:steps].to_ndarray(copy=True)


def _value(network, obs, agent):
    """Return the central critic's value of `[A, 3]` observations of an env, for an agent."""
    number = np.eye(COUNT, dtype=np.float32)[agent]
    rows = [number, obs.reshape(-1), obs[agent]]
    x = torch.from_numpy(np.concatenate(rows))[None]
    critic = network.critic
    return critic.heads(critic.body.dense(x))[0, 0]


def _by_hand(network, tree):
    """Return the first minibatch's policy and value loss, agent by agent and step by step."""
    obs, final = _array(tree["obs"], STEPS + 1), _array(tree["final_obs"])
    told = {name: _array(tree["env_info"][name]) for name in tree["env_info"]}
    over = _array(tree["terminated"]) | _array(tree["truncated"])
    action = _array(tree["action"])
    advantages, targets, ratios, values = [], [], [], []
    for env in range(ENVS):
        for agent in range(COUNT):
            there = [t for t in range(STEPS) if told["agent_acted"][t, env, agent]]
            later, found = 0.0, {}
            for t in reversed(there):
                after = final[t, env] if over[t, env] else obs[t + 1, env]
                ended = told["agent_terminated"][t, env, agent]
                cut = told["agent_truncated"][t, env, agent]
                value = _value(network, obs[t, env], agent).item()
                rest = 0.0 if ended else _value(network, after, agent).item()
                error = told["agent_reward"][t, env, agent] + GAMMA * rest - value
                later = error + (0.0 if ended or cut else GAMMA * LAMBDA * later)
                found[t] = later, later + value
            for t in there:
                policy = network.policies[0]
                x = torch.from_numpy(obs[t, env, agent])[None]
                logits = policy.heads(policy.body.dense(x))[0]
                log_prob = torch.log_softmax(logits, 0)[action[t, env, agent]]
                old = float(_array(tree["agent_info"]["log_prob"])[t, env, agent])
                ratios.append(torch.exp(log_prob - old))
                values.append(_value(network, obs[t, env], agent))
                advantages.append(found[t][0])
                targets.append(found[t][1])
    advantage, ratio = torch.tensor(advantages), torch.stack(ratios)
    advantage = (advantage - advantage.mean()) / (advantage.std(unbiased=False) + 1e-6)
    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
    policy_loss = -torch.minimum(ratio * advantage, clipped * advantage).mean()
    value_loss = ((torch.stack(values) - torch.tensor(targets)) ** 2).mean()
    return policy_loss.item(), value_loss.item()


def test_losses_are_those_of_a_second_implementation():
    network, collected = _sampled(critic="central", activation="tanh")
    # Other weights than those that played: ratios differ from 1.
    with torch.no_grad():
        for parameter in network.policies.parameters():
            parameter.add_(0.05 * torch.sin(torch.arange(parameter.numel())).view_as(parameter))
    policy_loss, value_loss = _by_hand(network, collected.data)
    config = PPOConfig(
        discount=GAMMA, gae_lambda=LAMBDA, clip=CLIP, epochs=1, batch_size=10_000, value_weight=0.5
    )
    algorithm = PPO(network, config, seed=0)
    algorithm.take(collected)
    found = algorithm.train()
    assert found["train/policy_loss"] == pytest.approx(policy_loss, rel=1e-4)
    assert found["train/value_loss"] == pytest.approx(value_loss, rel=1e-4)


def test_agents_of_a_group_share_a_policy_and_others_do_not():
    network, _ = _sampled(groups=(0, 1, 0))
    assert len(network.policies) == 2
    seen = torch.rand(COUNT, 3)
    rows = {"agent": torch.eye(COUNT), "all": seen.expand(COUNT, COUNT, 3), "own": seen}
    inputs = _inputs(rows)
    out, _ = network(inputs)
    for agent, group in enumerate((0, 1, 0)):
        alone, _ = network.policies[group](_inputs(seen))
        torch.testing.assert_close(out.policy_logits[agent], alone.policy_logits[agent])
    out.policy_logits[1].sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in network.policies[0].parameters())
    assert any(p.grad.any() for p in network.policies[1].parameters())


def test_options_of_one_group_are_its_own():
    network, collected = _sampled(groups=(0, 0, 0), networks=({"hidden": (4, 4)},), fixed=(0,))
    assert [part.out_features for part in network.policies[0].body.dense[::2]] == [4, 4]
    algorithm = PPO(network, PPOConfig())
    algorithm.take(collected)
    assert algorithm.train() == {"updates": 0}


@pytest.mark.parametrize("critic", ["own", "central"])
@pytest.mark.parametrize(
    "options",
    [
        {"squash": True},
        {"deterministic": True},
        {"normalize_obs": True},
        {"previous_reward": True},
        {"critic": "central"},
        {"groups": (0, 1)},
        {"heads": ("policy",)},
        {"hiden": (4,)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_groups_differ_in_layers_alone(critic, options):
    with pytest.raises(PlangymExtError, match=next(iter(options))):
        AgentsConfig(critic=critic, groups=(0, 1), networks=({}, options))


@pytest.mark.parametrize("critic", ["own", "central"])
def test_networks_of_several_kinds_learn_and_a_fixed_one_stays(critic):
    kinds = ({}, {"hidden": (4, 4)}, {"recurrent": "gru", "recurrent_size": 5})
    network, collected = _sampled(groups=(0, 1, 2), networks=kinds, fixed=(1,), critic=critic)
    assert [sum(p.numel() for p in one.body.dense.parameters()) for one in network.policies] == [
        *(3 * 8 + 8, 3 * 4 + 4 + 4 * 4 + 4, 3 * 8 + 8)
    ]
    before = copy.deepcopy(network)
    algorithm = PPO(network, PPOConfig(batch_size=ENVS * COUNT, epochs=2, minibatch="env", l2=0.1))
    algorithm.take(collected)
    algorithm.train()
    same = [
        all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
        for one, two in zip(before.policies, network.policies, strict=True)
    ]
    assert same == [False, True, False]


def _inputs(obs):
    from plangym_ext.learn import Inputs

    return Inputs(obs, None, None, torch.zeros(COUNT, dtype=torch.bool))


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"groups": (0, 1)}, "groups"),
        ({"groups": (0, 2, 2)}, "gaps"),
        ({"critic": "central", "normalize_obs": True}, "normalize_obs"),
        ({"heads": ("policy",)}, "heads"),
        ({"groups": (0, 1, 1), "fixed": (2,)}, "networks must be one for each"),
        ({"groups": (0, 1, 1), "networks": ({},)}, "networks must be one for each"),
        ({"previous_reward": True}, "previous_reward"),
    ],
)
def test_what_cannot_be_is_refused(config, named):
    with pytest.raises(InvalidOption, match=named):
        _sampled(**config)


def test_a_fragment_without_the_agents_infos_is_refused():
    venv = plangym_ext.make_vec(numbered, 1, autoreset_mode="same_step", n_workers=0)
    spaces = venv.single_observation_space, venv.single_action_space
    network = make_agents_network(*spaces, seed=0)
    sampler = SerialSampler(venv, AgentsAgent(network), 2)
    with pytest.raises(InvalidOption, match="agent_reward"):
        PPO(network).take(sampler.collect())
    sampler.close()
