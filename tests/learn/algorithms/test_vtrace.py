"""V-trace: corrections by hand where the policy is older, and none where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from fragment_table import ACTION, FINAL, OBS, REWARD, TERMINATED, TRUNCATED, B, T, advantages
from fragment_table import fragment as fragment_of

torch = pytest.importorskip("torch")

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    A2C,
    A2CConfig,
    ActorCriticAgent,
    AgentConfig,
    SerialSampler,
    VTrace,
    VTraceConfig,
    make_agent_network,
)
from plangym_ext.learn.distributions.categorical import Categorical  # noqa: E402
from plangym_ext.learn.networks.network import NetworkOutput  # noqa: E402

GAMMA = 0.9
#: Of the policy that played, and of the one that learns.
OLD, NEW = np.log([0.5, 0.5]), np.log([0.8, 0.2])


class Table(torch.nn.Module):
    """Worth twice what it observes; two actions, whatever it observes."""

    inputs_used = ("obs", "first")
    distribution = Categorical(2)

    def __init__(self):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.from_numpy(NEW).float())
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def initial_carry(self, num_rows):
        return None

    def forward(self, inputs, carry=None):
        logits = self.logits.expand(*inputs.first.shape, 2)
        return NetworkOutput(logits, self.scale * inputs.obs[..., 0], None), None


def taken(**config):
    network = Table()
    algorithm = VTrace(network, VTraceConfig(discount=GAMMA, **config))
    # When it was played, values were those of another network: they do not matter.
    algorithm.take(fragment_of({"log_prob": OLD[ACTION], "value": np.full((T, B), 99.0)}))
    return algorithm


@pytest.mark.parametrize("clip", [1.0, 1.3, None])
def test_targets_and_advantages_are_corrected_for_an_older_policy(clip):
    rows = taken(ratio_clip=clip, trace_clip=clip)._rows
    ratio = np.exp(NEW - OLD)[ACTION].clip(max=np.inf if clip is None else clip)
    assert (ratio != 1).any()
    target = 2 * OBS[:T] + advantages(1.0, GAMMA, value=2 * OBS, final=2 * FINAL, ratio=ratio)
    np.testing.assert_allclose(rows.target, target, rtol=1e-5)
    # What follows a step: the target of the next, but for ends.
    after = np.concatenate([target[1:], 2 * OBS[T:]])
    after = np.where(TRUNCATED, 2 * FINAL, np.where(TERMINATED, 0.0, after))
    wanted = ratio * (REWARD + GAMMA * after - 2 * OBS[:T])
    np.testing.assert_allclose(rows.advantage, wanted, rtol=1e-5)


@pytest.mark.parametrize("recurrent", ["none", "lstm"])
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_what_the_policy_itself_played_is_learned_from_as_by_a2c(name, recurrent):
    """With clips of 1, rather equal: the values are asked of the network once more."""
    found = []
    for kind, config in ((VTrace, VTraceConfig()), (A2C, A2CConfig(gae_lambda=1.0))):
        with make_vec(name, 5, autoreset_mode="same_step") as venv:
            spaces = venv.single_observation_space, venv.single_action_space
            own = AgentConfig(hidden=(8,), recurrent=recurrent, recurrent_size=6)
            agent = ActorCriticAgent(make_agent_network(*spaces, own, seed=1))
            algorithm = kind(agent.network, config)
            with SerialSampler(venv, agent, 30, seed=2) as sampler:
                algorithm.take(sampler.collect())
                rows = algorithm._rows
                found.append((rows.advantage.clone(), rows.target.clone(), algorithm.train()))
    (advantage, target, logged), (wanted, returns, others) = found
    # Ratios are 1 but for their last digits, and clipped at 1.
    torch.testing.assert_close(advantage, wanted, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(target, returns, rtol=1e-4, atol=1e-3)
    assert logged == pytest.approx(others, rel=1e-3, abs=1e-4)


def test_an_update_changes_the_policy_towards_what_paid():
    algorithm = taken(learning_rate=0.01)
    rows = algorithm._rows
    before = algorithm.network.logits.detach().clone()
    logged = algorithm.train()
    moved = (algorithm.network.logits.detach() - before).numpy()
    # The gradient of the mean of advantage * log_prob, by hand: chosen less probability.
    chosen = np.eye(2)[ACTION] - np.exp(NEW)
    slope = (rows.advantage.numpy()[..., None] * chosen).mean((0, 1))
    assert (np.sign(moved) == np.sign(slope)).all()
    assert logged["updates"] == 1
