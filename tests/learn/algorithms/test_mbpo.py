"""MBPO: rollouts are steps of the members, batches have their share, runs go on bit for bit."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium import spaces  # noqa: E402
from off_policy_tasks import goes_on_bit_for_bit  # noqa: E402
from torch.nn.utils import parameters_to_vector  # noqa: E402

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.errors import InvalidOption, InvalidSamples  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    MBPO,
    AgentConfig,
    MBPOConfig,
    PolicyAgent,
    SerialSampler,
    SoftPolicyConfig,
    make_agent_network,
)

SMALL = {
    "capacity": 200,
    "learning_starts": 8,
    "batch_size": 10,
    "updates_per_step": 1.0,
    "critic_hidden": (8,),
    "members": 3,
    "model_hidden": (8,),
    "model_every": 16,
    "model_updates": 2,
    "model_batch_size": 8,
    "rollouts": 12,
    "rollout_capacity": 40,
    "real_share": 0.3,
}


class Line(gym.Env):
    """The action moves a point by at most 1; beyond 3 the episode ends."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)
    action_space = spaces.Box(-2, 4, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-1, 1)
        return self._seen(), {}

    def step(self, action):
        self.at += (float(action[0]) - 1) / 3
        return self._seen(), 10 - abs(self.at), abs(self.at) > 3, False, {}

    def _seen(self):
        return np.array([self.at, 1.0], np.float32)


def begin(**options):
    """Return vector env, agent and algorithm."""
    venv = make_vec([Line] * 2, backend="serial", autoreset_mode="same_step")
    space = venv.single_observation_space, venv.single_action_space
    net = make_agent_network(*space, SoftPolicyConfig(hidden=(8,)), seed=0)
    return venv, PolicyAgent(net), MBPO(net, MBPOConfig(**{**SMALL, **options}), seed=0)


def trained(rounds=3, **options):
    """Return an algorithm that has learned from so many fragments of 16 steps."""
    venv, agent, algorithm = begin(**options)
    with SerialSampler(venv, agent, 8, seed=0) as sampler:
        for _ in range(rounds):
            algorithm.prepare(agent)
            algorithm.take(sampler.collect())
            logged = algorithm.train()
    return algorithm, logged


def test_steps_of_rollouts_are_those_of_members(monkeypatch):
    # Without noise a step is the mean of some member.
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    algorithm, _ = trained(rounds=1, rollouts=10, horizon=1.0)
    steps, model = algorithm.replay.all(), algorithm.model
    assert len(steps["obs"]) == 12  # four for each of three members
    assert np.abs(steps["action"] - 1).max() <= 3
    played = algorithm.replay.steps.sample(500).samples["obs"]
    assert {tuple(row) for row in steps["obs"]} <= {tuple(row) for row in played}
    obs, action = (torch.from_numpy(steps[name]).expand(3, 12, -1) for name in ("obs", "action"))
    with torch.no_grad():
        found = model.members(obs, action)
        following = obs + found.mean[..., :2] * model.unit
        earned = model.rewards(found.mean[..., 2])
    which = (following - torch.from_numpy(steps["next_obs"])).abs().amax(-1).argmin(0)
    assert np.bincount(which, minlength=3).tolist() == [4, 4, 4]
    rows = which, torch.arange(12)
    np.testing.assert_allclose(following[rows], steps["next_obs"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(earned[rows], steps["reward"], rtol=1e-5)
    over = np.where(found.ending[rows] > 0, 0.0, 0.99)
    np.testing.assert_allclose(over, steps["discount"], rtol=1e-6)


@pytest.mark.parametrize("horizon", [1.0, 3.0])
def test_rollouts_go_on_from_where_they_were_until_they_end(horizon):
    algorithm, _ = trained(rounds=1, horizon=horizon, endings=False, rollout_capacity=100)
    steps = algorithm.replay.all()
    assert len(steps["obs"]) == 12 * horizon
    for k in range(1, int(horizon)):
        before = steps["next_obs"][12 * (k - 1) : 12 * k]
        after = steps["obs"][12 * k : 12 * (k + 1)]
        assert sorted(map(tuple, before)) == sorted(map(tuple, after))
    algorithm, _ = trained(rounds=1, horizon=3.0)
    with torch.no_grad():
        algorithm.model.layers[-1].biases[:, :, -1] = 1e6
    algorithm.replay.imagined = type(algorithm.replay.imagined)(100, seed=0)
    algorithm._roll_out()
    ended = algorithm.replay.all()
    assert len(ended["obs"]) == 12
    assert not ended["discount"].any()


def test_a_batch_has_its_share_of_real_steps():
    algorithm, _ = trained(real_share=0.3)
    real = {tuple(row) for row in algorithm.replay.steps.sample(2000).samples["next_obs"]}
    drawn = algorithm.replay.sample(30).samples
    is_real = [tuple(row) in real for row in drawn["next_obs"]]
    for begun in (0, 10, 20):
        assert sum(is_real[begun : begun + 10]) == 3
    nothing = trained(real_share=0.0)[0].replay.sample(30).samples
    assert not any(tuple(row) in real for row in nothing["next_obs"])


def test_the_ensemble_learns_when_it_is_due():
    algorithm, logged = trained(rounds=1)
    assert logged["train/model_loss"] != 0
    moments = algorithm.optimizers["model"].state_dict()
    algorithm, logged = trained(rounds=2, model_every=100)
    assert "train/model_loss" not in logged
    assert algorithm.updates == 24
    for mine, theirs in zip(
        torch.utils._pytree.tree_leaves(algorithm.optimizers["model"].state_dict()),
        torch.utils._pytree.tree_leaves(moments),
        strict=True,
    ):
        assert torch.equal(torch.as_tensor(mine), torch.as_tensor(theirs))


@pytest.mark.parametrize("rate", [0.0, 1e-3, 1e-2])
def test_the_ensemble_has_its_own_rate(rate):
    algorithm, _ = trained(rounds=1, model_learning_rate=rate, model_updates=1, learning_rate=0.5)
    now, before = (parameters_to_vector(one.model.parameters()) for one in (algorithm, begin()[2]))
    moved = (now - before).detach().abs()
    # The first step of Adam has the size of the rate, whatever the gradient.
    assert float(moved.max()) == pytest.approx(rate, rel=1e-2)


def test_rewards_are_learned_in_units_of_their_deviation():
    algorithm, _ = trained(rounds=3)
    scale = algorithm.model.normalizer.reward.parts[0]
    seen = algorithm.replay.steps.sample(5000).samples["reward"]
    assert float(scale.count) == 48
    assert float(scale.mean) == pytest.approx(seen.mean(), abs=0.1)
    shown = algorithm.model.rewards(torch.tensor([0.0, 1.0]))
    np.testing.assert_allclose(shown, [seen.mean(), seen.mean() + seen.std()], atol=0.2)


def test_a_saved_one_goes_on_bit_for_bit():
    goes_on_bit_for_bit(begin, whole=5, before=2, least=20)


def test_what_it_cannot_learn_is_refused():
    with pytest.raises(InvalidOption, match="n_steps must be 1; got 3"):
        MBPOConfig(n_steps=3)
    other = make_agent_network(
        Line.observation_space, spaces.Discrete(2), AgentConfig(hidden=(8,)), seed=0
    )
    with pytest.raises(InvalidOption, match="MBPO: the policy must be a SquashedGaussian"):
        MBPO(other, MBPOConfig(**SMALL))


def test_a_state_that_is_refused_leaves_the_replay_as_it_was():
    mine, theirs = trained(rounds=1)[0].replay, trained(rounds=2)[0].replay.state_dict()
    before = mine.state_dict()
    theirs["imagined"]["capacity"] = 41
    with pytest.raises(InvalidSamples, match="capacity must be 40; got 41"):
        mine.load_state_dict(theirs)
    np.testing.assert_equal(mine.state_dict(), before)
