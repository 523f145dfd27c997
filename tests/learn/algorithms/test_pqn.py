"""PQN: λ-returns by hand, exploration, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from fragment_table import ACTION, FINAL, OBS, REWARD, B, T, advantages, fragment

torch = pytest.importorskip("torch")

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.errors import InvalidOption  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    PQN,
    ActorCriticAgent,
    AgentConfig,
    PQNConfig,
    QAgent,
    QAgentConfig,
    Schedule,
    SerialSampler,
    make_agent_network,
)
from plangym_ext.learn.distributions.categorical import Categorical  # noqa: E402
from plangym_ext.learn.networks.network import NetworkOutput  # noqa: E402

GAMMA = 0.9


class Table(torch.nn.Module):
    """Two actions: one is worth what is observed, the other twice that."""

    inputs_used = ("obs", "first")
    distribution = Categorical(2)

    def __init__(self, *, has_value=False):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        self.has_value = has_value

    def initial_carry(self, num_rows):
        return None

    def forward(self, inputs, carry=None):
        value = 100 + inputs.obs[..., 0] if self.has_value else None  # nothing teaches it
        return NetworkOutput(None, value, inputs.obs * self.scale), None


def played(**changed):
    return fragment({"q": OBS[:T, :, None] * [1.0, 2.0]}, **changed)


@pytest.mark.parametrize("has_value", [False, True])
@pytest.mark.parametrize("trace", [0.0, 0.5, 1.0])
def test_targets_are_returns_of_the_best_values(trace, has_value):
    algorithm = PQN(Table(has_value=has_value), PQNConfig(discount=GAMMA, trace=trace))
    algorithm.take(played())
    best = 2 * OBS
    wanted = best[:T] + advantages(trace, GAMMA, value=best, final=2 * FINAL)
    np.testing.assert_allclose(algorithm._rows.target, wanted, rtol=1e-5)


def test_a_loss_of_one_update_is_the_one_by_hand():
    network = Table()
    config = PQNConfig(discount=GAMMA, trace=0.5, epochs=1, batch_size=100, max_grad_norm=None)
    algorithm = PQN(network, config)
    algorithm.take(played())
    target = algorithm._rows.target.numpy()
    q = OBS[:T] * np.array([1.0, 2.0])[ACTION]
    error = q - target
    found = algorithm.train()
    assert found["train/loss"] == pytest.approx((error**2).mean(), rel=1e-5)
    slope = np.array([(2 * error * OBS[:T] * (a == ACTION)).mean() for a in (0, 1)])
    assert found["train/grad_norm"] == pytest.approx(np.hypot(*slope), rel=1e-5)
    moved = network.scale.detach().numpy() - [1.0, 2.0]
    assert (np.sign(moved) == -np.sign(slope)).all()


def test_rows_that_were_not_played_change_nothing():
    valid = np.ones((T, B), bool)
    valid[2:, 0] = False
    learned = []
    for waste in (0.0, 1e6):
        network = Table()
        algorithm = PQN(network, PQNConfig(), seed=3)
        algorithm.take(played(valid=valid, reward=np.where(valid, REWARD, waste)))
        assert algorithm.steps == 10
        learned.append((algorithm.train(), network.scale.tolist()))
    assert learned[0] == learned[1]


def made(recurrent="none"):
    with make_vec("CartPole-v1", 1, autoreset_mode="same_step") as venv:
        spaces = venv.single_observation_space, venv.single_action_space
    config = AgentConfig(
        hidden=(8,), heads=("q",), layer_norm=True, recurrent=recurrent, recurrent_size=6
    )
    return make_agent_network(*spaces, config, seed=1)


def test_exploration_follows_the_steps_that_were_taken():
    network = made()
    agent = QAgent(network)
    schedule = Schedule(start=1.0, end=0.0, over=160)
    algorithm = PQN(network, PQNConfig(exploration=schedule))
    venv = make_vec("CartPole-v1", 4, autoreset_mode="same_step")
    with SerialSampler(venv, agent, 20, seed=0) as sampler:
        for wanted in (1.0, 0.5, 0.0, 0.0):
            algorithm.prepare(agent)
            assert agent.epsilon == wanted
            algorithm.take(sampler.collect(version=algorithm.updates))
            found = algorithm.train()
    assert found["train/exploration"] == 0.0


def test_what_cannot_be_learned_from_is_refused():
    with pytest.raises(InvalidOption, match=r"needs minibatch='env', .* Set PQNConfig"):
        PQN(made("lstm"))
    spaces = made().observation_space, made().action_space
    noisy = make_agent_network(*spaces, QAgentConfig(noisy=True, layer_norm=True), seed=0)
    with pytest.raises(InvalidOption, match="PQN: the network must have no noise"):
        PQN(noisy)
    with pytest.raises(InvalidOption, match="PQNConfig: trace must be a finite number"):
        PQNConfig(trace=1.5)
    network = made()
    other = make_agent_network(network.observation_space, network.action_space, seed=0)
    venv = make_vec("CartPole-v1", 2, autoreset_mode="same_step")
    with SerialSampler(venv, ActorCriticAgent(other), 5) as sampler:
        fragment = sampler.collect()
        with pytest.raises(InvalidOption, match="must have 'q', as a QAgent gives it"):
            PQN(network).take(fragment)
