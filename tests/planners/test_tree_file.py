"""Trees in files of columns."""

import numpy as np
import pytest

from plangym_ext.core.files import whole_file
from plangym_ext.errors import WrongKind
from plangym_ext.planners import IW, MCTS, STS, RolloutIW, read_tree, write_tree


@pytest.fixture
def tree(models):
    model = models.random_mdp(1, states=400)
    return MCTS(60, return_tree=True).plan(model, model.state(0), rng=0).tree


def test_what_is_read_is_what_was_written(tree, tmp_path):
    path = tmp_path / "tree.npz"
    write_tree(path, tree)
    again = read_tree(path)
    for name, column in tree._asdict().items():
        assert getattr(again, name).dtype == column.dtype
        np.testing.assert_array_equal(getattr(again, name), column)


def test_columns_are_plain_numpy(tree, tmp_path):
    path = tmp_path / "tree.npz"
    write_tree(path, tree)
    with np.load(path) as columns:
        assert set(columns.files) == {"format", *tree._fields}
        assert columns["visits"][0] == 60


def test_a_file_is_whole_or_not_there(tree, tmp_path, monkeypatch):
    path = tmp_path / "tree.npz"

    def full(_fd):
        raise OSError("disk full")

    monkeypatch.setattr(whole_file.os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        write_tree(path, tree)
    assert not path.exists()


def test_what_is_no_tree_is_refused(tree, tmp_path):
    with pytest.raises(WrongKind, match="Plan with return_tree=True"):
        write_tree(tmp_path / "none.npz", None)
    path = tmp_path / "tree.npz"
    path.write_bytes(b"not a file of columns")
    with pytest.raises(ValueError, match=r"read_tree: .*tree.npz is no tree"):
        read_tree(path)
    np.savez(path, parent=tree.parent)
    with pytest.raises(ValueError, match=r"must have format 1 and the columns .*; got parent"):
        read_tree(path)
    write_tree(path, tree._replace(q=tree.q.astype(np.float64)))
    with pytest.raises(ValueError, match=r"column q .* must be \(\d+,\) float32; got .* float64"):
        read_tree(path)
    write_tree(path, tree._replace(parent=tree.parent[::-1].copy()))
    with pytest.raises(ValueError, match="parents must come before their children"):
        read_tree(path)
    write_tree(path, tree)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="is no tree"):
        read_tree(path)


@pytest.mark.parametrize("cls", [STS, RolloutIW, IW])
def test_every_tree_planner_hands_out_its_tree(models, cls):
    model = models.random_mdp(1, states=400)
    plan = cls(20, return_tree=True).plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert plan.tree.parent[0] == -1
    assert (plan.tree.parent[1:] < np.arange(1, len(plan.tree.parent))).all()
    first = np.flatnonzero(plan.tree.parent == 0)
    for node in first:
        action = plan.tree.action[node]
        assert plan.tree.q[node] == np.float32(plan.q[action])
        assert plan.tree.visits[node] == plan.visits[action]


@pytest.mark.parametrize("cls", [RolloutIW, IW])
def test_the_best_branch_is_worth_what_the_plan_says(models, cls):
    model = models.random_mdp(1, states=400)
    plan = cls(60).plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert plan.actions[0] == plan.action
    value, state, weight = 0.0, 0, 1.0
    for action in plan.actions:
        value += weight * model.reward[state, action]
        state, weight = model.successor[state, action], weight * 0.99
    assert value == pytest.approx(np.nanmax(plan.q))


def test_bytes_that_were_changed_are_told_as_damage(tree, tmp_path):
    path = tmp_path / "tree.npz"
    write_tree(path, tree)
    data, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(200):
        broken = bytearray(data)
        for at in rng.integers(len(data), size=3):
            broken[at] = int(rng.integers(256))
        path.write_bytes(bytes(broken[: int(rng.integers(1, len(data) + 1))]))
        try:
            read_tree(path)
        except ValueError:
            refused += 1
    assert refused > 150


@pytest.mark.parametrize(
    ("name", "number"), [("action", -7), ("visits", -1), ("q", np.nan), ("prior", np.inf)]
)
def test_numbers_that_no_search_writes_are_refused(tree, tmp_path, name, number):
    column = getattr(tree, name).copy()
    column[-1] = number
    path = tmp_path / "tree.npz"
    write_tree(path, tree._replace(**{name: column}))
    with pytest.raises(ValueError, match=f"numbers of {name}"):
        read_tree(path)
    np.savez_compressed(path, format=np.zeros(3, np.int32), **tree._asdict())
    with pytest.raises(ValueError, match="must have format 1"):
        read_tree(path)
    with pytest.raises(FileNotFoundError):
        read_tree(tmp_path / "nothing.npz")
