"""Nested named arrays: building, indexing, assigning, applying."""

import copy
import dataclasses
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from gymnasium import spaces

from plangym_ext.arrays import Array, ArrayDict, dict_map
from plangym_ext.errors import ArrayClosed


def make(**spec):
    return ArrayDict(
        {"obs": {"x": Array((4, 2), np.int64, **spec), "y": Array((4, 2), "f4", **spec)}},
        reward=Array((4, 2), np.float64, **spec),
    )


class Obs(NamedTuple):
    x: int
    y: float


@dataclasses.dataclass
class Sample:
    obs: Obs
    reward: float


def test_names_select_and_indices_index_every_leaf():
    tree = make(padding=1)
    assert list(tree) == ["obs", "reward"]
    assert isinstance(tree["obs"], ArrayDict)
    assert [name for name, _ in tree.leaves()] == ["obs.x", "obs.y", "reward"]
    assert tree[1:3, 0].apply("shape") == {"obs": {"x": (2,), "y": (2,)}, "reward": (2,)}
    tree[-1]["obs"]["x"][...] = 3
    np.testing.assert_array_equal(tree["obs"]["x"][-1], [3, 3])
    assert len(tree) == 2
    del tree["reward"]
    assert "reward" not in tree
    with pytest.raises(KeyError):
        tree["reward"]


@pytest.mark.parametrize(
    "value",
    [
        {"obs": {"x": 1, "y": 2.5}, "reward": [3, 4]},
        {"reward": [3, 4], "obs": Obs(1, 2.5)},
        Sample(Obs(1, 2.5), [3, 4]),
        {"obs": {"x": np.array([1, 1]), "y": [2.5, 2.5]}, "reward": np.array([3, 4])},
    ],
    ids=["mapping", "named tuple", "dataclass", "arrays"],
)
def test_nested_values_are_assigned_by_name(value):
    tree = make()
    tree[2] = value
    np.testing.assert_array_equal(tree["obs"]["x"][1:], [[0, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(tree["obs"]["y"][2], [2.5, 2.5])
    np.testing.assert_array_equal(tree["reward"][2], [3, 4])


def test_trees_and_single_values_are_assigned_too():
    tree, other = make(), make()
    other[...] = 7
    tree[0:2] = other[2:4]
    for name, leaf in tree.leaves():
        np.testing.assert_array_equal(leaf[:, 0], [7, 7, 0, 0], err_msg=name)
    numbered = ArrayDict({"0": Array((2,), int), "1": Array((2,), int)})
    numbered[0] = (5, 6)
    assert numbered[0].to_ndarray() == {"0": 5, "1": 6}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"obs": 1}, r"missing \['reward'\], unknown \[\]"),
        ({"obs": 1, "reward": 2, "z": 3}, r"missing \[\], unknown \['z'\]"),
        ({"obs": {"x": 1}, "reward": 2}, r"'obs\.' must have the names \['x', 'y'\]"),
        ({"obs": Obs(1, 2), "reward": {"a": 1}}, r"^reward: Array: a value.*got dict"),
        (Obs(1, 2), r"missing \['obs', 'reward'\], unknown \['x', 'y'\]"),
    ],
)
def test_missing_and_unknown_names_raise_before_anything_is_written(value, message):
    tree = make()
    with pytest.raises((ValueError, TypeError), match=message):
        tree[0] = value
    if "must have the names" in message or "missing" in message:
        assert not any(leaf.to_ndarray().any() for _, leaf in tree.leaves())


def test_errors_name_the_leaf():
    tree = make()
    with pytest.raises(IndexError, match=r"^obs\.x: Array: indices on axis 0"):
        tree[4]
    with pytest.raises(IndexError, match=r"^obs\.x: Array: indices on axis 1"):
        tree[:, 2]
    with pytest.raises(IndexError, match=r"^obs\.x: Array\.next"):
        _ = tree.next
    with pytest.raises(ValueError, match=r"^obs\.y: Array: a value"):
        tree[0] = {"obs": {"x": 0, "y": [1, 2, 3]}, "reward": 0}
    with pytest.raises(ValueError, match=r"^obs\.x: Array\.rotate"):
        tree[0].rotate()


def test_only_arrays_go_under_names():
    tree = make()
    tree["more"] = {"z": Array((4,), int)}
    assert isinstance(tree["more"], ArrayDict)
    with pytest.raises(TypeError, match=r"tree\['reward'\]\[\.\.\.\] = value"):
        tree["reward"] = 3


def test_methods_and_functions_apply_to_every_leaf():
    tree = make(padding=1, full_size=8)
    tree[...] = 1
    tree.rotate()
    tree[...] = 2
    assert tree.apply("to_ndarray")["obs"]["x"].sum() == 16
    assert tree.apply(lambda leaf, k: leaf.shape[0] * k, 10)["reward"] == 40
    np.testing.assert_array_equal(tree.previous["reward"][:, 0], [1, 2, 2, 2])
    np.testing.assert_array_equal(tree.next["obs"]["y"][:, 0], [2, 2, 2, 0])
    assert tree.full.apply("shape")["reward"] == (8, 2)
    tree.rotate()
    np.testing.assert_array_equal(tree["reward"][:, 0], [0, 1, 1, 1])
    tree.reset()
    np.testing.assert_array_equal(tree["reward"][:, 0], [2] * 4)
    assert tree.new_array(storage="shared")["obs"]["x"].storage == "shared"
    with tree:
        tree.to_ndarray()["reward"][0] = 5
        np.testing.assert_array_equal(tree["reward"][0], [5, 5])
    with pytest.raises(ArrayClosed):
        tree.to_ndarray()


def test_trees_copy_and_pickle_like_their_arrays():
    local, shared = make(), make(storage="shared")
    for tree in (local, shared):
        other = copy.deepcopy(tree)
        other[...] = 3
        assert not tree["reward"].to_ndarray().any()
    for tree, want in ((local, 0), (shared, 3)):
        pickle.loads(pickle.dumps(tree))[...] = 3
        assert (tree["obs"]["y"].to_ndarray() == want).all()
    assert repr(local).startswith("ArrayDict({'obs': ArrayDict({'x': Array(")


def test_building_from_a_space():
    space = spaces.Dict(
        camera=spaces.Box(0, 255, (8, 8, 3), np.uint8),
        parts=spaces.Tuple((spaces.Discrete(4), spaces.MultiBinary(3))),
        choices=spaces.MultiDiscrete([3, 2]),
    )
    tree = ArrayDict.from_space(
        {"obs": space, "action": spaces.Box(-1, 1, (2,))},
        (5, 3),
        storage="shared",
        padding=1,
        fields={"action": {"padding": 0}, "obs.parts.0": {"dtype": np.int32}},
    )
    got = {name: (leaf.shape, leaf.dtype, leaf.padding) for name, leaf in tree.leaves()}
    assert got == {
        "obs.camera": ((5, 3, 8, 8, 3), np.uint8, 1),
        "obs.parts.0": ((5, 3), np.int32, 1),
        "obs.parts.1": ((5, 3, 3), np.int8, 1),
        "obs.choices": ((5, 3, 2), np.int64, 1),
        "action": ((5, 3, 2), np.float32, 0),
    }
    sample = space.sample()
    tree["obs"][0, 1] = sample
    np.testing.assert_array_equal(tree["obs"]["camera"][0, 1], sample["camera"])
    np.testing.assert_array_equal(tree["obs"]["parts"]["1"][0, 1], sample["parts"][1])


def test_spaces_without_a_fixed_shape_are_refused():
    with pytest.raises(TypeError, match=r"obs\.t must be a Box.*got Text"):
        ArrayDict.from_space({"obs": spaces.Dict(t=spaces.Text(5))}, (2,))
    with pytest.raises(TypeError, match="named parts; got Discrete"):
        ArrayDict.from_space(spaces.Discrete(3), (2,))
    with pytest.raises(ValueError, match=r"\['a'\]; got \['b'\]"):
        ArrayDict.from_space({"a": spaces.Discrete(3)}, (2,), fields={"b": {}})


def test_building_from_an_example_and_a_step():
    tree = ArrayDict.from_example(
        {"obs": Obs(np.zeros(3), 1), "pair": (1.0, True)}, (4,), fields={"pair.0": {"dtype": "f8"}}
    )
    assert {name: (leaf.shape, leaf.dtype) for name, leaf in tree.leaves()} == {
        "obs.x": ((4, 3), np.float32),
        "obs.y": ((4,), np.int32),
        "pair.0": ((4,), np.float64),
        "pair.1": ((4,), np.bool_),
    }
    step = (np.zeros((2, 2), np.uint8), 1.0, False, np.bool_(True), {"lives": 3})
    tree = ArrayDict.from_step(step, (4, 2), action=np.int64(1), force_32bit="float")
    assert tree.apply("dtype") == {
        "action": np.int64,
        "obs": np.uint8,
        "reward": np.float32,
        "terminated": np.bool_,
        "truncated": np.bool_,
        "info": {"lives": np.int64},
    }
    assert list(ArrayDict.from_step(step, (4,), info=False))[-1] == "truncated"
    assert list(ArrayDict.from_step((*step[:4], {}), (4,)))[-1] == "truncated"
    with pytest.raises(TypeError, match=r"info\.name must be a number.*got str 'pong'"):
        ArrayDict.from_step((*step[:4], {"name": "pong"}), (4,))
    with pytest.raises(TypeError, match="named parts; got ndarray"):
        ArrayDict.from_example(np.zeros(3), (4,))


def test_a_graph_space_is_a_jagged_leaf():
    tree = ArrayDict(
        nodes=Array((2, 2), "f4", kind="jagged", max_mean_num_elem=5, feature_shape=(3,)),
        reward=Array((2, 2), "f4"),
    )
    tree[0, 1] = {"nodes": np.ones((4, 3)), "reward": 2}
    assert tree[0].to_ndarray()["nodes"]["ptr"].tolist() == [0, 0, 4]


def test_names_are_attributes_unless_they_are_methods():
    tree = make(padding=1)
    assert tree.obs is tree["obs"]
    assert tree.obs.x is tree["obs"]["x"]
    tree[0].obs.y[...] = 2
    assert (tree["obs"]["y"][0] == 2).all()
    tree["next"] = Array((4,), np.int8, padding=1)
    assert isinstance(tree.next, ArrayDict)
    assert {"obs", "reward", "rotate"} <= set(dir(tree))
    assert not hasattr(tree, "action")
    with pytest.raises(AttributeError, match=r"method 'rewards'.*did you mean 'reward'"):
        tree.rewards  # noqa: B018
    with pytest.raises(AttributeError):
        tree.action = Array((4,), np.int8)
    for twin in (copy.deepcopy(tree), pickle.loads(pickle.dumps(tree)), copy.copy(tree)):
        assert twin.obs.x.shape == (4, 2)


def test_a_tree_goes_to_a_device():
    torch = pytest.importorskip("torch")
    points = Array((2,), np.float32, kind="jagged", max_mean_num_elem=3)
    tree = ArrayDict({"obs": {"x": Array((4, 2), np.float32)}, "points": points})
    there = tree.to("cpu")
    there["obs"]["x"] += 3
    assert (tree.obs.x == 3).all()
    assert tree.to("meta")["obs"]["x"].device == torch.device("meta")
    assert tree.to("meta")["points"]["ptr"].device == torch.device("meta")


# None, and functions of leaves --------------------------------------------------------


def test_none_is_kept_and_passed_over():
    tree = ArrayDict({"obs": {"x": Array((4, 2), np.int64), "y": None}}, carry=None)
    assert tree["carry"] is None
    assert tree.obs.y is None
    assert list(tree) == ["obs", "carry"]
    assert [name for name, _ in tree.leaves()] == ["obs.x"]
    tree[1] = {"obs": {"x": 3}}
    tree[2] = {"obs": {"x": [4, 5], "y": None}, "carry": None}
    tree[3] = 6
    wanted = [[0, 0], [3, 3], [4, 5], [6, 6]]
    assert tree.to_ndarray()["obs"]["x"].tolist() == wanted
    assert tree[1:3].apply("shape") == {"obs": {"x": (2, 2), "y": None}, "carry": None}
    assert tree.new_array(batch_shape=(3,))["obs"]["y"] is None
    twin = pickle.loads(pickle.dumps(tree))
    assert twin["carry"] is None
    assert twin["obs"]["x"].to_ndarray().tolist() == wanted
    tree.rotate()
    with pytest.raises(ValueError, match=r"missing \['x'\]"):
        tree[1] = {"obs": {"y": 1}}
    made = ArrayDict.from_example({"obs": np.zeros(3), "carry": None}, (4,))
    assert made["carry"] is None
    assert made["obs"].shape == (4, 3)


def test_a_function_is_applied_to_the_leaves_of_several_trees():
    tree = ArrayDict({"obs": {"x": Array((4, 2), np.int64)}}, carry=None)
    tree["obs"]["x"][...] = 2
    summed = dict_map(
        lambda a, b, scale: (np.asarray(a) + b) * scale,
        tree,
        {"obs": {"x": 1}, "carry": 0},
        scale=3,
    )
    assert type(summed) is dict
    assert summed["carry"] is None
    assert (summed["obs"]["x"] == 9).all()
    part = dict_map(lambda leaf: leaf[1:3], tree)
    assert isinstance(part, ArrayDict)
    assert part["obs"]["x"].shape == (2, 2)
    assert dict_map(len, ({"a": [1, 2]}, "abc")) == ({"a": 2}, 3)
