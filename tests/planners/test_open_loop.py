from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from plangym_ext.errors import InvalidOption
from plangym_ext.planners import MCTS, OpenLoopMCTS


@pytest.mark.parametrize("wave_size", [1, 8])
def test_without_chance_it_is_closed_loop_search_at_the_price_of_steps(models, wave_size):
    model = models.random_mdp(3)
    options = {"rollout_depth": 0, "wave_size": wave_size}
    closed = MCTS(40, **options).plan(model, model.state(0), rng=0)
    before = model.model_steps
    plan = OpenLoopMCTS(40, **options).plan(model, model.state(0), rng=0)
    np.testing.assert_array_equal(plan.visits, closed.visits)
    np.testing.assert_allclose(plan.q, closed.q, rtol=1e-6)
    assert plan.action == closed.action
    assert plan.budget.model_steps == model.model_steps - before
    assert plan.budget.model_steps > 2 * closed.budget.model_steps


@pytest.mark.parametrize("wave_size", [1, 8])
@pytest.mark.parametrize("masked", [False, True])
def test_without_chance_priors_and_masks_are_those_of_closed_loop_search(models, wave_size, masked):
    model, evaluator = models.random_mdp(3), models.table_evaluator(1, 40, 3)
    mask = np.random.default_rng(0).random((40, 3)) < 0.7
    mask[~mask.any(axis=1)] = True
    if masked:
        step_batch, rollout_batch = model.step_batch, model.rollout_batch

        def with_mask(out):
            return out._replace(infos={"action_mask": mask[model.index(out.states)]})

        model.step_batch = lambda *args, **kwargs: with_mask(step_batch(*args, **kwargs))
        model.rollout_batch = lambda *args, **kwargs: with_mask(rollout_batch(*args, **kwargs))
    options = {"evaluator": evaluator, "wave_size": wave_size}
    root = {"rng": 0, "obs": np.zeros(1, np.float32), "legal": mask[0] if masked else None}
    closed = MCTS(60, **options).plan(model, model.state(0), **root)
    plan = OpenLoopMCTS(60, **options).plan(model, model.state(0), **root)
    np.testing.assert_array_equal(plan.visits, closed.visits)
    np.testing.assert_allclose(plan.q, closed.q, rtol=1e-6)


class Coin:
    """Action 0 pays 0.4. Action 1 pays 1 or 0, by a coin that lies in the state.

    A state row is 16 bytes: the step and the coin's next face.
    """

    def __init__(self, models):
        self.batch, self.action_space, self.calls = models.RolloutBatch, Discrete(2), []

    def state(self, face):
        return np.array([0, face], np.int64).view(np.uint8)

    def rollout_batch(self, actions, states):
        now = np.ascontiguousarray(states).view(np.int64).copy()
        assert (now[:, 0] == 0).all()
        self.calls.append(actions.shape)
        reward = np.zeros(actions.shape)
        reward[:, 0] = np.where(actions[:, 0] == 0, 0.4, now[:, 1])
        now[:, 0] = 1
        over, steps = np.ones(len(now), bool), np.ones(len(now), np.int32)
        obs = now.astype(float)
        return self.batch(now.view(np.uint8), obs, reward, over, ~over, steps, {})


def toss(states, rng):
    """The same states with another face to come."""
    drawn = np.ascontiguousarray(states).view(np.int64).copy()
    drawn[:, 1] = rng.integers(2, size=len(drawn))
    return drawn.view(np.uint8)


def test_chance_is_averaged_over_and_not_foreseen(models):
    model = Coin(models)
    # Closed in the state, the coin is known: it will be heads, or tails.
    for face in (0, 1):
        planner = OpenLoopMCTS(200, rollout_depth=0)
        plan = planner.plan(model, model.state(face), rng=0)
        np.testing.assert_allclose(plan.q, [0.4, face], rtol=1e-6)
        assert plan.action == face
    planner = OpenLoopMCTS(400, rollout_depth=0, resample=toss)
    plan = planner.plan(model, model.state(0), rng=0)
    assert plan.action == 1
    # Some 300 fair coins: within five standard deviations.
    assert plan.q[1] == pytest.approx(0.5, abs=0.15)
    assert plan.q[0] == pytest.approx(0.4)
    assert plan.budget.model_steps == 400


def test_rows_planned_together_equal_rows_planned_alone(models):
    model, planner = models.random_mdp(3), OpenLoopMCTS(24, rollout_depth=3)
    states = np.stack([model.state(i) for i in (0, 5, 9)])
    together = planner.plan_batch(model, states, rngs=[np.random.default_rng(i) for i in range(3)])
    for i, plan in enumerate(together):
        alone = planner.plan(model, states[i], rng=i)
        np.testing.assert_array_equal(plan.visits, alone.visits)
        np.testing.assert_array_equal(plan.q, alone.q)


def test_no_states_are_kept_and_steps_are_bounded(models):
    model = models.random_mdp(3, states=400)
    planner = OpenLoopMCTS(max_model_steps=300, rollout_depth=2)
    plan = planner.plan(model, model.state(0), rng=0)
    assert 200 < plan.budget.model_steps == model.model_steps <= 300
    with pytest.raises(InvalidOption, match="keep_tree must be off"):
        OpenLoopMCTS(keep_tree=True)
    with pytest.raises(InvalidOption, match="resample must be a function of states or None; got 3"):
        OpenLoopMCTS(resample=3)


def test_limits_of_steps_are_those_of_each_row_alone(models):
    # Rows of different depths: what one may begin does not depend on how deep another is.
    model = models.random_mdp(3, states=400)
    planner = OpenLoopMCTS(max_model_steps=31, rollout_depth=0, wave_size=2)
    states = np.stack([model.state(i) for i in range(8)])
    together = planner.plan_batch(model, states, rngs=[np.random.default_rng(i) for i in range(8)])
    for i, plan in enumerate(together):
        alone = planner.plan(model, states[i], rng=i)
        np.testing.assert_array_equal(plan.visits, alone.visits)
        assert plan.budget.model_steps == alone.budget.model_steps


def test_the_least_that_pays_for_a_simulation_is_enough(models):
    model = models.random_mdp(3, states=400)
    plan = OpenLoopMCTS(max_model_steps=9, rollout_depth=8).plan(model, model.state(0), rng=0)
    assert 0 < plan.budget.model_steps <= 9
    with pytest.raises(InvalidOption, match="max_model_steps must be at least 9"):
        OpenLoopMCTS(max_model_steps=8, rollout_depth=8).plan(model, model.state(0), rng=0)


class Hazard:
    """Every step earns 1 and ends the episode with chance 1/2; a state is a seed of that."""

    action_space = Discrete(4)

    def __init__(self, models):
        self.batch = models.RolloutBatch

    def rollout_batch(self, actions, states):
        count, depth = actions.shape
        rewards, over, steps = np.zeros((count, depth)), np.zeros(count, bool), np.zeros(count, int)
        for i, seed in enumerate(np.ascontiguousarray(states).view(np.int64)[:, 0]):
            ends = 1 + np.flatnonzero(np.random.default_rng(seed).random(depth) < 0.5)
            steps[i], over[i] = (ends[0], True) if len(ends) else (depth, False)
            rewards[i, : steps[i]] = 1.0
        return self.batch(states, np.zeros((count, 1)), rewards, over, over & False, steps, {})


def reseed(states, rng):
    return rng.integers(2**40, size=(len(states), 1)).view(np.uint8)


@pytest.mark.parametrize("wave_size", [1, 8])
def test_a_node_has_the_prior_of_the_first_state_that_it_is_reached_in(models, wave_size):
    prior = np.array([0.97, 0.01, 0.01, 0.01], np.float32)

    def evaluator(obs):
        return np.tile(prior, (len(obs), 1)), np.zeros(len(obs))

    options = {"resample": reseed, "evaluator": evaluator, "wave_size": wave_size}
    planner, gone_through = OpenLoopMCTS(300, return_tree=True, **options), 0
    for seed in range(5):
        plan = planner.plan(Hazard(models), np.zeros(8, np.uint8), rng=seed, obs=np.zeros(1))
        tree = plan.tree
        for node in range(1, len(tree.parent)):
            below = np.flatnonzero(tree.parent == node)
            gone_through += len(below) > 0
            np.testing.assert_array_equal(tree.prior[below], prior[tree.action[below]])
        # A simulation ends where no state that goes on has been seen, and counts there.
        assert tree.visits[0] == 300
    assert gone_through > 20


@pytest.mark.parametrize("by_chance", [False, True])
def test_no_sequence_is_longer_than_the_depth_limit(by_chance):
    import plangym_ext

    with plangym_ext.make("CartPole-v1") as env:
        state, _, _ = env.reset(seed=0)
        resample = env.reseeded if by_chance else None
        for depth in (1, 3):
            how = {"max_depth": depth, "rollout_depth": 0, "wave_size": 4}
            plan = OpenLoopMCTS(40, resample=resample, **how).plan(env, state, rng=0)
            assert plan.depth == depth
            assert plan.visits.sum() == 40
            # Every simulation plays its sequence from the root, to the limit at most.
            assert plan.budget.model_steps <= 40 * depth
