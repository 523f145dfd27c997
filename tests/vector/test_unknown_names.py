"""Names that sub-envs do not have and arguments that do not fit: no sub-env moves."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import plangym_ext


class Meter(gym.Env):
    """Counts steps; one of two kinds has an attribute `own`, and no attribute can be `fixed`."""

    observation_space = spaces.Box(0.0, np.inf, (), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, own=False):
        self.count, self.broken = 0, True
        if own:
            self.own = 1

    @property
    def fixed(self):
        return np.zeros(1)

    @property
    def failing(self):
        raise ValueError("out of order")

    def add(self, number):
        self.count += number
        return self.count

    def breaking(self):
        self.count += 100
        raise ValueError("in the middle")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.float64(0.0), {}

    def step(self, action):
        self.count += 1
        return np.float64(self.count), 1.0, False, False, {}


UNKNOWN = {
    "get_attr": (lambda venv: venv.get_attr("missing"), AttributeError),
    "get_attr that raises": (lambda venv: venv.get_attr("failing"), ValueError),
    "get_attr of some": (lambda venv: venv.get_attr("own"), AttributeError),
    "call": (lambda venv: venv.call("missing", 1), AttributeError),
    "call of some": (lambda venv: venv.call_some([1, 2], "missing"), AttributeError),
    "call, too few": (lambda venv: venv.call("add"), TypeError),
    "call, too many": (lambda venv: venv.call("add", 1, 2), TypeError),
    "call, unknown keyword": (lambda venv: venv.call("add", size=1), TypeError),
    "set_attr": (lambda venv: venv.set_attr("fixed", 4), AttributeError),
    "set_attr unwrapped": (lambda venv: venv.set_attr("unwrapped.fixed", 4), AttributeError),
    "set_attr too deep": (lambda venv: venv.set_attr("unwrapped.", 4), Exception),
    "set_attr, number": (lambda venv: venv.set_attr(5, 4), Exception),
    "get_attr, number": (lambda venv: venv.get_attr(5), Exception),
}


@pytest.mark.parametrize("options", [{}, {"n_workers": 2}], ids=["serial", "two workers"])
@pytest.mark.parametrize("capture", ["auto", "off"])
def test_unknown_names_leave_everything_where_it_was(options, capture):
    makes = [lambda own=row == 0: Meter(own) for row in range(4)]
    with plangym_ext.make_vec(makes, capture=capture, **options) as venv:
        venv.reset(seed=0)
        for step in range(1, 2 + len(UNKNOWN)):
            obs, *_ = venv.step(np.zeros(4, int))
            assert obs.tolist() == [step] * 4, list(UNKNOWN)[step - 2]
            if step <= len(UNKNOWN):
                act, kind = list(UNKNOWN.values())[step - 1]
                with pytest.raises(kind):
                    act(venv)
        with pytest.raises(ValueError, match="in the middle"):
            venv.call("breaking")
        if capture == "off":  # it has moved rows that cannot be brought back
            with pytest.raises(gym.error.ResetNeeded):
                venv.step(np.zeros(4, int))
        else:
            assert venv.step(np.zeros(4, int))[0].tolist() == [len(UNKNOWN) + 2] * 4


@pytest.mark.parametrize("options", [{"n_workers": 2}, {"backend": "kernel"}], ids=str)
@pytest.mark.parametrize("name", ["missing", "add"])
def test_rows_of_known_envs_stay_where_they_are(options, name):
    with plangym_ext.make_vec("CartPole-v1", 2, **options) as venv:
        venv.reset(seed=0)
        before = venv.get_states()
        for act in (venv.get_attr, venv.call):
            with pytest.raises(AttributeError, match=name):
                act(name)
        assert np.array_equal(venv.get_states(), before)


def test_an_attribute_that_could_not_be_set_everywhere_is_nowhere():
    class Picky(Meter):
        def __setattr__(self, name, value):
            if name == "new" and getattr(self, "own", 0):
                raise AttributeError("not here")
            super().__setattr__(name, value)

    with plangym_ext.make_vec([Picky, lambda: Picky(own=True)], backend="serial") as venv:
        venv.reset(seed=0)
        with pytest.raises(AttributeError, match="not here"):
            venv.set_attr("new", 1)
        with pytest.raises(AttributeError, match="new"):
            venv.call_some([0], "new")
