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
    (("best",), "x"),
    (("best",), {"round": 1, "return": "x"}),
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
        with pytest.raises(DamagedCheckpoint, match="a run cannot resume from its content"):
            Runner(settings(preset, 3), folder, resume=True)


#: By preset: what is changed, and what is put there.
BESIDE = {
    # Arrays in files beside the checkpoint, and masses that compiled code reads.
    "r2d1_cartpole_no_velocity": [
        ("replay/carries/0/__blocks__/offsets", None),
        ("replay/carries/0/__blocks__/offsets", np.array([2**62] * 99)),
        ("replay/carries/0/__blocks__/offsets", lambda array: array * 0 + 2**62),
        ("replay/carries/0/__blocks__/offsets", lambda array: array - 1),
        ("replay/carries/0/__blocks__/files", lambda array: array[:-1]),
        ("replay/carries/0/__blocks__/files", lambda array: array.astype(float)),
        ("replay/carries/0/__blocks__/digests", 7),
        ("replay/carries/0/__blocks__/shape", [2**40, 2, 64]),
        ("replay/carries/0/__blocks__/shape", [-1]),
        ("replay/carries/0/__blocks__/dtype", "|O8"),
        ("replay/carries/0/__blocks__/dtype", "<f3"),
        ("replay/carries/0/__blocks__/size", 0),
        ("replay/carries/0/__blocks__", None),
        ("replay/priorities/highest", -1.0),
        ("replay/priorities/highest", float("inf")),
        ("replay/priorities/masses", lambda array: array[:1]),
        ("replay/priorities/masses", lambda array: array - 1),
        ("replay/ring/finals/dropped", -1),
        ("replay/ring/finals/dropped", 2**63 - 1),
        ("replay/ring/rings/final", lambda array: array * 0 + 2**40),
        ("replay/ring/rings/reward", lambda array: array[:-1]),
        ("replay/ring/count", 2**40),
        ("collector/rows/carry/0", lambda array: array[..., :-1]),
        ("collector/rows/carry/0", lambda array: array.astype(np.int8)),
    ],
    "narrow_path": [
        ("episodes", None),
        ("episodes", lambda rows: rows[:1].tolist()),
        ("episodes/0", 3),
        ("episodes/0/value", lambda array: array[:-1]),
        ("episodes/0/weights", lambda array: array[..., :-1]),
        ("episodes/0/weights", {}),
        ("episodes/0/visits", {}),
        ("episodes/0/visits", ()),
        ("episodes/0/obs", {"x": np.zeros((1, 2))}),
        ("episodes/0/value", lambda array: array.astype(np.int8)),
    ],
}


@pytest.mark.parametrize("preset", BESIDE)
def test_what_replays_and_episodes_say_is_checked(preset, tmp_path):
    def made(rounds):
        own = {"env": {"kwargs": {"n": 9}}} if preset == "narrow_path" else {}
        collector = {"num_envs": 2, **({"moves": 3} if preset == "narrow_path" else {})}
        more = {"checkpoint_every": 1, "threads": 1, "evaluation": {"every": 0}}
        return compose([preset, {"rounds": rounds, "collector": collector, **more, **own}])

    with Runner(made(2), tmp_path / "base") as runner:
        runner.run()
    path = Checkpoints(tmp_path / "base").path(2)
    content = tensor_file.load(path)
    for place, value in BESIDE[preset]:
        changed = copy.deepcopy(content)
        *holders, last = (int(key) if key.isdigit() else key for key in place.split("/"))
        at = changed
        for key in holders:
            at = at[key]
            if key == "episodes":  # those of rows that are in one
                at[:] = sorted(at, key=lambda begun: begun is None)
        at[last] = value(np.asarray(at[last])) if callable(value) else value
        tensor_file.save(path, changed)
        with pytest.raises(PlangymExtError), Runner(made(4), tmp_path / "base", resume=True) as run:
            run.run()
        for later in (3, 4):
            Checkpoints(tmp_path / "base").path(later).unlink(missing_ok=True)
    tensor_file.save(path, content)
    with Runner(made(3), tmp_path / "base", resume=True) as runner:
        runner.run()
