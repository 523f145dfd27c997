"""A pipe in the place of a file keeps no reader waiting."""

from __future__ import annotations

import os

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import DamagedState
from plangym_ext.learn import tensor_file
from plangym_ext.run.logs.appended import AppendedFile
from plangym_ext.run.logs.runs import read_params


def test_pipes_are_refused_at_once(tmp_path):
    pipe = tmp_path / "pipe.npz"
    os.mkfifo(pipe)
    with (
        plangym_ext.make("CartPole-v1") as env,
        pytest.raises(DamagedState, match="pipe or a device, no file"),
    ):
        plangym_ext.load_states(pipe, env)
    for read in (read_params, lambda path: AppendedFile(path).whole_lines()):
        with pytest.raises(OSError, match="pipe or a device, no file"):
            read(pipe)
    with pytest.raises(Exception, match="pipe or a device, no file"):
        tensor_file.load(pipe)


def test_files_are_read_as_before(tmp_path):
    with plangym_ext.make("CartPole-v1") as env:
        state = env.reset(seed=0)[0]
        plangym_ext.save_states(tmp_path / "s.npz", state, env)
        assert np.array_equal(plangym_ext.load_states(tmp_path / "s.npz", env), state[None])
