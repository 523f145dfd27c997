"""What an archive keeps, against a dict; and how trajectories are linked, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.explore.archive import Archive
from plangym_ext.explore.entries import NO_KEYS, Arrived, visit
from plangym_ext.explore.go_explore import drawn_by, random_actions, resampled, seen_weights
from plangym_ext.explore.paths import ROOT, Paths


def empty(width=4):
    return Archive(Paths((), np.dtype(np.int64)), np.dtype(np.int64), 2, width)


def arrived(rng, count, width=4):
    return Arrived(
        NO_KEYS,
        rng.integers(0, 256, (count, width), dtype=np.uint8),
        rng.integers(0, 3, count).astype(np.float64),
        rng.integers(0, 5, count),
        rng.random(count) < 0.1,
        np.arange(count),
        rng.integers(0, 9, count),
    )


@pytest.mark.parametrize("compiled", [True, False], ids=["jit", "python"])
def test_the_best_way_to_each_cell_is_kept(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr("plangym_ext.explore.archive.visit", visit.py_func)
    rng, archive, known = np.random.default_rng(0), empty(), {}
    # More cells than there is room for in the beginning.
    for _ in range(8 if compiled else 2):
        cells = rng.integers(-20, 20, (400, 2))
        rows = arrived(rng, 400)
        numbers, improved = archive.arrive(cells, rows)
        for i, cell in enumerate(cells):
            key = (*cell.tolist(), bool(rows.ended[i]))
            entry = known.setdefault(key, {"number": len(known), "seen": 0, "rank": None})
            rank = (rows.score[i], -rows.steps[i])
            better = entry["rank"] is None or rank > entry["rank"]
            if better:
                entry |= {"rank": rank, "seen": 0, "state": rows.state[i].tolist()}
            entry["seen"] += 1
            assert (numbers[i], improved[i]) == (entry["number"], better)
    assert len(archive) == len(known) > (1024 if compiled else 400)
    for (x, y, ended), entry in known.items():
        i = entry["number"]
        assert archive.cells[i].tolist() == [x, y]
        assert (archive.scores[i], -archive.steps[i]) == entry["rank"]
        assert (archive.ended[i], archive.seen[i]) == (ended, entry["seen"])
        assert archive.states[i].tolist() == entry["state"]
    best = max(entry["rank"] for entry in known.values())
    assert (archive.scores[archive.best], -archive.steps[archive.best]) == best


def test_states_may_become_wider():
    archive, rng = empty(width=4), np.random.default_rng(0)
    archive.arrive(np.array([[0, 0]]), arrived(rng, 1, width=4))
    archive.arrive(np.array([[0, 1]]), arrived(rng, 1, width=6))
    archive.arrive(np.array([[0, 2]]), arrived(rng, 1, width=5))
    assert archive.states.shape == (3, 6)
    assert (archive.states[0, 4:] == 0).all()


def test_ways_follow_the_links_back_to_the_root():
    paths = Paths((), np.dtype(np.int8))
    actions = np.array([[1, 10], [2, 20], [3, 30]], np.int8)  # [H, B]
    one = np.array([0])
    # Segment 0 is 1, 2, 3; segment 1 goes on after its first two by 20, 30; 2 after 20 by 10.
    paths.add(one + ROOT, one, actions, one, one, one + 3)
    paths.add(one, one + 2, actions, one + 1, one + 1, one + 3)
    paths.add(one + 1, one + 1, actions, one + 1, one, one + 1)
    assert paths.actions(ROOT, 0).tolist() == []
    assert paths.actions(0, 2).tolist() == [1, 2]
    assert paths.actions(1, 2).tolist() == [1, 2, 20, 30]
    assert paths.actions(2, 1).tolist() == [1, 2, 20, 10]


def test_cells_are_drawn_by_their_weights():
    # 1 / sqrt(seen + 1): 1/2, 1/3 and, as it has ended, nothing.
    weights = np.where([False, False, True], 0.0, seen_weights(np.array([3, 8, 0])))
    found = np.bincount(drawn_by(weights, 60_000, np.random.default_rng(0)), minlength=3)
    # A binomial with p = 3/5 has a standard deviation of 120 here.
    assert abs(found[0] - 36_000) < 600
    assert found[2] == 0


def test_particles_have_as_many_followers_as_their_weight_says():
    weights = np.array([0.0, 1.0, 2.5, 0.5])
    for seed in range(20):
        found = np.bincount(resampled(weights, np.random.default_rng(seed)), minlength=4)
        assert found[0] == 0
        assert found[1] == 1
        assert found[2] in (2, 3)
        assert found.sum() == 4


def test_actions_are_repeated_as_often_as_is_asked():
    import gymnasium as gym

    space, rng = gym.spaces.Discrete(10, start=5), np.random.default_rng(0)
    found = random_actions(space, rng, 500, 40, 0.75)
    assert found.dtype == space.dtype
    assert sorted(set(found.ravel().tolist())) == list(range(5, 15))
    same = (found[1:] == found[:-1]).mean()
    # 0.75 + 0.25 / 10 of 19,960, with a standard deviation of 0.003.
    assert abs(same - 0.775) < 0.015
    box = gym.spaces.Box(-2.0, 1.0, (3,), np.float32)
    found = random_actions(box, rng, 4, 6, 0.0)
    assert (found.shape, found.dtype) == ((4, 6, 3), np.float32)
    assert box.contains(found.min(axis=(0, 1)))
    assert box.contains(found.max(axis=(0, 1)))
    for other in (gym.spaces.MultiDiscrete([2, 5]), gym.spaces.MultiBinary(3)):
        assert other.contains(random_actions(other, rng, 2, 2, 0.5)[1, 1])


def linked(**changed: object) -> dict[str, np.ndarray]:
    """Two segments of three actions each, of which the second goes on from the first."""
    arrays = {"actions": np.arange(6, dtype=np.int8), "start": [0, 3], "parent": [ROOT, 0]}
    found = {**arrays, "taken": [0, 3], **changed}
    return {f"path_{name}": np.asarray(value) for name, value in found.items()}


def test_paths_are_taken_over_as_they_were_kept():
    paths = Paths((), np.dtype(np.int8))
    paths.load(linked())
    assert paths.actions(1, 2).tolist() == [0, 1, 2, 3, 4]
    kept = paths.arrays()
    again = Paths((), np.dtype(np.int8))
    again.load(kept)
    assert all((again.arrays()[name] == kept[name]).all() for name in kept)
    again.load(Paths((), np.dtype(np.int8)).arrays())  # nothing is a trajectory too
    assert len(again) == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"start": [-1, 3]},
        {"start": [3, 0]},
        {"start": [0, 7]},
        {"parent": [ROOT, 1]},
        {"parent": [ROOT - 1, 0]},
        {"taken": [0, -1]},
        {"taken": [0, 4]},
        {"taken": [0]},
    ],
)
def test_paths_that_lead_nowhere_are_refused(changed):
    with pytest.raises(ValueError, match="not linked"):
        Paths((), np.dtype(np.int8)).load(linked(**changed))
