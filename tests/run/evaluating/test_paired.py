"""Players that are compared on the same episodes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from plangym_ext.run import shown_episode
from plangym_ext.run.bootstrap import episodes_for, mean_interval, unpaired_interval
from plangym_ext.run.cli import main
from plangym_ext.run.evaluating.contest import Contest, difference


def test_what_pairs_have_in_common_is_not_in_their_interval():
    rng = np.random.default_rng(0)
    shared = rng.normal(100.0, 10.0, 50)
    found = difference(shared, shared + 3.0)
    # Every pair differs by 3: nothing is unsure.
    assert (found["mean"], found["low"], found["high"]) == pytest.approx((3.0, 3.0, 3.0))
    # Apart, each mean has a deviation of 10 / sqrt(50): 1.96 * sqrt(2) of it each way.
    half = 1.96 * np.sqrt(2) * shared.std() / np.sqrt(50)
    assert found["unpaired_low"] == pytest.approx(3.0 - half, abs=0.1 * half)
    assert found["unpaired_high"] == pytest.approx(3.0 + half, abs=0.1 * half)


def test_without_anything_in_common_pairs_are_worth_nothing():
    rng = np.random.default_rng(1)
    first, second = rng.normal(0.0, 1.0, (2, 400))
    _, low, high = mean_interval(second - first)
    _, low_unpaired, high_unpaired = unpaired_interval(first, second)
    assert high - low == pytest.approx(high_unpaired - low_unpaired, rel=0.15)


def test_episodes_for_a_width_by_hand():
    # Deviation 2, width 1: (2 * 1.96 * 2 / 1) ^ 2 = 61.5.
    assert episodes_for([-2.0, 2.0, -2.0, 2.0, 0.0], 1.0) == 62
    assert episodes_for([5.0, 5.0], 0.1) == 1
    rng = np.random.default_rng(0)
    few = rng.normal(0.0, 3.0, 100)
    more = rng.normal(0.0, 3.0, episodes_for(few, 0.8))
    _, low, high = mean_interval(more)
    assert high - low == pytest.approx(0.8, rel=0.15)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two short runs, in the current folder."""
    monkeypatch.chdir(tmp_path)
    typed = ["--evaluation.every=0", "--collector.num_envs=2", "--quiet"]
    for name, rounds in (("a", 1), ("b", 2)):
        assert main(["train", "ppo_cartpole", "--out", name, f"--rounds={rounds}", *typed]) == 0
    return tmp_path


@pytest.mark.slow
def test_players_are_compared_from_the_same_states(runs, capsys):
    assert main(["states", "a", "--out", "s.npz", "--count=12", "--episodes=3"]) == 0
    assert "wrote 12 states of CartPole-v1 to s.npz" in capsys.readouterr().out
    planner = "shooting:num_simulations=2"
    typed = ["eval", "a", "b", planner, "--starts", "s.npz", "--width", "5", "--max-steps", "30"]
    assert main(typed) == 0
    out = capsys.readouterr().out
    assert out.startswith("CartPole-v1: 12 episodes of each player\nplayer ")
    assert "differences to a" in out
    assert "an interval 5 wide takes" in out
    found = json.loads((runs / "runs" / "eval" / "paired.json").read_text())
    assert list(found["episodes"]) == ["a", "b", planner]
    assert all(len(one["returns"]) == 12 for one in found["episodes"].values())
    first, second = (found["episodes"][name]["returns"] for name in ("a", "b"))
    assert found["differences"][0]["mean"] == np.mean(np.subtract(second, first))
    assert list(found["trained"]) == ["a", "b"]
    # Alone, the same player plays the same episodes.
    assert main(["eval", "b", "--starts", "s.npz", "--max-steps", "30"]) == 0
    alone = json.loads((runs / "b" / "eval.json").read_text())
    assert alone["returns"] == second
    how = {key: alone[key] for key in ("checkpoint", "player", "sample")}
    assert how == found["trained"]["b"]
    assert (how["player"], how["sample"]) == ("network", False)
    again = ["eval", "a", "b", "--sample", "--episodes=2", "--max-steps", "5"]
    assert main([*again, "--overwrite"]) == 0
    found = json.loads((runs / "runs" / "eval" / "paired.json").read_text())
    assert [one["sample"] for one in found["trained"].values()] == [True, True]
    assert alone["starts"] == "s.npz"


@pytest.mark.slow
def test_a_comparison_is_not_written_over_unasked(tmp_path, capsys):
    typed = ["eval", "mcts:num_simulations=2", "mcts:num_simulations=1"]
    typed += ["--env-id", "CartPole-v1", "--episodes=2", "--max-steps=2", "--out", str(tmp_path)]
    assert main(typed) == 0
    before = (tmp_path / "paired.json").read_bytes()
    capsys.readouterr()
    assert main([*typed, "--seed=1"]) == 2
    assert capsys.readouterr().err == (
        f"plangym-ext eval: {tmp_path / 'paired.json'} is there already. Name another place with "
        f"--out, or write over it with --overwrite.\n"
    )
    assert (tmp_path / "paired.json").read_bytes() == before
    assert main([*typed, "--seed=1", "--overwrite"]) == 0
    assert (tmp_path / "paired.json").read_bytes() != before


@pytest.mark.slow
def test_states_are_not_written_over_unasked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    typed = ["states", "mcts:num_simulations=1", "--env-id", "CartPole-v1", "--count=2"]
    typed += ["--episodes=1", "--max-steps=4", "--out", "s"]
    assert main(typed) == 0
    # The name that the file has.
    assert "wrote 2 states of CartPole-v1 to s.npz" in capsys.readouterr().out
    before = (tmp_path / "s.npz").read_bytes()
    assert main([*typed, "--seed=1"]) == 2
    assert "s.npz is there already. Name another place with --out" in capsys.readouterr().err
    assert (tmp_path / "s.npz").read_bytes() == before
    assert main([*typed, "--seed=1", "--overwrite"]) == 0
    assert (tmp_path / "s.npz").read_bytes() != before


@pytest.mark.parametrize("name", [".", "/", "folder"])
def test_a_folder_for_the_file_of_states_is_refused(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert main(["states", "mcts", "--env-id", "CartPole-v1", "--out", name]) == 2
    assert f"--out must be the file to write; got the folder {name}" in capsys.readouterr().err


@pytest.mark.slow
def test_the_film_is_of_the_first_episode(runs, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    filmed, play = [], shown_episode.play

    def watched(*args, **kwargs):
        filmed.append(play(*args, **kwargs))
        return filmed[-1]

    assert main(["states", "a", "--out", "s.npz", "--count=2", "--episodes=2"]) == 0
    monkeypatch.setattr(shown_episode, "play", watched)
    for typed in (["--starts", "s.npz"], ["--episodes=2", "--seed=77"]):
        assert main(["eval", "b", *typed, "--max-steps", "30"]) == 0
        found = json.loads((runs / "b" / "eval.json").read_text())
        words = [word for word in typed if "episodes" not in word]
        film = ["--video", "b.mp4", "--overwrite", "--no-show"]
        assert main(["play", "b", *words, "--max-steps", "30", *film]) == 0
        assert filmed[-1].length == found["lengths"][0]
        assert filmed[-1].return_ == found["returns"][0]


@pytest.mark.slow
def test_what_cannot_be_compared_is_refused(runs, capsys):
    def error(*typed):
        assert main(["eval", *typed]) == 2
        return capsys.readouterr().err

    assert "none of the players is a checkpoint" in error("mcts", "shooting")
    planners = ["mcts", "shooting", "--env-id", "CartPole-v1"]
    for unused in (["--planner.num_simulations", "3"], ["--player", "planner"]):
        assert "is for checkpoints, and none is named" in error(*planners, *unused)
    assert "nowhere is no checkpoint or run that exists, and planner must be" in error(
        "a", "nowhere"
    )
    assert "there is no such checkpoint" in error("nowhere")
    assert "each player once" in error("a", "a")
    assert "--width must be a number > 0; got 0" in error("a", "b", "--width", "0")
    assert "--width is for differences" in error("a", "--width", "3")
    assert "there is no file none.npz" in error("a", "--starts", "none.npz")
    for players in (["a"], ["a", "shooting"]):
        assert "a plays CartPole-v1; got Acrobot-v1" in error(*players, "--env-id", "Acrobot-v1")
    assert "--episodes must be 2 or more" in error("a", "b", "--episodes", "1")
    typed = ["--evaluation.every=0", "--quiet", "--rounds=1", "--env.kwargs.sutton_barto_reward=1"]
    assert main(["train", "ppo_cartpole", "--out", "c", *typed]) == 0
    assert "c plays in another env than a" in error("a", "c")


def test_a_player_that_cannot_play_is_told_before_others_have_played(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    played = []
    monkeypatch.setattr(Contest, "play", lambda self, name, *rest, **more: played.append(name))
    typed = ["--env-id", "plangym_ext/TicTacToe-v0", "--episodes=2", "--max-steps=3"]
    assert main(["eval", "mcts:num_simulations=2", "icem", *typed]) == 2
    assert "ICEM: " in capsys.readouterr().err
    assert played == []
