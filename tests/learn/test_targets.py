from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from plangym_ext.errors import InvalidSamples, UnknownName
from plangym_ext.learn import (
    POLICY_TARGETS,
    VALUE_TARGETS,
    EpisodeRecord,
    EpisodeRecorder,
    HistogramConfig,
)
from plangym_ext.learn.targets import check_target, qualities, value_after_last
from plangym_ext.planners import BanditShooting, DiscreteShooting

REWARDS, VALUES = [1.0, 2.0, 4.0], [10.0, 20.0, 30.0]


def record(**changes):
    fields = {
        "seed": 0,
        "observations": np.zeros((4, 2)),
        "actions": np.array([0, 1, 0]),
        "rewards": np.array(REWARDS),
        "terminated": True,
        "truncated": False,
        "root_values": np.array(VALUES),
        "policies": np.array([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]),
        "visits": np.array([[2, 2], [0, 4], [3, 0]]),
    }
    return EpisodeRecord(**{**fields, **changes})


CUT = {"terminated": False, "truncated": True}
# (target, what is different about the record, by hand with discount 0.5 and n = 2)
TABLE = [
    ("return", {}, [7, 6, 4]),
    # G2 = 4, G1 = 2 + 4/2, G0 = 1 + 4/2
    ("discounted_return", {}, [3, 4, 4]),
    ("value", {}, VALUES),
    # 1 + 2/2 + 30/4; then the episode ends: 2 + 4/2; 4
    ("n_return", {}, [9.5, 4, 4]),
    # What follows is worth 8: G2 = 4 + 8/2, G1 = 2 + 8/2, G0 = 1 + 6/2
    ("discounted_return", {**CUT, "final_value": 8.0}, [4, 6, 8]),
    ("n_return", {**CUT, "final_value": 8.0}, [9.5, 6, 8]),
    ("return", {**CUT, "final_value": 8.0}, [15, 14, 12]),
    # Unknown: the last plan expected 30 from there on. G2 = 30, G1 = 2 + 30/2, G0 = 1 + 17/2
    ("discounted_return", CUT, [9.5, 17, 30]),
    ("n_return", CUT, [9.5, 17, 30]),
    # The collector stopped it: neither flag is set.
    ("discounted_return", {"terminated": False, "final_value": 8.0}, [4, 6, 8]),
    # A termination at the time limit is a termination, whatever was expected.
    ("discounted_return", {"truncated": True, "final_value": 8.0}, [3, 4, 4]),
    ("solved", {"attributes": {"solved": True}}, [1, 1, 1]),
    ("solved", {"attributes": {"solved": False}}, [0, 0, 0]),
]


@pytest.mark.parametrize(("target", "changes", "expected"), TABLE)
def test_values_by_hand(target, changes, expected):
    found = VALUE_TARGETS[target](record(**changes), 0.5, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.dtype == np.float64


@pytest.mark.parametrize("changes", [{}, CUT, {**CUT, "final_value": 8.0}])
def test_many_steps_are_the_return(changes):
    found = VALUE_TARGETS["n_return"](record(**changes), 0.5, 99)
    expected = VALUE_TARGETS["discounted_return"](record(**changes), 0.5, 1)
    np.testing.assert_allclose(found, expected)


def test_nothing_follows_without_a_discount():
    assert value_after_last(record(**CUT), 0.0) == 0.0
    np.testing.assert_array_equal(
        VALUE_TARGETS["discounted_return"](record(**CUT), 0.0, 1), REWARDS
    )


POLICIES = [
    ("weights", [[0.5, 0.5], [0, 1], [1, 0]]),
    ("action_histogram", [[0.5, 0.5], [0, 1], [1, 0]]),
    # One more visit everywhere: 3:3, 1:5, 4:1.
    ("action_histogram_smooth", [[1 / 2, 1 / 2], [1 / 6, 5 / 6], [4 / 5, 1 / 5]]),
]


@pytest.mark.parametrize(("target", "expected"), POLICIES)
def test_policies_by_hand(target, expected):
    np.testing.assert_allclose(POLICY_TARGETS[target](record()), expected)


def test_smoothing_gives_nothing_to_what_is_forbidden():
    legal = np.array([[True, True], [False, True], [True, True]])
    found = POLICY_TARGETS["action_histogram_smooth"](record(legal=legal))
    np.testing.assert_allclose(found, [[1 / 2, 1 / 2], [0, 1], [4 / 5, 1 / 5]])


@pytest.mark.parametrize(
    ("compute", "changes", "message"),
    [
        (VALUE_TARGETS["value"], {"root_values": np.array([1, np.nan, 2])}, "finite value"),
        (VALUE_TARGETS["solved"], {}, r"attributes say so; got \[\]"),
        (
            VALUE_TARGETS["discounted_return"],
            {**CUT, "root_values": np.full(3, np.nan)},
            "Pass final_value",
        ),
    ],
)
def test_what_a_record_lacks_for_a_value_is_said(compute, changes, message):
    with pytest.raises(InvalidSamples, match=message):
        compute(record(**changes), 0.5, 2)


@pytest.mark.parametrize(
    ("compute", "field"),
    [
        (POLICY_TARGETS["weights"], "policies"),
        (POLICY_TARGETS["action_histogram"], "visits"),
        (POLICY_TARGETS["action_histogram_smooth"], "visits"),
        (qualities, "q"),
    ],
)
def test_what_plans_lack_is_said(compute, field):
    with pytest.raises(InvalidSamples, match="Take another planner"):
        compute(dataclasses.replace(record(), **{field: None}))


def test_unknown_targets_have_a_suggestion():
    with pytest.raises(UnknownName, match=r"got 'n_retrun'.*did you mean 'n_return'"):
        check_target("here", "n_retrun", VALUE_TARGETS)


class Bandit:
    """Every action pays what it pays, and that is the end."""

    def __init__(self, pays):
        self.pays, self.action_space = np.array(pays), Discrete(len(pays))

    def rollout_batch(self, actions, states):
        rewards, over = np.zeros(actions.shape), np.ones(len(actions), bool)
        rewards[:, 0] = self.pays[actions[:, 0]]
        steps = np.ones(len(actions), np.int32)
        return SimpleNamespace(
            states=states, obs=over[:, None], rewards=rewards, terminateds=over, steps=steps
        )


def shot(planner, pays):
    """A plan in a bandit, and the record of what it came to."""
    plan = planner.plan(Bandit(pays), np.zeros(8, np.uint8), rng=0)
    recorder = EpisodeRecorder(0, np.zeros(1, np.float32))
    earned = pays[plan.action]
    recorder.add(plan, np.ones(1, np.float32), earned, terminated=True, truncated=False)
    return plan, recorder.record()


def test_shooting_teaches_what_it_plays_and_not_what_it_drew():
    # The first actions are drawn uniformly, however good they are.
    plan, made = shot(DiscreteShooting(400, rollout_depth=1), [1.0, 0.0, 0.0, 0.0])
    assert (plan.visits > 60).all()
    assert HistogramConfig().policy_target == "weights"
    np.testing.assert_array_equal(POLICY_TARGETS["weights"](made), [[1, 0, 0, 0]])
    for target in ("action_histogram", "action_histogram_smooth"):
        with pytest.raises(InvalidSamples, match=r"does not choose by them.*'weights'"):
            POLICY_TARGETS[target](made)


def test_bandit_shooting_teaches_its_visits():
    plan, made = shot(BanditShooting(40), [1.0, 0.0, 0.5])
    for target in ("weights", "action_histogram"):
        np.testing.assert_array_equal(POLICY_TARGETS[target](made), [plan.visits / 40])
