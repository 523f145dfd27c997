"""What expert iteration learns: the teacher's choice, what it says states are worth, and again."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium import spaces  # noqa: E402

from plangym_ext import make, make_vec  # noqa: E402
from plangym_ext.errors import (  # noqa: E402
    ForeignNetwork,
    IncompleteState,
    InvalidOption,
    InvalidSamples,
    LossNotFinite,
)
from plangym_ext.learn import (  # noqa: E402
    ActorCriticAgent,
    AgentConfig,
    ExpertConfig,
    ExpertIteration,
    ExpertSampler,
    NetworkEvaluator,
    PlannerAgent,
    RowNoise,
    SerialSampler,
    make_agent_network,
)
from plangym_ext.learn.networks.quick_forward import OfObservations  # noqa: E402
from plangym_ext.learn.sampling.collected import Collected  # noqa: E402
from plangym_ext.planners import ICEM, MCTS  # noqa: E402
from plangym_ext.planners.plans import Budget, Plan  # noqa: E402

SMALL = AgentConfig(hidden=(8,))


class Numbered:
    """Counts the states that it is asked about: the value of the n-th is n, and it plays 1."""

    def __init__(self):
        self.asked = 0

    def reset(self):
        """Keep nothing."""

    def forget_rows(self, rows):
        """Keep nothing."""

    def plan_batch(self, env, states, *, rngs, obs, legal):
        assert len(states) == len(rngs) == len(obs)
        plans = []
        for _ in states:
            cost = Budget(model_steps=3)
            plans.append(Plan(np.int64(1), float(self.asked), cost, weights=np.array([0.25, 0.75])))
            self.asked += 1
        return plans


def built(planner, *, env_id="CartPole-v1", envs=3, steps=4, config=SMALL, learner=None, **options):
    """A sampler with its env and teacher, the student, and the algorithm."""
    env = make(env_id, n_workers=0)
    venv = make_vec(env_id, envs, n_workers=0, autoreset_mode="same_step")
    network = make_agent_network(env.observation_space, env.action_space, config, seed=0)
    agent = ActorCriticAgent(network)
    searched = planner(network) if callable(planner) else planner
    teacher = PlannerAgent(searched, env, student=agent)
    sampler = ExpertSampler(venv, teacher, steps, **options)
    algorithm = ExpertIteration(network, learner or ExpertConfig(learning_starts=1), seed=0)
    return SimpleNamespace(
        env=env, agent=agent, teacher=teacher, sampler=sampler, algorithm=algorithm
    )


def guided(**options):
    """An MCTS that asks the student's network."""
    return lambda network: MCTS(evaluator=NetworkEvaluator(OfObservations(network)), **options)


def column(tree, name):
    return tree["agent_info"][name].to_ndarray()


def test_a_student_that_plays_alone_plays_as_without_a_teacher():
    made = built(guided(num_simulations=4), steps=40)
    venv = make_vec("CartPole-v1", 3, n_workers=0, autoreset_mode="same_step")
    with made.sampler, SerialSampler(venv, made.agent, 40) as alone:
        ours, theirs = made.sampler.collect(), alone.collect()
        for name in ("action", "obs", "reward", "first"):
            np.testing.assert_array_equal(
                ours.data[name].to_ndarray(), theirs.data[name].to_ndarray()
            )
        assert not column(ours.data, "expert_played").any()
    made.env.close()


def test_what_is_taught_is_what_the_planner_plans_from_the_states_that_were_visited():
    made = built(guided(num_simulations=8, wave_size=1), steps=6, share=1.0)
    states = []
    visit = made.sampler._expert.visit
    made.sampler._expert.visit = lambda rows: (states.append(rows.copy()), visit(rows))
    with made.sampler:
        found = made.sampler.collect()
        tree = found.data
        obs, action = tree["obs"].to_ndarray(), tree["action"].to_ndarray()
        for t in (0, 5):
            noise = RowNoise(0, range(3))
            noise.move_to(np.full(3, t, np.uint64))
            noise.uniform()  # the student's
            seeds = (noise.uniform()[:, 0] * 2.0**53).astype(np.uint64)
            rngs = [np.random.default_rng(seed) for seed in seeds]
            plans = made.teacher.planner.plan_batch(made.env, states[t], rngs=rngs, obs=obs[t])
            assert [plan.action for plan in plans] == action[t].tolist()
            np.testing.assert_allclose(
                column(tree, "expert_policy")[t], [plan.weights for plan in plans], rtol=1e-6
            )
            np.testing.assert_allclose(
                column(tree, "expert_value")[t], [plan.value for plan in plans], rtol=1e-6
            )
        searched = int(column(tree, "model_steps").sum())
        assert found.cost.model_steps == 18 + searched > 18
        assert found.cost.model_steps - found.steps == searched
    made.env.close()


def test_steps_are_the_teachers_as_often_as_they_are_to_be():
    made = built(Numbered(), envs=8, steps=100, share=0.3)
    with made.sampler:
        tree = made.sampler.collect().data
        played = column(tree, "expert_played")
        assert (tree["action"].to_ndarray()[played] == 1).all()
        # 800 draws: four deviations around the mean.
        assert abs(played.mean() - 0.3) < 4 * np.sqrt(0.21 / 800)
    made.env.close()


class Fails(Numbered):
    """Fails at the batch of this number."""

    def __init__(self, number):
        super().__init__()
        self.left = number

    def plan_batch(self, env, states, **rest):
        self.left -= 1
        if not self.left:
            raise RuntimeError("no answer")
        return super().plan_batch(env, states, **rest)


@pytest.mark.parametrize("number", [6, 9], ids=["in the middle", "when states are searched again"])
def test_a_fragment_whose_searches_failed_is_played_again(number):
    found = []
    for planner in (Numbered(), Fails(number)):
        made = built(planner, steps=4, reanalyze=0.5, capacity=100, share=0.5)
        with made.sampler:
            made.sampler.collect()
            if isinstance(planner, Fails):
                with pytest.raises(RuntimeError, match="no answer"):
                    made.sampler.collect()
            for _ in range(2):
                last = made.sampler.collect()
            tree = last.data
            found.append((tree["obs"].to_ndarray().copy(), tree["action"].to_ndarray().copy()))
            found[-1] += (last.again.number,)
        made.env.close()
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("target", "stored"), [("root", 20), ("root", 7), ("root", 60), ("return", 20)]
)
def test_states_that_are_searched_again_have_new_targets(target, stored):
    config = ExpertConfig(capacity=20, learning_starts=1, value_target=target)
    made = built(Numbered(), learner=config, reanalyze=0.5, capacity=stored)
    seen = []
    with made.sampler:
        for _ in range(5):
            found = made.sampler.collect()
            again = found.again if len(found.again.number) else None
            # 12 states a fragment, each of 3 model steps; and 6 of those before again.
            steps = 12 * (1 + 3) + (0 if again is None else 3 * len(again.number))
            assert found.cost.model_steps == steps
            seen.append(found.data["obs"].to_ndarray().reshape(12, -1).copy())
            kept = made.algorithm.replay.all() if len(made.algorithm.replay) else None
            if again is not None:
                assert len(set(again.number)) == len(again.number) == 6
                assert again.number.max() < 12 * (len(seen) - 1)
                assert again.number.min() >= 12 * (len(seen) - 1) - stored
            made.algorithm.take(found)
            rows = made.algorithm.replay.all()
            np.testing.assert_array_equal(rows["obs"], np.concatenate(seen)[-20:])
            if again is None or kept is None:
                continue
            first = max(0, 12 * len(seen) - 20)  # number of the oldest row
            value = dict(zip(again.number, again.value, strict=True))
            before = max(0, 12 * (len(seen) - 1) - 20)
            for i, number in enumerate(range(first, 12 * (len(seen) - 1))):
                old = kept["value"][number - before]
                wanted = value.get(number, old) if target == "root" else old
                assert rows["value"][i] == np.float32(wanted)
        assert made.algorithm.steps == 5 * 48 + 4 * 18
    made.env.close()


def test_the_loss_is_cross_entropy_and_squared_error_of_what_is_known():
    network = make_agent_network(
        spaces.Box(-1, 1, (2,)),
        spaces.Discrete(3),
        AgentConfig(hidden=(4,), value_scale=2.0),
        seed=1,
    )
    algorithm = ExpertIteration(network)
    batch = {
        "obs": np.array([[0.5, 0.0], [0.0, 1.0]], np.float32),
        "policy": np.array([[0.2, 0.8, 0.0], [1.0, 0.0, 0.0]], np.float32),
        "legal": np.array([[True, True, False], [True, True, True]]),
        "value": np.array([3.0, np.nan], np.float32),
    }
    batch = {name: torch.from_numpy(rows) for name, rows in batch.items()}
    losses = {name: part.detach() for name, part in algorithm._losses(batch).items()}
    # Fresh heads are zero: all legal actions are alike, and every state is worth 0.
    wanted = (np.log(2) + np.log(3)) / 2
    assert float(losses["policy_loss"]) == pytest.approx(wanted, rel=1e-5)
    assert float(losses["entropy"]) == pytest.approx(wanted, rel=1e-5)
    assert float(losses["value_loss"]) == pytest.approx((3.0 / 2.0) ** 2)


def taken(**settings):
    """An algorithm that has taken in a fragment of 12 states."""
    made = built(Numbered(), learner=ExpertConfig(learning_starts=1, **settings))
    with made.sampler:
        made.algorithm.take(made.sampler.collect())
    made.env.close()
    return made.algorithm


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "sgd"}, "ExpertIteration.load_state_dict: the state is of the optimizer "),
        ({"capacity": 40}, "capacity"),
    ],
)
def test_a_state_of_another_making_is_refused_and_changes_nothing(settings, message):
    algorithm, other = taken(), taken(**settings)
    other.train()
    before = {name: part.clone() for name, part in algorithm.network.state_dict().items()}
    with pytest.raises((ForeignNetwork, InvalidSamples), match=message):
        algorithm.load_state_dict(other.state_dict())
    assert algorithm.updates == 0 < other.updates
    assert all(torch.equal(p, before[name]) for name, p in algorithm.network.state_dict().items())


def test_a_loss_that_is_not_finite_changes_nothing():
    algorithm = taken()
    algorithm.replay.replace(np.arange(12), {"value": np.full(12, np.inf, np.float32)})
    before = [part.clone() for part in algorithm.network.parameters()]
    with pytest.raises(LossNotFinite, match="update 0 must have a finite loss and gradient; the l"):
        algorithm.train()
    assert algorithm.updates == 0
    assert all(map(torch.equal, algorithm.network.parameters(), before))


def test_a_planner_of_continuous_actions_teaches_by_what_it_plays():
    made = built(
        ICEM(num_simulations=16, horizon=4), env_id="Pendulum-v1", envs=2, steps=3, share=1.0
    )
    with made.sampler:
        found = made.sampler.collect()
        action = found.data["action"].to_ndarray()
        # The bounds of the torque are -2 and 2; targets have units in which they are -1 and 1.
        np.testing.assert_allclose(column(found.data, "expert_policy"), action / 2, rtol=1e-6)
        made.algorithm.take(found)
        before = made.algorithm._losses(made.algorithm._tensor(made.algorithm.replay.all()))[
            "policy_loss"
        ].detach()
        for _ in range(4):
            logged = made.algorithm.train()
        assert logged["train/policy_loss"] < float(before)
    made.env.close()


def test_students_and_envs_that_cannot_be_taught_are_refused():
    made = built(Numbered())
    made.sampler.close()
    recurrent = make_agent_network(
        made.env.observation_space,
        made.env.action_space,
        AgentConfig(hidden=(4,), recurrent="lstm", recurrent_size=4),
        seed=0,
    )
    with pytest.raises(InvalidOption, match="it takes first, obs"):
        ExpertIteration(recurrent)
    carries = PlannerAgent(Numbered(), made.env, student=ActorCriticAgent(recurrent))
    alone = PlannerAgent(Numbered(), made.env)
    with make_vec("CartPole-v1", 1, n_workers=0, autoreset_mode="same_step") as venv:
        for agent, message in ((carries, "recurrent ActorCriticAgent"), (alone, "no student")):
            with pytest.raises(InvalidOption, match=message):
                ExpertSampler(venv, agent, 2)
    loose = SimpleNamespace(exact=False, name="Loose", action_space=made.env.action_space)
    with pytest.raises(IncompleteState, match="those of Loose are not"):
        PlannerAgent(Numbered(), loose, student=made.agent)
    with pytest.raises(InvalidOption, match="Sample with an ExpertSampler"):
        made.algorithm.take(Collected({}, {}, Budget(), 0))
    with pytest.raises(InvalidOption, match="value_target must be one of"):
        ExpertConfig(value_target="best")
    made.env.close()
