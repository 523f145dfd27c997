"""Trainers, replays and players of one's own, named as `module:Class` in the settings."""

from __future__ import annotations

import sys
import textwrap

import pytest
from training_runs import small

from plangym_ext.errors import UnknownName, WrongKind
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.settings.settings import plain
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

PARTS = """
    from dataclasses import dataclass
    from typing import Any

    import numpy as np
    from plangym_ext.learn import AlphaZeroConfig, AlphaZeroTrainer
    from plangym_ext.learn.replay.base import Batch, Replay
    from plangym_ext.planners import Planner
    from plangym_ext.planners.plans import Budget, Plan

    @dataclass(frozen=True, kw_only=True)
    class Config(AlphaZeroConfig):
        shrink: float = 0.5

    class Trainer(AlphaZeroTrainer):
        config_class = Config

        def samples(self, record):
            found = super().samples(record)
            return {**found, "value": found["value"] * np.float32(self.config.shrink)}

    class Last(Replay):
        '''Keeps what the last episode has taught.'''

        def __init__(self, capacity, *, seed, draws=1):
            super().__init__(capacity, seed=seed)
            self.draws, self.rows = draws, {}

        def add(self, samples):
            self.rows = dict(samples)

        def sample(self, batch_size):
            places = self._rng.integers(len(self), size=batch_size)
            found = {name: rows[places] for name, rows in self.rows.items()}
            return Batch(found, places, np.ones(batch_size, np.float32))

        def all(self):
            return self.rows

        def __len__(self):
            return len(next(iter(self.rows.values()))) if self.rows else 0

        def _contents(self):
            return {"rows": self.rows}

        def _restore(self, state):
            self.rows = state["rows"]

    @dataclass(eq=False)
    class Left(Planner):
        num_simulations: int | None = None
        evaluator: Any = None

        def _plan_batch(self, request):
            assert self.evaluator is not None
            return [Plan(0, 0.0, Budget()) for _ in range(len(request.states))]

    number = 3
"""


@pytest.fixture
def own_parts(tmp_path, monkeypatch):
    (tmp_path / "own_parts.py").write_text(textwrap.dedent(PARTS))
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_parts", None)


OWN = {
    "trainer": {"name": "own_parts:Trainer", "shrink": 0.25, "batch_size": 8},
    "replay": {"kind": "own_parts:Last", "min_rows": 4, "options": {"draws": 2}},
    "evaluation": {"player": "own_parts:Left", "every": 2, "episodes": 1},
    "rounds": 4,
}


@pytest.mark.slow
@pytest.mark.usefixtures("own_parts")
def test_a_run_is_made_of_parts_of_one_s_own(tmp_path):
    with Runner(small(OWN), tmp_path / "run") as runner:
        runner.run()
        assert type(runner.trainer).__name__ == "Trainer"
        assert runner.trainer.config.shrink == 0.25
        assert (type(runner.replay).__name__, runner.replay.draws) == ("Last", 2)
        assert runner.trainer.updates > 0
    with Runner(small(OWN, {"rounds": 5}), tmp_path / "run", resume=True) as runner:
        runner.run()
    with Trained(tmp_path / "run") as trained:
        # Always left: the pole falls within a dozen moves.
        assert set(trained.play(1)[0].actions.tolist()) == {0}


@pytest.mark.usefixtures("own_parts")
def test_their_settings_survive_json():
    config = small(OWN)
    assert plain(config)["trainer"]["name"] == "own_parts:Trainer"
    assert compose([plain(config)]) == config


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"trainer": {"name": "own_parts:Trainr"}}, UnknownName, "did you mean 'Trainer'"),
        ({"trainer": {"name": "own_part:Trainer"}}, UnknownName, "no module 'own_part'"),
        ({"trainer": {"name": "own_parts:Last"}}, WrongKind, "which derives from .*Trainer; got"),
        ({"trainer": {"name": "own_parts:Trainer", "shrnk": 1}}, UnknownName, "did you mean 'shr"),
        ({"replay": {"kind": "own_parts:Lst"}}, UnknownName, "did you mean 'Last'"),
        ({"replay": {"kind": "own_parts:Left"}}, WrongKind, "which derives from .*Replay; got"),
        ({"replay": {"kind": "own_parts:number"}}, UnknownName, "must have a class 'number'"),
        ({"evaluation": {"player": "own_parts:Lft"}}, UnknownName, "did you mean 'Left'"),
    ],
)
@pytest.mark.usefixtures("own_parts")
def test_what_is_no_part_is_named(changed, error, message):
    with pytest.raises(error, match=message):
        made(Parts(small(changed)))


def made(parts):
    parts.replay()
    parts.player(None)
