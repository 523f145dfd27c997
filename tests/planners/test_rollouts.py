from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.planners.rating import EvaluatorRater, Leaves, ZeroRater
from plangym_ext.planners.rollouts.playouts import discounted_sums, draw
from plangym_ext.planners.rollouts.rater import RolloutRater


def leaves_of(model, indices, rows=None, truncated=None):
    count = len(indices)
    return Leaves(
        rows=np.zeros(count, int) if rows is None else np.asarray(rows),
        states=np.stack([model.state(i) for i in indices]),
        obs=np.asarray(indices, np.float32)[:, None],
        truncated=np.zeros(count, bool) if truncated is None else np.asarray(truncated, bool),
    )


def rngs(count, seed=0):
    return [np.random.default_rng([seed, i]) for i in range(count)]


@pytest.mark.parametrize("run", [discounted_sums, discounted_sums.py_func], ids=["jit", "python"])
def test_discounted_sums_by_hand(run):
    out = np.empty(3)
    run(np.array([[1.0, 2, 4], [0, 0, 8], [3, 0, 0]]), 0.5, out)
    np.testing.assert_array_equal(out, [1 + 1 + 1, 2, 3])


def test_a_rollout_is_discounted_and_stops_at_an_ending(models):
    model = models.chain(5, terminated=[4])
    rating = RolloutRater(depth=3, num_rollouts=1, discount=0.5).rate(
        model, leaves_of(model, [0, 2, 3]), rngs(1)
    )
    np.testing.assert_array_equal(rating.value, [1.75, 1.5, 1.0])
    np.testing.assert_array_equal(rating.model_steps, [3, 2, 1])
    np.testing.assert_array_equal(rating.restores, [1, 1, 1])
    assert rating.prior is None


def test_the_evaluator_values_what_follows_unless_it_is_terminal(models):
    # gamma = 0.5, V = 8. From 0: three steps, 1.75 + V / 8. From 2: ends after two,
    # terminated. From 5: cut after one, 1 + V / 2. Leaf 6 is itself cut: V.
    model = models.chain(8, terminated=[4], truncated=[6])
    evaluator = lambda obs: (None, np.full(len(obs), 8.0))  # noqa: E731
    rater = RolloutRater(3, 2, 0.5, evaluator)
    rating = rater.rate(model, leaves_of(model, [0, 2, 5, 6], truncated=[0, 0, 0, 1]), rngs(1))
    np.testing.assert_array_equal(rating.value, [2.75, 1.5, 5.0, 8.0])
    np.testing.assert_array_equal(rating.evaluator_rows, [3, 3, 3, 1])
    np.testing.assert_array_equal(rating.restores, [2, 2, 2, 0])


def test_a_truncated_leaf_is_worth_nothing_without_an_evaluator(models):
    model = models.chain(3, truncated=[1])
    rating = RolloutRater(3, 2, 0.5).rate(model, leaves_of(model, [1], truncated=[1]), rngs(1))
    assert rating.value == [0.0]
    assert model.rollout_rows == 0


def test_rollouts_of_a_leaf_are_averaged(models):
    model = models.bandit([0.0, 1.0])
    rating = RolloutRater(4, 64, 0.5).rate(model, leaves_of(model, [0, 0]), rngs(1))
    np.testing.assert_array_equal(rating.model_steps, [64, 64])
    # 64 fair coins each: within 4 standard deviations of a half.
    assert (abs(rating.value - 0.5) < 4 * 0.5 / 8).all()
    assert rating.value[0] != rating.value[1]


def test_a_tree_draws_from_its_own_generator(models):
    model = models.random_mdp(0)
    rater = RolloutRater(6, 3, 0.9)
    both = rater.rate(model, leaves_of(model, [1, 2, 3], rows=[0, 0, 2]), rngs(3))
    first = rater.rate(model, leaves_of(model, [1, 2]), rngs(1))
    last = rater.rate(model, leaves_of(model, [3], rows=[2]), rngs(3))
    np.testing.assert_array_equal(both.value, [*first.value, *last.value])


def test_the_other_raters_step_nothing(models):
    model = models.random_mdp(0)
    leaves = leaves_of(model, [1, 2])
    assert list(ZeroRater().rate(model, leaves, rngs(1)).value) == [0, 0]
    rating = EvaluatorRater(lambda obs: (None, obs[:, 0]), 3).rate(model, leaves, rngs(1))
    assert list(rating.value) == [1, 2]
    assert list(rating.evaluator_rows) == [1, 1]
    assert model.model_steps == 0


def test_a_policy_is_followed_step_by_step(models):
    # Right is action 1: the policy that knows it earns the end of the path.
    model = models.narrow_path(3)
    right = lambda obs: np.tile([0.0, 1.0, 0.0], (len(obs), 1))  # noqa: E731
    rating = RolloutRater(5, 2, 0.5, policy=right).rate(model, leaves_of(model, [0, 2]), rngs(1))
    np.testing.assert_array_equal(rating.value, [0.25, 1.0])
    np.testing.assert_array_equal(rating.model_steps, [6, 2])
    np.testing.assert_array_equal(rating.restores, [6, 2])
    np.testing.assert_array_equal(rating.evaluator_rows, [6, 2])
    with pytest.raises(ValueError, match="probabilities"):
        RolloutRater(5, 2, 0.5, policy=lambda obs: np.ones((len(obs), 3))).rate(
            model, leaves_of(model, [0]), rngs(1)
        )


def test_a_policy_draws_each_plan_from_its_own_generator(models):
    model = models.random_mdp(0)
    even = lambda obs: np.full((len(obs), 3), 1 / 3)  # noqa: E731
    rater = RolloutRater(6, 3, 0.9, policy=even)
    both = rater.rate(model, leaves_of(model, [1, 2, 3], rows=[0, 0, 2]), rngs(3))
    first = rater.rate(model, leaves_of(model, [1, 2]), rngs(1))
    last = rater.rate(model, leaves_of(model, [3], rows=[2]), rngs(3))
    np.testing.assert_array_equal(both.value, [*first.value, *last.value])


def test_draws_follow_the_weights():
    weights = np.tile([0.0, 0.25, 0.75, 0.0], (4000, 1))
    drawn = np.bincount(draw(weights, np.zeros(4000, int), rngs(1)), minlength=4)
    assert drawn[0] == drawn[3] == 0
    # 4 standard deviations of a binomial: 4 * sqrt(4000 * 3 / 16).
    assert abs(drawn[1] - 1000) < 110
