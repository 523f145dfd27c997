"""Searches for both players of a game, beside what trying everything finds."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import pytest
from minimax import Minimax

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.envs.rules.line_game import LineGameEnv
from plangym_ext.errors import WrongKind
from plangym_ext.learn import RandomAgent
from plangym_ext.planners import MCTS, PLANNERS, STS, load_planner, play

GAME = "plangym_ext/TicTacToe-v0"


@pytest.fixture(scope="module")
def game():
    with plangym_ext.make(GAME) as env:
        env.reset(seed=0)
        yield env


def states_of(env, boards):
    """The env's states of boards as `LineGameEnv.get_state` has them."""
    states = []
    for board in boards:
        env.gym_env.unwrapped.set_state(board)
        states.append(env.get_state())
    return np.array(states)


def planned(planner, env, boards, **options):
    """The plans of a planner from boards without an ended one."""
    masks = []
    for board in boards:
        env.gym_env.unwrapped.set_state(board)
        masks.append(env.gym_env.unwrapped.infos()["action_mask"])
    rngs = np.random.default_rng(0).spawn(len(boards))
    states = states_of(env, boards)
    return planner.plan_batch(env, states, rngs=rngs, legal=np.array(masks, bool), **options)


def board(text, **arguments):
    """The state of a board that is written down with x, o and dots."""
    cells = [".xo".index(sign) for sign in text.replace("/", "")]
    return np.array([*cells, 0], np.uint8)


def test_a_win_at_hand_is_taken_and_one_of_the_other_is_stopped(game):
    # x to move wins at 2; o to move, with nothing to win, must stop x at 2.
    plans = planned(MCTS(300, discount=1.0), game, [board("xx./oo./..."), board("xx./o../...")])
    assert [plan.action for plan in plans] == [2, 2]
    assert plans[0].q[2] == 1.0
    # Whatever else o does, x wins at once.
    assert plans[1].q[8] < -0.5


@pytest.fixture(scope="module")
def oracle():
    """All positions of tic-tac-toe."""
    found = Minimax(LineGameEnv())
    found.value(board("........."))
    assert len(found.known) == 4520  # of 5478 positions those that have not ended
    return found


def wrong_choices(planner, env, oracle, boards):
    """The boards of which a planner plays an action that is worth less than another."""
    wrong = []
    for plan, state in zip(planned(planner, env, boards), boards, strict=True):
        values = oracle.actions(state)
        if values[plan.action] < max(values.values()):
            wrong.append(state)
    return wrong


@pytest.mark.parametrize("selection", ["puct", "uct"])
def test_choices_are_those_of_minimax(game, oracle, selection):
    # All of them take a minute.
    boards = oracle.positions()[:: 1 if os.environ.get("PYTEST_LONG") else 61]
    planner = MCTS(8000, discount=1.0, selection=selection, value_scale="none")
    assert not wrong_choices(planner, game, oracle, boards)


def test_the_first_move_is_worth_a_draw(game):
    sizes = 1000, 16_000, 64_000
    planners = [MCTS(size, discount=1.0, value_scale="none") for size in sizes]
    errors = [abs(planned(planner, game, [board(".........")])[0].value) for planner in planners]
    # Minimax's value is 0; a mean of returns comes to it as the share of other moves shrinks.
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.06


def test_a_player_who_places_two_stones_in_turn_plans_for_both_of_them():
    arguments = {"rows": 2, "columns": 4, "length": 4, "stones_per_turn": 2}
    twice = Minimax(LineGameEnv(**arguments))
    # Both have half a line. Two stones finish x's; to finish none and to stop none loses.
    start = board("xx../oo..")
    values = twice.actions(start)
    assert values == {2: 1, 3: 1, 6: 0, 7: 0}
    # o has half a turn left and is to stop x's line with it.
    half = board("xx..o...")
    assert twice.actions(half) == {2: 0, 3: 0, 5: -1, 6: -1, 7: -1}
    boards = [start, half, *twice.positions()[::8]]
    with plangym_ext.make(GAME, backend="serial", **arguments) as env:
        env.reset(seed=0)
        planner = MCTS(300, discount=1.0, value_scale="none")
        assert not wrong_choices(planner, env, twice, boards)
        plan = planned(planner, env, [start])[0]
    # What the second stone wins, the first is worth already.
    assert plan.q[2] > 0.9


@pytest.mark.parametrize(
    "planner", [MCTS(60, num_rollouts=2), MCTS(60, selection="gumbel"), STS(12, num_expansions=2)]
)
def test_batches_on_workers_are_planned_as_in_this_process(planner):
    boards = [board("........."), board("x...o...."), board("xox......")]
    with (
        plangym_ext.make(GAME, backend="serial") as serial,
        plangym_ext.make(GAME, backend="process", n_workers=1) as process,
    ):
        serial.reset(seed=0)
        process.reset(seed=0)
        found, expected = (planned(planner, env, boards) for env in (process, serial))
    for plan, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(plan.q, other.q)
        assert (plan.action, plan.value) == (other.action, other.value)


def test_compiled_searches_are_those_in_batches(game):
    boards = [board("........."), board("x...o...."), board("xox......")]
    found = planned(MCTS(200, discount=0.9), game, boards)
    expected = planned(MCTS(200, discount=0.9, compiled=False), game, boards)
    for plan, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(plan.q, other.q)
        assert plan.budget.model_steps == other.budget.model_steps


def test_a_value_is_that_of_who_moves_where_it_is_asked(game):
    def stones(obs):
        """One more stone of mine is worth a tenth."""
        difference = obs[:, 0].sum(axis=(1, 2), dtype=float) - obs[:, 1].sum(axis=(1, 2))
        return None, difference / 10

    start = game.gym_env.unwrapped
    start.set_state(board("........."))
    options = {"evaluator": stones, "discount": 1.0, "wave_size": 1}
    obs = start._observe()[None]
    plan = planned(MCTS(9, rollout_depth=0, **options), game, [board(".........")], obs=obs)[0]
    # After one stone the other moves, and lacks one: -0.1 for that player, 0.1 for this one.
    np.testing.assert_allclose(plan.q, 0.1)
    one = planned(MCTS(9, rollout_depth=1, **options), game, [board(".........")], obs=obs)[0]
    # One stone each, so neither has gained anything.
    np.testing.assert_allclose(one.q, 0.0)


def test_a_kept_tree_plays_both_sides_to_a_draw(game):
    planner = MCTS(500, discount=1.0, keep_tree=True, compiled=False, rollout_depth=0)
    episode = play(game, planner, seed=0, max_steps=9)
    assert episode.terminated
    assert not episode.rewards.any()


class Written(MCTS):
    """Plays what is written down, for both sides."""

    def __init__(self, actions):
        super().__init__(1)
        self.actions = iter(actions)

    def _plan_batch(self, request):
        (plan,) = super()._plan_batch(request)
        return [dataclasses.replace(plan, action=np.int64(next(self.actions)))]


@pytest.mark.parametrize("num_episodes", [None, 1])
def test_returns_are_those_of_the_first_player(game, num_episodes):
    totals = []
    played = play(
        game,
        Written([0, 3, 1, 4, 8, 5]),  # the second player has the middle row
        seed=0,
        max_steps=9,
        num_episodes=num_episodes,
        callback=lambda move: totals.append(move.total),
    )
    episode = played if num_episodes is None else played[0]
    assert episode.players.tolist() == [0, 1, 0, 1, 0, 1]
    assert episode.rewards.tolist() == [0, 0, 0, 0, 0, 1]
    assert episode.return_ == totals[-1] == -1.0


@pytest.mark.parametrize("name", sorted(PLANNERS.keys() - {"mcts", "sts"}))
def test_planners_for_one_player_say_so(name):
    cls = load_planner(name)
    planner = object.__new__(cls)
    with (
        pytest.raises(WrongKind, match=f"{cls.__name__}: env must have one player; got 2 in"),
        plangym_ext.make(GAME, backend="serial") as env,
    ):
        cls.plan_batch(planner, env, np.zeros((1, 1), np.uint8), rngs=[np.random.default_rng()])


def test_infos_without_the_players_are_refused():
    class Silent(LineGameEnv):
        def step(self, action):
            *found, info = super().step(action)
            del info["to_play"]
            return *found, info

    with GymEnv(Silent) as env:
        state, *_ = env.reset(seed=0)
        with pytest.raises(WrongKind, match=r"'to_play'.*got \['action_mask', .*'player'\]"):
            MCTS(4).plan(env, state, rng=0)


def test_frame_skips_are_refused():
    with plangym_ext.make(GAME, frameskip=2, backend="serial") as env:
        state, *_ = env.reset(seed=0)
        with pytest.raises(WrongKind, match="MCTS: frameskip must be 1 in an env with two"):
            MCTS(4).plan(env, state, rng=0)


@pytest.mark.parametrize(
    ("name", "options"), [("Hex", {"rows": 3, "columns": 3}), ("Go", {"size": 3, "komi": 2.5})]
)
def test_a_search_beats_random_moves_in_hex_and_go(name, options):
    # The first player wins both: Hex on any board, and all of 3 x 3 in Go.
    # Without a compiled kernel, which takes longer than these few moves.
    with plangym_ext.make(f"plangym_ext/{name}-v0", backend="serial", **options) as env:
        rival = RandomAgent(env.action_space)
        settings = {"opponent": rival, "seed": 0, "max_steps": 40}
        game = play(env, MCTS(50, discount=1.0), **settings)
    assert game.return_ == 1.0
