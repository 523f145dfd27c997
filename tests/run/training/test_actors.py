"""Actors of a run: how many there are, and which runs they cannot play."""

from __future__ import annotations

import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.settings.config import CollectorSettings
from plangym_ext.run.training.own_parts import Actors
from plangym_ext.workers.workplace import Workplace

FORKED = {"algorithm": {"advantages": {"name": "forked", "branches": 3, "horizon": 6, "every": 5}}}


def test_there_are_as_many_actors_as_asked_for_and_a_game_for_each():
    here = Workplace()
    assert Actors(here, 2).number(CollectorSettings(num_envs=8, n_workers=4)) == 2
    assert Actors(here).number(CollectorSettings(num_envs=8, n_workers=4)) == 4
    assert Actors(here).number(CollectorSettings(num_envs=1)) == 1
    assert Actors(here, 9).number(CollectorSettings(num_envs=8)) == 8


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (["ppo_cartpole", {"learners": 2}], "learners must be 1 .*; got 2"),
        (["ppo_cartpole", FORKED], r"algorithm\.advantages 'forked' needs searches"),
        (
            ["cartpole", {"collector": {"kind": "solutions"}}],
            "kind 'solutions' needs searches",
        ),
    ],
)
def test_runs_that_do_more_than_play_games_are_refused(sources, message):
    actors = Actors(Workplace())
    with pytest.raises(InvalidOption, match=message):
        actors.check(compose(sources))
    actors.check(compose(sources[:1]))
