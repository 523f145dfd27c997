"""Games against old versions: moves in between, who is met, resuming, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from training_runs import assert_resumes

import plangym_ext
from plangym_ext.envs import LineGameEnv
from plangym_ext.errors import DamagedCheckpoint, InvalidObservation, InvalidOption, WrongKind
from plangym_ext.learn import (
    AgentConfig,
    AgentPlanner,
    AlternatingSampler,
    League,
    LeagueConfig,
    Opponents,
    RandomAgent,
    SerialSampler,
    make_agent_network,
)
from plangym_ext.learn.sampling.league import PRESENT, Version
from plangym_ext.planners import MCTS
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner

GAME = "plangym_ext/TicTacToe-v0"


def network(seed=0, env_id=GAME):
    with plangym_ext.make(env_id) as env:
        spaces = env.observation_space, env.action_space
    return make_agent_network(*spaces, AgentConfig(hidden=(4,)), seed=seed)


def league(*versions, **config):
    return League(network(), LeagueConfig(every=1, **config), versions)


def opponents(env, of=None, planner=None):
    chosen = planner or AgentPlanner(agent=RandomAgent(env.action_space), mode="sample")
    return Opponents(of or league(), network(1), chosen, env)


# Moves in between -------------------------------------------------------------------


def sampled(env, stones=1, num_steps=40, **options):
    """Return a sampler of random moves against an opponent of random moves."""

    def make():
        return LineGameEnv(3, 3, 3, stones_per_turn=stones)

    venv = plangym_ext.make_vec(make, 5, autoreset_mode="same_step", **options)
    agent = RandomAgent(venv.single_action_space)
    return SerialSampler(venv, agent, num_steps, opponents=opponents(env), seed=3)


def line_of(board):
    """Whether there are three in a line."""
    lines = [*board, *board.T, board.diagonal(), board[:, ::-1].diagonal()]
    return any(line.all() for line in lines)


@pytest.mark.parametrize("options", [{}, {"n_workers": 2}], ids=["kernel", "workers"])
@pytest.mark.parametrize("stones", [1, 2])
def test_what_is_sampled_is_the_game_as_the_learner_sees_it(stones, options):
    env = plangym_ext.make(lambda: LineGameEnv(3, 3, 3, stones_per_turn=stones), n_workers=0)
    sampler = sampled(env, stones, **options)
    begun, results = set(), set()
    for _ in range(2):
        collected = sampler.collect()
        tree = collected.data
        obs, final = tree["obs"][0:41].to_ndarray(), tree["final_obs"].to_ndarray()
        ended, reward = tree["terminated"].to_ndarray(), tree["reward"].to_ndarray()
        action, mask = tree["action"].to_ndarray(), tree["action_mask"][0:41].to_ndarray()
        for t, row in np.ndindex(ended.shape):
            mine, theirs = obs[t, row].astype(bool)
            assert (mask[t, row].reshape(3, 3) == ~(mine | theirs)).all()
            mine = mine.copy()
            mine.flat[action[t, row]] = True
            # After the last move the board is that of the player who would be next.
            after = (final if ended[t, row] else obs[1:])[t, row].astype(bool)
            if not ended[t, row]:
                assert (after[0] == mine).all()
                assert (theirs <= after[1]).all()
                # A turn of the other's, or one more stone of the learner's own turn.
                assert after[1].sum() - theirs.sum() in {0, stones}
                assert reward[t, row] == 0
                continue
            own, other = after if (after[0] == mine).all() else after[::-1]
            assert (own == mine).all()
            assert (theirs <= other).all()
            assert reward[t, row] == float(line_of(own)) - float(line_of(other))
            results.add(reward[t, row])
            first = obs[t + 1, row]
            assert first[0].sum() == 0
            assert first[1].sum() in {0, stones}
            begun.add(int(first[1].sum()))
        assert set(collected.episodes["opponent"]) <= {PRESENT, 1}
        returns = collected.episodes["return"]
        assert returns.tolist() == reward[ended].tolist()
    assert begun == {0, stones}
    assert results == {-1.0, 0.0, 1.0}
    sampler.close()
    env.close()


def test_a_sampler_goes_on_from_its_state():
    with plangym_ext.make(GAME) as env:
        whole, broken = sampled(env), sampled(env)
        whole.collect()
        broken.load_state_dict(whole.state_dict())
        first, second = whole.collect(), broken.collect()
        for name in ("obs", "action", "reward", "terminated"):
            both = [one.data[name].to_ndarray() for one in (first, second)]
            np.testing.assert_array_equal(*both)
        np.testing.assert_array_equal(first.episodes["opponent"], second.episodes["opponent"])
        assert [one.number for one in broken.league.versions] == [1, 2]
        whole.close()
        broken.close()


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("opponents", lambda rows: rows + 3),
        ("opponents", lambda rows: rows[:2]),
        ("opponents", lambda rows: rows.astype(float)),
        ("opponents", lambda rows: rows - [0, 0, 1 << 40]),
        ("weights", lambda versions: [{"w": np.zeros(3)}, *versions[1:]]),
        ("weights", lambda versions: versions * 2),
        ("numbers", lambda numbers: numbers[:0]),
        ("numbers", lambda numbers: numbers - 2),
        ("numbers", lambda numbers: numbers + 1),
        ("numbers", lambda numbers: numbers + 0.5),
        ("points", lambda points: points * np.nan),
        ("points", lambda points: points + 100.0),
        ("games", lambda games: games * 0.0 - 3.0),
        ("fragments", lambda fragments: 0),
    ],
)
def test_a_state_that_was_altered_is_refused(part, changed):
    with plangym_ext.make(GAME) as env:
        sampler = sampled(env)
        sampler.collect()
        state = sampler.state_dict()
        holder = state["rows"] if part == "opponents" else state["league"]
        holder[part] = changed(holder[part])
        with pytest.raises(DamagedCheckpoint, match="league: "):
            sampler.load_state_dict(state)
        sampler.close()


def test_a_search_of_the_opponent_wins_most_games():
    with plangym_ext.make(GAME) as env:
        venv = plangym_ext.make_vec(GAME, 8, autoreset_mode="same_step")
        agent = RandomAgent(venv.single_action_space)
        other = opponents(env, planner=MCTS(num_simulations=60))
        sampler = SerialSampler(venv, agent, 20, opponents=other)
        assert sampler.collect().episodes["return"].mean() < -0.7
        sampler.close()


def test_an_opponent_plays_by_the_weights_of_its_version():
    old = network(5)
    saved = {name: part.numpy().copy() for name, part in old.state_dict().items()}
    seen = []

    class Watched(RandomAgent):
        def step(self, inputs, carry):
            seen.append(next(iter(other.network.state_dict().values())).clone())
            return super().step(inputs, carry)

    with plangym_ext.make(GAME) as env:
        player = AgentPlanner(agent=Watched(env.action_space), mode="sample")
        other = opponents(env, league(Version(7, saved)), player)
        state, obs, info = env.reset(seed=0)
        rows = np.stack([state, state]), np.stack([obs, obs])
        legal = np.stack([info["action_mask"]] * 2) != 0
        other.moves(np.array([7, PRESENT]), *rows, legal, np.arange(2, dtype=np.uint64))
    present = next(iter(other.league.network.state_dict().values()))
    assert torch.equal(seen[0], present)
    assert torch.equal(seen[1], torch.from_numpy(next(iter(saved.values()))))


# Who is met -------------------------------------------------------------------------


def test_priorities_by_hand():
    versions = Version(1, {}, 9.5, 9.0), Version(2, {}, 4.0, 8.0)
    scores = np.array([1.0, 0.5])
    assert [one.score for one in versions] == pytest.approx(scores)
    np.testing.assert_allclose(league(*versions).priorities, [0.0, 0.25])
    np.testing.assert_allclose(league(*versions, priority="even").priorities, [0.0, 0.25])
    np.testing.assert_allclose(league(*versions, priority="uniform").priorities, [1.0, 1.0])


def test_opponents_are_drawn_by_their_priorities():
    versions = [Version(k, {}, points, 9.0) for k, points in ((3, 7.5), (8, 4.5))]
    found = league(*versions, share=0.6)
    numbers = found.drawn((np.arange(10_000) + 0.5) / 10_000)
    # Scores are 0.8 and 0.5.
    shares = np.array([0.2**2, 0.5**2]) / (0.2**2 + 0.5**2)
    assert np.mean(numbers == PRESENT) == pytest.approx(0.4, abs=1e-3)
    assert np.mean(numbers == 3) == pytest.approx(0.6 * shares[0], abs=1e-3)
    assert np.mean(numbers == 8) == pytest.approx(0.6 * shares[1], abs=1e-3)
    assert set(league().drawn(np.linspace(0, 0.99, 5))) == {PRESENT}


def test_results_move_the_score_and_the_one_that_is_met_least_leaves():
    found = league(Version(1, {}), Version(2, {}), capacity=2)
    episodes = {"opponent": np.array([1, 1, 2, PRESENT]), "return": np.array([1.0, 1.0, 0.0, -1.0])}
    after = found.after(episodes)
    assert [one.number for one in found.versions] == [1, 2]
    # The first was beaten twice: the learner's present weights take its place.
    assert [one.number for one in after.versions] == [2, 1]
    assert after.versions[0].points == pytest.approx(0.5)
    assert after.versions[0].games == pytest.approx(1.0)
    assert list(after.versions[1].weights) == list(network().state_dict())
    # What was saved may be of a larger capacity.
    many = [Version(k, {}) for k in range(1, 6)]
    assert len(league(*many, capacity=2).after(episodes).versions) == 2
    twice = league(Version(9, {})).after(
        {"opponent": np.array([9, 9]), "return": np.array([1.0, 1.0])}
    )
    assert twice.versions[0].points == pytest.approx(1.98)
    assert twice.told["league/versions"] == 2


def test_a_game_whose_return_is_no_number_is_refused():
    games = {"opponent": np.array([1, 1]), "return": np.array([1.0, np.nan])}
    with pytest.raises(InvalidObservation, match="NaN in 1 of 2 games"):
        league(Version(1, {})).after(games)


# Runs -------------------------------------------------------------------------------

RUN = {
    "env": {"id": GAME, "max_steps": 9},
    "collector": {"num_envs": 4, "moves": 7},
    "league": {"every": 1, "capacity": 2},
    "rounds": 4,
    "checkpoint_every": 2,
    "evaluation": {"every": 0},
}
LEARNERS = {
    "ppo": {
        "agent": {"name": "actor_critic", "hidden": [8]},
        "algorithm": {"name": "ppo", "batch_size": 14, "epochs": 2},
    },
    "dqn": {
        "agent": {"name": "q", "hidden": [8]},
        "algorithm": {"name": "dqn", "batch_size": 8, "learning_starts": 16},
    },
    "alphazero": {
        "agent": {"name": "network", "hidden": [8], "channels": [4]},
        "planner": {"name": "mcts", "num_simulations": 8, "discount": 1.0, "temperature": 1.0},
        "algorithm": {
            "name": "alphazero",
            "value_target": "discounted_return",
            "discount": 1.0,
            "learning_starts": 8,
            "batch_size": 8,
        },
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_a_resumed_run_equals_one_that_was_not_interrupted(tmp_path, name):
    config = compose([RUN, LEARNERS[name]])
    whole = assert_resumes(tmp_path, config, compose([RUN, LEARNERS[name], {"rounds": 2}]))
    assert len(whole.sampler.league.versions) == 2


@pytest.mark.slow
def test_a_league_teaches_to_win(tmp_path):
    settings = {
        **RUN,
        "collector": {"num_envs": 32, "moves": 16},
        "league": {"every": 5},
        "rounds": 40,
        "checkpoint_every": 0,
    }
    algorithm = {"name": "ppo", "learning_rate": 0.003, "epochs": 4, "batch_size": 128}
    agent = {"name": "actor_critic", "kind": "mlp", "hidden": [64]}
    with Runner(compose([settings, {"agent": agent, "algorithm": algorithm}]), tmp_path) as runner:
        runner.run()
        first, *_ = runner.sampler.league.versions
    # The first version had learned for five rounds.
    assert first.score > 0.6


# Refusals ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"collector": {"n_workers": 2}}, "league.every"),
        ({"mode": "async", **LEARNERS["dqn"]}, "mode"),
        ({"learners": 2}, "learners"),
        ({"collector": {"sums": ["a"]}}, "collector.sums"),
        ({"starts": {"file": "starts.npz"}}, "starts.file"),
        ({"algorithm": {"advantages": {"name": "forked"}}}, "algorithm.advantages 'forked'"),
        (
            {**LEARNERS["alphazero"], "collector": {"kind": "solutions"}},
            "collector.kind 'solutions'",
        ),
        (
            {
                **LEARNERS["alphazero"],
                "agent": {"name": "latent", "num_players": 2},
                "algorithm": {"name": "muzero", "discount": 1.0},
            },
            "algorithm 'muzero'",
        ),
        ({"league": {"priority": "hardest"}}, "league.priority"),
    ],
)
def test_settings_refuse_what_plays_no_opponents(changed, named):
    with pytest.raises(InvalidOption, match=named):
        compose([RUN, LEARNERS["ppo"], changed])


def test_an_env_of_one_player_is_refused(tmp_path):
    config = compose([RUN, LEARNERS["ppo"], {"env": {"id": "CartPole-v1"}}])
    with pytest.raises(WrongKind, match="of two players"):
        Runner(config, tmp_path)


def test_an_agent_with_a_memory_is_refused(tmp_path):
    recurrent = {"agent": {"recurrent": "gru"}, "algorithm": {"minibatch": "env"}}
    config = compose([RUN, LEARNERS["ppo"], recurrent])
    with pytest.raises(WrongKind, match="must carry nothing"):
        Runner(config, tmp_path)


def test_other_samplers_refuse_opponents():
    with plangym_ext.make(GAME) as env:
        venv = plangym_ext.make_vec(GAME, 2, autoreset_mode="same_step")
        agent = RandomAgent(env.action_space)
        with pytest.raises((InvalidOption, WrongKind)):
            AlternatingSampler(venv, agent, 3, opponents=opponents(env))
        with pytest.raises(InvalidOption, match="keep no infos"):
            SerialSampler(venv, agent, 3, opponents=opponents(env), env_info={"player": "<i8"})
        venv.close()
