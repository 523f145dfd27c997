"""Elo ratings of players of a game: by hand, with intervals, from the command line."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import plangym_ext
from plangym_ext.envs import LineGameEnv
from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.planners import MCTS
from plangym_ext.run.cli import main
from plangym_ext.run.evaluating.elo import match, ratings


def test_the_rating_of_two_players_by_hand():
    # 7 wins, 2 draws and 1 loss, and the draw that each pair is given: 8.5 of 11.
    scores = np.array([[1, 1], [1, 1], [1, 1], [1, 0.5], [0.5, 0]])
    first, second = ratings(["one", "other"], {("one", "other"): scores})
    assert first["elo"] == 0.0
    assert second["elo"] == pytest.approx(-400 * math.log10(8.5 / 2.5), abs=1e-6)
    assert (first["score"], second["score"]) == pytest.approx((0.8, 0.2))
    assert first["games"] == second["games"] == 10
    assert second["low"] < second["elo"] < second["high"]


def test_ratings_of_several_players_foretell_their_scores():
    rng = np.random.default_rng(1)
    true = {"weak": 0.0, "middle": 150.0, "strong": 400.0}
    scores = {}
    for one, other in [("weak", "middle"), ("weak", "strong"), ("middle", "strong")]:
        chance = 1 / (1 + 10 ** ((true[other] - true[one]) / 400))
        scores[one, other] = (rng.random((1_000, 2)) < chance).astype(float)
    for row in ratings(list(true), scores):
        assert row["low"] <= true[row["player"]] <= row["high"]
        assert row["high"] - row["low"] < 80


def most_likely(names, scores):
    """Return ratings by small steps up the likelihood, one difference after the other."""
    chance = [
        (names.index(one), names.index(other), games.sum() + 0.5, games.size + 1.0)
        for (one, other), games in scores.items()
    ]
    at = np.zeros(len(names))
    for _ in range(3_000):
        slope, bend = np.zeros((2, len(names)))
        for i, j, won, count in chance:
            share = 1 / (1 + math.exp(at[j] - at[i]))
            slope[[i, j]] += np.array([1, -1]) * (won - count * share)
            bend[[i, j]] += count * share * (1 - share)
        at += 0.5 * np.clip(slope / bend, -1, 1)
    return 400 / math.log(10) * (at - at[0])


@pytest.mark.parametrize("every", [True, False])
def test_ratings_far_apart_are_the_most_likely_ones(every):
    names = [f"p{k}" for k in range(8)]
    scores = {
        (one, other): np.array([[1.0, 1.0]] * 50 + [[0.0, 0.5]] * (j - i == 1))
        for i, one in enumerate(names)
        for j, other in enumerate(names)
        if j == i + 1 or (every and j > i)
    }
    found = [row["elo"] for row in ratings(names, scores)]
    np.testing.assert_allclose(found, most_likely(names, scores), atol=0.1)
    assert found[-1] < -1_000


def test_a_pair_in_either_order_is_one_pair():
    first, then = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[0.5, 0.0], [1.0, 0.0]])
    both = ratings(["a", "b"], {("a", "b"): first, ("b", "a"): then})
    assert both == ratings(["a", "b"], {("a", "b"): np.concatenate([first, 1 - then])})
    assert both[0]["games"] == 8


@pytest.mark.parametrize("pairs", [["ab"], ["ab", "cd"], ["ab", "bc", "ca", "dd"], ["ab", "xb"]])
def test_ratings_are_of_players_that_games_connect(pairs):
    with pytest.raises(InvalidOption, match="ratings: "):
        ratings(list("abcd"), {tuple(pair): np.ones((3, 2)) for pair in pairs})


@pytest.mark.parametrize("wrong", [[[math.nan, 1.0]], [[2.0, 0.0]], [[-0.5, 0.0]], [], [1.0, 0.0]])
def test_scores_are_shares_of_games(wrong):
    with pytest.raises(InvalidOption, match="ratings: scores of a and b"):
        ratings(["a", "b"], {("a", "b"): np.array(wrong)})


class Paying(LineGameEnv):
    """A stone earns 1 at once, and no game ends."""

    def step(self, action):
        obs, _, _, _, info = super().step(action)
        self.state[-1] = 0
        return obs, 1.0, False, False, info


def test_a_game_that_is_cut_is_a_draw_whatever_was_earned():
    with plangym_ext.make(Paying, n_workers=0) as env:
        limits = {"games": 2, "seed": 0, "max_steps": 3}
        assert (match(env, MCTS(2), MCTS(2), **limits) == 0.5).all()


@pytest.mark.parametrize("wrong", [{"max_steps": 0}, {"opening": -1}, {"games": 0}])
def test_numbers_of_a_match_are_checked(wrong):
    limits = {"games": 1, "seed": 0, "max_steps": 9, **wrong}
    with (
        plangym_ext.make("plangym_ext/TicTacToe-v0") as env,
        pytest.raises(InvalidOption, match=f"match: {next(iter(wrong))}"),
    ):
        match(env, MCTS(2), MCTS(2), **limits)


def test_a_match_is_of_two_players():
    with (
        plangym_ext.make("CartPole-v1") as env,
        pytest.raises(WrongKind, match="match: the env must have two players"),
    ):
        match(env, MCTS(2), MCTS(2), games=1, seed=0, max_steps=2)


def test_both_sides_of_a_game_are_resampled_together():
    # Player 0 wins: a player's score is 0.5 in every game of either side, and is sure.
    scores = np.tile([1.0, 0.0], (20, 1))
    _, second = ratings(["one", "other"], {("one", "other"): scores})
    assert second["elo"] == second["low"] == second["high"] == 0.0


def test_a_player_that_searches_more_wins_and_games_differ():
    with plangym_ext.make("plangym_ext/TicTacToe-v0") as env:
        strong, weak = MCTS(num_simulations=200), MCTS(num_simulations=2)
        limits = {"games": 12, "seed": 0, "max_steps": 9, "opening": 2}
        scores = match(env, strong, weak, **limits)
        assert scores.shape == (12, 2)
        assert scores.mean() > 0.7
        np.testing.assert_array_equal(scores, match(env, strong, weak, **limits))
        # What one wins as either side the other loses as the other side.
        other = match(env, weak, strong, **limits)
        np.testing.assert_array_equal(other, 1 - scores[:, ::-1])


def test_openings_are_drawn_of_discrete_actions():
    with (
        plangym_ext.make("Pendulum-v1") as env,
        pytest.raises(InvalidOption, match="opening must be 0"),
    ):
        match(env, MCTS(), MCTS(), games=1, seed=0, max_steps=1, opening=1)


def test_the_command_rates_players_of_a_game(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    players = [f"mcts:num_simulations={n}" for n in (2, 20, 100)]
    typed = ["eval", *players, "--env-id", "plangym_ext/TicTacToe-v0", "--episodes", "4"]
    assert main(typed) == 0
    told = capsys.readouterr().out
    assert "each two players met 8 times" in told
    assert "Elo" in told
    found = json.loads((tmp_path / "runs/eval/paired.json").read_text())
    assert [row["player"] for row in found["ratings"]] == players
    assert found["ratings"][0]["games"] == 16
    assert len(found["games"]) == 3
    assert main([*typed, "--overwrite", "--width", "1"]) == 2
    assert "--width" in capsys.readouterr().err
