"""A planner's agent in a sampler: whole episodes of what is collected, against a loop by hand."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import plangym_ext
from plangym_ext.core.infos import info_values
from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.learn import (
    AlphaZeroConfig,
    AlternatingSampler,
    NetworkEvaluator,
    PlannerAgent,
    SerialSampler,
    SupervisedLearning,
    make_network,
)
from plangym_ext.learn.records import EpisodeRecorder
from plangym_ext.learn.sampling.noise import RowNoise
from plangym_ext.learn.whole_episodes import WholeEpisodes
from plangym_ext.planners import ICEM, MCTS, DiscreteShooting
from plangym_ext.planners.games import Game, plan_games, step_games
from plangym_ext.planners.plans import Budget

pytestmark = pytest.mark.slow


class Seeded:
    """A planner whose searches draw the numbers that an agent has them draw."""

    def __init__(self, planner, rows):
        self._planner, self._noise = planner, RowNoise(3, range(rows))

    def plan_batch(self, env, states, *, rngs, **told):
        seeds = (self._noise.uniform()[:, 0] * 2.0**53).astype(np.uint64)
        self._noise.advance()
        rngs = [np.random.default_rng(seed) for seed in seeds]
        return self._planner.plan_batch(env, states, rngs=rngs, **told)

    def __getattr__(self, name):
        return getattr(self._planner, name)


def mcts(env):
    network = make_network(env.observation_space, env.action_space, seed=0)
    for parameter in network.heads.parameters():  # which begin at zero
        numbers = 0.1 * np.arange(parameter.numel(), dtype=np.float32)
        parameter.data += plangym_ext.learn.torch_extra.torch.from_numpy(numbers).reshape(
            parameter.shape
        )
    evaluator = NetworkEvaluator(network)
    return MCTS(12, evaluator=evaluator, root_noise=0.25, temperature=1.0, keep_tree=True)


#: An env, a planner for it, and after how many steps episodes are cut.
CASES = {
    "tree with a network": ("CartPole-v1", mcts, 9),
    "shooting": ("CartPole-v1", lambda _: DiscreteShooting(8), 30),
    "continuous": ("Pendulum-v1", lambda _: ICEM(8, horizon=4, num_elites=2), 7),
    "with a field": ("plangym_ext/Sokoban-v0", lambda _: MCTS(6, rollout_depth=3), 6),
}


def by_hand(env, planner, beginnings, rows, moves, most):
    """Plan and play moves in some games; return (move, row, record) of those that ended, and cost.

    Args:
        beginnings: an iterator of (state, obs, legal), one for each game, in their order.
    """

    def begin():
        state, obs, legal = next(beginnings)
        game = Game.resumed(0, np.random.default_rng(0), state, obs, legal)
        return game, EpisodeRecorder(0, obs, legal)

    slots, found, cost = [begin() for _ in range(rows)], [], Budget()
    for move in range(moves):
        games = [game for game, _ in slots]
        plans = plan_games(planner, env, games)
        steps, infos = step_games(env, games, plans)
        cost += sum((plan.budget for plan in plans), Budget(model_steps=rows))
        over = []
        for row, (plan, step) in enumerate(zip(plans, steps, strict=True)):
            game, recorder = slots[row]
            game.take(step)
            recorder.take(plan, step)
            if game.ended or len(recorder) >= most:
                values, known = info_values(infos, "solved", rows)
                told = {"solved": bool(values[row])} if known[row] else {}
                found.append((move, row, recorder.record(told)))
                over.append(row)
        for row in over:
            slots[row] = begin()
        if over:
            planner.forget_rows(np.array(over))
    return found, cost


@pytest.mark.parametrize("case", list(CASES))
def test_whole_episodes_of_a_sampler_are_those_of_a_loop_by_hand(case):
    name, made, most = CASES[case]
    rows, moves = 3, 2 * most + 1
    fields = ("solved",) if "Sokoban" in name else ()
    visited = []
    with plangym_ext.make(name, n_workers=0) as env:
        agent = PlannerAgent(made(env), env)
        visit = agent.visit
        agent.visit = lambda states: (visited.append(states), visit(states))
        venv = plangym_ext.make_vec(name, rows, n_workers=0, autoreset_mode="same_step")
        options = {"seed": 3, "max_steps": most, "episode_fields": fields}
        with SerialSampler(venv, agent, moves, **options) as sampler:
            collected = sampler.collect()
        found = WholeEpisodes(env.observation_space, env.action_space).take(collected)
        tree = collected.data
        first, obs = np.array(tree["first"]), np.array(tree["obs"])
        masks = np.array(tree["action_mask"]) if "action_mask" in tree else None
        beginnings = [
            (visited[t][row], obs[t, row], None if masks is None else masks[t, row])
            for t, row in np.argwhere(first[:moves])
        ]
        # The last move may end an episode, after which another one begins.
        beginnings += [beginnings[0]] * rows
        planner = Seeded(made(env), rows)
        wanted, cost = by_hand(env, planner, iter(beginnings), rows, moves, most)
    table = collected.episodes
    places = zip(table["step"].tolist(), table["row"].tolist(), strict=True)
    assert [place for *place, _ in wanted] == [list(place) for place in places]
    assert len(found) == len(wanted) >= 2 * rows
    for mine, (*_, theirs) in zip(found, wanted, strict=True):
        for part in ("observations", "actions", "root_values", "policies", "visits", "q", "legal"):
            assert_same(getattr(mine, part), getattr(theirs, part))
        assert_same(mine.rewards, theirs.rewards.astype(np.float32).astype(np.float64))
        assert mine.terminated == theirs.terminated
        assert mine.attributes == theirs.attributes
    for count in ("model_steps", "evaluator_rows"):
        assert getattr(collected.cost, count) == getattr(cost, count), count
    assert collected.cost.restores == cost.restores


def assert_same(mine, theirs):
    """Assert that two arrays are equal bit for bit, or both None."""
    if theirs is None:
        assert mine is None
        return
    assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
    assert mine.tobytes() == theirs.tobytes()


def played(num_steps, count, *, made=lambda: DiscreteShooting(4, rollout_depth=3)):
    """Return fragments of a sampler of two rows whose episodes are cut after nine steps."""
    found = []
    with plangym_ext.make("CartPole-v1", n_workers=0) as env:
        venv = plangym_ext.make_vec("CartPole-v1", 2, n_workers=0, autoreset_mode="same_step")
        agent = PlannerAgent(made(), env)
        with SerialSampler(venv, agent, num_steps, seed=1, max_steps=9) as sampler:
            for _ in range(count):
                one = sampler.collect()
                found.append(one._replace(data=copy.deepcopy(one.data)))
    return found


def as_bytes(records):
    return [
        (one.observations.tobytes(), one.actions.tobytes(), one.rewards.tobytes(), one.length)
        for one in records
    ]


def test_episodes_that_span_fragments_are_whole_and_go_on_where_they_were_saved():
    (whole,) = played(40, 1)
    parts = played(5, 8)
    wanted = WholeEpisodes().take(whole)
    joins, later, found = WholeEpisodes(), WholeEpisodes(), []
    for number, part in enumerate(parts):
        if number == 3:
            later.load_state_dict(copy.deepcopy(joins.state_dict()))
            joins = later
        found += joins.take(part)
    assert sorted(as_bytes(found)) == sorted(as_bytes(wanted))
    assert {one.length for one in wanted} >= {9}
    assert all(one.truncated for one in wanted if one.length == 9 and not one.terminated)


def test_what_follows_an_episode_that_was_cut_is_asked_of_the_network():
    (fragment,) = played(20, 1)
    space = Box(-np.inf, np.inf, (4,), np.float32)
    network = make_network(space, Discrete(2), seed=0)
    network.heads.bias.data[-1] = 7.0  # of the value; weights begin at zero
    config = AlphaZeroConfig(value_target="discounted_return", discount=0.5)
    algorithm = SupervisedLearning(network, config)
    algorithm.take(fragment)
    taught = algorithm.replay.all()["value"]
    records = WholeEpisodes().take(fragment)
    last = np.cumsum([one.length for one in records]) - 1
    for one, at in zip(records, last, strict=True):
        assert taught[at] == 1.0 + (0.0 if one.terminated else 0.5 * 7.0)
    assert not all(one.terminated for one in records)
    assert algorithm.steps == fragment.cost.model_steps


def test_a_planner_is_not_played_in_halves_nor_sent_as_it_is():
    with plangym_ext.make("CartPole-v1", n_workers=0) as env:
        venv = plangym_ext.make_vec("CartPole-v1", 2, n_workers=0, autoreset_mode="same_step")
        agent = PlannerAgent(DiscreteShooting(4), env)
        with venv, pytest.raises(InvalidOption, match="not in halves"):
            AlternatingSampler(venv, agent, 4)
        with pytest.raises(WrongKind, match="`, a function that makes it"):
            copy.deepcopy(agent)
