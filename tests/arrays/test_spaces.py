"""From spaces to arrays: layouts, observations that are written, actions that are checked."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from plangym_ext.arrays.actions import check_actions
from plangym_ext.arrays.spaces import ObsWriter, SpaceLayout
from plangym_ext.errors import InvalidAction, InvalidObservation

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
SPACES = {
    "box": BOX,
    "image": spaces.Box(0, 255, (4, 3, 3), np.uint8),
    "scalar-box": spaces.Box(0.0, 1.0, (), np.float64),
    "discrete": spaces.Discrete(5),
    "discrete-start": spaces.Discrete(3, start=-1),
    "multi-discrete": spaces.MultiDiscrete([2, 5, 3]),
    "multi-discrete-2d": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "multi-binary": spaces.MultiBinary((2, 2)),
    "dict": spaces.Dict(b=spaces.Discrete(2), a=BOX),
    "tuple": spaces.Tuple([spaces.Discrete(2), BOX]),
    "nested": spaces.Dict(
        x=spaces.Tuple([spaces.Dict(y=BOX, z=spaces.Discrete(4)), spaces.MultiBinary(3)]),
        w=spaces.Box(0, 9, (1, 2), np.int16),
    ),
    "empty-dict": spaces.Dict(),
}
REAL = {key: space for key, space in SPACES.items() if key != "empty-dict"}


def arrays(layout, size):
    return tuple(np.zeros((size, *leaf.shape), leaf.dtype) for leaf in layout.leaves)


@pytest.mark.parametrize("space", REAL.values(), ids=REAL)
def test_split_and_join_are_inverse_and_samples_survive_the_arrays(space):
    layout = SpaceLayout(space)
    writer = ObsWriter(layout)
    batch = arrays(layout, 5)
    space.seed(0)
    values = [space.sample() for _ in range(5)]
    for i, value in enumerate(values):
        writer.into(batch)(i, value)
    for i, value in enumerate(values):
        row = layout.join(tuple(leaf[i] for leaf in batch))
        for mine, given in zip(layout.split(row), layout.split(value), strict=True):
            np.testing.assert_array_equal(mine, given)


@pytest.mark.parametrize("space", REAL.values(), ids=REAL)
def test_batches_that_gymnasium_samples_are_accepted(space):
    layout = SpaceLayout(space)
    batched = batch_space(space, 6)
    batched.seed(1)
    actions = batched.sample()
    leaves = check_actions(layout, actions, (6,), "test")
    assert [(leaf.shape[0], leaf.dtype) for leaf in leaves] == [
        (6, leaf.dtype) for leaf in layout.leaves
    ]
    for i, single in enumerate(iterate(batched, actions)):
        for mine, given in zip(leaves, layout.split(single), strict=True):
            np.testing.assert_array_equal(mine[i], given)


@pytest.mark.parametrize("space", REAL.values(), ids=REAL)
def test_single_sample_is_accepted_as_an_action(space):
    space.seed(2)
    leaves = check_actions(SpaceLayout(space), space.sample(), (), "test")
    assert [leaf.shape for leaf in leaves] == [leaf.shape for leaf in SpaceLayout(space).leaves]


def test_leaves_are_named_by_their_path():
    names = [leaf.name for leaf in SpaceLayout(SPACES["nested"]).leaves]
    assert names == ["['x'][0]['y']", "['x'][0]['z']", "['x'][1]", "['w']"]
    assert [leaf.name for leaf in SpaceLayout(BOX).leaves] == [""]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(BOX),
        spaces.Graph(BOX, None),
        spaces.OneOf([BOX, spaces.Discrete(2)]),
    ],
    ids=lambda space: type(space).__name__,
)
def test_spaces_without_an_array_form_are_refused_where_they_hang(space):
    match = rf"space\['k'\]\[1\]: {type(space).__name__} has no fixed-size array form"
    with pytest.raises(TypeError, match=match):
        SpaceLayout(spaces.Dict(k=spaces.Tuple([BOX, space])))


# Observations ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obs", "got"),
    [
        (np.zeros(3, np.float32), r"\(3,\) float32"),
        (np.zeros((1, 2), np.float32), r"\(1, 2\) float32"),
        (np.zeros(2), r"\(2,\) float64"),
        (np.float32(0), r"\(\) float32"),
        (7, r"\(\) int"),
        (None, r"\(\) object"),
        ([0.0, 0.0], r"\(2,\) float64"),
    ],
    ids=repr,
)
def test_observation_is_never_cut_or_broadcast_into_a_row(obs, got):
    batch = arrays(SpaceLayout(BOX), 1)
    with pytest.raises(InvalidObservation, match=rf"expected \(2,\) float32.*got {got}"):
        ObsWriter(SpaceLayout(BOX)).into(batch)(0, obs)
    assert not batch[0].any()


@pytest.mark.parametrize(
    ("obs", "dtype", "taken"),
    [
        (np.array([3, -4]), np.float32, True),
        ([True, False], np.float32, True),
        (np.array([1.5, 2.5], np.float32), np.float64, True),
        (np.array([7, -7]), np.int8, True),
        (np.array([2**24 + 1, 0]), np.float32, False),
        (np.array([2**53 + 1, 0]), np.float64, False),
        (np.array([200, 0]), np.int8, False),
        (np.array([1.0, 2.0]), np.float32, False),
        (np.array([1.0, 2.0]), np.int64, False),
        (["1", "2"], np.float32, False),
        ([None, None], np.float64, False),
    ],
    ids=repr,
)
def test_another_dtype_is_taken_where_no_value_changes(obs, dtype, taken):
    layout = SpaceLayout(spaces.Box(-100, 100, (2,), dtype))
    batch = arrays(layout, 1)
    put = ObsWriter(layout).into(batch)
    if taken:
        put(0, obs)
        assert batch[0][0].tolist() == list(obs)
    else:
        with pytest.raises(InvalidObservation, match=rf"expected \(2,\) {np.dtype(dtype)}"):
            put(0, obs)
        assert not batch[0].any()


def test_observation_of_an_image_too_large_for_its_bytes_is_refused():
    # Cast to uint8, 300 would become 44.
    space = spaces.Box(0, 255, (2,), np.uint8)
    with pytest.raises(InvalidObservation, match="int64"):
        ObsWriter(SpaceLayout(space)).into(arrays(SpaceLayout(space), 1))(0, np.array([300, 0]))


@pytest.mark.parametrize("obs", [{"a": np.zeros(2, np.float32)}, [0, 0], None, 3], ids=repr)
def test_observation_with_another_nesting_is_refused(obs):
    layout = SpaceLayout(SPACES["dict"])
    with pytest.raises(InvalidObservation, match=r"nesting of Dict|observation\['"):
        ObsWriter(layout).into(arrays(layout, 1))(0, obs)


@pytest.mark.parametrize("obs", [3, np.int64(3), np.int32(3), np.array(3)], ids=repr)
def test_discrete_observation_may_be_any_integer(obs):
    layout = SpaceLayout(spaces.Discrete(5))
    batch = arrays(layout, 2)
    ObsWriter(layout).into(batch)(1, obs)
    assert batch[0].tolist() == [0, 3]


# Actions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "actions", "match"),
    [
        # length, rank and shape
        (spaces.Discrete(2), [0, 1, 0], r"must be \(2,\) int64.*got \(3,\) int64"),
        (spaces.Discrete(2), 0, r"got \(\) int64"),
        (spaces.Discrete(2), [[0], [1]], r"got \(2, 1\) int64"),
        (spaces.Discrete(2), [], r"got \(0,\)"),
        (BOX, np.zeros((2, 3), np.float32), r"must be \(2, 2\) float32.*got \(2, 3\)"),
        (BOX, np.zeros(2, np.float32), r"got \(2,\) float32"),
        (BOX, [[0.0, 0.0], [0.0]], "rows differ in shape"),
        # dtype
        (spaces.Discrete(2), [0.0, 1.0], r"got \(2,\) float64"),
        (spaces.Discrete(2), [True, False], r"got \(2,\) bool"),
        (spaces.Discrete(2), ["0", "1"], r"got \(2,\) <U1"),
        (spaces.Discrete(2), [None, 0], r"got \(2,\) object"),
        (BOX, np.zeros((2, 2), complex), "complex128"),
        # range
        (spaces.Discrete(2), [0, 2], r"must lie in Discrete\(2\); got .*2.* at index \(1,\)"),
        (spaces.Discrete(2), [0, -1], r"got .*-1.* at index \(1,\)"),
        (spaces.Discrete(3, start=5), [5, 4], r"got .*4.* at index \(1,\)"),
        (spaces.Discrete(2), np.array([0, 2**63], np.uint64), "9223372036854775808"),
        (spaces.MultiDiscrete([2, 3]), [[1, 2], [2, 0]], r"got .*2.* at index \(1, 0\)"),
        (spaces.MultiBinary(2), [[0, 1], [0, 2]], r"got .*2.* at index \(1, 1\)"),
        (BOX, [[0.0, 0.0], [0.0, 1.5]], r"got .*1\.5.* at index \(1, 1\)"),
        (BOX, [[0.0, 0.0], [np.nan, 0.0]], r"got .*nan.* at index \(1, 0\)"),
        (BOX, [[0.0, np.inf], [0.0, 0.0]], r"got .*inf.* at index \(0, 1\)"),
        (BOX, [[0.0, 1e300], [0.0, 0.0]], r"got .*1e\+300.* at index \(0, 1\)"),
    ],
)
def test_bad_actions_are_refused_with_what_was_expected_and_what_came(space, actions, match):
    with pytest.raises(InvalidAction, match=match) as caught:
        check_actions(SpaceLayout(space), actions, (2,), "step_batch")
    assert str(caught.value).startswith("step_batch: actions")


@pytest.mark.parametrize(
    "actions",
    [
        {"a": np.zeros((2, 2), np.float32)},
        [np.zeros(2, int), np.zeros((2, 2), np.float32)],
        np.zeros(2),
        None,
        "ab",
    ],
    ids=["key-missing", "list", "array", "none", "text"],
)
def test_actions_with_another_nesting_are_refused(actions):
    with pytest.raises(InvalidAction, match="nested as Dict"):
        check_actions(SpaceLayout(SPACES["dict"]), actions, (2,), "test")


def test_bad_leaf_of_a_nested_action_is_named():
    actions = {"a": np.zeros((2, 2), np.float32), "b": np.array([0, 2])}
    with pytest.raises(InvalidAction, match=r"actions\['b'\] must lie in Discrete"):
        check_actions(SpaceLayout(SPACES["dict"]), actions, (2,), "test")


def test_tuple_of_the_wrong_length_is_refused():
    space = SPACES["tuple"]
    box = np.zeros((2, 2), np.float32)
    for actions in ((np.zeros(2, int),), (np.zeros(2, int), box, box)):
        with pytest.raises(InvalidAction, match="nested as Tuple"):
            check_actions(SpaceLayout(space), actions, (2,), "test")


def test_integers_of_any_size_and_numbers_of_any_kind_are_cast_when_they_fit():
    (discrete,) = check_actions(SpaceLayout(spaces.Discrete(3)), np.array([2], np.uint8), (1,), "")
    assert (discrete.dtype, discrete.tolist()) == (np.int64, [2])
    (box,) = check_actions(SpaceLayout(BOX), [[1, 0]], (1,), "")
    assert (box.dtype, box.tolist()) == (np.float32, [[1.0, 0.0]])
    # In float32 this is the bound itself.
    (bound,) = check_actions(SpaceLayout(BOX), [[1.0 + 1e-12, -1.0]], (1,), "")
    assert bound.tolist() == [[1.0, -1.0]]


def test_array_that_fits_is_not_copied():
    actions = np.zeros((4, 2), np.float32)
    assert check_actions(SpaceLayout(BOX), actions, (4,), "")[0] is actions


def test_unbounded_box_takes_infinity_but_not_nan():
    space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    check_actions(SpaceLayout(space), [[np.inf]], (1,), "")
    with pytest.raises(InvalidAction, match="nan"):
        check_actions(SpaceLayout(space), [[np.nan]], (1,), "")


class Words(spaces.Space):
    """A space of texts that does not say how long they are, like MiniGrid's missions."""

    def __init__(self):
        super().__init__(dtype=str)


@pytest.mark.parametrize(
    ("space", "length"), [(spaces.Text(8), 8), (Words(), 512)], ids=["Text", "own space"]
)
def test_texts_are_unicode_arrays_where_they_are_allowed(space, length):
    whole = spaces.Dict(text=space, box=BOX)
    layout = SpaceLayout(whole, objects=True)
    leaf = layout.leaves[[leaf.path for leaf in layout.leaves].index(("text",))]
    assert leaf.dtype == np.dtype(f"<U{length}")
    batch = arrays(layout, 3)
    writer = ObsWriter(layout)
    texts = ["", "snö \N{SNOWFLAKE}", "x" * length]
    for i, text in enumerate(texts):
        writer.into(batch)(i, {"text": text, "box": np.zeros(2, np.float32)})
    assert layout.join(batch)["text"].tolist() == texts
    with pytest.raises(InvalidObservation, match=rf"\['text'\]: expected at most {length} char"):
        writer.into(batch)(0, {"text": "x" * (length + 1), "box": np.zeros(2, np.float32)})
    with pytest.raises(InvalidObservation, match=r"\['text'\]: expected \(\) <U"):
        writer.into(batch)(0, {"text": 5, "box": np.zeros(2, np.float32)})


def test_texts_are_no_actions():
    with pytest.raises(TypeError, match=r"space\['word'\]: Text has no fixed-size array form"):
        SpaceLayout(spaces.Dict(word=spaces.Text(5)))
