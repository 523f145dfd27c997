"""Explorations: trajectories hold, whatever the backend, and nothing is lost by saving."""

from __future__ import annotations

import zipfile
from collections import Counter

import numpy as np
import pytest

from plangym_ext import make
from plangym_ext.errors import (
    DamagedState,
    ForeignState,
    InvalidAnswer,
    InvalidOption,
    NotExact,
    WrongKind,
)
from plangym_ext.explore import GoExplore, demonstration, verify

KINDS = ("archive", "particles")
# Slippery, with episodes that end soon; and one whose states of one cell differ.
ENVS = {"FrozenLake-v1": "obs", "MountainCar-v0": "obs:0.02"}


def explored(env, kind, cell="obs", steps=3000, **options):
    options = {"rows": 8, "horizon": 20, "repeat": 0.5, "seed": 3, **options}
    explorer = GoExplore(env, cell, kind=kind, **options)
    explorer.run(steps)
    return explorer


def assert_same(found, wanted):
    assert found.steps_taken == wanted.steps_taken
    assert (found.archive.states == wanted.archive.states).all()
    one, other = found.archive.arrays(), wanted.archive.arrays()
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ENVS)
def test_every_way_is_played_again_from_the_reset(name, kind):
    with make(name) as env:
        explorer = explored(env, kind, ENVS[name])
        assert len(explorer.archive) > 10
        assert explorer.archive.ended.any()
        for cell in [*range(0, len(explorer.archive), 20), explorer.archive.best]:
            verify(explorer, cell)


@pytest.mark.parametrize("kind", KINDS)
def test_the_backend_makes_no_difference(kind):
    with make("FrozenLake-v1", n_workers=0) as env:
        wanted = explored(env, kind)
    with make("FrozenLake-v1") as env:
        assert env.backend == "kernel"
        assert_same(explored(env, kind), wanted)


def test_the_number_of_workers_makes_no_difference():
    with make("FrozenLake-v1", n_workers=0) as env:
        wanted = explored(env, "particles", steps=800)
    with make("FrozenLake-v1", backend="process", n_workers=2) as env:
        assert_same(explored(env, "particles", steps=800), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_an_exploration_that_was_saved_goes_on_as_if_it_had_not(kind, tmp_path):
    with make("FrozenLake-v1") as env:
        whole = explored(env, kind, steps=1000)
        whole.save(tmp_path / "half.npz")
        whole.run(2000)
        resumed = GoExplore.load(tmp_path / "half.npz", env)
        assert resumed.steps_taken < whole.steps_taken
        resumed.run(2000)
        assert_same(resumed, whole)
        resumed.save(tmp_path / "whole.npz")
    with zipfile.ZipFile(tmp_path / "whole.npz") as file:
        assert not any(b"O'" in file.open(name).read(100) for name in file.namelist())


def test_files_that_do_not_fit_are_refused(tmp_path):
    def left(obs, infos):
        return np.asarray(obs)[:, None] % 4

    path = tmp_path / "lake.npz"
    with make("FrozenLake-v1") as env:
        explorer = explored(env, "archive", left, steps=100)
        explorer.save(path)
        with pytest.raises(InvalidOption, match="a function of your own"):
            GoExplore.load(path, env)
        assert_same(GoExplore.load(path, env, cell=left), explorer)
        damaged = path.read_bytes()
        (tmp_path / "damaged.npz").write_bytes(damaged[: len(damaged) // 2])
        with pytest.raises(DamagedState):
            GoExplore.load(tmp_path / "damaged.npz", env, cell=left)
    with make("CartPole-v1") as other, pytest.raises(ForeignState):
        GoExplore.load(path, other, cell=left)


@pytest.mark.parametrize("kind", KINDS)
def test_rewards_that_are_far_are_found(kind):
    # One action of two is right, 15 times: at random one episode in 32,768 gets there.
    with make("plangym_ext/NarrowPath-v0", n=16) as env:
        explorer = GoExplore(env, "obs", kind=kind, rows=8, horizon=4, repeat=0.0)
        archive = explorer.run(8000, callback=lambda progress: progress.score > 0)
        assert archive.scores[archive.best] == 1.0
        assert archive.trajectory(archive.best).tolist() == [0] * 15
        verify(explorer, archive.best)
        states = demonstration(explorer, every=4)
        # After 15, 11, 7 and 3 steps; the reward comes with the 15th.
        assert states.obs.tolist() == [3, 7, 11, 15]
        assert states.to_go.tolist() == [1.0, 1.0, 1.0, 0.0]


def test_a_way_that_ends_the_episode_is_kept_and_not_begun_from():
    with make("FrozenLake-v1", is_slippery=False) as env:
        explorer = explored(env, "archive", repeat=0.0)
        archive = explorer.archive
        assert archive.ended[archive.best]
        assert archive.scores[archive.best] == 1.0
        assert archive.steps[archive.best] == 6
        assert archive.chosen[archive.ended].sum() == 0
        # The lake has four holes and a goal.
        assert Counter(archive.ended.tolist())[True] == 5
        states = demonstration(explorer)
        assert len(states) == 6
        assert (states.to_go == 1.0).all()


def test_counts_are_of_steps():
    with make("plangym_ext/NarrowPath-v0", n=5) as env:
        explorer = explored(env, "archive", steps=160, horizon=20)
        assert explorer.steps_taken == 160
        assert explorer.archive.seen.sum() <= 161  # and the reset
        told = []
        explorer.run(480, callback=told.append)
        assert [one.steps for one in told] == [320, 480]
        assert told[-1].cells == len(explorer.archive)
        assert explorer.run(480) is explorer.archive


def test_a_way_that_is_another_now_is_told():
    with make("FrozenLake-v1") as env:
        explorer = explored(env, "archive", steps=200)
        explorer.archive.states[2, -1] ^= 1
        with pytest.raises(InvalidAnswer, match="the state of the trajectory to cell 2 differs"):
            verify(explorer, 2)


def test_what_cannot_be_explored_is_refused():
    with make("FrozenLake-v1") as env:
        with pytest.raises(InvalidOption, match=r"kind must be one of.*'swarm'"):
            GoExplore(env, kind="swarm")
        with pytest.raises(InvalidOption, match="rows must be an integer >= 1; got 0"):
            GoExplore(env, rows=0)
        with pytest.raises(ValueError, match=r"whole numbers \[1, K\].*returned \(1,\) float64"):
            GoExplore(env, lambda obs, infos: np.zeros(1))
        explorer = GoExplore(env)
        with pytest.raises(IndexError, match="cells are 0 to 0; got 1"):
            explorer.archive.trajectory(1)
        with pytest.raises(InvalidOption, match="the trajectory has no steps"):
            demonstration(explorer)


def test_approximate_states_are_refused():
    pytest.importorskip("Box2D")
    with (
        make("LunarLander-v3", n_workers=0, capture="approximate") as env,
        pytest.raises(NotExact, match="approximate"),
    ):
        GoExplore(env)


@pytest.mark.parametrize(
    ("name", "cell", "package"),
    [
        ("ALE/MontezumaRevenge-v5", "frames", "ale_py"),
        ("MiniGrid-KeyCorridorS3R1-v0", None, "minigrid"),
        ("plangym_ext/Sokoban-v0", "obs", "gymnasium"),
        ("Pendulum-v1", "obs:0.5", "gymnasium"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_games_mazes_and_torques_are_explored(name, cell, package, kind):
    pytest.importorskip(package)
    with make(name, n_workers=0) as env:
        explorer = explored(env, kind, cell, steps=60, rows=3, horizon=10)
        archive = explorer.archive
        assert len(archive) > 3
        for number in (0, archive.best, len(archive) - 1):
            verify(explorer, number)


@pytest.mark.parametrize("kind", ["archive", "particles"])
def test_weights_that_leave_nothing_to_begin_from_are_refused(kind):
    # Holes and the goal are seen less often than any cell that an episode goes on from.
    with make("FrozenLake-v1", is_slippery=False) as env:
        options = {"kind": kind, "rows": 8, "horizon": 10, "repeat": 0.0}
        exploration = GoExplore(env, "obs", weights=lambda seen: (seen < 40) * 1.0, **options)
        with pytest.raises(InvalidAnswer, match="weights: must"):
            exploration.run(20_000)


def test_rewards_of_two_players_are_not_added_up():
    with make("plangym_ext/TicTacToe-v0") as env, pytest.raises(WrongKind, match="one player"):
        GoExplore(env, "obs")
