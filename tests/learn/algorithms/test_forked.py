"""What PPO and A2C learn from branches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fragment_table import OBS, fragment

from plangym_ext import make, make_vec
from plangym_ext.errors import InvalidOption
from plangym_ext.learn import (
    A2C,
    PPO,
    A2CConfig,
    ActorCriticAgent,
    AdvantageConfig,
    AgentConfig,
    ForkingSampler,
    PPOConfig,
    make_agent_network,
)
from plangym_ext.learn.sampling.forking import Branches, Forks
from plangym_ext.planners.plans import Budget

FORKED = AdvantageConfig(name="forked")


def network(env_id="CartPole-v1", **more):
    with make(env_id) as env:
        shape = AgentConfig(hidden=(8,), shared_body=False, **more)
        return make_agent_network(env.observation_space, env.action_space, shape, seed=0)


def by_hand():
    """Two states of the table with two branches each, of up to two steps."""
    reward = np.array([[1, 2, 3, 4], [0, 6, 8, 10]], np.float32)
    branches = Branches(reward, np.array([1, 2, 2, 2]), np.array([0, 4, 8, 12], np.float32))
    where = np.array([0, 2]), np.array([1, 2])
    return Forks(
        *where, 2, np.array([1, 0, 0, 1]), np.full(4, -0.7, np.float32), branches, Budget()
    )


class OneObs:
    """An algorithm's network on observations of one number, as those of the table."""

    @staticmethod
    def make():
        import gymnasium as gym

        spaces = gym.spaces.Box(-9, 9, (1,), np.float32), gym.spaces.Discrete(2)
        return make_agent_network(*spaces, AgentConfig(hidden=(4,)), seed=0)


@pytest.mark.parametrize(("cls", "config"), [(PPO, PPOConfig), (A2C, A2CConfig)])
def test_rows_are_those_of_branches(cls, config):
    algorithm = cls(OneObs.make(), config(advantages=FORKED, discount=0.5, clip_reward=6.0))
    info = {"log_prob": np.zeros((4, 3)), "value": OBS[:4]}
    algorithm.take(fragment(info)._replace(forks=by_hand()))
    rows = algorithm._rows.steps()
    # By hand, rewards cut at 6: 1; 2 + 6/2 + 4/4; 3 + 6/2 + 8/4; 4 + 6/2 + 12/4.
    assert rows.target.tolist() == [3.5, 3.5, 9, 9]
    assert rows.advantage.tolist() == [-5, 5, -2, 2]
    assert rows.action.tolist() == [1, 0, 0, 1]
    # OBS[t, b] is (3 t + b) / 10.
    assert torch.allclose(rows.inputs.obs[:, 0], torch.tensor([0.1, 0.1, 0.8, 0.8]))
    assert torch.allclose(rows.value, torch.tensor([0.1, 0.1, 0.8, 0.8]))
    assert algorithm.train()["updates"] > 0


def test_rewards_of_branches_have_the_units_of_the_fragment():
    algorithm = PPO(
        OneObs.make(), PPOConfig(advantages=FORKED, normalize_reward=True, discount=0.5)
    )
    info = {"log_prob": np.zeros((4, 3)), "value": OBS[:4]}
    algorithm.take(fragment(info)._replace(forks=by_hand()))
    unit = float(algorithm._rewards.deviation)
    assert unit > 2
    # The critic's part is in these units already.
    want = [[1 / unit, 5 / unit + 1], [7 / unit + 2, 9 / unit + 3]]
    found = algorithm._rows.target[0].numpy()
    np.testing.assert_allclose(found, np.repeat(np.mean(want, axis=1), 2), rtol=1e-6)


def test_forked_advantages_need_branches():
    algorithm = A2C(OneObs.make(), A2CConfig(advantages=FORKED))
    with pytest.raises(InvalidOption, match=r"A2C: .* Sample with a ForkingSampler"):
        algorithm.take(fragment({"log_prob": np.zeros((4, 3)), "value": OBS[:4]}))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"name": "forks"}, "name must be one of gae, forked.*'forked'"),
        ({"branches": 1}, r"branches must be an integer >= 2; got 1"),
        ({"horizon": 0}, r"horizon must be an integer >= 1; got 0"),
        ({"every": 0.5}, "every must be an integer >= 1; got 0.5"),
    ],
)
def test_what_means_nothing_is_refused(options, match):
    with pytest.raises(InvalidOption, match=match):
        AdvantageConfig(**options)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_policy_learns_from_branches_alone(compiled):
    """CartPole is balanced for longer after few rounds; the untrained policy falls at about 20."""
    net = network()
    agent = ActorCriticAgent(net)
    config = PPOConfig(advantages=FORKED, learning_rate=3e-3, discount=0.98, compiled=compiled)
    algorithm = PPO(net, config)
    venv = make_vec("CartPole-v1", 8, autoreset_mode="same_step")
    lengths = []
    with make("CartPole-v1") as env, ForkingSampler(venv, agent, 32, env, horizon=16) as sampler:
        for _ in range(12):
            found = sampler.collect()
            lengths.append(found.episodes["length"])
            algorithm.take(found)
            algorithm.train()
    assert np.concatenate(lengths[-4:]).mean() > 2 * np.concatenate(lengths[:4]).mean()
    assert algorithm.steps > 12 * 256
