"""Pretrained agents: what they earn, and where their names stand for a checkpoint."""

from __future__ import annotations

import pytest
import torch

from plangym_ext.errors import PlangymExtError
from plangym_ext.run.cli import main
from plangym_ext.run.pretrained import FOLDER, cards
from plangym_ext.run.training.trained import Trained

pytestmark = pytest.mark.slow
CARDS = cards()
#: Played of each; a move of those that search takes long.
EPISODES = 2


@pytest.mark.parametrize("name", CARDS)
def test_an_agent_earns_what_its_card_says(name):
    card = CARDS[name]
    if card["env"].startswith("LunarLander"):
        pytest.importorskip("Box2D")
    assert sum(card["returns"]) / len(card["returns"]) == pytest.approx(card["return"], abs=1e-3)
    assert card["return"] >= card["least"]
    with Trained(name, seed=card["seed"]) as trained:
        assert trained.path == FOLDER / f"{name}.pt"
        earned = [episode.return_ for episode in trained.play(EPISODES)]
    # Processors round sums differently, and episodes go apart with time.
    assert earned == pytest.approx(card["returns"][:EPISODES], rel=0.2)


def test_all_agents_are_small_and_have_cards():
    files = {path.stem: path.stat().st_size for path in FOLDER.glob("*.pt")}
    assert files.keys() == CARDS.keys()
    assert max(files.values()) < 160_000
    assert sum(files.values()) < 1_500_000


def test_names_stand_for_checkpoints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["list", "pretrained", "td3_"]) == 0
    assert capsys.readouterr().out == (
        "td3_pendulum  TD3 swings up a pendulum; Pendulum-v1: return -109.089\n"
    )
    assert main(["eval", "ppo_cartpole", "--episodes=1", "--max-steps=5"]) == 0
    assert (tmp_path / "runs" / "eval" / "eval.json").exists()
    assert "ppo_cartpole: step 1, episode 1, return 1\n" in capsys.readouterr().err
    assert main(["play", "narrow_path", "--show"]) == 0
    shown = capsys.readouterr().out
    assert "@" in shown
    assert "narrow_path earned 1 in 12 moves" in shown
    small = ["--rounds=1", "--evaluation.every=0", "--quiet"]
    begun = ["train", "ppo_cartpole", "--init-from", "ppo_cartpole", *small, "--out", "fine"]
    assert main(begun) == 0
    search = ["plan", "CartPole-v1", "--network", "ppo_cartpole", "--num-simulations=4"]
    assert main([*search, "--max-steps=3", "--n-workers=0"]) == 0
    # A path that exists counts first, and a folder without a run is none.
    (tmp_path / "ppo_cartpole").mkdir()
    assert main(["play", "ppo_cartpole"]) == 2
    assert "there is no checkpoint in this folder" in capsys.readouterr().err
    assert main(["play", "ppo_cartpol"]) == 2
    said = capsys.readouterr().err
    assert "(did you mean 'ppo_cartpole'?)" in said
    assert "an agent of `plangym-ext list pretrained`" in said


def test_an_agent_plays_on_the_threads_of_its_run():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with Trained("ppo_cartpole") as trained:
            assert torch.get_num_threads() == trained.config.threads == 1
        assert torch.get_num_threads() == 3
        with pytest.raises(PlangymExtError):
            Trained("ppo_cartpole", env={"no_such": 1})
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
