"""Episodes in which each of two players has a planner of its own."""

from __future__ import annotations

from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.core.files.state_set import StateSet
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.envs.rules.line_game import LineGameEnv
from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.learn import (
    Acted,
    ActorCriticAgent,
    Agent,
    AgentConfig,
    AgentPlanner,
    NetworkConfig,
    NetworkEvaluator,
    NetworkPolicy,
    RandomAgent,
    make_agent_network,
    make_network,
)
from plangym_ext.learn.agents.evaluator_agent import EvaluatorAgent
from plangym_ext.planners import MCTS, STS, play

GAME = "plangym_ext/TicTacToe-v0"
KEPT = {"discount": 1.0, "keep_tree": True, "compiled": False}


@pytest.fixture(scope="module")
def game():
    with plangym_ext.make(GAME) as env:
        yield env


class Taking(gym.Env):
    """Two players take one or two from a heap in turn; who takes two moves again.

    Who begins, and how high the heap is, depends on the seed. Who takes the last one wins.
    """

    metadata: ClassVar = {"num_players": 2, "render_modes": []}
    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Box(0, 20, (2,), np.int64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.heap, self.mover = self.np_random.integers(6, 15), int(self.np_random.integers(2))
        return self.seen(), {"player": self.mover, "to_play": self.mover}

    def step(self, action):
        player = self.mover
        self.heap = max(0, self.heap - 1 - int(action))
        self.mover = player if action else 1 - player
        over = self.heap == 0
        return self.seen(), float(over), over, False, {"player": player, "to_play": self.mover}

    def seen(self):
        return np.array([self.heap, self.mover])

    def get_state(self):
        return np.array([self.heap, self.mover], np.int64).view(np.uint8)

    def set_state(self, state):
        heap, mover = state.view(np.int64)
        self.heap, self.mover = heap, int(mover)


class Noting(MCTS):
    """Notes who was to move where it was asked."""

    def __init__(self, simulations=8, **options):
        super().__init__(simulations, **options)
        self.seen = []

    def _plan_batch(self, request):
        self.seen += np.asarray(request.obs)[:, 1].tolist()
        return super()._plan_batch(request)


def as_told(episode):
    """What tells two episodes apart."""
    return episode.actions.tolist(), episode.rewards.tolist(), episode.players.tolist()


@pytest.mark.parametrize("strong_first", [True, False])
def test_each_player_searches_for_itself(game, strong_first):
    strong, weak = MCTS(600, discount=1.0), MCTS(1)
    pair = (strong, weak) if strong_first else (weak, strong)
    games = play(game, pair[0], opponent=pair[1], seed=0, max_steps=9, num_episodes=20)
    assert {len(set(episode.players.tolist())) for episode in games} == {2}
    # Of 600 simulations none of these loses; of one, most do.
    gains = np.array([episode.return_ for episode in games]) * (1 if strong_first else -1)
    assert gains.min() >= 0
    assert (gains > 0).sum() >= 10


def test_neither_is_asked_for_the_moves_of_the_other():
    first, second = Noting(), Noting()
    with GymEnv(Taking) as env:
        games = play(env, first, opponent=second, seed=3, max_steps=20, num_episodes=8)
    assert set(first.seen) == {0}
    assert set(second.seen) == {1}
    assert len(first.seen) + len(second.seen) == sum(episode.length for episode in games)
    # The test is of games that are not all at the same player's move.
    assert len({episode.players[0] for episode in games}) == 2
    assert any((np.diff(episode.players) == 0).any() for episode in games)


@pytest.mark.parametrize("planners", [(MCTS(30, **KEPT), STS(30)), (MCTS(30), MCTS(20, **KEPT))])
@pytest.mark.parametrize("make", [Taking, LineGameEnv])
def test_games_side_by_side_are_those_played_alone(make, planners):
    first, second = planners
    with GymEnv(make) as env:
        together = play(env, first, opponent=second, seed=5, max_steps=20, num_episodes=6)
        alone = [play(env, first, opponent=second, seed=5 + i, max_steps=20) for i in range(6)]
    assert [as_told(one) for one in together] == [as_told(one) for one in alone]


def test_an_agent_is_an_opponent(game):
    agent = RandomAgent(game.action_space)
    episode = play(game, MCTS(300, discount=1.0), opponent=agent, seed=1, max_steps=9)
    assert episode.return_ == 1.0
    again = play(
        game, MCTS(300, discount=1.0), opponent=AgentPlanner(agent=agent), seed=1, max_steps=9
    )
    assert as_told(again) == as_told(episode)


def test_an_agent_that_carries_something_is_refused(game):
    class Carrying(RandomAgent):
        def initial_carry(self, num_rows):
            return np.zeros((num_rows, 1))

    agent = Carrying(game.action_space)
    with pytest.raises(WrongKind, match=r"must carry nothing, and not look .*; Carrying does"):
        play(game, MCTS(2), opponent=agent, seed=0, max_steps=9)


def test_networks_and_agents_of_ones_own_are_opponents(game):
    class First(Agent):
        looks_at = frozenset()

        def step(self, inputs, carry):
            return Acted(np.argmax(inputs.legal, axis=1), {}, None)

    spaces = game.observation_space, game.action_space
    network = make_network(*spaces, NetworkConfig(hidden=(8,)), seed=0)
    screens = make_agent_network(*spaces, AgentConfig(hidden=(8,)), seed=0)
    for opponent in (
        First(),
        NetworkPolicy(evaluator=NetworkEvaluator(network)),
        EvaluatorAgent(NetworkEvaluator(network)),
        ActorCriticAgent(screens),
    ):
        episode = play(game, MCTS(4), opponent=opponent, seed=0, max_steps=9)
        assert episode.length >= 5
    with pytest.raises(WrongKind, match=r"opponent must be a planner, or an agent .* a function"):
        play(game, MCTS(4), opponent=lambda obs: 0, seed=0, max_steps=9)


def test_an_opponent_needs_a_second_player():
    with (
        plangym_ext.make("CartPole-v1", backend="serial") as env,
        pytest.raises(WrongKind, match="opponent needs an env with two players; got 1 in"),
    ):
        play(env, MCTS(2), opponent=MCTS(2), seed=0, max_steps=2)


def test_states_do_not_say_who_moves(game):
    state, obs, _ = game.reset(seed=0)
    starts = StateSet(state[None], obs[None])
    with pytest.raises(InvalidOption, match="starts must be None with an opponent"):
        play(game, MCTS(2), opponent=MCTS(2), seed=0, max_steps=2, starts=starts)


def test_the_class_of_an_opponent_is_refused(game):
    with pytest.raises(WrongKind, match=r"opponent must be an instance.*Write MCTS\(\.\.\.\)"):
        play(game, MCTS(2), opponent=MCTS, seed=0, max_steps=2)


def test_an_env_that_does_not_say_who_moves_is_refused():
    class Silent(Taking):
        def reset(self, *, seed=None, options=None):
            obs, _ = super().reset(seed=seed)
            return obs, {"player": 0}

    with GymEnv(Silent) as env, pytest.raises(WrongKind, match=r"'to_play'.*got \['player'\]"):
        play(env, MCTS(2), opponent=MCTS(2), seed=0, max_steps=2)
