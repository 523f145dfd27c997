"""Sampling planners add what an evaluator says of the ends of their sequences."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import InvalidAnswer, InvalidOption
from plangym_ext.planners import CEM, DIAL, ICEM, MPPI, PredictiveSampling, RandomShooting, play
from plangym_ext.planners.evaluators import from_value

ALL = [RandomShooting, PredictiveSampling, CEM, ICEM, MPPI, DIAL]
CLOSING_IN = {"init_std": 1.0, "iterations": 10, "noise_beta": 0.0, "discount": 1.0}


def test_with_the_value_of_the_end_one_step_is_planned_as_well_as_many(models):
    model = models.Integrator()
    # What 30 steps from x earn at best is quadratic in x.
    _, unit = model.optimum(1.0, 30)
    value = from_value(lambda obs: unit * obs[:, 0] ** 2)
    for x in (0.6, -0.9):
        actions, best = model.optimum(x, 31)
        short = ICEM(1000, horizon=1, **CLOSING_IN)
        long = ICEM(1000, horizon=1, evaluator=value, **CLOSING_IN)
        plan = long.plan(model, model.state(x), rng=0)
        assert plan.value == pytest.approx(best, abs=1e-6)
        assert plan.action == pytest.approx(actions[0], abs=1e-3)
        assert plan.budget.evaluator_rows == 1000
        blind = short.plan(model, model.state(x), rng=0)
        # It saves force, as it does not know what it pays for staying where it is.
        assert abs(blind.action) < abs(plan.action) - 0.03
        assert blind.budget.evaluator_rows == 0


class Ending(gym.Env):
    """Pays 1 a step; ends by itself where an action is above a half, and is cut after 3 steps."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        obs = np.full(1, self.steps, np.float32)
        return obs, 1.0, bool(action[0] > 0.5), self.steps == 3, {}


@pytest.mark.parametrize(
    ("horizon", "sign", "best"),
    [
        # Worth it: the best sequences go on.
        (1, 1.0, 1.0 + 0.5 * 10.0),
        (2, 1.0, 1.5 + 0.25 * 20.0),
        # A punishment: the best ones end with their last step, and nothing follows.
        (1, -1.0, 1.0),
        (2, -1.0, 1.5),
    ],
)
@pytest.mark.parametrize("cls", ALL)
def test_the_value_is_discounted_and_follows_no_ending(cls, horizon, sign, best):
    def evaluator(obs):
        # There is no prior of such actions: what is said of one is passed over.
        return np.ones((len(obs), 7)), sign * 10.0 * obs[:, 0]

    planner = cls(512, horizon=horizon, discount=0.5, evaluator=evaluator)
    with plangym_ext.GymEnv(Ending) as env:
        state, _, _ = env.reset(seed=0)
        plan = planner.plan(env, state, rng=0)
    if planner.plays_tried:
        assert plan.value == best
    else:
        # A mean of sequences is played, which may end or not.
        assert plan.value in {1.0, 1.5, best, -4.0, -3.5}


def test_what_was_cut_has_a_value():
    with plangym_ext.GymEnv(Ending) as env:
        state, _, _ = env.reset(seed=0)
        value = from_value(lambda obs: 100.0 * obs[:, 0])
        planner = ICEM(64, horizon=8, discount=1.0, evaluator=value)
        assert planner.plan(env, state, rng=0).value == 303.0


def energy(obs):
    """Of the car in its valley, height and speed, which is what climbs."""
    position, speed = obs[:, 0].astype(float), obs[:, 1].astype(float)
    return np.sin(3.0 * position) + speed**2 / (2 * 0.0025 / 3)


def test_a_car_whose_sequences_do_not_reach_the_goal_climbs_by_what_ends_are_worth():
    options = {"num_simulations": 32, "horizon": 5, "init_std": 1.0}
    found = []
    for value in (None, from_value(lambda obs: 10.0 * energy(obs))):
        with plangym_ext.make("MountainCarContinuous-v0", frameskip=4) as env:
            planner = ICEM(**options, evaluator=value)
            found.append(play(env, planner, seed=0, max_steps=60).return_)
    assert found[0] <= 0.0
    assert found[1] > 50.0


def test_rows_plan_together_as_they_plan_alone():
    options = {"horizon": 4, "evaluator": from_value(lambda obs: obs[:, 0]), "novelty_bonus": 0.1}
    with plangym_ext.make("Pendulum-v1") as env:
        starts = [env.reset(seed=seed)[:2] for seed in range(3)]
        states = np.stack([state for state, _ in starts])
        obs = np.stack([obs for _, obs in starts])
        rngs = [np.random.default_rng(i) for i in range(3)]
        plans = ICEM(40, **options).plan_batch(env, states, rngs=rngs, obs=obs)
        for i, plan in enumerate(plans):
            own = ICEM(40, **options).plan(env, states[i], rng=i, obs=obs[i])
            assert own.value == plan.value
            assert own.actions.tobytes() == plan.actions.tobytes()
            assert own.budget.evaluator_rows == plan.budget.evaluator_rows == 40


@pytest.mark.parametrize("wrong", [np.zeros(3), np.full(16, np.nan)])
def test_wrong_answers_are_refused(wrong):
    with plangym_ext.make("Pendulum-v1") as env:
        state, _, _ = env.reset(seed=0)
        planner = ICEM(16, iterations=1, horizon=3, evaluator=lambda obs: (None, wrong))
        with pytest.raises(InvalidAnswer, match=r"ICEM: evaluator: value must be \(16,\)"):
            planner.plan(env, state, rng=0)


def test_the_evaluator_is_checked():
    with pytest.raises(InvalidOption, match="evaluator"):
        CEM(evaluator=3)
