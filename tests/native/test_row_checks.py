"""The compiled checks say yes to nothing that `core` refuses, and to all that is usual."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from plangym_ext.arrays.actions import check_actions
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import InvalidAction
from plangym_ext.native.row_checks import RowChecks, RowSeals, are_within
from plangym_ext.states.envelope import Envelope

SPACES = {
    "discrete": spaces.Discrete(5, start=-2),
    "one number": spaces.Box(-2.0, 2.0, (1,), np.float32),
    "numbers": spaces.Box(np.array([-1, -2, 0.5]), np.array([1, 2, np.inf]), dtype=np.float64),
    "table": spaces.Box(0, 3, (2, 3), np.int16),
    "counts": spaces.MultiDiscrete([2, 7]),
    "bits": spaces.MultiBinary(3),
}


@pytest.fixture(scope="module")
def envelope():
    return Envelope({"id": "test"}, 40)


def checks_of(space, envelope):
    return RowChecks(SpaceLayout(space), envelope, RowSeals(envelope, 33).header)


def is_accepted(layout, actions, batch_shape):
    try:
        check_actions(layout, actions, batch_shape, "test")
    except InvalidAction:
        return False
    return True


@pytest.mark.parametrize("name", SPACES)
def test_actions_are_judged_as_by_core(name, envelope):
    space, rng = SPACES[name], np.random.default_rng(0)
    layout, checks = SpaceLayout(space), checks_of(SPACES[name], envelope)
    (leaf,) = layout.leaves
    odd = [leaf.dtype.type(value) for value in (-100, -2, 0, 1, 2, 100)]
    if leaf.dtype.kind == "f":
        odd += [np.nan, np.inf, -np.inf, np.nextafter(leaf.dtype.type(2), leaf.dtype.type(3))]
    space.seed(0)
    refused = 0
    for trial in range(300):
        actions = np.array([[space.sample() for _ in range(3)] for _ in range(4)], leaf.dtype)
        assert checks.in_range(actions, (-1, -1))
        assert checks.in_range(actions, (4, -1))
        actions.reshape(-1)[rng.integers(actions.size)] = odd[trial % len(odd)]
        want = is_accepted(layout, actions, (4, -1))
        assert checks.in_range(actions, (4, -1)) == want
        low, high = (
            np.broadcast_to(bound, leaf.shape).astype(leaf.dtype).reshape(-1)
            for bound in leaf.bounds
        )
        assert are_within(actions.reshape(-1), low, high) == want  # as Python
        refused += not want
    assert refused > 50


@pytest.mark.parametrize("name", SPACES)
def test_what_is_unusual_is_left_to_core(name, envelope):
    space, checks = SPACES[name], checks_of(SPACES[name], envelope)
    actions = np.array([space.sample() for _ in range(4)], SpaceLayout(space).leaves[0].dtype)
    assert checks.in_range(actions, (4,))
    assert not checks.in_range(actions, (5,))
    assert not checks.in_range(actions, (4, -1))
    assert not checks.in_range(actions.astype(np.complex128), (4,))
    assert not checks.in_range(actions[::2], (2,))
    assert not checks.in_range(actions.tolist(), (4,))
    actions.flags.writeable = False
    assert not checks.in_range(actions, (4,))


def test_no_changed_bit_of_a_state_is_passed(envelope):
    checks, seals = checks_of(spaces.Discrete(2), envelope), RowSeals(envelope, 33)
    rows = np.zeros((3, envelope.width), np.uint8)
    rows[:, 48:81] = np.random.default_rng(0).integers(0, 256, (3, 33))
    expected = rows.copy()
    envelope.seal(expected, 33)
    seals.seal(rows)
    assert rows.tobytes() == expected.tobytes()
    assert checks.whole(rows)
    assert checks.whole(rows[1:2])
    for bit in range(8 * envelope.width):
        rows[1, bit // 8] ^= 1 << bit % 8
        assert not checks.whole(rows)
        rows[1, bit // 8] ^= 1 << bit % 8
    for unusual in (rows[:, :-8], rows[0], rows.view(np.int8), rows[::2], rows.tolist()):
        assert not checks.whole(unusual)
