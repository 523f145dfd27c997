"""Actor-critic and Q agents: what they play and tell, their modes, and their weights."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import ForeignNetwork, InvalidAnswer, InvalidOption
from plangym_ext.learn import (
    ActorCriticAgent,
    AgentConfig,
    Inputs,
    NetworkOutput,
    QAgent,
    check_agent,
    distribution_of,
    log_spaced,
    make_agent_network,
)
from plangym_ext.learn.agents.inputs import first_inputs
from plangym_ext.learn.sampling.noise import RowNoise

VECTOR = Box(-np.inf, np.inf, (4,), np.float32)
BOX = Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))
EVERYTHING = Dict({"a": BOX, "b": MultiDiscrete([2, 3], start=[1, 0]), "c": MultiBinary(2)})
Q = AgentConfig(heads=("q",))


def made(space=None, config=None, bias=(), seed=0, **options):
    space = Discrete(3, start=5) if space is None else space
    config = config or AgentConfig(init="orthogonal")
    network = make_agent_network(VECTOR, space, config, seed=seed)
    with torch.no_grad():
        for i, number in enumerate(bias):
            network.heads.bias[i] = number
    kind = QAgent if config.heads == ("q",) else ActorCriticAgent
    return kind(network, **options)


def inputs(rows, space=None, **more):
    obs = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
    noise = RowNoise(0, np.arange(rows))
    return first_inputs(obs, space or Discrete(3, start=5), rows, noise=noise, **more)


def as_tensors(seen, *lead):
    """Return inputs as a learner has them, reshaped to leading axes."""
    parts = (None if p is None else mapped(torch.from_numpy, p) for p in seen[:4])
    shaped = (None if p is None else mapped(lambda x: x.unflatten(0, lead), p) for p in parts)
    return Inputs(*shaped)


@pytest.mark.parametrize("space", [Discrete(3, start=5), BOX, EVERYTHING, MultiBinary((2, 1))])
@pytest.mark.parametrize("mode", ["sample", "eval"])
def test_every_action_space_is_played_and_learned_from(space, mode):
    agent = made(space, AgentConfig(init="orthogonal", squash=False, previous_action=True))
    agent.set_mode(mode)
    venv = SimpleNamespace(single_observation_space=VECTOR, single_action_space=space)
    check_agent(agent, venv, 7, RowNoise(0, np.arange(7)))
    acted = agent.step(inputs(32, space), None)
    drawn = acted.info.get("raw_action", acted.action)
    # A learner that has the same weights finds the same likelihoods, in any shape: ratio 1.
    out, _ = agent.network(as_tensors(inputs(32, space), 4, 8))
    actions = mapped(lambda x: torch.from_numpy(x).unflatten(0, (4, 8)), drawn)
    ratio = (
        agent.distribution.log_prob(out.policy_logits, actions)
        - torch.from_numpy(acted.info["log_prob"]).unflatten(0, (4, 8))
    ).exp()
    assert (ratio == 1).all()
    np.testing.assert_array_equal(acted.info["value"], out.value.detach().numpy().ravel())
    np.testing.assert_array_equal(acted.info["value"], agent.value(inputs(32, space), None))


@pytest.mark.parametrize("recurrent", ["lstm", "gru"])
def test_a_learner_finds_the_likelihoods_of_a_recurrent_agent(recurrent):
    config = AgentConfig(
        init="orthogonal", recurrent=recurrent, previous_action=True, previous_reward=True
    )
    agent, rng = made(config=config), np.random.default_rng(3)
    start = carry = agent.initial_carry(16)
    seen, told = [], []
    action = np.zeros(16, np.int64)
    for t in range(6):
        first = rng.random(16) < 0.3
        obs, reward = rng.normal(size=(16, 4)).astype("f"), rng.normal(size=16).astype("f")
        seen.append(Inputs(obs, action, reward, first))
        action, info, carry = agent.step(seen[-1]._replace(noise=RowNoise(t, range(16))), carry)
        told.append((action, info["log_prob"], info["value"]))
    whole = Inputs(
        *(
            torch.from_numpy(np.stack(parts))
            for parts in zip(*(one[:4] for one in seen), strict=True)
        )
    )
    out, end = agent.network(whole, {k: torch.from_numpy(v) for k, v in start.items()})
    actions, log_prob, value = (torch.from_numpy(np.stack(p)) for p in zip(*told, strict=True))
    assert torch.equal(agent.distribution.log_prob(out.policy_logits, actions), log_prob)
    assert torch.equal(out.value, value)
    for name, part in end.items():
        np.testing.assert_array_equal(part.detach().numpy(), carry[name])


def test_only_what_is_clipped_has_a_raw_action():
    wide = AgentConfig(init="orthogonal", initial_log_std=1.0)
    acted = made(BOX, wide, keep_params=True).step(inputs(64, BOX), None)
    assert set(acted.info) == {"log_prob", "value", "raw_action", "params"}
    np.testing.assert_array_equal(
        acted.action, np.clip(acted.info["raw_action"], BOX.low, BOX.high)
    )
    assert (acted.action != acted.info["raw_action"]).any()
    squashed = AgentConfig(init="orthogonal", squash=True)
    assert set(made(BOX, squashed).step(inputs(64, BOX), None).info) == {"log_prob", "value"}


def test_modes_say_whether_chance_plays():
    agent = made(bias=[0, np.log(3), 0])
    drawn = agent.step(inputs(4000), None).action
    # Four standard deviations of a share of 4,000 draws are 0.032.
    np.testing.assert_allclose(np.bincount(drawn)[5:] / 4000, [0.2, 0.6, 0.2], atol=0.032)
    agent.set_mode("eval")
    assert set(agent.step(inputs(50)._replace(noise=None), None).action.tolist()) == {6}
    legal = np.tile([[True, False, True]], (50, 1))
    assert 6 not in agent.step(inputs(50, legal=legal), None).action
    agent.set_mode("train")
    assert agent.network.training
    agent.set_mode("sample")
    assert not agent.network.training
    assert 6 not in agent.step(inputs(50, legal=legal), None).action
    with pytest.raises(InvalidOption, match=r"ActorCriticAgent.step: inputs.noise"):
        agent.step(inputs(5)._replace(noise=None), None)
    chancy = made(bias=[0, np.log(3), 0], sample_in_eval=True)
    chancy.set_mode("eval")
    assert len(set(chancy.step(inputs(50), None).action.tolist())) == 3


def test_carries_are_reset_where_episodes_begin_and_are_never_changed():
    config = AgentConfig(init="orthogonal", recurrent="lstm", previous_action=True)
    agent = made(config=config)
    carry = {k: np.ones_like(v) for k, v in agent.initial_carry(20).items()}
    seen = inputs(20)._replace(first=np.arange(20) < 10)
    after = agent.step(seen, carry)
    assert all((part == 1).all() for part in carry.values())
    begun = agent.step(seen, agent.initial_carry(20))
    for key in carry:
        np.testing.assert_array_equal(after.carry[key][:10], begun.carry[key][:10])
        assert (after.carry[key][10:] != begun.carry[key][10:]).any(axis=1).all()
    value = agent.value(seen, carry)
    np.testing.assert_array_equal(value, after.info["value"])
    with pytest.raises(InvalidAnswer, match=r"{'h': \(20, 128\), 'c': \(20, 128\)}; got None"):
        agent.step(seen, None)
    with pytest.raises(InvalidAnswer, match=r"carry of 20 rows .*got {'h': \(3, 128\), "):
        agent.step(seen, agent.initial_carry(3))
    with pytest.raises(InvalidAnswer, match=r"the shapes None; got {'h': \(20, 128\), "):
        made().step(seen, carry)


class Counter(torch.nn.Module):
    """A network of one's own: prefers action t in step t of an episode."""

    inputs_used = ("obs", "first")

    def __init__(self):
        super().__init__()
        self.distribution = distribution_of(Discrete(3))
        self.register_buffer("scale", torch.tensor(9.0))

    def initial_carry(self, num_rows):
        return (torch.zeros(num_rows, dtype=torch.int64),)

    def forward(self, inputs, carry):
        steps = carry[0].masked_fill(inputs.first, 0)
        logits = self.scale * torch.nn.functional.one_hot(steps % 3, 3).float()
        return NetworkOutput(logits, steps.float(), None), (steps + 1,)


def test_a_network_of_one_s_own_is_played():
    agent = ActorCriticAgent(Counter())
    agent.set_mode("eval")
    venv = SimpleNamespace(single_observation_space=VECTOR, single_action_space=Discrete(3))
    check_agent(agent, venv, 5)
    carry, seen = agent.initial_carry(5), inputs(5)
    for t in range(4):
        action, info, carry = agent.step(seen._replace(first=np.full(5, t == 0)), carry)
        assert action.tolist() == [t % 3] * 5
        assert info["value"].tolist() == [t] * 5
    assert agent.state_dict()["network.scale"] == 9


# Q values -------------------------------------------------------------------------


def test_the_best_q_value_is_played_and_epsilon_of_the_moves_are_random():
    agent = made(config=Q, bias=[1, 3, 2], epsilon=0.3)
    acted = agent.step(inputs(4000), None)
    share = np.bincount(acted.action)[5:] / 4000
    np.testing.assert_allclose(share, [0.1, 0.8, 0.1], atol=0.026)
    assert acted.info["q"][0].tolist() == [1, 3, 2]
    assert agent.value(inputs(2), None).tolist() == [3, 3]
    legal = np.tile([[True, False, True]], (4000, 1))
    share = np.bincount(agent.step(inputs(4000, legal=legal), None).action)[5:] / 4000
    np.testing.assert_allclose(share, [0.15, 0, 0.85], atol=0.026)
    assert agent.value(inputs(2, legal=legal[:2]), None).tolist() == [2, 2]
    agent.set_mode("eval")
    assert set(agent.step(inputs(99)._replace(noise=None), None).action.tolist()) == {6}


def test_every_env_can_have_an_epsilon_of_its_own_wherever_its_row_is():
    epsilon = np.repeat([0.0, 1.0, 0.0, 1.0], 500)
    agent = made(config=Q, bias=[0, 9, 0], epsilon=epsilon)
    whole = agent.step(inputs(2000), None).action
    greedy = (whole == 6).reshape(4, 500).mean(axis=1)
    # A third of random moves are the best one, too.
    np.testing.assert_allclose(greedy, [1, 1 / 3, 1, 1 / 3], atol=0.085)
    rows = np.arange(400, 700)
    some = Inputs(*(part[rows] for part in inputs(2000)[:4]), RowNoise(0, rows))
    np.testing.assert_array_equal(agent.step(some, None).action, whole[rows])
    with pytest.raises(InvalidOption, match=r"the last of which is 2000; it has 2000"):
        agent.step(inputs(2001), None)
    np.testing.assert_allclose(log_spaced(3), [0.01, 0.1, 1])
    with pytest.raises(InvalidOption, match=r"epsilon must be a number in \[0, 1\].*got 1.5"):
        agent.epsilon = 1.5


# Weights --------------------------------------------------------------------------


def test_weights_version_and_epsilon_travel_as_arrays():
    one, other = made(config=Q, seed=0), made(config=Q, seed=1, epsilon=0.5)
    torch.nn.init.normal_(other.network.heads.weight)
    other.version = 7
    other.epsilon = 0.25
    state = other.state_dict()
    copied = {
        name: np.array(part) if isinstance(part, np.ndarray) else part
        for name, part in state.items()
    }
    for part in copied.values():
        if isinstance(part, np.ndarray):
            part.flags.writeable = False  # as memory that actors only read
    one.load_state_dict(copied)
    assert (one.version, float(one.epsilon)) == (7, 0.25)
    mine, theirs = (agent.step(inputs(20), None) for agent in (one, other))
    np.testing.assert_array_equal(mine.info["q"], theirs.info["q"])
    np.testing.assert_array_equal(mine.action, theirs.action)
    # The arrays are the network's own: what a learner changes can be read at once.
    with torch.no_grad():
        other.network.heads.bias += 1
    assert state["network.heads.bias"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("config", [Q, AgentConfig(init="orthogonal", recurrent="gru")])
def test_agents_travel_by_value(config):
    agent = made(config=config)
    agent.step(inputs(3), agent.initial_carry(3))
    twin = pickle.loads(pickle.dumps(agent))
    mine, theirs = (one.step(inputs(20), one.initial_carry(20)) for one in (agent, twin))
    np.testing.assert_array_equal(mine.action, theirs.action)
    for name in mine.info:
        np.testing.assert_array_equal(mine.info[name], theirs.info[name])


def test_weights_of_another_network_are_refused():
    agent = made()
    wide = made(config=AgentConfig(hidden=(8,)))
    with pytest.raises(ForeignNetwork, match=r"ActorCriticAgent.load_state_dict.*\(8, 4\)"):
        agent.load_state_dict(wide.state_dict())
    with pytest.raises(ForeignNetwork, match="lacks 'version'"):
        agent.load_state_dict({})
    with pytest.raises(InvalidOption, match="must have a policy head"):
        ActorCriticAgent(made(config=Q).network).step(inputs(3), None)
    with pytest.raises(InvalidOption, match="must have a Q head"):
        QAgent(agent.network).step(inputs(3), None)
    with pytest.raises(InvalidOption, match="estimates no value"):
        made(config=AgentConfig(heads=("policy",))).value(inputs(3), None)


def test_an_agent_made_for_other_spaces_is_refused():
    agent = made(BOX)
    noise = RowNoise(0, np.arange(3))

    def check(obs, action):
        venv = SimpleNamespace(single_observation_space=obs, single_action_space=action)
        check_agent(agent, venv, 3, noise)

    # Bounds of floats that are only looked at do not matter.
    check(Box(-1.0, 1.0, (4,), np.float64), BOX)
    with pytest.raises(InvalidOption, match=r"made for observations of Box.*\(4,\).*has .*\(5,\)"):
        check(Box(-1.0, 1.0, (5,), np.float32), BOX)
    with pytest.raises(InvalidOption, match=r"made for observations of Box.* has Dict"):
        check(Dict({"a": VECTOR}), BOX)
    with pytest.raises(InvalidOption, match=r"made for actions of Box.* has Discrete\(3\)"):
        check(VECTOR, Discrete(3))
    with pytest.raises(InvalidOption, match="made for actions of"):
        check(VECTOR, Box(-1.0, 1.0, (2,), np.float32))


@pytest.mark.parametrize("config", [AgentConfig(init="orthogonal"), Q])
def test_what_is_no_number_is_not_played(config):
    agent, seen = made(config=config), inputs(20)
    obs = seen.obs.copy()
    obs[7, 2] = np.nan
    with pytest.raises(InvalidAnswer, match=r"must be finite; got \[?nan.* in row 7. Look for"):
        agent.step(seen._replace(obs=obs), None)
