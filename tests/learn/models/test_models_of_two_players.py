"""A model of a game that is exactly right: searches return the plans of the true env."""

from __future__ import annotations

import numpy as np
import pytest
from minimax import Minimax

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.envs import LineGameEnv
from plangym_ext.errors import WrongKind
from plangym_ext.learn import LatentModel, ModelPlanner, model_planner
from plangym_ext.planners import MCTS, STS
from tests.tabular_models import exact_network

RULES = {"rows": 3, "columns": 3, "length": 3, "gravity": True}


class Unmasked(LineGameEnv):
    """Three in a row with gravity, without masks, as a latent model has none."""

    def __init__(self, **changed):
        super().__init__(**{**RULES, **changed})

    def step(self, action):
        *found, info = super().step(action)
        return *found, {name: info[name] for name in ("player", "to_play")}


@pytest.fixture(scope="module")
def game():
    with GymEnv(Unmasked) as env:
        env.reset(seed=0)
        yield env


@pytest.fixture(scope="module")
def oracle():
    """All positions, by trying everything that has room."""
    found = Minimax(LineGameEnv(**RULES))
    found.env.reset(seed=0)
    found.value(found.env.get_state())
    return found


@pytest.fixture(scope="module")
def network(oracle):
    """The game as weights: its positions are numbers, and one more is that after its end.

    Its values are the true ones of the player to move.
    """
    boards, env = oracle.positions(), oracle.env
    number = {board.tobytes(): i for i, board in enumerate(boards)}
    table = []
    for board in boards:
        row = []
        for action in range(3):
            env.set_state(board)
            _, reward, over, _, _ = env.step(action)
            following = len(boards) if over else number[env.get_state().tobytes()]
            row.append((following, float(reward), bool(over)))
        table.append(row)
    table.append([(len(boards), 0.0, True)] * 3)
    values = [*map(oracle.value, boards), 0]
    return exact_network(table, values, num_players=2)


def states_of(env, boards):
    found = []
    for board in boards:
        env.gym_env.unwrapped.set_state(board)
        found.append(env.get_state())
    return np.array(found)


def planned(planner, env, oracle, some):
    """The plans of some of the positions, whose numbers a model sees."""
    boards = oracle.positions()[some]
    legal = [[action in oracle.actions(board) for action in range(3)] for board in boards]
    rngs = np.random.default_rng(0).spawn(len(boards))
    seen = {"obs": np.array(some), "legal": np.array(legal)}
    return planner.plan_batch(env, states_of(env, boards), rngs=rngs, **seen)


@pytest.mark.parametrize(
    "planner",
    [
        MCTS(40),
        MCTS(40, selection="uct", wave_size=4),
        MCTS(24, selection="gumbel"),
        MCTS(40, slots=True),
        MCTS(40, rollout_depth=0, waves_in_flight=2),
        STS(10, num_expansions=2),
    ],
    ids=["puct", "uct", "gumbel", "slots", "waves", "sts"],
)
def test_plans_are_those_of_the_true_env(planner, game, oracle, network):
    some = np.arange(len(oracle.positions()))[::7]
    true = planned(planner, game, oracle, some)
    learned = ModelPlanner(planner=planner, model=LatentModel(network))
    for mine, theirs in zip(planned(learned, game, oracle, some), true, strict=True):
        assert (mine.action, mine.value) == (theirs.action, theirs.value)
        np.testing.assert_array_equal(mine.q, theirs.q)


def test_values_of_latents_are_those_of_who_moves_there(game, oracle, network):
    worth = [oracle.actions(board) for board in oracle.positions()]
    some = np.array([i for i, values in enumerate(worth) if len(values) == 3])
    # Gumbel's selection tries each action once.
    options = {"selection": "gumbel", "discount": 1.0, "rollout_depth": 0}
    learned = model_planner(network, lambda asked: MCTS(3, evaluator=asked, **options))
    for i, plan in zip(some, planned(learned, game, oracle, some), strict=True):
        assert plan.q.tolist() == [*worth[i].values()]


@pytest.mark.parametrize("selection", ["puct", "uct"])
def test_choices_are_those_of_minimax(selection, game, oracle, network):
    some = np.arange(len(oracle.positions()))[::6]
    options = {"selection": selection, "value_scale": "none", "rollout_depth": 0}
    planner = MCTS(4000, discount=1.0, wave_size=16, **options)
    learned = ModelPlanner(planner=planner, model=LatentModel(network))
    plans = planned(learned, game, oracle, some)
    worth = [oracle.actions(board) for board in oracle.positions()[some]]
    right = [
        values[plan.action] == max(values.values())
        for plan, values in zip(plans, worth, strict=True)
    ]
    assert all(right), np.flatnonzero(~np.array(right))
    # Many positions are lost by a wrong choice.
    assert np.mean([min(values.values()) < max(values.values()) for values in worth]) > 0.4


def test_true_steps_before_the_model_keep_the_turns(game, oracle, network):
    class Numbered(LatentModel):
        """Begins at boards as the true env shows them."""

        def _begun(self, obs):
            if obs.ndim == 1:
                return super()._begun(obs)
            mine, theirs = obs[:, 0].reshape(-1, 9), obs[:, 1].reshape(-1, 9)
            second = mine.sum(1) != theirs.sum(1)
            first = np.where(second[:, None], theirs, mine)
            cells = first + 2 * np.where(second[:, None], mine, theirs)
            boards = np.pad(cells, ((0, 0), (0, 1))).astype(np.uint8)
            known = {board.tobytes(): i for i, board in enumerate(oracle.positions())}
            return super()._begun(np.array([known.get(b.tobytes(), len(known)) for b in boards]))

    some = np.arange(len(oracle.positions()))[::9]
    planner = MCTS(60)
    true = planned(planner, game, oracle, some)
    mixed = ModelPlanner(planner=planner, model=Numbered(network), true_steps=1)
    for mine, theirs in zip(planned(mixed, game, oracle, some), true, strict=True):
        np.testing.assert_array_equal(mine.q, theirs.q)
    with GymEnv(lambda: Unmasked(stones_per_turn=2)) as twice:
        state, *_ = twice.reset(seed=0)
        with pytest.raises(WrongKind, match=r"MixedModel: .* moved twice in a row"):
            mixed.plan(twice, state, rng=0, obs=np.int64(0))


def test_games_and_models_of_other_players_are_refused(game, network):
    state, alone = game.get_state(), exact_network([[(0, 0.0, False)] * 3])
    planner = ModelPlanner(planner=MCTS(4), model=LatentModel(alone))
    with pytest.raises(WrongKind, match=r"one player; got 2 .*num_players=2"):
        planner.plan(game, state, rng=0, obs=np.int64(0))
    planner = ModelPlanner(planner=MCTS(4), model=LatentModel(network))
    with (
        plangym_ext.make("CartPole-v1") as env,
        pytest.raises(WrongKind, match=r"two players, as the model; got one .*num_players=1"),
    ):
        planner.plan(env, env.reset(seed=0)[0], rng=0, obs=np.int64(0))
