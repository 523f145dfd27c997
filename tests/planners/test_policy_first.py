"""Sampling planners begin with what a policy would play."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import InvalidAnswer, InvalidOption
from plangym_ext.planners import CEM, DIAL, ICEM, MPPI, PredictiveSampling, RandomShooting

ALL = [RandomShooting, PredictiveSampling, CEM, ICEM, MPPI, DIAL]
HORIZON = 6


def swing(obs):
    """Push the way in which the pendulum turns."""
    return 2.0 * np.sign(obs[:, 2:])


def played(env, state, obs, policy, horizon=HORIZON):
    """The actions of a policy, and what they earn."""
    actions, total = [], 0.0
    for _ in range(horizon):
        action = np.asarray(policy(obs[None])[0], np.float32)
        state, obs, reward, *_ = env.step(action, state=state)
        actions.append(action)
        total += reward
    return np.array(actions), total


@pytest.fixture
def pendulum():
    with plangym_ext.make("Pendulum-v1") as env:
        yield env


@pytest.mark.parametrize("cls", ALL)
def test_alone_it_is_what_is_played(cls, pendulum):
    state, obs, _ = pendulum.reset(seed=3)
    actions, earned = played(pendulum, state, obs, swing)
    planner = cls(1, horizon=HORIZON, discount=1.0, policy=swing)
    plan = planner.plan(pendulum, state, rng=0, obs=obs)
    np.testing.assert_array_equal(plan.actions, actions)
    assert plan.value == pytest.approx(earned, abs=1e-9)
    # It was asked before each of the steps that were taken to find the sequence, then tried.
    assert plan.budget.model_steps == 2 * HORIZON
    assert plan.budget.evaluator_rows == HORIZON
    assert plan.budget.restores == HORIZON + 1


@pytest.mark.parametrize("cls", [one for one in ALL if one.plays_tried])
def test_what_is_played_is_no_worse_and_chance_alone_does_not_find_it(cls, pendulum):
    gains = []
    for seed in range(6):
        state, obs, _ = pendulum.reset(seed=seed)
        _, earned = played(pendulum, state, obs, swing, 20)
        led = cls(12, horizon=20, discount=1.0, policy=swing)
        alone = cls(12, horizon=20, discount=1.0)
        plan = led.plan(pendulum, state, rng=seed, obs=obs)
        assert plan.value >= earned - 1e-9
        gains.append(plan.value - alone.plan(pendulum, state, rng=seed).value)
    assert np.mean(gains) > 0.0


@pytest.mark.parametrize("cls", ALL)
def test_a_row_depends_on_itself_alone_and_goes_on_from_its_last_plan(cls, pendulum):
    states, obs = zip(*[pendulum.reset(seed=i)[:2] for i in range(3)], strict=True)
    states, obs = np.stack(states), np.stack(obs)
    whole = cls(20, horizon=HORIZON, policy=swing)
    alone = [cls(20, horizon=HORIZON, policy=swing) for _ in states]
    rngs, own_rngs = ([np.random.default_rng(i) for i in range(3)] for _ in range(2))
    for _ in range(2):
        plans = whole.plan_batch(pendulum, states, rngs=rngs, obs=obs)
        for i, plan in enumerate(plans):
            own = alone[i].plan(pendulum, states[i], rng=own_rngs[i], obs=obs[i])
            np.testing.assert_array_equal(own.actions, plan.actions)
            assert own.value == plan.value


class Ending(gym.Env):
    """Pays 1 a step, and is over after as many steps as the first action says."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gym.spaces.Box(0.0, 4.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = None
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.left = round(float(action[0])) if self.left is None else self.left
        self.left -= 1
        return np.ones(1, np.float32), 1.0, self.left <= 0, False, {}


def test_it_is_followed_no_further_than_an_ending():
    asked = []

    def policy(obs):
        asked.append(len(obs))
        return np.full((len(obs), 1), 2.0)

    with plangym_ext.GymEnv(Ending) as env:
        state, obs, _ = env.reset(seed=0)
        plan = RandomShooting(1, horizon=5, policy=policy).plan(env, state, rng=0, obs=obs)
    assert asked == [1, 1]
    assert plan.action == 2.0
    assert plan.budget.model_steps == 4


def test_few_knots_follow_it_as_well_as_they_can(pendulum):
    state, obs, _ = pendulum.reset(seed=3)

    def policy(obs):
        return np.full((len(obs), 1), 1.25)

    planner = PredictiveSampling(1, horizon=12, num_knots=3, policy=policy)
    plan = planner.plan(pendulum, state, rng=0, obs=obs)
    np.testing.assert_allclose(plan.actions, 1.25, atol=1e-6)


@pytest.mark.parametrize("most", [2 * HORIZON, 5 * HORIZON + 1])
def test_its_steps_are_among_those_that_a_plan_may_take(most, pendulum):
    state, obs, _ = pendulum.reset(seed=3)
    planner = ICEM(None, max_model_steps=most, horizon=HORIZON, policy=swing)
    plan = planner.plan(pendulum, state, rng=0, obs=obs)
    assert plan.budget.model_steps == most // HORIZON * HORIZON


def test_mistakes_are_told(pendulum):
    state, obs, _ = pendulum.reset(seed=3)
    with pytest.raises(InvalidOption, match="what the policy plays"):
        ICEM(None, max_model_steps=2 * HORIZON - 1, horizon=HORIZON, policy=swing)
    with pytest.raises(InvalidOption, match="policy must be a function"):
        ICEM(8, policy=3)
    planner = ICEM(8, horizon=2, policy=swing)
    with pytest.raises(ValueError, match="a policy"):
        planner.plan(pendulum, state, rng=0)
    for wrong in (
        np.zeros((1, 2)),
        np.zeros(1),
        np.zeros((1, 1), np.int64),
        np.full((1, 1), np.nan),
    ):
        wrongly = ICEM(8, horizon=2, policy=lambda obs, wrong=wrong: wrong)
        with pytest.raises(InvalidAnswer, match=r"ICEM: policy: must return \(1, 1\) finite"):
            wrongly.plan(pendulum, state, rng=0, obs=obs)
