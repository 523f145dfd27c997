"""Numbers that change with the updates."""

from __future__ import annotations

import sys
import textwrap

import pytest

from plangym_ext.errors import InvalidOption, UnknownName
from plangym_ext.learn.algorithms.off_policy.config import DQNConfig
from plangym_ext.learn.schedule import OwnSchedule, Schedule, at


@pytest.fixture(autouse=True)
def own_schedules(tmp_path, monkeypatch):
    source = """
        import numpy as np

        def halved(updates):
            return 0.5**updates

        def wrong(updates):
            return float("nan")

        def twice(updates):
            return 2.0

        def narrow(updates):
            return np.float32(0.5)

        def told(updates):
            return True
    """
    (tmp_path / "own_schedules.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_schedules", None)


def test_a_line_from_start_to_end():
    # A quarter of the way down, 0.2, with each update.
    line = Schedule(start=1.0, end=0.2, over=4)
    assert [line(n) for n in (0, 1, 2, 4, 9)] == pytest.approx([1.0, 0.8, 0.6, 0.2, 0.2])
    assert at(line, 0) == 1.0
    assert at(0.3, 5) == 0.3


def test_a_function_of_one_s_own():
    assert [OwnSchedule("own_schedules:halved")(n) for n in range(3)] == [1.0, 0.5, 0.25]
    with pytest.raises(UnknownName, match="did you mean 'halved'"):
        OwnSchedule("own_schedules:halvd")(0)
    with pytest.raises(InvalidOption, match=r"wrong\(7\) must be a finite number in .*; got nan"):
        OwnSchedule("own_schedules:wrong")(7)


def test_a_function_may_return_a_number_of_numpy_s_but_no_bool():
    assert OwnSchedule("own_schedules:narrow")(0) == 0.5
    with pytest.raises(InvalidOption, match=r"told\(0\) must be a finite number in .*; got True"):
        OwnSchedule("own_schedules:told")(0)


def test_a_function_is_held_to_the_range_of_its_setting():
    config = DQNConfig(beta=OwnSchedule("own_schedules:twice"))
    with pytest.raises(
        InvalidOption,
        match=r"DQNConfig: beta: .*twice\(3\) must .* \[0.0, 1.0\]; got 2",
    ):
        at(config.beta, 3)
    # Of the two ranges of this one, the narrower.
    explores = DQNConfig(exploration=config.beta, exploration_least=0.1)
    assert (explores.exploration.low, explores.exploration.high) == (1e-6, 1.0)
    # It is the same function wherever it stands, and settings have its name alone.
    assert config.beta == OwnSchedule("own_schedules:twice")
    assert config.beta.to_settings() == "own_schedules:twice"


def test_a_line_takes_at_least_one_update():
    with pytest.raises(InvalidOption, match="over must be an integer >= 1; got 0"):
        Schedule(start=1.0, end=0.0, over=0)
