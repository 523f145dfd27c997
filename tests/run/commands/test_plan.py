from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys

import leaks
import numpy as np
import pytest

import plangym_ext
from plangym_ext.core.files import whole_file
from plangym_ext.errors import PlangymExtError
from plangym_ext.planners import PLANNERS, Planner, load_planner, options_of
from plangym_ext.planners.continuous.base import Shooting
from plangym_ext.planners.pages.tree import TreeRecorder
from plangym_ext.run.cli import main
from plangym_ext.run.training import interrupts
from plangym_ext.run.training.interrupts import closing_when_terminated
from plangym_ext.run.video import VideoWriter, recorded

pytestmark = pytest.mark.slow

BASE = {option.name for option in options_of(Planner)}
FIELDS = {
    "env",
    "planner",
    "seed",
    "return",
    "length",
    "actions",
    "terminated",
    "truncated",
    "model_steps",
    "seconds",
    "version",
}


def test_episode_file_holds_every_field(plan_cartpole):
    episode = plan_cartpole("--n-workers", "0", "--seed", "3")
    assert set(episode) >= FIELDS
    assert episode["env"] == "CartPole-v1"
    assert episode["planner"] == "mcts"
    assert episode["seed"] == 3
    assert episode["length"] == 6
    assert len(episode["actions"]) == 6
    # CartPole pays 1 a step and does not fall within six.
    assert episode["return"] == 6.0
    assert (episode["terminated"], episode["truncated"]) == (False, False)
    assert episode["model_steps"] > 6 * 8
    assert episode["seconds"] > 0
    assert episode["version"] == plangym_ext.__version__


def test_moves_whose_tree_was_full_are_told(plan_cartpole, capsys):
    episode = plan_cartpole("--num-simulations", "32", "--capacity", "8")
    assert episode["full_moves"] > 0
    told = f"the tree was full at {episode['full_moves']} of 6 moves"
    assert told in capsys.readouterr().out


def test_two_players_have_a_score_each(tmp_path, capsys):
    game = "plangym_ext/TicTacToe-v0"
    few = ["--num-simulations", "2", "--seed", "0", "--n-workers", "0", "--out", str(tmp_path)]
    assert main(["plan", game, *few]) == 0
    episode = json.loads((tmp_path / "episode.json").read_text())
    scores = [0.0, 0.0]
    with plangym_ext.make(game, backend="serial") as env:
        state, *_ = env.reset(seed=0)
        for number, action in enumerate(episode["actions"]):
            state, _, reward, *_ = env.step(action, state)
            scores[number % 2] += reward
            scores[1 - number % 2] -= reward
    # Two simulations see little: one of the players wins.
    assert set(scores) == {-1.0, 1.0}
    assert (episode["scores"], episode["return"]) == (scores, scores[0])
    told = f"score of player 0: {scores[0]:g}, of player 1: {scores[1]:g}"
    assert told in capsys.readouterr().out


def _played_against(opponent, folder, *more):
    few = ["--num-simulations", "200", "--discount", "1", "--n-workers", "0", "--out", str(folder)]
    return main(["plan", "plangym_ext/TicTacToe-v0", "--opponent", opponent, *few, *more])


def test_an_opponent_makes_the_moves_of_the_second_player(tmp_path, capsys):
    assert _played_against("mcts:num_simulations=1", tmp_path) == 0
    episode = json.loads((tmp_path / "episode.json").read_text())
    assert episode["opponent"] == "mcts:num_simulations=1"
    assert episode["scores"] == [1.0, -1.0]
    assert "score of player 0: 1, of player 1: -1" in capsys.readouterr().out


def test_an_opponent_of_ones_own_is_made_for_the_env(tmp_path, monkeypatch):
    text = "from plangym_ext.learn import RandomAgent\n"
    text += "def random(env):\n    return RandomAgent(env.action_space)\n"
    (tmp_path / "mine_to_beat.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert _played_against("mine_to_beat:random", tmp_path / "out") == 0
    assert json.loads((tmp_path / "out" / "episode.json").read_text())["return"] >= 0


@pytest.mark.parametrize(
    ("opponent", "told"),
    [
        ("mtcs", "mcts"),
        ("mcts:simulations=3", "did you mean 'num_simulations'"),
        ("no_such_module:make", "--opponent"),
        ("rollout-iw", "RolloutIW: env must have one player; got 2"),
    ],
)
def test_opponents_that_there_are_not_are_refused(opponent, told, tmp_path, capsys):
    assert _played_against(opponent, tmp_path) == 2
    assert told in capsys.readouterr().err


def test_an_env_of_one_player_has_no_opponent(tmp_path, capsys):
    few = ["--n-workers", "0", "--out", str(tmp_path)]
    assert main(["plan", "CartPole-v1", "--opponent", "mcts", *few]) == 2
    assert "opponent needs an env with two players; got 1" in capsys.readouterr().err


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_plays_by_name_with_options_of_its_own(name, tmp_path):
    planner = load_planner(name)
    env = "Pendulum-v1" if issubclass(planner, Shooting) else "CartPole-v1"
    # An option that the base of all planners does not have, at its own default.
    own = next(one for one in options_of(planner) if one.kind is int and one.name not in BASE)
    typed = [f"--{own.name.replace('_', '-')}", str(own.default)]
    arguments = [env, "--planner", name, "--num-simulations", "4", "--max-steps", "2", *typed]
    assert main(["plan", *arguments, "--n-workers", "0", "--out", str(tmp_path)]) == 0
    episode = json.loads((tmp_path / "episode.json").read_text())
    assert (episode["planner"], episode["length"]) == (name, 2)
    assert episode["options"][own.name] == own.default


@pytest.mark.parametrize("name", PLANNERS)
def test_help_of_every_planner_lists_all_its_options(name, capsys):
    with pytest.raises(SystemExit):
        main(["plan", "--planner", name, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"options of {name}" in said
    for option in options_of(load_planner(name)):
        flag = "--" + option.name.replace("_", "-")
        assert (f"{flag} " in said or f"{flag}," in said) == (option.kind is not None), option.name


def test_actions_replay_to_the_same_return(plan_cartpole):
    episode = plan_cartpole("--n-workers", "0", "--seed", "5")
    with plangym_ext.make("CartPole-v1") as env:
        env.reset(seed=5)
        total = sum(env.step(action).reward for action in episode["actions"])
    assert total == episode["return"]


def test_same_seed_gives_the_same_actions_for_any_number_of_workers(plan_cartpole):
    plays = [
        plan_cartpole("--seed", "1", "--max-steps", "12", "--n-workers", str(n))["actions"]
        for n in (0, 1, 2, 3)
    ]
    assert plays[0] == plays[1] == plays[2] == plays[3]
    assert len(plays[0]) == 12


def test_seeds_differ(plan_cartpole):
    plays = [
        plan_cartpole("--seed", str(s), "--max-steps", "12", "--n-workers", "0")["actions"]
        for s in (1, 2)
    ]
    assert plays[0] != plays[1]


def played_film(path):
    """Return the frames of a film and its frames a second."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    said = subprocess.run([ffmpeg, "-i", str(path)], capture_output=True, text=True).stderr
    width, height = map(int, re.search(r", (\d+)x(\d+)", said).groups())
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    command = [ffmpeg, "-loglevel", "error", "-i", str(path), *raw]
    pixels = subprocess.run(command, capture_output=True, check=True).stdout
    frames = np.frombuffer(pixels, np.uint8).reshape(-1, height, width, 3)
    return frames, float(re.search(r"([\d.]+) fps", said)[1])


@pytest.mark.parametrize(
    ("env", "more", "frames", "fps"),
    [
        # The first picture, and one of each frame of five moves.
        ("ALE/Pong-v5", [], 1 + 5 * 4, 60),
        ("ALE/Pong-v5", ["--frameskip", "7"], 1 + 5 * 7, 60),
        ("CartPole-v1", ["--frameskip", "3"], 1 + 5 * 3, 50),
        ("Pendulum-v1", ["--planner", "cem"], 1 + 5, 30),
        # 125 steps a second: every third of 10.
        ("Hopper-v5", ["--planner", "cem", "--horizon", "2", "--frameskip", "2"], 1 + 3, 125 / 3),
    ],
)
def test_a_film_has_every_step_and_lasts_as_long_as_what_it_shows(env, more, frames, fps, tmp_path):
    arguments = ["plan", env, "--num-simulations", "4", "--max-steps", "5", *more]
    assert main([*arguments, "--n-workers", "0", "--out", str(tmp_path), "--video"]) == 0
    shown, rate = played_film(tmp_path / "episode.mp4")
    assert len(shown) == frames
    assert rate == pytest.approx(fps, abs=0.01)
    assert (shown.std(axis=(1, 2, 3)) > 0).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["episode.json", "episode.mp4"]


def test_an_episode_is_not_written_over_unasked(tmp_path, capsys):
    arguments = ["plan", "CartPole-v1", "--num-simulations", "2", "--max-steps", "1"]
    arguments += ["--n-workers", "0", "--out", str(tmp_path)]
    assert main(arguments) == 0
    before = (tmp_path / "episode.json").read_bytes()
    (tmp_path / "episode.mp4").write_bytes(b"of the same episode")
    assert main([*arguments, "--seed", "1"]) == 2
    assert "holds an episode of `plan` already. Name another folder" in capsys.readouterr().err
    assert (tmp_path / "episode.json").read_bytes() == before
    assert main([*arguments, "--seed", "1", "--overwrite"]) == 0
    # No film stays beside an episode that it does not show.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["episode.json"]
    (tmp_path / "episode.json").rename(tmp_path / "compare.json")
    assert main([*arguments, "--overwrite"]) == 2
    assert "holds a comparison. Name another folder" in capsys.readouterr().err


SHORT = ["plan", "CartPole-v1", "--num-simulations", "2", "--max-steps", "1", "--n-workers", "0"]


@pytest.fixture
def filmed(tmp_path):
    """Return a folder with an episode and its film, and what is in there."""
    pytest.importorskip("imageio_ffmpeg")
    assert main([*SHORT, "--video", "--out", str(tmp_path)]) == 0
    return tmp_path, contents(tmp_path)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_refusal_keeps_the_episode_that_was_to_be_written_over(filmed, capsys):
    folder, before = filmed
    # Told only once the env is made: it has one player.
    again = ["--overwrite", "--opponent", "mcts", "--out", str(folder)]
    assert main([*SHORT, *again]) == 2
    assert "opponent needs an env with two players" in capsys.readouterr().err
    assert contents(folder) == before


@pytest.mark.parametrize("video", [[], ["--video"]], ids=["alone", "filmed"])
def test_a_full_disk_keeps_the_episode_that_was_to_be_written_over(
    video, filmed, monkeypatch, capsys
):
    folder, before = filmed

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(whole_file.os, "fsync", full)
    assert main([*SHORT, "--overwrite", *video, "--out", str(folder)]) == 2
    assert f"{folder / 'episode.json'}: No space left" in capsys.readouterr().err
    assert contents(folder) == before
    monkeypatch.undo()
    assert main([*SHORT, "--seed", "1", "--overwrite", *video, "--out", str(folder)]) == 0
    after = contents(folder)
    assert set(after) == ({"episode.json", "episode.mp4"} if video else {"episode.json"})
    assert all(after[name] != before[name] for name in after)


def test_a_page_that_cannot_be_written_leaves_the_new_episode(tmp_path, monkeypatch, capsys):
    def full(self, path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(TreeRecorder, "write", full)
    tree = ["--tree", str(tmp_path / "tree.html")]
    assert main([*SHORT, *tree, "--out", str(tmp_path)]) == 2
    assert json.loads((tmp_path / "episode.json").read_text())["length"] == 1


def test_a_folder_as_the_page_of_trees_is_refused_before_the_episode(tmp_path, capsys):
    assert main([*SHORT, "--tree", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == (
        f"plangym-ext plan: --tree must be the file to write; got the folder {tmp_path}. Name a "
        f"file in it.\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_film_that_is_given_up_leaves_nothing_and_says_nothing(tmp_path, capfd):
    pytest.importorskip("imageio_ffmpeg")
    writer = VideoWriter(tmp_path / "episode.mp4", 30)
    writer.add(np.zeros((400, 400, 3), np.uint8))
    # Ctrl-C comes in the middle of a frame.
    writer._process.stdin.write(b"half a frame")
    writer._process.stdin.flush()
    writer.discard()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


def test_a_film_whose_end_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")

    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(VideoWriter, "_end", interrupt)
    with (
        plangym_ext.make("CartPole-v1", render_mode="rgb_array") as env,
        pytest.raises(KeyboardInterrupt),
        recorded(tmp_path / "episode.mp4", env, 0),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_film_leaves_nothing_when_the_process_is_terminated(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")
    ended_by = []
    monkeypatch.setattr(interrupts.os, "kill", lambda pid, number: ended_by.append(number))
    with (
        closing_when_terminated(),
        plangym_ext.make("CartPole-v1", render_mode="rgb_array") as env,
        recorded(tmp_path / "episode.mp4", env, 0),
    ):
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("the episode went on")
    assert ended_by[-1] == signal.SIGTERM  # after ffmpeg was
    assert list(tmp_path.iterdir()) == []


def test_a_film_that_could_not_be_written_to_its_end_is_an_error(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")
    writer = VideoWriter(tmp_path / "episode.mp4", 30)
    writer.add(np.zeros((400, 400, 3), np.uint8))
    writer._process.kill()
    with pytest.raises(PlangymExtError, match="ffmpeg stopped with status -9 while writing"):
        writer.close()
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_progress_tells_step_return_and_rate(plan_cartpole, capsys):
    plan_cartpole("--n-workers", "0")
    *lines, last = capsys.readouterr().err.splitlines()
    assert any(line.endswith("searching the first move") for line in lines)
    assert last.startswith("step 6/6  return 6  ")
    assert last.endswith("model steps/s")


def test_time_that_goes_into_loading_is_not_called_compiling_alone(tmp_path):
    command = [sys.executable, "-P", "-m", "plangym_ext.run.cli", *SHORT, "--overwrite"]
    # A process of its own for each: the first one leaves nothing for the second to compile.
    for _ in range(2):
        done = subprocess.run(
            [*command, "--out", str(tmp_path)], capture_output=True, text=True, check=True
        )
    assert "s of it compiling, or loading what was compiled\n" in done.stdout


def test_interrupt_stops_cleanly_and_keeps_what_was_played(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    command = [sys.executable, "-P", "-m", "plangym_ext.run.cli", "plan", "CartPole-v1"]
    options = ["--n-workers", "2", "--max-steps", "100000", "--num-simulations", "512", "--video"]
    process = subprocess.Popen(
        [*command, *options, "--out", str(tmp_path), "--tree", str(tmp_path / "tree.html")],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        for line in process.stderr:
            if line.startswith("step "):
                break
        workers = [pid for pid, *_ in leaks.children(process.pid)]
        assert len(workers) == 3  # ffmpeg is one
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, stderr
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    # What was played until then is kept: moves, film and trees.
    episode = json.loads((tmp_path / "episode.json").read_text())
    assert episode["interrupted"]
    assert episode["length"] == len(episode["actions"]) == episode["return"] > 0
    assert f"interrupted after {episode['length']} moves, which are kept" in stdout
    assert (tmp_path / "tree.html").stat().st_size > 1000
    assert (tmp_path / "episode.mp4").stat().st_size > 1000
    gone = leaks.wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))
    assert gone, f"workers left: {workers}"


def test_doctor_proves_the_round_trip(capsys):
    assert main(["doctor", "CartPole-v1", "--steps", "30"]) == 0
    out, err = capsys.readouterr()
    assert "measuring costs" in err
    assert "CartPoleEnv: codec" in out
    assert "TimeLimit: codec" in out
    assert "state row    144 bytes" in out
    assert "exact so far: 30 steps, " in out
    for cost in ("get state", "set state", "step"):
        assert cost in out


def test_unfinished_files_are_never_left(tmp_path, monkeypatch):
    from plangym_ext.core.files import whole_file
    from plangym_ext.run import files

    monkeypatch.setattr(whole_file.os, "fsync", _raise)
    with pytest.raises(OSError, match="disk full"):
        files.write_json(tmp_path / "a.json", {"x": 1})
    assert not (tmp_path / "a.json").exists()
    monkeypatch.undo()
    files.write_json(tmp_path / "a.json", {"x": 1})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}


def _raise(fd: int) -> None:
    raise OSError("disk full")
