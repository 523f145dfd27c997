"""Steps over one vector against torch's own optimisers and clipping, parameter by parameter."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plangym_ext.errors import ForeignNetwork  # noqa: E402
from plangym_ext.learn import A2CConfig  # noqa: E402
from plangym_ext.learn.engines import flat_optimizer as module  # noqa: E402
from plangym_ext.learn.engines.compiled import vector_steps  # noqa: E402
from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer, flat_optimizer  # noqa: E402
from plangym_ext.learn.engines.torch_steps import optimizer_of  # noqa: E402


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def loss_of(net, step):
    x = torch.arange(6.0).reshape(2, 3) - step
    return (net(x) ** 2).mean() * 10


def numbers(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def make_optimizer(net, config):
    """Return torch's optimiser, in which biases do not decay."""
    weights, biases = ([p for p in net.parameters() if p.ndim == n] for n in (2, 1))
    groups = [
        {"params": weights, "weight_decay": config.l2},
        {"params": biases, "weight_decay": 0.0},
    ]
    return optimizer_of(groups, config)


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "sgd"])
def test_steps_are_those_of_torch(name, l2):
    config = A2CConfig(optimizer=name, learning_rate=0.02, l2=l2)
    mine, theirs = network(), network()
    flat, plain = FlatOptimizer(mine, config), make_optimizer(theirs, config)
    for step in range(4):
        norm = flat.step(loss_of(mine, step), 0.02, 0.5)
        plain.zero_grad()
        loss_of(theirs, step).backward()
        wanted = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        plain.step()
        assert norm == pytest.approx(float(wanted), rel=1e-4)
        torch.testing.assert_close(numbers(mine), numbers(theirs), rtol=1e-4, atol=1e-5)
    assert not torch.equal(numbers(mine), numbers(network()))


def test_a_part_without_gradient_stays_and_what_is_not_finite_changes_nothing():
    net = network()
    optimizer = FlatOptimizer(net, A2CConfig())
    before = copy.deepcopy(net)
    assert math.isnan(optimizer.step(loss_of(net, 0) * math.nan, 0.1, 0.5))
    assert torch.equal(numbers(net), numbers(before))
    optimizer.step(net[0](torch.ones(1, 3)).sum(), 0.1, 0.5)
    assert torch.equal(net[2].weight, before[2].weight)
    assert not torch.equal(net[0].weight, before[0].weight)


def test_weights_that_were_changed_from_outside_are_gone_on_from():
    net, other = network(), network()
    optimizer = FlatOptimizer(net, A2CConfig(optimizer="sgd"))
    with torch.no_grad():
        for parameter in [*net.parameters(), *other.parameters()]:
            parameter.add_(1.0)
    optimizer.read()
    optimizer.step(loss_of(net, 0), 0.0, 0.5)
    assert torch.equal(numbers(net), numbers(other))


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "sgd"])
def test_compiled_steps_go_on_from_torchs_and_torchs_from_them(name, l2, monkeypatch):
    config = A2CConfig(optimizer=name, learning_rate=0.02, l2=l2)
    compiled, mixed = network(), network()
    mine = flat_optimizer(compiled, config)
    monkeypatch.setattr(module, "_SMALL", 0)
    plain = flat_optimizer(mixed, config)
    assert type(mine._steps) is not type(plain._steps)
    for step in range(6):
        if step == 3:  # each goes on from what the other one remembers
            told = copy.deepcopy(mine.state_dict()), copy.deepcopy(plain.state_dict())
            assert [sorted(part) for part in told[0].values()] == [
                sorted(part) for part in told[1].values()
            ]
            mine.load_state_dict(told[1])
            plain.load_state_dict(told[0])
        mine.step(loss_of(compiled, step), 0.02, 0.5)
        plain.step(loss_of(mixed, step), 0.02, 0.5)
        torch.testing.assert_close(numbers(compiled), numbers(mixed), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("small", [0, 10**9], ids=["torch", "compiled"])
@pytest.mark.parametrize("name", ["adam", "rmsprop", "sgd"])
def test_moments_that_were_loaded_are_copies(name, small, monkeypatch):
    monkeypatch.setattr(module, "_SMALL", small)
    net, other = network(), network()
    mine, theirs = (flat_optimizer(one, A2CConfig(optimizer=name)) for one in (net, other))
    mine.step(loss_of(net, 0), 0.02, 0.5)
    state = mine.state_dict()
    theirs.load_state_dict(state)
    before = copy.deepcopy(state)
    theirs.step(loss_of(other, 1), 0.02, 0.5)
    for number, moments in before.items():
        for key, kept in moments.items():
            assert np.array_equal(state[number][key], kept), (number, key)


@pytest.mark.parametrize("name", ["adam", "rmsprop", "sgd"])
def test_the_compiled_part_is_the_same_as_python(name, monkeypatch):
    found = []
    for plain in (False, True):
        if plain:
            kernel = getattr(vector_steps, name)
            monkeypatch.setattr(vector_steps, name, getattr(kernel, "py_func", kernel))
        net = network()
        optimizer = flat_optimizer(net, A2CConfig(optimizer=name, l2=0.1))
        for step in range(3):
            optimizer.step(loss_of(net, step), 0.02, 0.5)
        found.append(numbers(net))
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_moments_go_from_a_cpu_to_a_gpu_and_back(name, monkeypatch):
    config = A2CConfig(optimizer=name, learning_rate=0.02, l2=0.1)
    mine, theirs = network(), network()
    here = flat_optimizer(mine, config)
    monkeypatch.setattr(module, "_is_small", lambda parts: False)
    monkeypatch.setattr(module, "_is_on_gpu", lambda parts: True)
    there = flat_optimizer(theirs, config)
    assert there.can_be_recorded
    assert not here.can_be_recorded
    for first, last in ((here, there), (there, here)):
        nets = (mine, theirs) if first is here else (theirs, mine)
        for step in range(3):
            first.step(loss_of(nets[0], step), 0.02, 0.5)
        last.load_state_dict(copy.deepcopy(first.state_dict()))
        nets[1].load_state_dict(nets[0].state_dict())
        last.read()
        for optimizer, net in zip((first, last), nets, strict=True):
            optimizer.step(loss_of(net, 3), 0.01, 0.5)
        torch.testing.assert_close(numbers(mine), numbers(theirs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_of_critics_side_by_side_weights_alone_decay(layer_norm):
    from gymnasium import spaces

    from plangym_ext.learn.networks.critics import Critics

    seen, moved = spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2,))
    critics = Critics(seen, moved, count=2, hidden=(4,), layer_norm=layer_norm)
    before = copy.deepcopy(critics.state_dict())
    optimizer = FlatOptimizer(critics, A2CConfig(optimizer="adamw", learning_rate=0.1, l2=0.5))
    optimizer.step(0.0 * sum(p.sum() for p in critics.parameters()), 0.1, math.inf)
    for name, now in critics.state_dict().items():
        if before[name].abs().sum() > 0:
            assert torch.equal(now, before[name]) is not name.startswith("weights"), name


def test_weights_without_a_size_yet_are_refused_by_name():
    network = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.Linear(4, 2))
    with pytest.raises(ForeignNetwork, match=r"the parameter 0.weight of Sequential has no size"):
        flat_optimizer(network, A2CConfig())
