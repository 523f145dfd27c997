from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from plangym_ext.run.bootstrap import mean_interval
from plangym_ext.run.cli import main
from plangym_ext.run.commands import compare
from plangym_ext.run.files import FolderLock
from plangym_ext.run.named_player import NamedPlayer


def test_the_interval_of_a_mean_by_hand():
    assert mean_interval([3.0]) == (3.0, 3.0, 3.0)
    values = np.random.default_rng(0).normal(5.0, 2.0, 100)
    mean, low, high = mean_interval(values)
    assert mean == values.mean()
    # The normal interval is 1.96 standard errors wide each way.
    half = 1.96 * values.std() / 10
    assert low == pytest.approx(mean - half, abs=0.1 * half)
    assert high == pytest.approx(mean + half, abs=0.1 * half)
    assert mean_interval(values) == (mean, low, high)


def test_planners_are_made_of_names_and_options():
    text = "mcts:selection=uct,c-puct=0.5,rollout_depth=none,keep-tree=true"
    planner = NamedPlayer(text, "--planners").made_for(None)
    assert (planner.selection, planner.c_puct, planner.keep_tree) == ("uct", 0.5, True)
    assert planner.rollout_depth == 8
    with pytest.raises(ValueError, match=r"mcts: option must be .* 'c_pct'.*did you mean 'c_puct'"):
        NamedPlayer("mcts:c-pct=1", "--planners")
    with pytest.raises(ValueError, match=r"keep_tree must be true or false; got 'yes'"):
        NamedPlayer("mcts:keep-tree=yes", "--planners")
    with pytest.raises(ValueError, match=r"mcts: wave_size must be an int; got 'x'"):
        NamedPlayer("mcts:wave-size=x", "--planners")


def test_two_commands_do_not_share_a_folder(tmp_path, capsys):
    with FolderLock(tmp_path):
        assert main(["compare", "CartPole-v1", "--planners", "mcts", "--out", str(tmp_path)]) == 2
    assert "another run is writing there" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_with_other_results_is_refused(tmp_path, capsys):
    (tmp_path / "episode.json").write_text("{}")
    assert main(["compare", "CartPole-v1", "--planners", "mcts", "--out", str(tmp_path)]) == 2
    assert f"{tmp_path} holds an episode of `plan`. Name another" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["episode.json"]


@pytest.mark.slow
def _interrupt(*_):
    raise KeyboardInterrupt


def test_planners_are_compared_and_finished_episodes_kept(tmp_path, capsys, monkeypatch):
    arguments = ["compare", "CartPole-v1", "--planners", "mcts:rollout-depth=4", "shooting"]
    arguments += ["--model-steps", "60", "--max-steps", "8", "--out", str(tmp_path)]
    assert main([*arguments, "--seeds", "2"]) == 0
    content = json.loads((tmp_path / "compare.json").read_text())
    assert len(content["episodes"]) == 4
    assert [row["planner"] for row in content["summary"]] == ["mcts:rollout-depth=4", "shooting"]
    for row in content["summary"]:
        assert (row["mean"], row["low"], row["high"]) == (8.0, 8.0, 8.0)
        assert 40 < row["model_steps_per_move"] <= 60
    assert "95 % interval" in capsys.readouterr().out
    # A single episode says nothing of how far others lie.
    assert main([*arguments[:-1], str(tmp_path / "one"), "--seeds", "1"]) == 0
    (first, _) = json.loads((tmp_path / "one" / "compare.json").read_text())["summary"]
    assert (first["mean"], first["low"], first["high"]) == (8.0, None, None)
    capsys.readouterr()
    # Nothing is lost to another budget in the same folder, and nothing is played for it.
    assert main([*arguments, "--seeds", "2", "--model-steps", "70"]) == 2
    error = capsys.readouterr().err
    assert "episodes of other settings (model_steps: 60 there, 70 here). Name another" in error
    # A third seed: the others are not played again.
    before = content["episodes"]
    assert main([*arguments, "--seeds", "3"]) == 0
    content = json.loads((tmp_path / "compare.json").read_text())
    assert len(content["episodes"]) == 6
    assert before.items() <= content["episodes"].items()
    # Every line that was shown stands under the heading that was shown first.
    heading, *lines = capsys.readouterr().err.splitlines()
    end = heading.index("episodes") + len("episodes")
    assert [line[:end].split()[-1] for line in lines if "[8.0, 8.0]" in line] == ["3", "3"]
    # Ctrl-C in the fourth: what is finished stays, and the message says so.
    with monkeypatch.context() as patch:
        patch.setattr(compare, "_play_cell", _interrupt)
        assert main([*arguments, "--seeds", "4"]) == 130
    assert f"6 episodes are kept in {tmp_path / 'compare.json'}" in capsys.readouterr().err
    (tmp_path / "compare.json").write_text("{")
    assert main(arguments) == 2
    assert "is no file of finished episodes" in capsys.readouterr().err


@pytest.mark.slow
def test_a_plot_is_written_if_matplotlib_is_there(tmp_path):
    pytest.importorskip("matplotlib")
    # In a process of its own: matplotlib keeps its fonts open.
    command = [sys.executable, "-P", "-m", "plangym_ext.run.cli", "compare", "CartPole-v1"]
    command += ["--planners", "mcts", "--seeds", "1", "--max-steps", "2", "--model-steps", "20"]
    subprocess.run([*command, "--out", str(tmp_path), "--plot"], check=True, timeout=300)
    assert (tmp_path / "compare.png").read_bytes()[:4] == b"\x89PNG"


def test_all_pairs_are_checked_before_anything_is_played(tmp_path, capsys):
    arguments = [
        "compare",
        "CartPole-v1",
        "plangym_ext/TicTacToe-v0",
        "--planners",
        "mcts:rollout-depth=2",
    ]
    arguments += ["cem", "--model-steps", "60", "--max-steps", "2", "--out", str(tmp_path)]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("plangym-ext compare: CEM: ")
    assert "MCTS and STS plan for two" in error
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_planner_is_one_line(tmp_path, capsys):
    arguments = ["compare", "CartPole-v1", "--planners", "cem", "--out", str(tmp_path)]
    assert main([*arguments[:3], "mcst", *arguments[4:]]) == 2
    assert "did you mean 'mcts'" in capsys.readouterr().err
