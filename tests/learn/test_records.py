from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext.learn import EpisodeRecorder
from plangym_ext.planners import MCTS, Budget, Plan


def plan(action, value=0.5, **fields):
    return Plan(action=action, value=value, budget=Budget(model_steps=3), **fields)


def test_a_record_has_a_row_per_step_and_one_more_observation():
    obs = np.zeros(2)
    recorder = EpisodeRecorder(7, obs, legal=np.array([True, False]))
    for t in range(3):
        obs += 1  # what was recorded must be a copy
        known = {
            "weights": np.array([0.25, 0.75]),
            "visits": np.array([1, 3]),
            "q": np.array([np.nan, t]),
        }
        recorder.add(plan(t % 2, value=t, **known), obs, t + 1, terminated=t == 2, truncated=False)
    record = recorder.record({"solved": True}, final_value=None)
    assert record.seed == 7
    assert (record.length, len(recorder), record.return_) == (3, 3, 6.0)
    np.testing.assert_array_equal(record.observations, [[0, 0], [1, 1], [2, 2], [3, 3]])
    np.testing.assert_array_equal(record.actions, [0, 1, 0])
    np.testing.assert_array_equal(record.rewards, [1, 2, 3])
    np.testing.assert_array_equal(record.root_values, [0, 1, 2])
    np.testing.assert_array_equal(record.policies, [[0.25, 0.75]] * 3)
    np.testing.assert_array_equal(record.visits, [[1, 3]] * 3)
    np.testing.assert_array_equal(record.q, [[np.nan, 0], [np.nan, 1], [np.nan, 2]])
    # Only the first step came with a mask; the others allowed everything.
    np.testing.assert_array_equal(record.legal, [[True, False], [True, True], [True, True]])
    assert record.legal.dtype == bool
    assert (record.terminated, record.truncated) == (True, False)
    assert record.attributes == {"solved": True}
    assert record.budget == Budget(model_steps=9)


def test_what_plans_do_not_know_is_none():
    recorder = EpisodeRecorder(0, np.zeros(1))
    recorder.add(plan(np.array([0.5])), np.ones(1), 1.0, terminated=False, truncated=True)
    record = recorder.record()
    assert (record.policies, record.visits, record.q, record.legal) == (None, None, None, None)
    assert record.actions.shape == (1, 1)


def test_an_episode_without_steps_is_no_record():
    with pytest.raises(ValueError, match="at least one step"):
        EpisodeRecorder(0, np.zeros(1)).record()


def test_a_search_is_recorded():
    with plangym_ext.make("CartPole-v1") as env:
        state, obs, _ = env.reset(seed=0)
        recorder, planner = EpisodeRecorder(0, obs), MCTS(8)
        for t in range(4):
            found = planner.plan(env, state, rng=t, obs=obs)
            state, obs, reward, over, cut, _ = env.step(found.action, state=state)
            recorder.add(found, obs, reward, terminated=over, truncated=cut)
    record = recorder.record()
    assert record.observations.shape == (5, 4)
    assert record.observations.dtype == np.float32
    assert record.policies.shape == record.visits.shape == record.q.shape == (4, 2)
    np.testing.assert_array_equal(record.visits.sum(axis=1), 8)
    assert record.budget.expansions == 32
