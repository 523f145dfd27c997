"""`plangym-ext explore`: what it writes, that it goes on, and what it refuses."""

from __future__ import annotations

import csv
import errno
import json
import os
import signal

import gymnasium as gym
import numpy as np
import pytest

from plangym_ext import StateSet, make
from plangym_ext.core.files import whole_file
from plangym_ext.explore import GoExplore
from plangym_ext.run.cli import main
from plangym_ext.run.training import interrupts
from plangym_ext.run.video import VideoWriter

LAKE = ["explore", "FrozenLake-v1", "--rows", "8", "--horizon", "10", "--repeat", "0.5"]


def explored(folder, *options):
    return main([*LAKE, "--out", str(folder), *options])


def loaded(folder):
    with make("FrozenLake-v1") as env:
        return GoExplore.load(folder / "archive.npz", env).archive


def test_the_best_way_is_written_and_filmed(tmp_path, capsys):
    pytest.importorskip("imageio_ffmpeg")
    assert explored(tmp_path, "--max-steps", "800", "--video", "--demonstration") == 0
    told = json.loads((tmp_path / "explore.json").read_text())
    assert (told["steps"], told["kind"], told["score"]) == (800, "archive", 1.0)
    assert told["cells"] == "ObsCells(resolution=1.0)"
    archive = loaded(tmp_path)
    with make("FrozenLake-v1") as env:
        states = StateSet.load(tmp_path / "demonstration.npz", env)
    # The state after the last step ends the episode, and nothing can begin there.
    assert len(states) == told["length"]
    assert states.to_go.tolist() == [1.0] * len(states)
    assert told["actions"] == archive.trajectory(archive.best).tolist()
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["steps"]) for row in rows] == list(range(80, 801, 80))
    assert int(rows[-1]["cells"]) == told["num_cells"] == len(archive)
    assert (tmp_path / "best.mp4").stat().st_size > 1000
    assert "played again from the reset bit for bit" in capsys.readouterr().out


def test_an_exploration_in_two_parts_is_that_in_one(tmp_path):
    assert explored(tmp_path / "whole", "--max-steps", "800") == 0
    assert explored(tmp_path / "parts", "--max-steps", "300") == 0
    assert explored(tmp_path / "parts", "--max-steps", "800", "--resume") == 0
    told = json.loads((tmp_path / "parts" / "explore.json").read_text())
    assert told["frameskip"] is None
    whole, parts = loaded(tmp_path / "whole").arrays(), loaded(tmp_path / "parts").arrays()
    for name, array in whole.items():
        np.testing.assert_array_equal(parts[name], array, name)
    logs = [(tmp_path / part / "log.csv").read_text().splitlines() for part in ("whole", "parts")]
    one, other = ([line.rpartition(",")[0] for line in log] for log in logs)
    assert one == other


def test_ctrl_c_keeps_what_there_is(tmp_path, monkeypatch, capsys):
    played = GoExplore._round
    rounds = []

    def round_(self):
        rounds.append(played(self))
        if len(rounds) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(GoExplore, "_round", round_)
    assert explored(tmp_path, "--max-steps", "8000") == 130
    assert "interrupted after 240 steps, which are kept" in capsys.readouterr().out
    assert json.loads((tmp_path / "explore.json").read_text())["interrupted"]
    assert len(loaded(tmp_path)) > 1


def test_a_second_ctrl_c_ends_it_at_once_with_what_was_saved(tmp_path, monkeypatch, capsys):
    played = GoExplore._round
    rounds = []

    def round_(self):
        rounds.append(played(self))
        if len(rounds) == 3:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    assert explored(tmp_path, "--max-steps", "160") == 0
    before = (tmp_path / "archive.npz").read_bytes()
    monkeypatch.setattr(GoExplore, "_round", round_)
    assert explored(tmp_path, "--max-steps", "8000", "--resume") == 130
    assert "Ctrl-C again stops at once" in capsys.readouterr().err
    assert len(rounds) == 3
    assert (tmp_path / "archive.npz").read_bytes() == before
    assert not list(tmp_path.glob(".*partial*"))
    monkeypatch.undo()
    assert explored(tmp_path, "--max-steps", "240", "--resume") == 0


def test_a_full_disk_leaves_what_was_saved_before(tmp_path, monkeypatch, capsys):
    assert explored(tmp_path, "--max-steps", "160") == 0
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(whole_file.os, "fsync", full)
    assert explored(tmp_path, "--max-steps", "800", "--resume") == 2
    told = capsys.readouterr().err
    assert f"{tmp_path / 'archive.npz'}: No space left on device" in told
    assert "Traceback" not in told
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.*")} == before
    monkeypatch.undo()
    assert explored(tmp_path, "--max-steps", "800", "--resume") == 0


def test_a_film_leaves_nothing_when_the_process_is_terminated(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")
    ended_by, frames, add = [], [], VideoWriter.add

    def added(self, frame):
        frames.append(add(self, frame))
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(VideoWriter, "add", added)
    monkeypatch.setattr(interrupts.os, "kill", lambda pid, number: ended_by.append(number))
    explored(tmp_path, "--max-steps", "800", "--video")
    assert ended_by[-1] == signal.SIGTERM  # after ffmpeg was
    assert len(frames) == 1
    there = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".lock")}
    assert there == {"archive.npz", "explore.json", "log.csv"}


class Named(gym.Env):
    """Walks on a ring of eight places, and says where, how far, and why."""

    observation_space = gym.spaces.Dict(
        place=gym.spaces.Discrete(8), way=gym.spaces.Box(-9, 9, (2,)), why=gym.spaces.Text(9)
    )
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self._obs(), {}

    def step(self, action):
        self.place = (self.place + (1 if action else -1)) % 8
        return self._obs(), float(self.place == 4), False, False, {}

    def _obs(self):
        return {"place": self.place, "way": np.full(2, self.place / 2, np.float32), "why": "go"}


def test_observations_by_name_are_cells_of_their_numbers(tmp_path):
    gym.register("Named-v0", Named, max_episode_steps=50)
    try:
        words = ["explore", "Named-v0", "--rows", "8", "--max-steps", "400", "--n-workers", "0"]
        assert main([*words, "--out", str(tmp_path)]) == 0
        told = json.loads((tmp_path / "explore.json").read_text())
    finally:
        del gym.registry["Named-v0"]
    assert told["cells"] == "ObsCells(resolution=0.25)"
    # Episodes end after 50 steps, in an even place: to have ended there is a cell of its own.
    assert told["num_cells"] == 8 + 4
    assert told["score"] >= 1.0


def test_what_is_in_the_folder_is_not_lost(tmp_path, capsys):
    assert explored(tmp_path, "--resume") == 2
    assert "there is no exploration" in capsys.readouterr().err
    assert explored(tmp_path, "--max-steps", "80") == 0
    assert explored(tmp_path, "--max-steps", "80") == 2
    assert "holds an exploration already" in capsys.readouterr().err
    assert explored(tmp_path, "--max-steps", "160", "--overwrite") == 0
    assert explored(tmp_path, "--cells", "rooms", "--overwrite") == 2
    assert "cells must be 'frames'" in capsys.readouterr().err


def test_rounds_are_told_that_take_more_steps_than_were_asked_for(tmp_path, capsys):
    assert explored(tmp_path, "--max-steps", "100") == 0
    said = capsys.readouterr()
    assert "100 steps were asked for: rounds of 8 x 10 steps are played to their ends" in said.out
    # Of the steps that there will be.
    assert "step 160/160  " in said.err
    assert explored(tmp_path, "--max-steps", "80", "--resume") == 0
    assert "80 steps were asked for: as many were taken before" in capsys.readouterr().out
    assert explored(tmp_path, "--max-steps", "240", "--resume") == 0
    assert "asked for" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "asked", "there"),
    [
        ("cells", "obs:0.5", "ObsCells(resolution=1.0)"),
        ("kind", "particles", "archive"),
        ("rows", "4", "8"),
        ("horizon", "20", "10"),
        ("repeat", "0.9", "0.5"),
        ("seed", "1", "0"),
        ("frameskip", "3", "2"),
    ],
)
def test_what_is_typed_may_not_contradict_what_goes_on(option, asked, there, tmp_path, capsys):
    assert explored(tmp_path, "--max-steps", "160", "--frameskip", "2") == 0
    before = (tmp_path / "archive.npz").read_bytes()
    assert explored(tmp_path, "--max-steps", "320", "--resume", f"--{option}", asked) == 2
    told = f"--resume: --{option} must be as in {tmp_path}, {there}; got {asked}. Leave it out"
    assert told in capsys.readouterr().err
    assert (tmp_path / "archive.npz").read_bytes() == before
    # What is not typed is that of the exploration.
    assert explored(tmp_path, "--max-steps", "320", "--resume", "--cells", "obs") == 0
    assert json.loads((tmp_path / "explore.json").read_text())["frameskip"] == 2


def test_an_exploration_is_kept_until_another_takes_its_place(tmp_path, capsys):
    words = ["--max-steps", "160", "--demonstration"]
    assert explored(tmp_path, *words) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}
    assert explored(tmp_path, "--cells", "rooms", "--overwrite") == 2
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.*")} == before
    assert explored(tmp_path, "--max-steps", "80", "--seed", "1", "--overwrite") == 0
    # No states stay beside an exploration that did not find them.
    assert not (tmp_path / "demonstration.npz").exists()
    assert json.loads((tmp_path / "explore.json").read_text())["steps"] == 80
