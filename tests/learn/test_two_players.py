"""Self-play: targets are of the player who moves; runs of two-player games resume bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from minimax import Minimax
from training_runs import assert_resumes, small, weights

import plangym_ext
from plangym_ext.envs import LineGameEnv
from plangym_ext.errors import WrongKind
from plangym_ext.learn import (
    AgentConfig,
    EpisodeRecord,
    PlannerAgent,
    SerialSampler,
    TDConfig,
    TDLearning,
    make_agent_network,
)
from plangym_ext.learn.targets import VALUE_TARGETS
from plangym_ext.learn.whole_episodes import WholeEpisodes
from plangym_ext.planners.mcts.mcts import MCTS
from plangym_ext.planners.players import infos_of_players
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner

GAMMA, N = 0.9, 2


def _record(**changed):
    """Five moves of players 0, 0, 1, 0, 1, cut before player 1 moves once more."""
    given = {
        "seed": 0,
        "observations": np.arange(6.0, dtype=np.float32)[:, None],
        "actions": np.zeros(5, np.int64),
        "rewards": np.array([1.0, 2.0, 4.0, 8.0, 16.0]),
        "terminated": False,
        "truncated": True,
        "root_values": np.array([0.1, 0.2, 0.3, 0.4, 0.5]),
        "final_value": 3.0,
        "sides": np.array([1.0, 1.0, -1.0, 1.0, -1.0, -1.0]),
        **changed,
    }
    return EpisodeRecord(**given)


def _by_hand(record, steps):
    """Return what n steps and the value after them are worth to each mover, move by move."""
    values = [*record.root_values, 0.0 if record.terminated else record.final_value]
    found = []
    for t in range(record.length):
        total, end = 0.0, min(t + steps, record.length)
        for k in range(t, end):
            mine = record.sides[k] == record.sides[t]
            total += GAMMA ** (k - t) * (record.rewards[k] if mine else -record.rewards[k])
        mine = record.sides[end] == record.sides[t]
        total += GAMMA ** (end - t) * (values[end] if mine else -values[end])
        found.append(total)
    return found


@pytest.mark.parametrize("terminated", [False, True])
def test_targets_are_of_the_player_who_moves(terminated):
    record = _record(terminated=terminated, truncated=not terminated)
    found = VALUE_TARGETS["n_return"](record, GAMMA, N)
    np.testing.assert_allclose(found, _by_hand(record, N), rtol=1e-12)
    found = VALUE_TARGETS["discounted_return"](record, GAMMA, N)
    np.testing.assert_allclose(found, _by_hand(record, 100), rtol=1e-12)


def test_the_value_after_a_cut_is_of_the_player_to_move_there():
    # Without a final value: the last plan's value less its reward, for the other player.
    record = _record(final_value=None, sides=np.array([1.0, 1.0, -1.0, 1.0, -1.0, 1.0]))
    found = VALUE_TARGETS["discounted_return"](record, GAMMA, N)
    assert found[-1] == pytest.approx(record.root_values[-1])


def test_temporal_differences_turn_what_the_other_player_expects():
    space = plangym_ext.make("plangym_ext/TicTacToe-v0")
    network = make_agent_network(
        space.observation_space, space.action_space, AgentConfig(hidden=(4,)), seed=0
    )
    space.close()
    record = _record()
    found = TDLearning(network, TDConfig(discount=GAMMA, n_steps=N)).samples(record)
    values = np.append(record.root_values, record.final_value)
    after = found["next_obs"][:, 0].astype(int)
    both = found["reward"] + found["discount"] * values[after]
    np.testing.assert_allclose(both, _by_hand(record, N), rtol=1e-6)


@pytest.mark.parametrize("stones", [1, 2])
def test_games_that_were_played_have_the_result_of_each_mover(stones):
    def make():
        return LineGameEnv(3, 3, 3, stones_per_turn=stones)

    env = plangym_ext.make(make)
    venv = plangym_ext.make_vec(make, 4, autoreset_mode="same_step", n_workers=0)
    agent = PlannerAgent(MCTS(num_simulations=8, temperature=1.0), env)
    sampler = SerialSampler(venv, agent, 25, env_info=infos_of_players(env))
    episodes, decided = WholeEpisodes(env.observation_space, env.action_space), 0
    for _ in range(2):
        for record in episodes.take(sampler.collect()):
            movers = np.arange(record.length) // stones % 2
            assert record.sides[:-1].tolist() == np.where(movers == 0, 1.0, -1.0).tolist()
            found = VALUE_TARGETS["discounted_return"](record, 1.0, 1)
            # The last mover's result, or its negative.
            won = record.rewards[-1]
            assert found.tolist() == np.where(movers == movers[-1], won, -won).tolist()
            decided += bool(won)
    assert decided
    sampler.close()
    env.close()


SELF_PLAY = {
    "env": {"id": "plangym_ext/TicTacToe-v0", "max_steps": 9},
    "planner": {"num_simulations": 8, "discount": 1.0},
    "agent": {"hidden": [8], "channels": [4], "value_scale": 1.0},
    "algorithm": {"value_target": "discounted_return", "discount": 1.0},
    "rounds": 4,
    "evaluation": {"every": 0},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [{}, {"planner": {"selection": "gumbel", "temperature": 0.0, "root_noise": 0.0}}],
    ids=["alphazero", "gumbel"],
)
def test_self_play_resumes_bit_for_bit(tmp_path, changed):
    whole, cut = small(SELF_PLAY, changed), small(SELF_PLAY, changed, {"rounds": 2})
    assert_resumes(tmp_path, whole, cut)


@pytest.mark.slow
def test_self_play_finds_right_moves(tmp_path):
    changed = {
        "planner": {
            "num_simulations": 32,
            "selection": "puct",
            "temperature": 1.0,
            "root_noise": 0.25,
            "dirichlet_alpha": 1.0,
        },
        "agent": {"kind": "mlp", "channels": None, "hidden": [64, 64]},
        "algorithm": {
            "batch_size": 128,
            "learning_rate": 0.003,
            "learning_starts": 256,
            "updates_per_round": 16,
            "augment": None,
        },
        "collector": {"num_envs": 32, "moves": 9, "n_workers": 0},
        "rounds": 60,
    }
    settings = {**SELF_PLAY, "checkpoint_every": 0}
    with Runner(compose(["selfplay_connect4", settings, changed]), tmp_path) as runner:
        before, _ = _judged(runner.network)
        runner.run()
        right, alike = _judged(runner.network)
    assert before < 0.65
    assert right > 0.85
    # A value of the wrong player would have the opposite sign.
    assert alike > 0.5


@pytest.mark.slow
def test_self_play_in_a_learned_model_finds_right_moves(tmp_path):
    # Three in a row with gravity: its model is learned in a quarter of a minute.
    changed = {
        "env": {"id": "plangym_ext/TicTacToe-v0", "kwargs": {"gravity": True}, "max_steps": 9},
        "planner": {"num_simulations": 16},
        "agent": {"kind": "mlp", "channels": None, "representation": [64], "hidden": [128]},
        "algorithm": {
            "n_steps": 9,
            "unroll": 3,
            "learning_rate": 0.003,
            "learning_starts": 256,
            "updates_per_round": 32,
        },
        "collector": {"num_envs": 32, "moves": 9},
        "rounds": 40,
        "checkpoint_every": 0,
    }
    with Runner(compose(["gumbel_muzero_connect4", changed]), tmp_path) as runner:
        before, _ = _judged(runner.network, 1, gravity=True)
        runner.run()
        right, alike = _judged(runner.network, 1, gravity=True)
    assert before < 0.8
    assert right > 0.83
    assert alike > 0.7


def _judged(network, every=12, **rules):
    """Return the share of right moves of a policy, and how its values go with the true ones."""
    game = LineGameEnv(**rules)
    game.reset()
    judge = Minimax(game)
    judge.value(game.get_state())
    obs, right, values, legal = [], [], [], []
    for state in judge.positions()[::every]:
        worth = judge.actions(state)
        game.set_state(state)
        legal.append(game.infos()["action_mask"] != 0)
        obs.append(np.zeros(game.observation_space.shape, np.float32))
        game.kernel.functions()[2](game.state, game.kernel.params, obs[-1])
        values.append(max(worth.values()))
        right.append([action for action, one in worth.items() if one == values[-1]])
    with torch.inference_mode():
        out = network.eval()(torch.from_numpy(np.stack(obs)))
    chosen = np.where(np.stack(legal), out.policy_logits.numpy(), -np.inf).argmax(axis=1)
    found = out.value.numpy()
    alike = float(np.corrcoef(found, values)[0, 1]) if found.any() else 0.0
    return np.mean([a in good for a, good in zip(chosen, right, strict=True)]), alike


@pytest.mark.slow
def test_self_play_in_workers_is_that_of_one_process(tmp_path):
    found = []
    for workers in (0, 2):
        config = small(SELF_PLAY, {"collector": {"n_workers": workers}, "rounds": 2})
        with Runner(config, tmp_path / str(workers)) as runner:
            runner.run()
        found.append(weights(runner.network))
    assert found[0] == found[1]


def test_samplers_that_are_not_told_the_players_refuse_them():
    venv = plangym_ext.make_vec("plangym_ext/TicTacToe-v0", 1, autoreset_mode="same_step")
    with pytest.raises(WrongKind, match="must have one player"):
        SerialSampler(venv, object(), 1)
    venv.close()
