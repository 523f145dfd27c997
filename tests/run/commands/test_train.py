"""`plangym-ext train` and `plangym-ext eval`."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time

import gymnasium as gym
import pytest
from pickled_env import PickledEnv

from plangym_ext.run.cli import main
from plangym_ext.run.training.checkpoints import read_checkpoint
from plangym_ext.states import trust

pytestmark = pytest.mark.slow


def register(name, entry_point):
    gym.register(name, entry_point, max_episode_steps=20)
    return name


SMALL = ["--rounds", "2", "--collector.num_envs=4", "--evaluation.every=0", "--quiet"]


def test_train_resume_and_eval(tmp_path, capsys):
    def said():
        return capsys.readouterr().out

    out = tmp_path / "run"
    assert main(["train", "narrow_path", "--out", str(out), "--env.kwargs.n=6", *SMALL]) == 0
    assert "2 rounds, 96 moves" in capsys.readouterr().out
    # The settings are those of the run; what is typed goes over them.
    assert main(["train", "--resume", "--out", str(out), "--rounds", "3", "--quiet"]) == 0
    assert "going on after round 2 of 3" in capsys.readouterr().out
    assert main(["train", "--resume", "--out", str(out), "--rounds", "1", "--quiet"]) == 0
    assert "3 rounds are done, 1 were asked for" in capsys.readouterr().out
    assert main(["eval", str(out), "--episodes", "3", "--player", "planner"]) == 0
    assert re.search(r"mean return \S+ \(lowest \S+\) and \S+ moves, over 3 episodes", said())
    found = json.loads((out / "eval.json").read_text())
    assert (len(found["returns"]), found["player"]) == (3, "planner")
    assert found["eval/return"] == sum(found["returns"]) / 3
    # Nothing is written over a run.
    assert main(["train", "narrow_path", "--out", str(out), *SMALL]) == 2
    assert f"there is a run in {out}: go on with it by --resume" in capsys.readouterr().err


@pytest.mark.parametrize("resume", [[], ["--resume"]], ids=["begun", "resumed"])
def test_resuming_is_no_answer_where_there_is_no_run(resume, tmp_path, capsys):
    (tmp_path / "sweep.json").write_text("{}")
    words = ["train", "narrow_path", "--out", str(tmp_path), *SMALL, *resume]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said == (
        f"plangym-ext train: {tmp_path} holds a sweep. Name another folder with --out.\n"
    )


def test_a_runs_own_folder_does_not_vouch_for_its_pickles(tmp_path, capsys, monkeypatch):
    """Only who types `--trust` does: not the settings, and not what the env is given."""
    # The first exact way, whose rows are pickled: on a busy machine a replay may cost less.
    monkeypatch.setattr("plangym_ext.states.trials.choice._CHEAP", math.inf)
    monkeypatch.setattr("plangym_ext.states.trials.choice._order", {})
    env_id = f"pickled_env:{register('Held-v0', PickledEnv)}"
    out, small = tmp_path / "run", [*SMALL[2:], "--evaluation.every=0", "--collector.moves=4"]
    words = ["train", "ppo_cartpole", "--env.id", env_id, "--rounds=1", "--checkpoint_every=1"]
    assert main([*words, *small, "--out", str(out)]) == 0
    held, resumed = trust._key, ["train", "--resume", "--out", str(out), "--rounds=2", "--quiet"]
    try:
        trust.join_session(bytes(32))  # another session opens none of this one's pickles
        assert main(resumed) == 2
        assert "To resume a run of your own, type --trust." in capsys.readouterr().err
        config = json.loads((out / "config.json").read_text())
        for changed in ({"trust": True}, {"kwargs": {"trust": True}}):
            settings = {**config, "env": {**config["env"], **changed}}
            (out / "config.json").write_text(json.dumps(settings))
            assert main(resumed) == 2
            assert "trust is no setting" in capsys.readouterr().err
        (out / "config.json").write_text(json.dumps(config))
        assert main([*resumed, "--trust"]) == 0
    finally:
        trust.join_session(held)


def test_an_interrupt_ends_the_round_saves_and_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-P", "-m", "plangym_ext.run.cli", "train", "narrow_path"]
    settings = ["--rounds=100000", "--evaluation.every=0", "--checkpoint_every=0"]
    process = subprocess.Popen(
        [*command, "--quiet", "--out", str(tmp_path / "run"), *settings],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        checkpoints, rows = tmp_path / "run" / "checkpoints", tmp_path / "run" / "progress.jsonl"
        while not rows.exists() or len(rows.read_text().splitlines()) < 2:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, errors
    *_, newest = sorted(checkpoints.glob("*.pt"))
    assert read_checkpoint(newest)["round"] == len(rows.read_text().splitlines()) > 1
    assert f"the last checkpoint is {newest}. Go on with the same command and --resume." in errors
    assert "Traceback" not in errors


def test_play_writes_a_film_and_a_page_of_trees(tmp_path, capsys):
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    out = tmp_path / "run"
    assert main(["train", "cartpole", "--out", str(out), *SMALL]) == 0
    film, page = tmp_path / "v" / "film.mp4", tmp_path / "v" / "tree.html"
    words = ["play", str(out), "--no-show", "--max-steps=5"]
    assert main([*words, "--video", str(film), "--tree", str(page)]) == 0
    assert film.stat().st_size > 1000
    # With --tree the planner plays, which grows one.
    assert '"subtitle":"' + str(out) in page.read_text()
    assert main([*words, "--video", str(film)]) == 2
    assert "is there already" in capsys.readouterr().err
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cartpol"], "did you mean 'cartpole'"),
        (["cartpole", "--algorithm.learning_rat", "3"], "did you mean '--algorithm.learning_rate'"),
        (["cartpole", "--device", "gpu"], "device must be one that torch has here"),
        (["cartpole", "--lr", "3"], "did you mean '--algorithm.learning_rate'"),
        (["cartpole", "--algorithm.lr", "3"], "did you mean '--algorithm.learning_rate'"),
        (["cartpole", "--learning-rate", "3"], "did you mean '--algorithm.learning_rate'"),
        (["cartpole", "--algorithm.learning_rate", "x"], "algorithm.learning_rate must be a float"),
        (["cartpole", "--planner.name", "mtcs"], "did you mean 'mcts'"),
        (["cartpole", "--config", "none.toml"], "none.toml cannot be read"),
        ([], "name a preset"),
        (["--seed", "3"], "name a preset"),
        (["--algorithm.learning_rate", "3", "cartpole"], "name a preset"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(["train", *arguments])
    except SystemExit as stop:
        status = stop.code
    error = capsys.readouterr().err
    assert status == 2
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_help_lists_settings_with_their_defaults(capsys):
    with pytest.raises(SystemExit):
        main(["train", "cartpole", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert "--algorithm.learning_rate X" in out
    said = 'number of games side by side; with "solutions", games per round. (default: 32)'
    assert said in out
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "cartpole" in capsys.readouterr().out


def test_actors_that_cannot_be_had_are_refused_before_anything_is_written(
    tmp_path, capsys, monkeypatch
):
    command = ["train", "ppo_cartpole", "--out", str(tmp_path / "run")]
    assert main([*command, "--ray-actors", "2"]) == 2
    assert "--ray-actors needs --ray" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    for more in ([], ["10.0.0.1:6379"]):
        assert main([*command, "--ray", *more]) == 2
        error = capsys.readouterr().err
        assert "need Ray, which is not installed" in error
        assert "[ray]" in error
    assert not (tmp_path / "run").exists()
