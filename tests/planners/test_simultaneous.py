"""SimultaneousMCTS: against games that are solved exactly, and what it refuses."""

from __future__ import annotations

import functools
import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import plangym_ext
from plangym_ext.envs import AgentsEnv
from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.planners import SimultaneousMCTS, play

PENNIES = np.array([[2.0, -1.0], [-1.0, 1.0]])
DILEMMA = np.array([[3.0, 0.0], [5.0, 1.0]])
#: For the column player the first is better beside the first, the second beside the second.
FOLLOWS = np.array([[1.0, 0.0], [2.0, 4.0]])
AGENTS = ["row", "column"]


class Rounds:
    """Two agents choose cards, which they give away; the higher one takes the round's prize."""

    metadata, possible_agents = {"render_modes": []}, AGENTS

    def __init__(self, prizes):
        self.prizes = prizes

    def observation_space(self, agent):
        width = len(self.prizes)
        cards = spaces.Box(0, 1, (2 * width,), np.int8)
        return spaces.Dict(observation=cards, action_mask=spaces.MultiBinary(width))

    def action_space(self, agent):
        return spaces.Discrete(len(self.prizes))

    def _told(self):
        mine = {agent: self.hands[agent].astype(np.int8) for agent in AGENTS}
        cards = np.concatenate([*mine.values()])
        seen = {a: {"observation": cards, "action_mask": mine[a]} for a in AGENTS}
        return seen, {agent: {} for agent in AGENTS}

    def reset(self, seed=None, options=None):
        self.agents, self.time = list(AGENTS), 0
        self.hands = {agent: np.ones(len(self.prizes), bool) for agent in AGENTS}
        return self._told()

    def step(self, actions):
        for agent, card in actions.items():
            assert self.hands[agent][card], "a card that is gone"
            self.hands[agent][card] = False
        won = float(np.sign(actions["row"] - actions["column"]) * self.prizes[self.time])
        self.time += 1
        obs, infos = self._told()
        ended = dict.fromkeys(AGENTS, self.time == len(self.prizes))
        if ended["row"]:
            self.agents = []
        return obs, {"row": won, "column": -won}, ended, dict.fromkeys(AGENTS, False), infos

    def close(self):
        pass


class Matrix(Rounds):
    """One move of both, paid by a table each."""

    def __init__(self, row, column):
        super().__init__((1, 1))
        self.paid = {"row": row, "column": column}

    def step(self, actions):
        obs, _, ended, cut, infos = super().step(actions)
        at = actions["row"], actions["column"]
        self.agents = []
        rewards = {agent: float(table[at]) for agent, table in self.paid.items()}
        return obs, rewards, dict.fromkeys(ended, True), cut, infos


def solved(table):
    """Return the value of a zero-sum game for the row player, and a best mixed strategy.

    Source: Shapley & Snow 1950: some square part of the table has it, by its inverse.
    """
    table = table + 100.0  # no part has the value 0
    rows, columns = table.shape
    for size in range(1, min(rows, columns) + 1):
        for some in itertools.combinations(range(rows), size):
            for others in itertools.combinations(range(columns), size):
                part = table[np.ix_(some, others)]
                if abs(np.linalg.det(part)) < 1e-9:
                    continue
                inverse = np.linalg.inv(part)
                value = 1.0 / inverse.sum()
                x, y = np.zeros(rows), np.zeros(columns)
                x[[*some]], y[[*others]] = value * inverse.sum(axis=0), value * inverse.sum(axis=1)
                fair = min(x.min(), y.min()) > -1e-9
                if fair and (x @ table).min() > value - 1e-9 and (table @ y).max() < value + 1e-9:
                    return value - 100.0, x
    raise AssertionError("no solution")


@functools.cache
def game_of(mine, theirs, prizes):
    """Return the table of a state of `Rounds`, by the cards that are left."""
    return np.array(
        [
            [
                np.sign(a - b) * prizes[0]
                + (
                    solved(game_of(mine - {a}, theirs - {b}, prizes[1:]))[0]
                    if len(prizes) > 1
                    else 0.0
                )
                for b in sorted(theirs)
            ]
            for a in sorted(mine)
        ]
    )


def planned(game, rng=0, **options):
    with plangym_ext.make(lambda: AgentsEnv(game)) as env:
        state, obs, info = env.reset(seed=0)
        planner = SimultaneousMCTS(discount=1.0, **options)
        return planner.plan(env, state, rng=rng, obs=obs, legal=info["action_mask"])


def test_a_solved_game_is_solved():
    value, x = solved(PENNIES)
    assert value == pytest.approx(0.2)
    np.testing.assert_allclose(x, [0.4, 0.6])


def test_strategies_of_matching_pennies_are_mixed_as_they_should_be():
    plan = planned(Matrix(PENNIES, -PENNIES), num_simulations=4000, exploration=0.1)
    weights = plan.weights.reshape(2, 2)
    for strategy in (weights.sum(axis=1), weights.sum(axis=0)):
        np.testing.assert_allclose(strategy, [0.4, 0.6], atol=0.06)
    assert plan.value == pytest.approx(0.0)  # what one gains the other loses
    drawn = {
        tuple(planned(Matrix(PENNIES, -PENNIES), rng=k, num_simulations=50).action)
        for k in range(20)
    }
    assert len(drawn) > 1


@pytest.mark.parametrize("column", [DILEMMA.T, FOLLOWS])
def test_nothing_that_is_dominated_is_played(column):
    plan = planned(Matrix(DILEMMA, column), num_simulations=400)
    assert plan.action.tolist() == [1, 1]
    assert plan.weights.argmax() == 3


@pytest.mark.slow
@pytest.mark.parametrize("prizes", [(1, 2, 3), (3, 1, 2)])
def test_little_is_lost_to_the_best_answer_in_a_game_of_cards(prizes):
    cards = frozenset(range(len(prizes)))
    table = game_of(cards, cards, prizes)
    value, _ = solved(table)
    assert value == pytest.approx(0.0)
    plan = planned(Rounds(prizes), num_simulations=4000)
    weights = plan.weights.reshape(3, 3)
    assert (weights.sum(axis=1) @ table).min() > value - 0.25
    assert (table @ weights.sum(axis=0)).max() < value + 0.25
    assert plan.depth == 3


def test_games_are_played_by_plans_and_none_breaks_the_rules():
    with plangym_ext.make(lambda: AgentsEnv(Rounds((1, 2, 3)))) as env:
        episode = play(env, SimultaneousMCTS(30), seed=3, max_steps=9)
        for cards in np.stack(episode.actions).T:
            assert sorted(cards.tolist()) == [0, 1, 2]


def test_plans_side_by_side_equal_plans_alone():
    with plangym_ext.make(lambda: AgentsEnv(Rounds((1, 2, 3)))) as env:
        state, _, info = env.reset(seed=0)
        states, legal = np.stack([state] * 3), np.stack([info["action_mask"]] * 3)
        planner = SimultaneousMCTS(40)
        rngs = [np.random.default_rng(k) for k in range(3)]
        together = planner.plan_batch(env, states, rngs=rngs, legal=legal)
        for k, plan in enumerate(together):
            alone = planner.plan(env, state, rng=k, legal=info["action_mask"])
            np.testing.assert_array_equal(plan.weights, alone.weights)
            np.testing.assert_array_equal(plan.action, alone.action)
            assert plan.budget.model_steps == alone.budget.model_steps


@pytest.mark.parametrize("most", [1, 2, 7, 25])
def test_no_more_steps_than_are_paid_for(most):
    plan = planned(Rounds((1, 2, 3)), max_model_steps=most)
    assert 1 <= plan.budget.model_steps <= most


def test_one_agent_alone_finds_what_pays():
    class Levers(gym.Env):
        observation_space = spaces.Box(0, 1, (1,), np.float32)
        action_space = spaces.Discrete(4, start=5)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.ones(1, np.float32), float(action == 7), True, False, {}

    with plangym_ext.make(Levers) as env:
        state, _, _ = env.reset(seed=0)
        plan = SimultaneousMCTS(200).plan(env, state, rng=0)
        assert int(plan.action) == 7
        assert env.action_space.contains(plan.action)


def test_what_it_cannot_plan_for_is_refused():
    with pytest.raises(InvalidOption, match="evaluator must be None"):
        SimultaneousMCTS(evaluator=lambda obs: (None, np.zeros(len(obs))))
    with plangym_ext.make("Pendulum-v1") as env:
        state, _, _ = env.reset(seed=0)
        with pytest.raises(WrongKind, match="an action of its own that is Discrete"):
            SimultaneousMCTS(4).plan(env, state, rng=0)
