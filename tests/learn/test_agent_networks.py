"""Networks of agents: sequences beside single steps, what goes in, and how weights begin."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn import AgentConfig, Inputs, make_agent_network
from plangym_ext.learn.networks.inputs import ActionEncoder

VECTOR = Box(-np.inf, np.inf, (5,), np.float32)
BOTH = {"previous_action": True, "previous_reward": True}


def sequence(steps, rows, actions=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    first = torch.rand(steps, rows, generator=generator) < 0.3
    return Inputs(
        torch.randn(steps, rows, 5, generator=generator),
        torch.randint(actions, (steps, rows), generator=generator),
        torch.randn(steps, rows, generator=generator),
        first,
    )


def at(inputs, t):
    return Inputs(*(None if part is None else mapped(lambda x: x[t], part) for part in inputs))


@pytest.mark.parametrize("recurrent", ["none", "lstm", "gru"])
def test_a_sequence_is_its_single_steps_resets_and_all(recurrent):
    config = AgentConfig(init="orthogonal", recurrent=recurrent, heads=("policy", "value", "q"))
    config = AgentConfig(**{**vars(config), **BOTH})
    network = make_agent_network(VECTOR, Discrete(3), config, seed=0)
    inputs, carry = sequence(7, 16), network.initial_carry(16)
    if carry is not None:
        carry = {name: torch.randn_like(part) for name, part in carry.items()}
    whole, end = network(inputs, carry)
    step_carry = carry
    for t in range(7):
        out, step_carry = network(at(inputs, t), step_carry)
        for head, alone in zip(whole[:3], out[:3], strict=True):
            assert head[t].shape == alone.shape
            # Of 16 rows and more, one product has the bits of seven.
            assert torch.equal(head[t], alone)
    for name in end or ():
        assert torch.equal(end[name], step_carry[name])
    assert whole.policy_logits.shape == (7, 16, 3)
    assert whole.value.shape == (7, 16)


@pytest.mark.parametrize("recurrent", ["lstm", "gru"])
def test_nothing_passes_from_one_episode_to_the_next(recurrent):
    config = AgentConfig(init="orthogonal", recurrent=recurrent, **BOTH)
    network = make_agent_network(VECTOR, Discrete(3), config, seed=0)
    one, other = sequence(4, 16, seed=0), sequence(4, 16, seed=1)
    first = torch.zeros(4, 16, dtype=torch.bool)
    first[2, ::2] = True
    # From step 2 on all is alike but what came before it, previous action and reward included.
    obs = torch.cat([other.obs[:2], one.obs[2:]])
    action = torch.cat([other.action[:3], one.action[3:]])
    reward = torch.cat([other.reward[:3], one.reward[3:]])
    carry = {k: torch.full_like(v, torch.nan) for k, v in network.initial_carry(16).items()}
    begun = {k: torch.zeros_like(v) for k, v in carry.items()}
    mine, _ = network(one._replace(first=first), begun)
    theirs, _ = network(Inputs(obs, action, reward, first), begun)
    same = (mine.value == theirs.value)[2:]
    assert same[:, ::2].all()
    assert not same[:, 1::2].any()
    # Whatever was carried is replaced, even what is no number.
    out, _ = network(at(one, 0)._replace(first=torch.ones(16, dtype=torch.bool)), carry)
    assert out.value.isfinite().all()


def test_gradients_of_a_sequence_stop_where_an_episode_begins():
    network = make_agent_network(VECTOR, Discrete(3), AgentConfig(recurrent="lstm"), seed=0)
    torch.nn.init.normal_(network.heads.weight)
    inputs = sequence(4, 16)
    obs = inputs.obs.requires_grad_()
    first = torch.zeros(4, 16, dtype=torch.bool)
    first[2, 3] = True
    out, _ = network(inputs._replace(obs=obs, first=first), network.initial_carry(16))
    (grad,) = torch.autograd.grad(out.value[3].sum(), obs)
    reached = grad.abs().sum(dim=2) > 0
    assert reached[2:].all()
    assert reached[:2].sum(dim=1).tolist() == [15, 15]
    assert not reached[:2, 3].any()


def test_previous_actions_are_one_hot_or_in_units_of_their_bounds():
    space = Dict(
        {
            "a": Discrete(3, start=4),
            "b": Tuple((MultiDiscrete([2, 2], start=[0, 1]), MultiBinary(2))),
            "c": Box(np.array([0, -8], np.float32), np.array([4, 8], np.float32)),
        }
    )
    encoder = ActionEncoder(space)
    multi, binary = torch.tensor([[1, 1], [0, 0]]), torch.tensor([[0, 1], [0, 0]])
    actions = {
        "a": torch.tensor([6, 0]),
        "b": (multi, binary),
        "c": torch.tensor([[4.0, -4.0], [2.0, 0.0]]),
    }
    # The second row is no action: zeros where the space does not contain them.
    assert encoder(actions).tolist() == [
        [0, 0, 1, 0, 1, 1, 0, 0, 1, 1, -0.5],
        [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert encoder.width == 11


def test_every_part_of_an_observation_counts():
    image = Box(0, 255, (12, 12, 3), np.uint8)
    space = Dict({"image": image, "pair": Tuple((VECTOR, Discrete(4)))})
    config = AgentConfig(init="orthogonal", channels=(4, 4, 4), hidden=(16,), **BOTH)
    network = make_agent_network(space, Discrete(3), config, seed=0)
    rng = np.random.default_rng(0)
    image_rows = torch.from_numpy(rng.integers(0, 256, (6, 12, 12, 3), np.uint8))
    obs = {"image": image_rows, "pair": (torch.randn(6, 5), torch.arange(6) % 4)}
    zeros = torch.zeros(6)
    inputs = Inputs(obs, zeros.long(), zeros, zeros.bool())
    base, _ = network(inputs)
    changed = [
        inputs._replace(obs={**obs, "image": 255 - obs["image"]}),
        inputs._replace(obs={**obs, "pair": (obs["pair"][0] + 1, obs["pair"][1])}),
        inputs._replace(obs={**obs, "pair": (obs["pair"][0], 3 - obs["pair"][1])}),
        inputs._replace(action=zeros.long() + 1),
        inputs._replace(reward=zeros + 1),
    ]
    for other in changed:
        out, _ = network(other)
        assert (out.value != base.value).all()
    # At a first step there was no action and no reward.
    started, _ = network(inputs._replace(first=~zeros.bool()))
    again, _ = network(changed[3]._replace(reward=zeros + 5, first=~zeros.bool()))
    assert torch.equal(started.value, again.value)
    pairs = Inputs(*(mapped(lambda x: x.unflatten(0, (2, 3)), part) for part in inputs[:4]))
    two, _ = network(pairs)
    torch.testing.assert_close(two.value.flatten(), base.value)


def test_orthogonal_weights_have_the_usual_gains():
    config = AgentConfig(init="orthogonal", hidden=(32, 32), recurrent="gru")
    network = make_agent_network(VECTOR, Discrete(3), config, seed=0)

    def gains(weight):
        return torch.linalg.svdvals(weight.detach())

    for layer in (network.body.dense[0], network.body.dense[2]):
        expected = torch.full((min(layer.weight.shape),), math.sqrt(2))
        torch.testing.assert_close(gains(layer.weight), expected)
        assert not layer.bias.any()
    policy, value = network.heads.weight[:3], network.heads.weight[3:]
    torch.testing.assert_close(gains(policy), torch.full((3,), 0.01))
    torch.testing.assert_close(gains(value), torch.ones(1))
    again = make_agent_network(VECTOR, Discrete(3), config, seed=0).state_dict()
    assert all(torch.equal(again[name], part) for name, part in network.state_dict().items())


def test_free_deviations_are_parameters_and_others_depend_on_the_state():
    space = Tuple((Discrete(2), Box(-1.0, 1.0, (2,), np.float32), MultiBinary(1)))
    obs = Inputs(torch.randn(4, 5), None, None, torch.zeros(4, dtype=torch.bool))
    config = AgentConfig(initial_log_std=-0.5, init="orthogonal")
    free = make_agent_network(VECTOR, space, config, seed=0)
    params = free(obs)[0].policy_logits
    # 2 logits, 2 means, 2 deviations, 1 logit.
    assert params.shape == (4, 7)
    assert params[:, 4:6].tolist() == [[-0.5, -0.5]] * 4
    assert (params[:, [0, 1, 2, 3, 6]].std(dim=0) > 0).all()
    params[:, 4:6].sum().backward()
    assert free.log_std.grad.tolist() == [4, 4]
    config = AgentConfig(log_std="state", init="orthogonal")
    state = make_agent_network(VECTOR, space, config, seed=0)
    assert (state(obs)[0].policy_logits[:, 4:6].std(dim=0) > 0).all()


@pytest.mark.parametrize("recurrent", ["none", "lstm"])
def test_bodies_apart_share_nothing(recurrent):
    config = AgentConfig(shared_body=False, init="orthogonal", recurrent=recurrent)
    network = make_agent_network(VECTOR, Discrete(2), config, seed=0)
    carry = network.initial_carry(4)
    inputs = Inputs(torch.randn(4, 5), None, None, torch.zeros(4, dtype=torch.bool))
    out, after = network(inputs, carry)
    out.value.sum().backward()
    of_policy = [network.body, network.heads]
    of_value = [network.value_body, network.value_head]
    if recurrent == "none":
        assert carry is after is None
    else:
        assert list(carry) == list(after) == ["h", "c", "value_h", "value_c"]
        assert not torch.equal(after["h"], after["value_h"])
        of_policy.append(network.core)
        of_value.append(network.value_core)
    assert all(part.grad is None for module in of_policy for part in module.parameters())
    assert all(part.grad is not None for module in of_value for part in module.parameters())


def test_dense_layers_are_after_the_recurrent_layer_if_they_are_to_be():
    config = AgentConfig(
        recurrent="gru", recurrent_size=7, recurrent_first=True, hidden=(9,), shared_body=False
    )
    network = make_agent_network(VECTOR, Discrete(2), config, seed=0)
    shapes = {name: tuple(part.shape) for name, part in network.named_parameters()}
    for core, body in (("core", "body"), ("value_core", "value_body")):
        assert shapes[f"{core}.layer.weight_ih_l0"] == (3 * 7, 5)
        assert shapes[f"{body}.dense.0.weight"] == (9, 7)
    assert shapes["heads.weight"] == (2, 9)
    obs, first = torch.randn(3, 4, 5), torch.zeros(3, 4, dtype=torch.bool)
    carry = network.initial_carry(4)
    whole, after = network(Inputs(obs, None, None, first), carry)
    for t in range(3):
        step, carry = network(Inputs(obs[t], None, None, first[t]), carry)
    torch.testing.assert_close(whole.value[2], step.value)
    torch.testing.assert_close(after, carry)


def test_nature_has_the_numbers_of_the_paper():
    network = make_agent_network(
        Box(0, 255, (4, 84, 84), np.uint8), Discrete(6), AgentConfig(kind="nature"), seed=0
    )
    shapes = [tuple(part.shape) for name, part in network.named_parameters() if "weight" in name]
    assert shapes == [(32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 3136), (7, 512)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"recurrent": "lstn"}, "recurrent must be one of .*; got 'lstn'.*did you mean 'lstm'"),
        ({"init": "ortho"}, "did you mean 'orthogonal'"),
        ({"clip_obs": -1.0}, "clip_obs must be a finite number above 0; got -1.0"),
        (
            {"initial_log_std": math.inf},
            r"initial_log_std must be .* in \[-5.0, 2.0\]; got inf. Deviations",
        ),
        (
            {"initial_log_std": 3.0},
            r"initial_log_std must be .* in \[-5.0, 2.0\]; got 3.0. Deviations",
        ),
        ({"kind": "nature", "channels": (8, 8)}, r"three convolutions; got channels \(8, 8\)"),
    ],
)
def test_wrong_settings_are_named(wrong, message):
    with pytest.raises(InvalidOption, match=message):
        AgentConfig(**wrong)


def test_spaces_that_do_not_fit_are_named():
    with pytest.raises(InvalidOption, match=r"observations must be Box, .*; got Text.*Filter"):
        make_agent_network(Dict({"a": VECTOR, "b": Text(5)}), Discrete(2), seed=0)
    with pytest.raises(InvalidOption, match=r"Q head needs a Discrete action space; got Box"):
        make_agent_network(VECTOR, VECTOR, AgentConfig(heads=("q",)), seed=0)
    with pytest.raises(InvalidOption, match=r"vectors of 5 numbers. Use kind 'mlp'"):
        make_agent_network(VECTOR, Discrete(2), AgentConfig(kind="nature"), seed=0)
    small = Box(0, 255, (20, 20, 3), np.uint8)
    with pytest.raises(InvalidOption, match=r"36 by 36 pixels at least; got 20 by 20"):
        make_agent_network(small, Discrete(2), AgentConfig(kind="nature"), seed=0)
