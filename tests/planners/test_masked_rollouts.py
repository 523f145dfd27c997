"""Random playouts play what the env allows."""

from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext.planners import (
    MCTS,
    SPO,
    STS,
    TSMCTS,
    BanditShooting,
    DiscreteShooting,
    GraphSearch,
    OpenLoopMCTS,
)
from plangym_ext.planners.rollouts.playouts import Starts, legal_action, play_out

NUM_STATES = 32


@pytest.fixture
def masked(models):
    """A model that refuses what its masks forbid, and the masks `[32, 3]`."""
    mask = np.random.default_rng(0).random((40, 3)) < 0.5
    mask[np.arange(40), np.random.default_rng(1).integers(3, size=40)] = True

    class Masked(models.TableModel):  # nothing ends in it
        def _advance(self, index, action):
            assert mask[index, action], f"played {action} in {index}"
            return super()._advance(index, action)

        def _batch(self, index, reward):
            infos = {"action_mask": mask[index].astype(np.int8)}
            return super()._batch(index, reward)._replace(infos=infos)

        def rollout_batch(self, actions, states):
            out = super().rollout_batch(actions, states)
            return out._replace(infos={"action_mask": mask[self.index(out.states)]})

    plain = models.random_mdp(5)
    return Masked(plain.successor % NUM_STATES, plain.reward), mask


@pytest.mark.parametrize("run", [legal_action, legal_action.py_func], ids=["jit", "python"])
def test_a_number_stands_for_a_legal_action(run):
    legal = np.array([False, True, False, True, True])
    # Thirds of [0, 1): actions 1, 3 and 4.
    assert [run(x, legal) for x in (0.0, 0.33, 0.34, 0.66, 0.67, 0.99)] == [1, 1, 3, 3, 4, 4]
    assert run(0.5, np.zeros(3, bool)) == -1


class Heeds:
    """An evaluator that is told the masks of all that it rates."""

    heeds_masks = True

    def __init__(self, mask):
        self.mask, self.rows = mask, 0

    def __call__(self, obs, legal=None):
        allowed = self.mask[obs[:, 0].astype(int)]
        # None: all that it is asked about allow everything.
        np.testing.assert_array_equal(np.ones_like(allowed) if legal is None else legal, allowed)
        self.rows += len(obs)
        return None, np.zeros(len(obs))


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (MCTS, {"rollout_depth": 6, "num_rollouts": 2}),
        (STS, {"rollout_depth": 4, "num_expansions": 2}),
        (BanditShooting, {"rollout_depth": 6}),
        (DiscreteShooting, {"rollout_depth": 6}),
        (GraphSearch, {"rollout_depth": 4}),
        (OpenLoopMCTS, {"rollout_depth": 6}),
        (SPO, {"depth": 6}),
        (TSMCTS, {"depth": 6}),
    ],
)
def test_evaluators_are_told_the_masks_wherever_they_are_asked(masked, cls, options):
    model, mask = masked
    root = int(np.argmax(mask[:NUM_STATES].sum(axis=1)))
    evaluator = Heeds(mask)
    planner = cls(12, evaluator=evaluator, **options)
    obs = np.float32([root])
    plan = planner.plan(model, model.state(root), rng=0, obs=obs, legal=mask[root])
    assert mask[root, plan.action]
    assert evaluator.rows >= 12


@pytest.mark.parametrize(
    "planner",
    [
        MCTS(40, rollout_depth=6, num_rollouts=2),
        MCTS(40, rollout_depth=6, selection="uct"),
        STS(12, rollout_depth=4, num_expansions=2),
        BanditShooting(30, rollout_depth=6),
        DiscreteShooting(30, rollout_depth=6),
        GraphSearch(6, rollout_depth=4),
        OpenLoopMCTS(1, rollout_depth=6),
    ],
    ids=["puct", "uct", "sts", "bandit", "shooting", "graph", "open-loop"],
)
def test_rollouts_play_nothing_that_is_forbidden(masked, planner):
    model, mask = masked
    root = int(np.argmax(mask[:NUM_STATES].sum(axis=1)))
    plan = planner.plan(model, model.state(root), rng=0, legal=mask[root])
    assert mask[root, plan.action]
    assert plan.budget.model_steps == model.model_steps > 5


def test_playouts_draw_all_legal_actions_alike(masked):
    model, mask = masked
    n, root = 3000, int(np.flatnonzero(mask[:NUM_STATES].sum(axis=1) == 2)[0])
    states = np.repeat(model.state(root)[None], n, axis=0)
    starts = Starts(np.zeros(n, int), states, None, legal=np.repeat(mask[root][None], n, axis=0))
    out = play_out(model, starts, 2, [np.random.default_rng(0)], None)
    drawn = np.bincount(out.first, minlength=3)
    assert (drawn[~mask[root]] == 0).all()
    # Two actions, half each: 4 standard deviations.
    assert abs(drawn[mask[root]] - n / 2).max() < 4 * np.sqrt(n / 4)
    assert (out.steps == 2).all()


def test_a_playout_ends_where_nothing_is_allowed(masked):
    model, _ = masked
    starts = Starts(
        np.zeros(2, int),
        np.stack([model.state(0), model.state(1)]),
        None,
        legal=np.array([[False] * 3, [True] * 3]),
    )
    model._advance = lambda index, action: (index, 1.0)
    out = play_out(model, starts, 1, [np.random.default_rng(0)], None)
    assert out.steps.tolist() == [0, 1]
    assert out.rewards.tolist() == [[0.0], [1.0]]


def test_a_taxi_is_never_asked_for_what_it_cannot_do():
    # Its masks are those moves that change something.
    with plangym_ext.make("Taxi-v4", backend="serial") as env:
        state, _, info = env.reset(seed=0)
        played = []
        step_batch = env.step_batch

        def watched(actions, states):
            played.append((actions, states))
            return step_batch(actions, states=states)

        env.step_batch = watched
        MCTS(8, rollout_depth=4, compiled=False).plan(env, state, rng=0, legal=info["action_mask"])
        for actions, states in played:
            for action, row in zip(actions, states, strict=True):
                env.set_state(row)
                square = env.gym_env.unwrapped.s
                assert env.gym_env.unwrapped.action_mask(square)[action] == 1


@pytest.mark.parametrize("planner", [BanditShooting(30), DiscreteShooting(30)], ids=str)
def test_masks_of_later_states_are_heeded_where_all_is_allowed_at_first(masked, planner):
    model, mask = masked
    mask[0] = True
    model.tells_masks = True
    wanted = planner.plan(model, model.state(0), rng=0, legal=np.ones(3, bool))
    plan = planner.plan(model, model.state(0), rng=0)
    np.testing.assert_array_equal(plan.q, wanted.q)


@pytest.mark.parametrize("options", [{}, {"backend": "serial"}, {"n_workers": 1}], ids=str)
def test_envs_say_whether_they_tell_masks(options):
    for name, tells in (("Taxi-v4", True), ("CartPole-v1", False)):
        with plangym_ext.make(name, **options) as env:
            assert env.tells_masks is tells


class Masks(dict):
    """Infos of a batch: a column by its name, a row by its number."""

    def __getitem__(self, key):
        return (
            super().__getitem__(key)
            if isinstance(key, str)
            else {k: v[key] for k, v in self.items()}
        )


@pytest.mark.parametrize("wave", [1, 2])
def test_a_leaf_that_allows_nothing_is_worth_what_the_evaluator_says_of_it(models, wave):
    model = models.TableModel([[1, 2], [1, 1], [3, 3], [3, 3]], np.zeros((4, 2)))
    mask = np.array([[1, 1], [0, 0], [1, 1], [1, 1]], np.int8)
    batch, model.tells_masks = model._batch, True
    model._batch = lambda index, reward: batch(index, reward)._replace(
        infos=Masks({"action_mask": mask[index]})
    )

    def evaluate(obs):
        return None, 10.0 + obs[:, 0]

    states = np.stack([model.state(0), model.state(2)])
    seen, allowed = np.array([[0.0], [2.0]], np.float32), np.ones((2, 2), bool)
    for rows in (1, 2):
        planner = MCTS(2, rollout_depth=1, evaluator=evaluate, discount=1.0, wave_size=wave)
        rngs = [np.random.default_rng(i) for i in range(rows)]
        plans = planner.plan_batch(
            model, states[:rows], rngs=rngs, obs=seen[:rows], legal=allowed[:rows]
        )
        assert plans[0].q.tolist() == [11.0, 13.0]
