"""Sequences that end where an episode has not been are worth more to sampling planners."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import InvalidOption
from plangym_ext.planners import CEM, DIAL, ICEM, MPPI, PredictiveSampling, RandomShooting, play
from plangym_ext.planners.continuous.base import REMEMBERED, Shown

ALL = [RandomShooting, PredictiveSampling, CEM, ICEM, MPPI, DIAL]


def shown(*observations):
    memory = Shown()
    for obs in observations:
        memory.add(np.array(obs, float))
    return memory


def test_novelty_is_the_distance_to_the_nearest_in_standard_deviations():
    memory = shown([0.0, 0.0], [10.0, 0.0])
    # Variances 4 and 16.
    memory.measure(np.array([[0.0, 0.0], [4.0, 8.0]]))
    found = memory.novelty(np.array([[10.0, 0.0], [12.0, 0.0], [2.0, 4.0], [5.0, 0.0]]))
    # d = 0; sqrt(1 / 2); sqrt((1 + 1) / 2); sqrt(25 / 4 / 2), as far from both.
    distance = np.array([0.0, np.sqrt(0.5), 1.0, np.sqrt(25 / 8)])
    np.testing.assert_allclose(found, distance / (1 + distance), rtol=1e-12)


def test_numbers_that_never_differ_do_not_count():
    memory = shown([0.0, 7.0])
    memory.measure(np.array([[0.0, 3.0], [2.0, 3.0]]))
    np.testing.assert_allclose(memory.novelty(np.array([[1.0, 3.0]])), 0.5)
    # Nothing differs: nothing is new.
    still = shown([0.0])
    still.measure(np.zeros((3, 1)))
    assert still.novelty(np.array([[5.0]])) == 0.0


def test_what_is_not_finite_is_not_new():
    memory = shown([0.0])
    memory.measure(np.array([[0.0], [2.0]]))
    np.testing.assert_array_equal(
        memory.novelty(np.array([[np.nan], [np.inf], [1.0]])), [0, 0, 0.5]
    )


def test_spreads_are_averaged_over_plans():
    memory = shown([0.0])
    memory.measure(np.array([[-1.0], [1.0]]))
    memory.measure(np.array([[-3.0], [3.0]]))
    # Variances 1 and 9: 5 on average.
    distance = 1 / np.sqrt(5)
    np.testing.assert_allclose(memory.novelty(np.array([[1.0]])), distance / (1 + distance))


def test_the_latest_decisions_are_remembered():
    memory = shown([0.0], *([5.0] for _ in range(REMEMBERED)))
    memory.measure(np.array([[-1.0], [1.0]]))
    assert memory.novelty(np.array([[0.0]])) > 0.8
    assert memory.novelty(np.array([[5.0]])) == 0.0


def climbed(planner):
    """Where a car came to that earns nothing until it is up the hill, and pays for force."""
    with plangym_ext.make("MountainCarContinuous-v0", frameskip=4) as env:
        return play(env, planner, seed=0, max_steps=60).return_


def test_a_car_whose_sequences_do_not_reach_the_goal_climbs_by_the_bonus_alone():
    # Some 20 decisions lead up the hill, twice as many as a sequence has.
    options = {"num_simulations": 64, "horizon": 10, "init_std": 1.0}
    assert climbed(ICEM(**options)) <= 0.0
    assert climbed(ICEM(**options, novelty_bonus=10.0)) > 50.0


class Corridor(gym.Env):
    """Position and a text; nothing is ever earned."""

    observation_space = gym.spaces.Dict(
        {"at": gym.spaces.Box(-np.inf, np.inf, (1,)), "note": gym.spaces.Text(4)}
    )
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = np.zeros(1, np.float32)
        return self._seen(), {}

    def step(self, action):
        self.at = self.at + action
        return self._seen(), 0.0, False, False, {}

    def _seen(self):
        return {"at": self.at.copy(), "note": "ab"}


@pytest.mark.parametrize("cls", ALL)
def test_where_nothing_is_earned_an_episode_goes_where_it_has_not_been(cls):
    planner = cls(64, horizon=4, novelty_bonus=0.1)
    with plangym_ext.GymEnv(Corridor) as env:
        state, obs, _ = env.reset(seed=0)
        farthest, values = 0.0, []
        for move in range(12):
            plan = planner.plan(env, state, rng=move, obs=obs)
            values.append(plan.value)
            state, obs, *_ = env.step(plan.action, state=state)
            farthest = max(farthest, abs(float(obs["at"][0])))
    # Without, the mean step is 0; with, it goes one way, at most one a move.
    assert farthest > 5.0
    # What is played earns nothing: the bonus is no part of its value.
    assert all(value == 0.0 for value in values)


@pytest.mark.parametrize("cls", ALL)
def test_a_plan_is_worth_what_its_actions_return(cls):
    planner = cls(30, horizon=5, discount=0.9, novelty_bonus=10.0)
    with plangym_ext.make("Pendulum-v1") as env:
        state, obs, _ = env.reset(seed=1)
        for move in range(3):
            plan = planner.plan(env, state, rng=move, obs=obs)
            played = env.rollout_batch(plan.actions[None], state[None])
            value = played.rewards[0] @ 0.9 ** np.arange(5)
            assert plan.value == pytest.approx(value, rel=1e-9)
            state, obs, *_ = env.step(plan.action, state=state)


def test_rows_plan_together_as_they_plan_alone():
    with plangym_ext.make("Pendulum-v1") as env:
        starts = [env.reset(seed=seed)[:2] for seed in range(3)]
        states = np.stack([state for state, _ in starts])
        seen = np.stack([obs for _, obs in starts])
        together = ICEM(40, horizon=6, novelty_bonus=2.0)
        alone = [ICEM(40, horizon=6, novelty_bonus=2.0) for _ in starts]
        for move in range(3):
            rngs = [np.random.default_rng([move, i]) for i in range(3)]
            plans = together.plan_batch(env, states, rngs=rngs, obs=seen)
            for i, one in enumerate(alone):
                rng = np.random.default_rng([move, i])
                own = one.plan(env, states[i], rng=rng, obs=seen[i])
                assert own.value == plans[i].value
                assert own.actions.tobytes() == plans[i].actions.tobytes()
            out = env.step_batch(np.stack([plan.action for plan in plans]), states=states)
            states, seen = out.states, out.obs


def test_what_was_shown_is_remembered_without_a_warm_start_and_forgotten_by_reset():
    with plangym_ext.GymEnv(Corridor) as env:
        state, obs, _ = env.reset(seed=0)
        planner = CEM(16, horizon=3, novelty_bonus=1.0, warm_start=False)
        for _ in range(2):
            planner.plan(env, state, rng=0, obs=obs)
        (row,) = planner._kept.rows
        assert len(row.shown._seen) == 2
        # The plan itself is not gone on with.
        assert not row.warm
        planner.reset()
        planner.plan(env, state, rng=0, obs=obs)
        assert len(planner._kept.rows[0].shown._seen) == 1


def test_the_bonus_needs_observations():
    with plangym_ext.make("Pendulum-v1") as env:
        state, _, _ = env.reset(seed=0)
        with pytest.raises(ValueError, match="novelty_bonus needs obs"):
            ICEM(8, horizon=3, novelty_bonus=1.0).plan(env, state, rng=0)


@pytest.mark.parametrize("wrong", [-1.0, np.inf, "much"])
def test_the_bonus_is_checked(wrong):
    with pytest.raises(InvalidOption, match="novelty_bonus"):
        ICEM(novelty_bonus=wrong)
