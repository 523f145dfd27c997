"""Elo ratings of players of a game: by hand, with intervals, from the command line."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import InvalidOption
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
