"""The planners for continuous actions."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Text

import plangym_ext
from plangym_ext.errors import InvalidOption, UnknownName
from plangym_ext.planners import (
    CEM,
    DIAL,
    ICEM,
    MPPI,
    PredictiveSampling,
    RandomShooting,
    play,
)
from plangym_ext.planners.continuous.base import Population, Row
from plangym_ext.planners.continuous.shooting import coloured_noise, fit, top
from plangym_ext.planners.masks import box_actions
from plangym_ext.planners.request import PlanRequest

ALL = [RandomShooting, PredictiveSampling, CEM, ICEM, MPPI, DIAL]


def same(plan, other):
    assert plan.actions.tobytes() == other.actions.tobytes()
    assert plan.value == other.value
    assert plan.budget.model_steps == other.budget.model_steps


# How far 2,000 sequences stay from the best return, by planner. Of uniform sequences of
# four actions about nine come within 0.2 (an ellipsoid's volume); the others close in.
@pytest.mark.parametrize(
    ("cls", "options", "regret"),
    [
        (RandomShooting, {}, 0.2),
        (PredictiveSampling, {"iterations": 20, "noise_std": 0.1}, 0.005),
        (CEM, {"iterations": 10}, 1e-4),
        (ICEM, {"iterations": 10, "noise_beta": 0.0}, 1e-4),
        (MPPI, {"iterations": 10, "noise_std": 0.2, "temperature": 0.02}, 0.01),
        (DIAL, {"iterations": 10, "beta_rounds": 0.3, "temperature": 0.02}, 0.003),
    ],
)
def test_the_optimum_of_a_linear_quadratic_problem_is_found(models, cls, options, regret):
    model = models.Integrator()
    planner = cls(2000, horizon=4, discount=1.0, **options)
    _, best = model.optimum(0.6, 4)
    for seed in range(3):
        planner.reset()
        plan = planner.plan(model, model.state(0.6), rng=seed)
        x = 0.6 + np.cumsum(plan.actions[:, 0])
        found = -float((x**2).sum() + 0.5 * (plan.actions**2).sum())
        assert best - regret <= found <= best + 1e-12
        assert plan.action == plan.actions[0]
        assert plan.value <= best + 1e-12


@pytest.mark.parametrize("cls", ALL)
def test_rows_planned_together_equal_rows_planned_alone(models, cls):
    model = models.Integrator()
    states = np.stack([model.state(x) for x in (0.3, -0.8, 0.3)])
    together, alone = cls(40, horizon=6), [cls(40, horizon=6) for _ in states]
    for move in range(2):  # the second from the first one's warm start
        rngs = [np.random.default_rng([move, i]) for i in range(3)]
        plans = together.plan_batch(model, states, rngs=rngs)
        for i, plan in enumerate(plans):
            same(plan, alone[i].plan(model, states[i], rng=np.random.default_rng([move, i])))
    assert plans[0].actions.tobytes() != plans[2].actions.tobytes()
    # Two rows go on without the one between them.
    together.keep_rows(np.array([0, 2]))
    rngs = [np.random.default_rng([9, i]) for i in (0, 2)]
    for i, plan in zip((0, 2), together.plan_batch(model, states[[0, 2]], rngs=rngs), strict=True):
        same(plan, alone[i].plan(model, states[i], rng=np.random.default_rng([9, i])))


@pytest.mark.parametrize("cls", ALL)
def test_a_forgotten_row_begins_cold_and_the_others_go_on(models, cls):
    model, planner = models.Integrator(), cls(40, horizon=6)
    alone = [cls(40, horizon=6) for _ in range(3)]
    states = np.stack([model.state(x) for x in (0.3, -0.8, 0.6)])
    for move in range(3):
        rngs = [np.random.default_rng([move, i]) for i in range(3)]
        plans = planner.plan_batch(model, states, rngs=rngs)
        for i, plan in enumerate(plans):
            same(plan, alone[i].plan(model, states[i], rng=np.random.default_rng([move, i])))
        planner.forget_rows(np.array([1]))
        alone[1].reset()


@pytest.mark.parametrize("cls", ALL)
def test_a_reset_planner_repeats_itself(models, cls):
    model, planner = models.Integrator(), cls(30, horizon=5)
    first = planner.plan(model, model.state(0.5), rng=1)
    planner.reset()
    same(planner.plan(model, model.state(0.5), rng=1), first)
    other = cls(30, horizon=5).plan(model, model.state(0.5), rng=2)
    assert other.actions.tobytes() != first.actions.tobytes()


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("most", [5, 57, 200])
def test_steps_are_counted_and_never_exceeded(models, cls, most):
    model = models.Integrator()
    plan = cls(max_model_steps=most, horizon=5).plan(model, model.state(0.5), rng=0)
    assert plan.budget.model_steps == model.model_steps
    assert most - 5 < model.model_steps <= most
    assert plan.budget.restores == sum(model.calls) == model.model_steps // 5
    model = models.Integrator()
    cls(13, horizon=5, max_model_steps=1000).plan(model, model.state(0.5), rng=0)
    assert sum(model.calls) == 13
    # No time at all is one round.
    model = models.Integrator()
    cls(horizon=5, max_seconds=1e-9).plan(model, model.state(0.5), rng=0)
    assert len(model.calls) == 1


def test_warm_starts_are_the_last_plan_shifted(models):
    model = models.Integrator()
    planner = PredictiveSampling(1, horizon=3, noise_std=0.3)
    # One sequence is the nominal one: the middle of the space.
    assert (planner.plan(model, model.state(0.5), rng=0).actions == 0).all()
    planner = PredictiveSampling(200, horizon=3, noise_std=0.3)
    first = planner.plan(model, model.state(0.5), rng=0)
    planner.noise_std = 0.0
    second = planner.plan(model, model.state(0.5), rng=0)
    np.testing.assert_array_equal(second.actions[:, 0], first.actions[[1, 2, 2], 0])
    planner.warm_start = False
    third = planner.plan(model, model.state(0.5), rng=0)
    np.testing.assert_array_equal(third.actions[:, 0], first.actions[[2, 2, 2], 0])
    assert (planner.plan(model, model.state(0.5), rng=0).actions == 0).all()


def test_actions_are_held_or_joined_as_asked(models):
    model = models.Integrator()
    held = RandomShooting(3, horizon=6, action_repeat=2).plan(model, model.state(0.5), rng=0)
    np.testing.assert_array_equal(held.actions[::2], held.actions[1::2])
    joined = RandomShooting(3, horizon=5, num_knots=2).plan(model, model.state(0.5), rng=0)
    steps = np.diff(joined.actions[:, 0])
    np.testing.assert_allclose(steps, steps[0])


@pytest.mark.parametrize(("repeat", "runs"), [(4, [4] * 7 + [2]), (20, [20, 10]), (1, [1] * 30)])
def test_actions_are_repeated_as_often_as_asked(models, repeat, runs):
    model = models.Integrator()
    planner = RandomShooting(3, horizon=30, action_repeat=repeat)
    actions = planner.plan(model, model.state(0.5), rng=0).actions[:, 0]
    changes = np.flatnonzero(np.diff(actions)) + 1
    np.testing.assert_array_equal(np.diff([0, *changes, 30]), runs)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("sims", [1, 2, 3, 50])
def test_the_value_is_the_return_of_what_is_played(models, cls, sims):
    model, planner = models.Integrator(), cls(sims, horizon=5, discount=1.0)
    for move in range(2):
        plan = planner.plan(model, model.state(0.6), rng=move)
        x = 0.6 + np.cumsum(plan.actions[:, 0])
        assert plan.value == pytest.approx(-float((x**2 + 0.5 * plan.actions[:, 0] ** 2).sum()))
        assert plan.budget.restores == sims


class Rounds:
    """A clock that lets so many rounds pass: what real time would be does not repeat itself."""

    limited, seconds = True, 0.0

    def __init__(self, count):
        self.left = count

    @property
    def over(self):
        self.left -= 1
        return self.left <= 0


@pytest.mark.parametrize("cls", [CEM, ICEM])
def test_with_time_left_the_distribution_opens_again(models, cls):
    model = models.Integrator()
    planner = cls(horizon=4, max_seconds=1.0)
    states, rngs = model.state(0.6)[None], [np.random.default_rng(0)]
    request = PlanRequest("cem", model, states, rngs, None, None, Rounds(60))
    (plan,) = planner._plan_batch(request)
    spread = np.array([tried.std(axis=0).mean() for tried in model.tried])
    assert len(spread) == 60
    rounds = len(planner._counts(128))
    cycle = rounds + (not cls.plays_tried)
    # The first round of every cycle draws as widely as the very first, the others closer.
    assert (spread[::cycle] > 0.6 * spread[0]).all()
    assert (spread[rounds - 1 :: cycle] < 0.75 * spread[0]).all()
    x = 0.6 + np.cumsum(plan.actions[:, 0])
    gammas = 0.99 ** np.arange(4)
    found = -float((gammas * (x**2 + 0.5 * plan.actions[:, 0] ** 2)).sum())
    assert plan.value == pytest.approx(found)


def test_cem_has_two_sequences_a_round_at_least_and_needs_two_for_a_width():
    assert CEM(iterations=4)._counts(8) == [2, 2, 2, 2]
    assert CEM(iterations=4)._counts(5) == [3, 2]
    assert CEM(iterations=4)._counts(1) == [1]
    row = Row(None, np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, 1)))
    fit(row, Population(np.full((1, 1, 1), 2.0), np.zeros(1)), 0.25)
    assert (row.mean[0, 0], row.std[0, 0]) == (1.5, 1.0)


def test_cem_fits_its_elites_by_hand():
    row = Row(None, np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, 1)))
    tried = Population(np.array([1.0, 2, 3, 4])[:, None, None], np.array([0.0, 5, 1, 5]))
    elites = top(tried, 2)
    assert list(elites.knots.ravel()) == [2, 4]
    fit(row, elites, 0.25)
    # 0.25 * 0 + 0.75 * 3, and 0.25 * 1 + 0.75 * 1.
    assert (row.mean[0, 0], row.std[0, 0]) == (2.25, 1.0)


@pytest.mark.parametrize(("share", "mean"), [(0.0, 3.0), (0.5, 3.0), (0.75, 3.0), (1.0, 2.5)])
def test_cem_fits_the_share_of_elites_that_is_asked_for(share, mean):
    row = Row(None, np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, 1)))
    tried = Population(np.array([1.0, 2, 3, 4])[:, None, None], np.array([0.0, 5, 1, 5]))
    CEM(elite_fraction=share, momentum=0.0)._learn(row, tried)
    # The two, two, three and four best.
    assert (row.mean[0, 0], row.std[0, 0]) == (mean, np.std([2, 4, 3, 1][: max(2, int(4 * share))]))


class Nothing:
    """Pays nothing, whatever is done: to be mixed into a model."""

    def rollout_batch(self, actions, states):
        out = super().rollout_batch(actions, states)
        return out._replace(rewards=np.zeros_like(out.rewards))


@pytest.mark.parametrize("cls", [CEM, ICEM])
def test_rounds_in_which_all_return_the_same_narrow_nothing(models, cls):
    class Flat(Nothing, models.Integrator):
        pass

    planner = cls(400, horizon=6, iterations=8)
    for model, narrows in ((Flat(), False), (models.Integrator(), True)):
        for move in range(2):
            planner.plan(model, model.state(0.0), rng=move)
            # Without the mean, which is tried by itself, or is the last of iCEM's.
            rounds = [actions[:-1].std() for actions in model.tried if len(actions) > 1]
            first, last = rounds[0], rounds[-1]
            assert (last < 0.7 * first) == narrows
        planner.reset()


def test_dial_draws_less_widely_in_later_rounds_and_for_sooner_actions(models):
    model, seen = models.Integrator(), []

    class Noted(DIAL):
        def _propose(self, row, turn):
            seen.append(row.std.copy())
            return super()._propose(row, turn)

    planner = Noted(40, horizon=4, iterations=2, noise_std=0.5, beta_rounds=0.5, beta_horizon=2.0)
    planner.plan(model, model.state(0.6), rng=0)
    knots = 0.5 * np.exp(-np.array([3, 2, 1, 0]) / (2.0 * 4))[:, None]
    assert [std.shape for std in seen] == [(4, 1)] * 2
    assert np.allclose(seen[0], knots)
    assert np.allclose(seen[1], knots * np.exp(-1 / (0.5 * 2)))
    planner.plan(model, model.state(0.6), rng=0)
    assert np.allclose(seen[2], knots), "each plan begins with the full width"


def test_mppi_weighs_by_the_exponential_of_returns():
    row = Row(None, np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, 1)))
    tried = Population(np.array([0.0, 1.0])[:, None, None], np.array([1.0, 1 + np.log(3)]))
    MPPI(temperature=1, scale_returns=False)._learn(row, tried)
    # Weights 1 / 4 and 3 / 4.
    assert row.mean[0, 0] == pytest.approx(0.75)
    # Scaled, returns 1 and 3 (spread 1) at temperature 2 / log(3) weigh the same.
    tried = tried._replace(returns=np.array([1.0, 3.0]))
    MPPI(temperature=2 / np.log(3))._learn(row, tried)
    assert row.mean[0, 0] == pytest.approx(0.75)
    MPPI()._learn(row, tried._replace(returns=np.zeros(2)))
    assert row.mean[0, 0] == 0.5
    # Nor does what only rounding tells apart.
    MPPI()._learn(row, tried._replace(returns=np.array([0.3, 0.1 + 0.2])))
    assert row.mean[0, 0] == 0.5


@pytest.mark.parametrize("length", [30, 31])
def test_coloured_noise_has_variance_one_and_its_colour(length):
    def lag_one(beta):
        noise = coloured_noise(np.random.default_rng(0), (4000, length, 2), beta)
        # 8,000 series: the mean square is within 4 % even if all of one series agree.
        assert abs((noise**2).mean() - 1) < 0.06
        return (noise[:, 1:] * noise[:, :-1]).mean()

    white, pink, red = lag_one(0.0), lag_one(1.0), lag_one(2.0)
    # Of white noise: 232,000 products of standard deviation 1, so within 0.01.
    assert abs(white) < 0.01
    assert white < 0.3 < pink < 0.8 < red
    assert coloured_noise(np.random.default_rng(0), (3, 1, 2), 2.0).shape == (3, 1, 2)


def test_icem_shrinks_its_rounds_and_spends_exactly_what_it_may():
    counts = ICEM(100, num_elites=5, decay=2.0)._counts(100)
    # Shares 4 : 2 : 1 of 100, with the remainder in the first.
    assert counts == [58, 28, 14]
    assert ICEM(num_elites=10)._counts(25) == [25]
    for total in range(1, 200):
        assert sum(ICEM()._counts(total)) == total


def test_icem_goes_on_from_its_mean_and_its_elites(models):
    model = models.Integrator()
    planner = ICEM(60, horizon=4, num_elites=4, keep_fraction=0.5)
    planner.plan(model, model.state(0.6), rng=0)
    mean, elites = planner._kept.rows[0].mean, planner._kept.rows[0].elites.knots
    assert not np.array_equal(mean, planner._kept.rows[0].best)
    planner.init_std = 0.0
    planner.plan(model, model.state(0.5), rng=1)
    first_round = model.tried[3]
    # All are drawn around the last mean, a step later, its end held; two of the elites
    # are tried again, and what comes after their end is drawn as well.
    expected = np.repeat(mean[None, [1, 2, 3, 3]], len(first_round), axis=0)
    expected[:2, :3] = elites[:2, 1:]
    np.testing.assert_allclose(first_round, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sims", [20, 60])
def test_icem_tries_its_mean_in_the_last_round(models, sims):
    # 20 sequences are one round of twice 10 elites, 60 are three rounds.
    model = models.Integrator()
    planner = ICEM(sims, horizon=4, momentum=1.0)
    planner.plan(model, model.state(0.6), rng=0)
    assert len(model.calls) == sims // 20
    # It does not move, for all that is learned; noise never draws it.
    still = [(tried == 0).all(axis=(1, 2)).sum() for tried in model.tried]
    assert still == [0] * (sims // 20 - 1) + [1]


def test_actions_reach_the_bounds_of_the_space_and_never_cross_them():
    space = Box(np.float32([-0.1, 1]), np.float32([0.3, 7]))
    box = box_actions(space, "test")
    actions = box.actions(np.array([[[-1.0, 1], [0, 0], [3, -9]]]))
    assert actions.dtype == np.float32
    np.testing.assert_array_equal(actions[0, [0, 2]], np.float32([[-0.1, 7], [0.3, 1]]))
    np.testing.assert_allclose(actions[0, 1], [0.1, 4], rtol=1e-6)
    many = np.random.default_rng(0).uniform(-1, 1, (1, 9999, 2))
    assert all(space.contains(action) for action in box.actions(many)[0])


def test_bad_options_and_spaces_are_named(models):
    with pytest.raises(UnknownName, match=r"CEM: spline .* got 'cubik'.*did you mean 'cubic'"):
        CEM(spline="cubik")
    with pytest.raises(InvalidOption, match=r"num_knots must be at most the horizon, 5; got 6"):
        MPPI(horizon=5, num_knots=6)
    with pytest.raises(InvalidOption, match=r"action_repeat and num_knots .* got 2 and 3"):
        MPPI(action_repeat=2, num_knots=3)
    with pytest.raises(InvalidOption, match=r"pay for one sequence of 30 steps; got 29"):
        ICEM(max_model_steps=29)
    model = models.Integrator()
    model.action_space = Text(2)
    with pytest.raises(ValueError, match=r"MPPI: plans over .* Box parts; got .* Text\("):
        MPPI().plan(model, model.state(0), rng=0)
    model.action_space = Box(-np.inf, 1, (1,))
    with pytest.raises(ValueError, match=r"must be finite; got Box"):
        MPPI().plan(model, model.state(0), rng=0)
    model = models.Integrator()
    with pytest.raises(ValueError, match=r"CEM: returns must be finite, .* got \[nan"):
        CEM().plan(model, model.state(np.nan), rng=0)


@pytest.mark.slow
@pytest.mark.parametrize("cls", ALL)
def test_pendulum_is_brought_up(cls):
    # 70 steps, the first third of an episode; 24 sequences of 20 steps a move.
    with plangym_ext.make("Pendulum-v1") as env:
        planner = cls(24, horizon=20, num_knots=5)
        found = [play(env, planner, seed=seed, max_steps=70).return_ for seed in range(2)]
        rng = np.random.default_rng(0)
        chance = []
        for seed in range(2):
            env.reset(seed=seed)
            actions = rng.uniform(-2, 2, (70, 1)).astype(np.float32)
            chance.append(sum(env.step(action).reward for action in actions))
    assert np.mean(found) > np.mean(chance) + 150


@pytest.mark.parametrize(
    ("total", "options"),
    [
        (32, {"iterations": 8, "num_elites": 2, "decay": 2.0}),
        (36, {"iterations": 9, "num_elites": 2, "decay": 1.5}),
        (160, {"iterations": 8, "decay": 1.5}),
        (128, {"iterations": 6}),
    ],
)
def test_rounds_of_icem_never_grow_and_have_enough_for_their_elites(total, options):
    planner = ICEM(**options)
    counts = planner._counts(total)
    assert sum(counts) == total
    assert min(counts) >= min(total // len(counts), 2 * planner.num_elites)
    assert counts == sorted(counts, reverse=True)
