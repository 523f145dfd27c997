"""What the episode has seldom shown, in searches for what is new."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption, UnknownName
from plangym_ext.planners import IW, RolloutIW
from plangym_ext.planners.novelty.features import TOLD_APART
from plangym_ext.planners.novelty.pairs import (
    count_root,
    counted,
    new_bonus,
    rate,
)
from plangym_ext.planners.trees.tree import ROOT


def obs_of(at):
    return np.full(1, at, np.float32)


@pytest.mark.parametrize("which", ["jit", "python"])
def test_a_bonus_by_hand(which):
    def of(kernel):
        return kernel if which == "jit" else kernel.py_func

    table = new_bonus(2, 3)._replace(features=np.zeros((2, 3, 2), np.int32))
    table.features[1] = [[3, 4], [4, -1], [5, 6]]
    for _ in range(3):
        of(count_root)(table, 1, ROOT)
    of(rate)(table, np.array([1, 1, 1, 0]), np.array([0, 1, 2, 0]), 0.5)
    # Shown three times: 1 / sqrt(1 + 3); what is not there does not count.
    assert table.bonus[1].tolist() == [0.25, 0.25, 0.5]
    # The other tree has counts of its own.
    assert table.bonus[0, 0] == 0.5
    assert table.counts.sum() == 6
    assert counted(np.array([[TOLD_APART + 7, -1]])).tolist() == [[7, -1]]


@pytest.mark.parametrize("cls", [RolloutIW, IW])
def test_where_nothing_is_earned_the_episode_goes_where_it_was_not(models, cls):
    # A ring of 30 places, with a step to either side: without rewards, one is left behind only
    # by what it showed. A walk by chance would take about 30**2 / 2 steps to come around.
    ring = [[(i - 1) % 30, (i + 1) % 30] for i in range(30)]
    model = models.TableModel(ring, np.zeros((30, 2)))
    planner = cls(8, count_bonus=0.01, features="whole", max_depth=5)
    at, been = 0, set()
    for move in range(40):
        plan = planner.plan(model, model.state(at), rng=move, obs=obs_of(at))
        at = ring[at][plan.action]
        been.add(at)
    assert len(been) == 30


def test_a_reward_decides_before_the_bonus(models):
    # Action 0 stays and pays, action 1 leads to places that were never seen.
    ways = [[0, 1]] + [[min(i + 1, 20)] * 2 for i in range(1, 21)]
    model = models.TableModel(ways, [[1.0, 0.0]] + [[0.0, 0.0]] * 20)
    planner = RolloutIW(40, count_bonus=0.01, features="numbers", max_depth=3, discount=1.0)
    for move in range(10):
        plan = planner.plan(model, model.state(0), rng=move, obs=obs_of(0))
        assert plan.action == 0


def test_a_longer_branch_is_not_worth_more_for_that(models):
    # All places look alike.
    model = models.chain(50, reward=0.0)
    planner = RolloutIW(
        20, count_bonus=1.0, features="whole", counted=lambda obs: (obs[:, :1] > 99).astype(int)
    )
    plan = planner.plan(model, model.state(0), rng=0, obs=obs_of(0))
    assert plan.visits.sum() > 10
    assert plan.value == 0.0


def test_counts_go_on_with_the_episode_and_end_with_it(models):
    model = models.chain(50)

    def value(planner, at=0):
        return planner.plan(model, model.state(at), rng=0, obs=obs_of(at)).value

    planner = RolloutIW(5, count_bonus=1.0, features="whole")
    first = value(planner)
    for at in range(1, 10):
        value(planner, at=at)
    # A place of no tree: the search begins anew, the counts do not.
    value(planner, at=30)
    # What lies ahead was shown as often as this now, not less often.
    assert value(planner) < first
    planner.forget_rows(np.array([0]))
    assert value(planner) == first
    planner.reset()
    assert value(planner) == first


def test_bad_options_are_named():
    with pytest.raises(InvalidOption, match=r"count_bonus must be .*; got -1"):
        RolloutIW(count_bonus=-1)
    with pytest.raises(InvalidOption, match="count_bonus counts over all plans of an episode"):
        RolloutIW(count_bonus=1, keep_tree=False)
    with pytest.raises(UnknownName, match=r"counted must be one of .*; got 'pairs'"):
        IW(count_bonus=1, counted="pairs")
