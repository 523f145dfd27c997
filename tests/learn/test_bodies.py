"""Attention among cells, convolutions with a carry, auto-encoders and curiosity."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

from plangym_ext import make_vec
from plangym_ext.errors import InvalidOption
from plangym_ext.learn import (
    PPO,
    ActorCriticAgent,
    AgentConfig,
    AutoEncoder,
    Curiosity,
    CuriosityConfig,
    Inputs,
    NetworkConfig,
    PPOConfig,
    SerialSampler,
    make_agent_network,
    make_network,
)

BOARD = Box(0.0, 1.0, (3, 6, 6), np.float32)


class Boards(gym.Env):
    """Shows boards of noise."""

    observation_space, action_space = BOARD, Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random((3, 6, 6)).astype(np.float32), {}

    def step(self, action):
        seen = self.np_random.random((3, 6, 6)).astype(np.float32)
        return seen, float(action), bool(self.np_random.random() < 0.3), False, {}


def vec(env, count):
    return make_vec(env, count, autoreset_mode="same_step")


def network_of(space=BOARD, **config):
    config = {"channels": (4, 8, 8), "hidden": (16,), "init": "orthogonal", **config}
    return make_agent_network(space, Discrete(3), AgentConfig(**config), seed=0)


# Attention -----------------------------------------------------------------------------


def test_each_cell_is_told_of_all_others():
    network = make_network(
        BOARD, Discrete(3), NetworkConfig(kind="attention", channels=(4, 8, 8)), seed=0
    )
    attention = network.body[0][1]
    x = torch.randn(2, 8, 6, 6, requires_grad=True)
    attention(x)[0, :, 0, 0].sum().backward()
    assert (x.grad[0].abs().sum(0) > 0).all()
    assert not x.grad[1].any()
    # Against torch's own layer with the same weights.
    asked, own = attention.asked, torch.nn.MultiheadAttention(8, 4, batch_first=True)
    with torch.no_grad():
        own.in_proj_weight.copy_(asked.weight.flatten(1))
        own.in_proj_bias.copy_(asked.bias)
        own.out_proj.weight.copy_(attention.joined.weight.flatten(1))
        own.out_proj.bias.copy_(attention.joined.bias)
        cells = x.flatten(2).transpose(1, 2)
        wanted = cells + own(cells, cells, cells)[0]
        np.testing.assert_allclose(
            attention(x).flatten(2).transpose(1, 2), wanted, rtol=1e-4, atol=1e-5
        )


# Convolutions with a carry -------------------------------------------------------------


def test_a_sequence_gives_what_its_steps_give_and_begins_anew_at_first():
    network = network_of(recurrent="conv_gru")
    first = torch.zeros(5, 4, dtype=torch.bool)
    first[2, 1] = True
    inputs = Inputs(torch.rand(5, 4, 3, 6, 6), None, None, first)
    whole, end = network(inputs, network.initial_carry(4))
    carry = network.initial_carry(4)
    for t in range(5):
        out, carry = network(Inputs(inputs.obs[t], None, None, first[t]), carry)
        torch.testing.assert_close(out.value, whole.value[t])
    torch.testing.assert_close(carry, end)
    alone = Inputs(inputs.obs[2:, 1:2], None, None, first[2:, 1:2])
    torch.testing.assert_close(
        network(alone, network.initial_carry(1))[0].value, whole.value[2:, 1:2]
    )


def test_the_carry_keeps_where_something_was_seen():
    network = network_of(recurrent="conv_gru", channels=(4,))
    zeros = torch.zeros(2, 1, 3, 6, 6)
    seen = zeros.clone()
    seen[0, 0, :, 0, 0] = 1.0
    flags = torch.tensor([[True], [False]])
    (_, one), (_, other) = (
        network(Inputs(obs, None, None, flags), network.initial_carry(1)) for obs in (seen, zeros)
    )
    moved = (one["h"] - other["h"]).reshape(4, 6, 6).abs().sum(0)
    # Each convolution reaches one cell further: one over the image, two of the carry in two steps.
    assert moved[0, 0] > 0
    assert not moved[5].any()
    assert not moved[:, 5].any()


def test_a_network_with_convolutions_and_a_carry_learns_from_columns():
    network = network_of(recurrent="conv_gru")
    agent = ActorCriticAgent(network)
    algorithm = PPO(network, PPOConfig(minibatch="env", epochs=2), seed=0)
    before = [part.clone() for part in network.core.parameters()]
    with SerialSampler(vec(Boards, 4), agent, 8) as sampler:
        algorithm.take(sampler.collect())
        algorithm.train()
    after = network.core.parameters()
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("space", [Box(-1.0, 1.0, (4,)), Dict(a=BOARD, b=Discrete(3))], ids=str)
def test_a_carry_of_convolutions_needs_one_image(space):
    with pytest.raises(InvalidOption, match=r"conv_gru.*one image"):
        network_of(space, recurrent="conv_gru")


# Auto-encoder --------------------------------------------------------------------------


def test_an_auto_encoder_finds_the_place_of_a_blob():
    space = Box(0, 255, (1, 12, 12), np.uint8)
    # The images have one degree of freedom: where the bar is.
    place = torch.arange(12)
    images = torch.zeros(12, 1, 12, 12, dtype=torch.uint8)
    images[place, 0, :, place] = 255
    config = NetworkConfig(kind="mlp", hidden=(64,), activation="tanh")
    model = AutoEncoder(space, 4, config, weight=0.1, seed=0)
    noise = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(200):
        loss = model.loss(images, torch.randn(12, 4, generator=noise))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        shown = model.decode(model.encode(images).mean)
    assert (shown.mean(2)[:, 0].argmax(1) == place).float().mean() > 0.9


def test_the_loss_is_the_bound():
    model = AutoEncoder(Box(-1, 1, (5,), np.float32), 3, weight=0.5, seed=0)
    obs, noise = torch.rand(7, 5), torch.randn(7, 3)
    mean, log_std = model.encode(obs)
    latent = torch.distributions.Normal(mean, log_std.exp())
    prior = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
    apart = torch.distributions.kl_divergence(latent, prior).sum(1)
    error = (model.decode(mean + log_std.exp() * noise) - obs).square().sum(1)
    torch.testing.assert_close(model.loss(obs, noise), (error / 2 + apart / 2).mean())


# Curiosity -----------------------------------------------------------------------------


def test_the_bonus_falls_where_it_was_and_the_action_is_told():
    venv = vec("CartPole-v1", 8)
    spaces = venv.single_observation_space, venv.single_action_space
    config = CuriosityConfig(weight=1.0, epochs=20, learning_rate=3e-3)
    model = Curiosity(*spaces, config, seed=0)
    agent = ActorCriticAgent(make_agent_network(*spaces, seed=0))
    told = []
    with SerialSampler(venv, agent, 32) as sampler:
        for _ in range(12):
            tree = sampler.collect().data
            rewards = tree["reward"].to_ndarray().copy()
            told.append(model.reward(tree))
            added = tree["reward"].to_ndarray() - rewards
            assert (added >= 0).all()
            assert np.isclose(added.mean(), told[-1]["bonus"], rtol=1e-4)
        obs, action, after = model.steps(tree)
        ended = (tree["terminated"].to_ndarray() | tree["truncated"].to_ndarray()).ravel()
        final = torch.from_numpy(tree["final_obs"].to_ndarray()).flatten(0, 1)
        assert ended.any()
        assert torch.equal(after.obs[ended], final[ended])
        assert torch.equal(after.obs[:-8][~ended[:-8]], obs.obs[8:][~ended[:-8]])
        with torch.no_grad():
            _, usual = model(obs, action, after)
            # What is never so: the cart jumps.
            _, odd = model(obs, action, after._replace(obs=after.obs + 3.0))
    assert told[-1]["inverse_loss"] < 0.35 < 0.6 < told[0]["inverse_loss"]
    assert odd.mean() > 5 * usual.mean()


@pytest.mark.parametrize(("share", "idle"), [(0.0, "forward_model"), (1.0, "inverse"), (0.5, None)])
def test_the_share_of_the_forward_model_says_which_model_learns(share, idle):
    venv = vec("CartPole-v1", 2)
    spaces = venv.single_observation_space, venv.single_action_space
    model = Curiosity(*spaces, CuriosityConfig(forward_share=share), seed=0)
    before = {name: part.clone() for name, part in model.named_parameters()}
    agent = ActorCriticAgent(make_agent_network(*spaces, seed=0))
    with SerialSampler(venv, agent, 8) as sampler:
        model.reward(sampler.collect().data)
    for part in ("forward_model", "inverse"):
        weights = {name: one for name, one in model.named_parameters() if name.startswith(part)}
        assert len(weights) == 4
        for name, one in weights.items():
            assert torch.equal(one, before[name]) == (part == idle)
