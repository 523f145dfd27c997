"""Checkpoints with right seals that say what a run cannot go on from are told as damaged."""

from __future__ import annotations

import copy
import shutil

import numpy as np
import pytest

from plangym_ext.errors import DamagedCheckpoint, PlangymExtError
from plangym_ext.learn import tensor_file
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.checkpoints import Checkpoints
from plangym_ext.run.training.runner import Runner

pytestmark = pytest.mark.slow


def settings(preset, rounds):
    collector = {"num_envs": 2, "moves": 8}
    more = {"rounds": rounds, "checkpoint_every": 1, "threads": 1, "evaluation": {"every": 0}}
    return compose([preset, {**more, "collector": collector}])


@pytest.fixture(scope="module", params=["ppo_cartpole", "dqn_cartpole"])
def saved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "base"
    with Runner(settings(request.param, 2), folder) as runner:
        runner.run()
    return request.param, folder, tensor_file.load(Checkpoints(folder).latest())


def set_at(content, path, value):
    for key in path[:-1]:
        content = content[key]
    content[path[-1]] = value


CHANGES = [
    (("round",), "x"),
    (("round",), [1]),
    (("steps",), -5),
    (("steps",), 2**62),
    (("collector",), None),
    (("collector", "window", "return"), np.zeros((2, 2))),
    (("collector", "rows", "envs"), np.zeros((2, 3, 4), np.uint8)),
    (("collector", "rows", "noise"), "x"),
    (("collector", "rows", "carry"), 1.5),
    (("torch_random",), np.zeros(7, np.uint8)),
    (("torch_random",), np.zeros(5056, np.uint8)),
    (("trainer",), {}),
    (("recent",), 7),
    (("own",), "x"),
    (("own",), {"make_env": 1}),
    (("spaces",), np.zeros(3)),
    (("stopped",), []),
]


@pytest.mark.parametrize(("path", "value"), CHANGES, ids=lambda one: repr(one)[:40])
def test_it_is_told_before_a_round_is_played(saved, tmp_path, path, value):
    preset, base, content = saved
    folder = tmp_path / "run"
    shutil.copytree(base, folder)
    for old in Checkpoints(folder).paths():
        old.unlink()
    content = copy.deepcopy(content)
    set_at(content, path, value)
    tensor_file.save(Checkpoints(folder).path(2), content)
    if path == ("stopped",):
        with Runner(settings(preset, 3), folder, resume=True) as runner:
            assert runner.stopped == ""
        return
    with pytest.raises(PlangymExtError):
        Runner(settings(preset, 3), folder, resume=True)


def test_updates_that_are_owed_have_a_bound(saved, tmp_path):
    preset, base, content = saved
    if preset != "dqn_cartpole":
        pytest.skip("it owes none")
    folder = tmp_path / "run"
    shutil.copytree(base, folder)
    for owed in ([2**62, 1], [2**45, 1], [-(2**40), 3], [1, 0]):
        changed = copy.deepcopy(content)
        changed["trainer"]["owed"] = owed
        tensor_file.save(Checkpoints(folder).path(2), changed)
        with pytest.raises(DamagedCheckpoint, match="a run cannot go on from what it says"):
            Runner(settings(preset, 3), folder, resume=True)
