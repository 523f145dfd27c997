from __future__ import annotations

import subprocess
import sys

import pytest

import plangym_ext.planners as planners
from plangym_ext.errors import UnknownName
from plangym_ext.planners import PLANNERS, Planner, load_planner


@pytest.mark.parametrize("name", PLANNERS)
def test_every_listed_planner_loads_and_has_one_line_of_help(name):
    assert issubclass(load_planner(name), Planner)
    assert "\n" not in PLANNERS[name].help


def test_an_unknown_planner_comes_with_a_close_match():
    with pytest.raises(UnknownName, match=r"one of .* mcts, .*; got 'mtcs'.*did you mean 'mcts'"):
        load_planner("mtcs")


@pytest.mark.parametrize("name", planners.__all__)
def test_every_public_name_is_there(name):
    assert getattr(planners, name) is not None


def test_play_stays_a_function():
    # A submodule named like it would take its place once imported.
    import plangym_ext.planners.episode as episode

    assert planners.play is episode.play


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'MCTZ'"):
        planners.MCTZ  # noqa: B018


@pytest.mark.slow
def test_listing_planners_loads_neither_numba_nor_numpy():
    code = (
        "import sys; from plangym_ext.planners import PLANNERS; assert 'mcts' in PLANNERS;"
        "bad = {'numba', 'numpy', 'gymnasium', 'torch'} & set(sys.modules); assert not bad, bad;"
        "from plangym_ext.planners import MCTS;"
        "bad = {'gymnasium', 'torch', 'plangym_ext.envs'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
