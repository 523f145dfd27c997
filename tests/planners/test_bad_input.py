"""What cannot work is refused by a message that names the planner, the matter and a way out."""

import numpy as np
import pytest
from gymnasium.spaces import Discrete, Sequence, Text, Tuple

import plangym_ext
from plangym_ext.errors import InvalidAnswer, InvalidObservation, InvalidOption
from plangym_ext.planners import ICEM, PLANNERS, load_planner, options_of
from plangym_ext.planners.continuous.base import Shooting
from plangym_ext.planners.evaluators import from_prior, from_q


def planners_with(option):
    return [
        name
        for name in PLANNERS
        if any(known.name == option for known in options_of(load_planner(name)))
    ]


EVALUATED, FOLLOWING = planners_with("evaluator"), planners_with("rollout_policy")


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize("space", [Text(3), Tuple([Discrete(2), Sequence(Discrete(2))])], ids=str)
def test_a_planner_names_itself_and_the_actions_that_it_plans_over(models, name, space):
    planner = load_planner(name)
    model = models.chain(3)
    model.action_space = space
    with pytest.raises(InvalidOption, match=f"^{planner.__name__}: plans over act") as error:
        planner(4).plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert f"got the action space {space}. Wrap the env" in str(error.value)


BROKEN = {
    "nan": (lambda n: (None, np.full(n, np.nan)), r"value must be .* not finite\. Return \(prior"),
    "shape": (lambda n: (None, np.zeros((n, 2))), r"value must be .* got shape \(\d, 2\)"),
    "values alone": (np.zeros, r"must return \(prior, value\).* got ndarray.*from_value"),
    "texts": (lambda n: (None, ["a"] * n), r"value must be an array of numbers; got list"),
    "complex": (
        lambda n: (None, np.ones(n, complex)),
        r"value must be an array of real numbers; got complex128",
    ),
    "masked": (lambda n: (None, np.ma.masked_all(n)), r"value must be .* got one with a mask"),
    "too large": (lambda n: (None, np.full(n, 1e31)), r"value must be .* beyond 1e30"),
    "prior": (lambda n: (np.ones((n, 9)), np.zeros(n)), r"prior must be \(\d, 1\).* got \(\d, 9\)"),
}


@pytest.mark.parametrize(
    ("name", "broken"),
    # A prior of continuous actions is passed over, whatever it is.
    [
        (name, broken)
        for name in EVALUATED
        for broken in BROKEN
        if broken != "prior" or not issubclass(load_planner(name), Shooting)
    ],
)
def test_a_broken_evaluator_is_named_with_its_planner(models, name, broken):
    answer, message = BROKEN[broken]
    planner = load_planner(name)(2, evaluator=lambda obs: answer(len(obs)))
    model = models.Integrator() if isinstance(planner, Shooting) else models.chain(6)
    called = f"^{type(planner).__name__}: evaluator: "
    with pytest.raises(InvalidAnswer, match=f"{called}{message}"):
        planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_broken_policy_is_named_with_its_planner(models, name):
    planner = load_planner(name)(2, rollout_policy=lambda obs: np.full((len(obs), 1), 0.5))
    model = models.chain(6)
    called = f"^{type(planner).__name__}: rollout_policy: "
    with pytest.raises(InvalidAnswer, match=rf"{called}prior must be probabilities.* got \[0.5\]"):
        planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))


@pytest.mark.parametrize("name", ["mcts", "sts", "open-loop", "graph"])
def test_steps_that_pay_for_nothing_are_named_with_their_planner(models, name):
    planner = load_planner(name)(max_model_steps=3)
    called = f"^{type(planner).__name__}: max_model_steps must be at least"
    with pytest.raises(InvalidOption, match=rf"{called} \d+, .*; got 3\. Raise it"):
        planner.plan(models.chain(6), models.chain(6).state(0), rng=0, obs=np.zeros(1))


@pytest.mark.parametrize("name", ["mcts", "sts", "open-loop", "graph", "rollout-iw", "iw"])
def test_a_full_tree_gives_a_plan_that_says_so(models, name):
    model = models.random_mdp(1, states=400)
    planner = load_planner(name)(200, capacity=8)
    plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert plan.full
    assert plan.budget.expansions <= 7


@pytest.mark.parametrize("reward", [np.nan, 1e31])
@pytest.mark.parametrize("name", ["mcts", "sts", "open-loop", "ments", "spo", "fractal", "graph"])
def test_rewards_that_no_tree_can_hold_are_refused(models, name, reward):
    model = models.TableModel([[1, 2, 3], *([s] * 3 for s in (1, 2, 3))], [[0.0, reward, 1.0]] * 4)
    planner = load_planner(name)(20)
    message = r"rewards must be finite, and no larger than 1e\+30"
    with pytest.raises(InvalidObservation, match=f"^{type(planner).__name__}: {message}"):
        planner.plan(model, model.state(0), rng=0)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mcts", {"keep_tree": "no"}, "keep_tree must be True or False; got 'no'"),
        ("mcts", {"compiled": 1}, "compiled must be True or False; got 1"),
        ("mcts", {"selection": "uct", "root_noise": 0.1}, "root_noise must be 0 with selection"),
        ("mcts", {"chance": True, "chance_width": 1e300}, "chance_width"),
        ("mcts", {"selection": "gumbel", "c_visit": 1e300}, "c_visit"),
        ("mcts", {"num_rollouts": 5, "rollout_depth": 0}, "rollout_depth must be 1 or more"),
        ("mcts", {"keep_rollouts": True, "rollout_depth": 0}, "must be 1 or more with keep_roll"),
        ("mcts", {"keep_rollouts": True, "evaluator": np.ones}, "must be 1 or more with keep_roll"),
        ("sts", {"rollout_policy": np.ones, "rollout_depth": 0}, "rollout_depth must be 1 or more"),
    ],
)
def test_options_that_would_do_nothing_are_refused(name, options, message):
    with pytest.raises(InvalidOption, match=message):
        load_planner(name)(8, **options)


def test_a_rollout_policy_is_asked_beside_an_evaluator(models):
    model, asked = models.chain(30), []

    def policy(obs):
        asked.append(len(obs))
        return np.ones((len(obs), 1))

    planner = load_planner("mcts")(8, evaluator=lambda obs: (None, np.zeros(len(obs))))
    assert planner.rollout_depth == 0
    planner = load_planner("mcts")(8, evaluator=planner.evaluator, rollout_policy=policy)
    planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert planner.rollout_depth > 0
    assert asked


@pytest.mark.parametrize("name", ["mcts", "ments"])
def test_steps_that_are_used_up_are_no_lack_of_room(models, name):
    model = models.chain(200)
    planner = load_planner(name)(1000, max_model_steps=20, rollout_depth=0)
    plan = planner.plan(model, model.state(0), rng=0)
    assert plan.budget.model_steps == 20
    assert not plan.full
    assert (
        load_planner(name)(1000, capacity=10, rollout_depth=0)
        .plan(model, model.state(0), rng=0)
        .full
    )


def complex_ones(shape):
    return np.ones(shape, complex)


NO_REALS = {"complex": complex_ones, "masked": np.ma.masked_all}


@pytest.mark.parametrize("kind", NO_REALS)
@pytest.mark.parametrize("name", FOLLOWING)
def test_a_policy_of_other_numbers_is_refused(models, name, kind):
    planner = load_planner(name)(2, rollout_policy=lambda obs: NO_REALS[kind]((len(obs), 1)))
    model = models.chain(6)
    with pytest.raises(
        InvalidAnswer, match=r"must be an array of .*numbers; got (complex|one with)"
    ):
        planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))


@pytest.mark.parametrize("kind", NO_REALS)
@pytest.mark.parametrize("name", planners_with("heuristic"))
def test_a_heuristic_of_other_numbers_is_refused(models, name, kind):
    planner = load_planner(name)(2, heuristic=lambda obs: NO_REALS[kind](len(obs)))
    model = models.chain(6)
    with pytest.raises(InvalidAnswer, match=r"heuristic: .* got (complex|one with)"):
        planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))


@pytest.mark.parametrize("kind", NO_REALS)
def test_a_policy_of_sequences_returns_no_other_numbers(kind):
    with plangym_ext.make("Pendulum-v1") as env:
        state, obs, _ = env.reset(seed=0)
        planner = ICEM(8, horizon=3, policy=lambda obs: NO_REALS[kind]((len(obs), 1)))
        with pytest.raises(InvalidAnswer, match=r"policy: must return .* masks"):
            planner.plan(env, state, rng=0, obs=obs)


@pytest.mark.parametrize("answer", [None, "text", [[1.0], [0.5, 0.5]]])
def test_what_is_no_array_of_numbers_is_refused(answer):
    for evaluator in (from_prior(lambda obs: answer), from_q(lambda obs: answer)):
        with pytest.raises(InvalidAnswer, match=r"from_(prior|q): "):
            evaluator(np.zeros((2, 1)))
