"""What a file says of a part of one's own becomes no attribute that libraries look up."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from plangym_ext.learn.own_state import load_own_state


class Part:
    def learn(self):
        return None

    @property
    def shown(self):
        return None


@pytest.mark.parametrize(
    "name", ["__array_interface__", "_as_parameter_", "this", "_numba_type_", "learn", "shown"]
)
def test_names_that_are_looked_up_are_refused(name):
    part = Part()
    with pytest.raises(ValueError, match="is no attribute that Part learns"):
        load_own_state(part, {name: ["value", np.zeros(2)]})
    assert not vars(part)


def test_other_names_are_given_what_was_saved():
    part = Part()
    load_own_state(part, {"bonus": ["value", np.ones(2)]})
    assert part.bonus.tolist() == [1.0, 1.0]
