from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

import plangym_ext
from plangym_ext.errors import InvalidAnswer, InvalidOption
from plangym_ext.learn import NetworkConfig, NetworkEvaluator, NetworkPolicy, make_network
from plangym_ext.planners import play

VECTOR = Box(-np.inf, np.inf, (4,), np.float32)


def policy(space=None, heads=("policy", "value"), bias=None, **options):
    network = make_network(VECTOR, space or Discrete(2), NetworkConfig(heads=heads), seed=0)
    with torch.no_grad():
        for i, number in enumerate(bias or ()):
            network.heads.bias[i] = number
    return NetworkPolicy(evaluator=NetworkEvaluator(network), **options)


def rngs(count):
    return [np.random.default_rng(i) for i in range(count)]


OBS = np.zeros((400, 4), np.float32)
STATES = np.zeros((1, 8), np.uint8)


def test_it_plays_the_most_likely_legal_action():
    player = policy(Discrete(3, start=5), bias=[0, 2, 1])
    assert player.act(OBS[:2]).tolist() == [6, 6]
    assert player.act(OBS[:1], legal=np.array([[True, False, True]])).tolist() == [7]


def test_with_a_temperature_it_draws():
    player = policy(bias=[0, np.log(3)], temperature=1.0)
    drawn = player.act(OBS, rngs(400))
    # Four standard deviations of a share of 400 draws are 0.087.
    assert drawn.mean() == pytest.approx(0.75, abs=0.087)
    np.testing.assert_array_equal(drawn, player.act(OBS, rngs(400)))


def test_epsilon_mixes_random_legal_moves_in():
    player = policy(Discrete(3), bias=[9, 0, 0], epsilon=0.5)
    legal = np.tile([[True, True, False]], (400, 1))
    share = np.bincount(player.act(OBS, rngs(400), legal), minlength=3) / 400
    # Half are greedy, half of the others as well; four standard deviations are 0.087.
    np.testing.assert_allclose(share, [0.75, 0.25, 0], atol=0.087)


@pytest.mark.parametrize("space", [MultiDiscrete([2, 3]), Box(-2.0, 2.0, (3,), np.float32)])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_any_action_space_is_played(space, temperature):
    actions = policy(space, temperature=temperature).act(OBS[:5], rngs(5))
    assert actions.shape == (5, *space.shape)
    assert all(space.contains(action) for action in actions)


def test_q_values_are_played_where_there_is_no_policy():
    player = policy(Discrete(3), heads=("q",), bias=[1, 3, 2])
    assert player.act(OBS[:1]).tolist() == [1]
    (plan,) = player.plan_batch(None, STATES, rngs=rngs(1), obs=OBS[:1])
    assert plan.value == 3
    assert plan.q.tolist() == [1, 3, 2]


def test_it_plays_episodes_like_a_planner():
    player = policy()
    with plangym_ext.make("CartPole-v1") as env:
        episodes = play(env, player, seed=0, max_steps=30, num_episodes=3)
    assert [episode.budget.model_steps for episode in episodes] == [0, 0, 0]
    assert [episode.budget.evaluator_rows for episode in episodes] == [e.length for e in episodes]
    # Uniform, so always action 0: one falls within a dozen steps.
    assert all(episode.terminated and episode.length < 12 for episode in episodes)


def test_a_plan_carries_policy_and_value():
    player = policy(bias=[0, np.log(3), 7])
    (plan,) = player.plan_batch(None, STATES, rngs=rngs(1), obs=OBS[:1])
    np.testing.assert_allclose(plan.weights, [0.25, 0.75], rtol=1e-6)
    assert (plan.action, plan.value) == (1, 7)
    (plan,) = policy(heads=("policy",)).plan_batch(None, STATES, rngs=rngs(1), obs=OBS[:1])
    assert np.isnan(plan.value)


def test_what_it_cannot_do_is_said():
    with pytest.raises(InvalidOption, match=r"one generator per observation, 2; got none"):
        policy(temperature=1.0).act(OBS[:2])
    with pytest.raises(InvalidOption, match=r"head 'q' is not among the network's heads"):
        policy(head="q").act(OBS[:2])
    with pytest.raises(InvalidOption, match=r"epsilon must be a finite number in \[0.0, 1.0\]"):
        policy(epsilon=2.0)
    with pytest.raises(InvalidAnswer, match=r"what the network says must be finite; got \[nan"):
        policy(bias=[np.nan, 0]).act(OBS[:2])
    with pytest.raises(InvalidOption, match=r"as many actions as the env, 3; it has 2"):
        policy().act(OBS[:1], legal=np.ones((1, 3), bool))
    with (
        plangym_ext.make("CartPole-v1") as env,
        pytest.raises(InvalidOption, match=r"made for 3 actions; the env has Discrete\(2\)"),
    ):
        play(env, policy(Discrete(3)), seed=0, max_steps=2)
    with pytest.raises(ValueError, match=r"an agent needs obs"):
        policy().plan_batch(None, STATES, rngs=rngs(1))
