from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text

from plangym_ext.errors import ForeignNetwork, InvalidOption
from plangym_ext.learn import NetworkConfig, load_network_state, make_network
from plangym_ext.learn.networks.inputs import ObservationEncoder

TWO = Discrete(2)
SPACES = {
    "vector": Box(-np.inf, np.inf, (4,), np.float32),
    "scalar": Box(-1.0, 1.0, (), np.float64),
    "memory": Box(0, 255, (128,), np.uint8),
    "planes": Box(0, 1, (6, 6, 7), np.uint8),
    "screen": Box(0, 255, (84, 84, 3), np.uint8),
    "frames": Box(0, 255, (4, 84, 84), np.uint8),
    "grey": Box(0, 255, (40, 40), np.uint8),
    "stack": Box(0, 255, (4, 20, 18, 3), np.uint8),
    "discrete": Discrete(5, start=2),
    "multi": MultiDiscrete([[2, 3], [4, 2]]),
    "binary": MultiBinary([3, 2]),
}
ENCODED = {
    "vector": (4,),
    "scalar": (1,),
    "memory": (128,),
    "planes": (7, 6, 6),
    "screen": (3, 84, 84),
    "frames": (4, 84, 84),
    "grey": (1, 40, 40),
    "stack": (12, 20, 18),
    "discrete": (5,),
    "multi": (11,),
    "binary": (6,),
}


def seen(space, count=3):
    space.seed(0)
    return torch.from_numpy(np.stack([np.asarray(space.sample()) for _ in range(count)]))


@pytest.mark.parametrize("name", SPACES)
def test_every_space_is_encoded_in_its_shape(name):
    encoder = ObservationEncoder(SPACES[name])
    out = encoder(seen(SPACES[name]))
    assert encoder.shape == ENCODED[name]
    assert out.shape == (3, *ENCODED[name])
    assert out.dtype == torch.float32


@pytest.mark.parametrize("name", SPACES)
def test_observations_that_were_laid_out_are_encoded_to_the_same_bits(name):
    encoder, obs = ObservationEncoder(SPACES[name]), seen(SPACES[name])
    laid_out = encoder.laid_out(obs)
    assert torch.equal(laid_out, obs)
    assert torch.equal(encoder(laid_out), encoder(obs))
    if name == "frames":
        assert laid_out.is_contiguous(memory_format=torch.channels_last)


def test_images_are_scaled_and_brought_to_channels_first():
    obs = torch.zeros((1, 84, 84, 3), dtype=torch.uint8)
    obs[0, 5, 7, 2] = 255
    out = ObservationEncoder(SPACES["screen"])(obs)
    assert out[0, 2, 5, 7] == 1
    assert out.sum() == 1


def test_planes_keep_their_zeros_and_ones():
    obs = torch.zeros((1, 6, 6, 7), dtype=torch.uint8)
    obs[0, 1, 2, 5] = 1
    assert ObservationEncoder(SPACES["planes"])(obs)[0, 5, 1, 2] == 1


def test_a_stack_keeps_each_frames_channels_together():
    obs = torch.zeros((1, 4, 20, 18, 3), dtype=torch.uint8)
    obs[0, 2, 3, 4, 1] = 255  # frame 2, channel 1
    assert ObservationEncoder(SPACES["stack"])(obs)[0, 2 * 3 + 1, 3, 4] == 1


def test_which_axis_counts_channels_can_be_said():
    space = Box(0, 255, (10, 12, 12), np.uint8)
    assert ObservationEncoder(space).shape == (10, 12, 12)
    assert ObservationEncoder(space, "last").shape == (12, 10, 12)


def test_integers_become_one_hot_from_their_start():
    out = ObservationEncoder(Discrete(3, start=4))(torch.tensor([4, 6]))
    assert out.tolist() == [[1, 0, 0], [0, 0, 1]]
    out = ObservationEncoder(MultiDiscrete([2, 3]))(torch.tensor([[1, 0]]))
    assert out.tolist() == [[0, 1, 1, 0, 0]]


def test_parts_of_observations_are_encoded_each_and_joined():
    space = Dict({"a": TWO, "b": SPACES["vector"]})
    network = make_network(space, TWO, NetworkConfig(hidden=(5,)), seed=0)
    assert network.encoder.width == 2 + 4
    assert network.body[1].weight.shape == (5, 6)
    with pytest.raises(InvalidOption, match=r"got Text.*FilterObservation"):
        make_network(Dict({"a": Text(3)}), TWO, seed=0)


def test_text_actions_are_refused():
    with pytest.raises(InvalidOption, match=r"a Box of floats, or Dict and Tuple of them; got"):
        make_network(SPACES["vector"], Box(0, 9, (2,), np.int64), seed=0)


@pytest.mark.parametrize("kind", ["conv", "residual"])
def test_vectors_cannot_be_convolved(kind):
    with pytest.raises(InvalidOption, match=rf"{kind}.*vectors of 4 numbers. Use kind 'mlp'"):
        make_network(SPACES["vector"], TWO, NetworkConfig(kind=kind), seed=0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name, shape in ENCODED.items()
        for kind in ("auto", "mlp", "conv", "residual")
        if len(shape) == 3 or kind in ("auto", "mlp")
    ],
)
def test_a_fresh_network_is_uniform_and_values_all_at_zero(name, kind):
    config = NetworkConfig(
        kind=kind, channels=(4, 4, 4), hidden=(8,), heads=("q", "value", "policy")
    )
    network = make_network(SPACES[name], Discrete(3), config, seed=0)
    out = network(seen(SPACES[name]))
    assert out.policy_logits.shape == out.q.shape == (3, 3)
    assert out.value.shape == (3,)
    for head in (out.policy_logits, out.value, out.q):
        assert not head.any()


def test_heads_that_are_not_asked_for_are_none():
    network = make_network(SPACES["vector"], TWO, NetworkConfig(heads=("value",)), seed=0)
    out = network(seen(SPACES["vector"]))
    assert out.policy_logits is None
    assert out.q is None
    with pytest.raises(InvalidOption, match="Q head needs a Discrete"):
        make_network(SPACES["vector"], SPACES["vector"], NetworkConfig(heads=("q",)), seed=0)


def test_values_are_measured_in_value_scale():
    outs = []
    for scale in (1.0, 50.0):
        config = NetworkConfig(heads=("value", "q"), value_scale=scale)
        network = make_network(SPACES["vector"], TWO, config, seed=0)
        torch.nn.init.constant_(network.heads.weight, 0.1)
        outs.append(network(seen(SPACES["vector"])))
    torch.testing.assert_close(outs[1].value, 50 * outs[0].value)
    torch.testing.assert_close(outs[1].q, 50 * outs[0].q)


def test_the_seed_decides_on_the_weights_and_nothing_else_is_touched():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, same, other = (make_network(SPACES["planes"], TWO, seed=s).state_dict() for s in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "mpl"}, "kind must be one of .*; got 'mpl'.*did you mean 'mlp'"),
        ({"heads": ("policy", "vlaue")}, "did you mean 'value'"),
        ({"heads": ()}, "at least one"),
        ({"hidden": (64, 0)}, r"hidden\[1\] must be an integer >= 1; got 0"),
        ({"value_scale": 0.0}, "value_scale must be a finite number above 0; got 0.0"),
        ({"blocks": 0}, "blocks must be an integer >= 1; got 0"),
    ],
)
def test_wrong_settings_are_named(wrong, message):
    with pytest.raises(InvalidOption, match=message):
        NetworkConfig(**wrong)


def test_weights_of_another_network_are_refused_and_nothing_changes():
    network = make_network(SPACES["vector"], TWO, NetworkConfig(hidden=(8, 8)), seed=0)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    wider = make_network(SPACES["vector"], TWO, NetworkConfig(hidden=(16, 8)), seed=1)
    with pytest.raises(ForeignNetwork, match=r"body.1.weight is \(16, 4\) float32, here \(8, 4\)"):
        load_network_state(network, wider.state_dict())
    deeper = make_network(SPACES["vector"], TWO, NetworkConfig(hidden=(8, 8, 8)), seed=1)
    with pytest.raises(ForeignNetwork, match=r"body.5.weight is not known here"):
        load_network_state(network, deeper.state_dict())
    part = dict(list(network.state_dict().items())[1:])
    with pytest.raises(ForeignNetwork, match=r"body.1.weight is missing"):
        load_network_state(network, part)
    assert all(torch.equal(before[name], now) for name, now in network.state_dict().items())


def test_its_own_weights_are_loaded():
    one, other = (make_network(SPACES["vector"], TWO, seed=s) for s in (0, 1))
    load_network_state(one, other.state_dict())
    assert torch.equal(one.body[1].weight, other.body[1].weight)
