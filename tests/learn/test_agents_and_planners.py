"""An agent where a planner is expected, and a planner where an agent is."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import InvalidOption
from plangym_ext.learn import (
    Acted,
    ActorCriticAgent,
    Agent,
    AgentConfig,
    AgentPlanner,
    EvaluationSampler,
    GeneratorNoise,
    PlannerAgent,
    QAgent,
    QAgentConfig,
    RandomAgent,
    SerialSampler,
    check_agent,
    make_agent_network,
)
from plangym_ext.learn.agents.inputs import Inputs, first_inputs
from plangym_ext.planners import ICEM, MCTS, play


class Recorder(Agent):
    """Plays in turn 0, 1, 0, ... in each game, and tells what it was shown."""

    def __init__(self):
        self.seen = []

    def initial_carry(self, num_rows):
        return np.full(num_rows, 99)

    def step(self, inputs, carry):
        steps = np.where(inputs.first, 0, carry)
        self.seen.append((inputs.first, inputs.action, inputs.reward, steps, self.mode))
        return Acted(steps % 2, {"value": steps.astype(np.float32)}, steps + 1)


def test_every_game_keeps_its_carry_previous_action_and_reward():
    agent = Recorder()
    with plangym_ext.make("CartPole-v1") as env:
        episodes = play(env, agent, seed=0, max_steps=60, num_episodes=4)
        alone = [play(env, agent, seed=i, max_steps=60) for i in range(4)]
    for together, single in zip(episodes, alone, strict=True):
        np.testing.assert_array_equal(together.actions, single.actions)
    lengths = [episode.length for episode in episodes]
    assert len(set(lengths)) > 1
    for t, (first, action, reward, steps, mode) in enumerate(agent.seen[: max(lengths)]):
        going = sum(length > t for length in lengths)
        assert mode == "eval"
        assert first.tolist() == [t == 0] * going
        assert steps.tolist() == [t] * going
        assert action.tolist() == ([0] * going if t == 0 else [(t - 1) % 2] * going)
        assert reward.tolist() == [float(t > 0)] * going
    assert agent.mode == "sample"


def plan(planner, rows):
    states, obs = np.zeros((rows, 8), np.uint8), np.zeros((rows, 4), np.float32)
    return planner.plan_batch(None, states, rngs=np.random.default_rng(0).spawn(rows), obs=obs)


def test_games_can_be_forgotten_kept_and_begun_anew():
    agent = Recorder()
    planner = AgentPlanner(agent=agent, mode="sample")
    assert [p.value for p in plan(planner, 3)] == [0, 0, 0]
    planner.forget_rows(np.array([1]))
    assert [p.value for p in plan(planner, 3)] == [1, 0, 1]
    planner.keep_rows(np.array([0, 1]))
    plans = plan(planner, 2)
    assert [p.value for p in plans] == [2, 1]
    assert [p.action for p in plans] == [0, 1]
    planner.reset()
    assert [p.value for p in plan(planner, 2)] == [0, 0]
    assert [p.value for p in plan(planner, 5)] == [0] * 5
    assert {mode for *_, mode in agent.seen} == {"sample"}


def test_an_agent_that_looks_at_rewards_must_be_told_them():
    config = AgentConfig(recurrent="gru", previous_action=True, previous_reward=True)
    with plangym_ext.make("CartPole-v1") as env:
        network = make_agent_network(env.observation_space, env.action_space, config, seed=0)
        episodes = play(env, ActorCriticAgent(network), seed=0, max_steps=9, num_episodes=2)
        assert [episode.budget.model_steps for episode in episodes] == [0, 0]
        planner = ActorCriticAgent(network).as_planner()
        state, obs, _ = env.reset(seed=0)
        planner.plan(env, state, rng=0, obs=obs)
        with pytest.raises(InvalidOption, match=r"got none. Call take_rewards\(rewards\)"):
            planner.plan(env, state, rng=0, obs=obs)
        with (
            plangym_ext.make("Acrobot-v1") as other,
            pytest.raises(InvalidOption, match="was made for observations of"),
        ):
            play(other, planner, seed=0, max_steps=9)
        again = play(env, planner, seed=0, max_steps=9)
        np.testing.assert_array_equal(again.actions, episodes[0].actions)


def test_a_random_agent_plays_by_the_game_s_generator():
    with plangym_ext.make("CartPole-v1") as env:
        agent = RandomAgent(env.action_space)
        episodes = play(env, agent, seed=0, max_steps=20, num_episodes=3)
        assert {action for e in episodes for action in e.actions.tolist()} == {0, 1}
        np.testing.assert_array_equal(
            episodes[1].actions, play(env, agent, seed=1, max_steps=20).actions
        )


def test_a_planner_plays_the_envs_of_a_vector_env():
    with plangym_ext.make("CartPole-v1") as model:
        venv = plangym_ext.make_vec("CartPole-v1", 3, autoreset_mode="same_step")
        try:
            agent = PlannerAgent(MCTS(8), model)
            noise = GeneratorNoise(np.random.default_rng(0).spawn(3))
            check_agent(agent, venv, 3, noise)
            obs, _ = venv.reset(seed=0)
            agent.visit(venv.get_states())
            acted = agent.step(first_inputs(obs, venv.single_action_space, 3, noise=noise), None)
            assert acted.info["model_steps"].min() > 0
            assert acted.info["weights"].shape == (3, 2)
            # It is the planner's own plan from these states.
            seeds = GeneratorNoise(np.random.default_rng(1).spawn(3)).uniform()[:, 0] * 2.0**53
            rngs = [np.random.default_rng(seed) for seed in seeds.astype(np.uint64)]
            plans = MCTS(8).plan_batch(model, venv.get_states(), rngs=rngs, obs=obs)
            first = np.ones(3, bool)
            noise = GeneratorNoise(np.random.default_rng(1).spawn(3))
            agent.visit(venv.get_states())
            acted = agent.step(Inputs(obs, None, None, first, noise), None)
            assert acted.action.tolist() == [plan.action for plan in plans]
            np.testing.assert_allclose(
                acted.info["value"], [plan.value for plan in plans], rtol=1e-6
            )
            assert agent.as_planner() is agent.planner
        finally:
            venv.close()


def planner_venv(num):
    return plangym_ext.make_vec("CartPole-v1", num, autoreset_mode="same_step")


@pytest.mark.parametrize(("num_envs", "count"), [(2, 2), (5, 2), (2, 4)])
def test_a_planner_is_evaluated_in_its_own_states_however_many_envs_there_are(num_envs, count):
    with plangym_ext.make("CartPole-v1") as model:
        venv = planner_venv(num_envs)
        agent = PlannerAgent(MCTS(16, keep_tree=True), model)
        with EvaluationSampler(venv, agent, count, seed=0, max_steps=60) as sampler:
            assert sampler.evaluate().episodes["length"].tolist() == [60] * count


@pytest.mark.parametrize("planner", [MCTS(6, keep_tree=True), ICEM(8, horizon=4, num_elites=2)])
def test_a_sampler_with_a_planner_goes_on_bit_for_bit(planner):
    name = "CartPole-v1" if isinstance(planner, MCTS) else "Pendulum-v1"
    with plangym_ext.make(name) as model:

        def begun():
            venv = plangym_ext.make_vec(name, 2, autoreset_mode="same_step")
            return SerialSampler(venv, PlannerAgent(copy.deepcopy(planner), model), 4)

        with begun() as sampler:
            sampler.collect()
            saved = copy.deepcopy(sampler.state_dict())
            wanted = np.array(sampler.collect().data["action"])
        with begun() as sampler:
            sampler.load_state_dict(saved)
            np.testing.assert_array_equal(np.array(sampler.collect().data["action"]), wanted)


def test_some_rows_of_a_vector_env_are_not_planned_for():
    with plangym_ext.make("CartPole-v1") as model:
        venv = planner_venv(3)
        try:
            obs, _ = venv.reset(seed=0)
            noise = GeneratorNoise(np.random.default_rng(0).spawn(2))
            inputs = first_inputs(obs[:2], venv.single_action_space, 2, noise=noise)
            agent = PlannerAgent(MCTS(8), model)
            agent.visit(venv.get_states())
            with pytest.raises(InvalidOption, match=r"all 3 rows of its vector env .* for 2"):
                agent.step(inputs, None)
        finally:
            venv.close()


def test_the_value_of_q_values_is_that_of_what_may_be_played():
    with plangym_ext.make("CartPole-v1") as env:
        state, obs, _ = env.reset(seed=0)
        config = QAgentConfig(hidden=(8,), init="orthogonal")
        network = make_agent_network(env.observation_space, env.action_space, config, seed=0)
        planner = QAgent(network).as_planner()
        for legal in ([True, False], [False, True]):
            plan = planner.plan(env, state, rng=0, obs=obs, legal=np.array(legal))
            assert plan.value == pytest.approx(plan.q[legal.index(True)])
