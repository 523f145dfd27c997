"""`plangym-ext explore`: what it writes, that it goes on, and what it refuses."""

from __future__ import annotations

import csv
import json
import signal

import numpy as np
import pytest

from plangym_ext import StateSet, make
from plangym_ext.explore import GoExplore
from plangym_ext.run.cli import main

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


def test_what_is_in_the_folder_is_not_lost(tmp_path, capsys):
    assert explored(tmp_path, "--resume") == 2
    assert "there is no exploration" in capsys.readouterr().err
    assert explored(tmp_path, "--max-steps", "80") == 0
    assert explored(tmp_path, "--max-steps", "80") == 2
    assert "holds an exploration already" in capsys.readouterr().err
    assert explored(tmp_path, "--max-steps", "160", "--overwrite") == 0
    assert explored(tmp_path, "--cells", "rooms", "--overwrite") == 2
    assert "cells must be 'frames'" in capsys.readouterr().err
