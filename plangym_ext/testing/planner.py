"""Test class of planners: plans are repeatable, within budget, legal, and depend on one row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete

import plangym_ext
from plangym_ext.planners import Planner
from plangym_ext.testing.episode import flat


class PlannerContract:
    """Tests of a planner; write `planner`.

    Attributes:
        env: id or callable for `plangym_ext.make` of an env that it plans in.
        max_model_steps: of a plan.
        takes_legal: whether it plans with some actions forbidden.
    """

    env: Any = "CartPole-v1"
    max_model_steps = 200
    takes_legal = True

    def planner(self, **options: Any) -> Planner:
        """Return a new planner with options that all planners have."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> Iterator[Any]:
        """Return the env that is planned in."""
        with plangym_ext.make(cls.env, n_workers=0) as env:
            yield env

    def plans(self, model: Any, seeds: list[int], **options: Any) -> list[Any]:
        """Return plans from the first states of seeds, made side by side."""
        begun = [model.reset(seed=seed) for seed in seeds]
        states, rngs = np.stack([state for state, *_ in begun]), map(np.random.default_rng, seeds)
        place, before = model.get_state().tobytes(), states.tobytes()
        planner = self.planner(max_model_steps=self.max_model_steps)
        found = planner.plan_batch(model, states, rngs=list(rngs), **options)
        assert states.tobytes() == before, "a plan changed the states that it was given"
        assert model.get_state().tobytes() == place, "a plan moved the env"
        return found

    def test_actions_are_in_the_space_and_budgets_are_kept(self, model: Any) -> None:
        for plan in self.plans(model, [0, 1, 2]):
            assert np.asarray(plan.action) in model.action_space
            assert 0 < plan.budget.model_steps <= self.max_model_steps

    def test_plans_depend_on_their_own_row_and_seed_alone(self, model: Any) -> None:
        together = [_told(plan) for plan in self.plans(model, [0, 1, 2])]
        assert together == [_told(self.plans(model, [seed])[0]) for seed in (0, 1, 2)]

    def test_only_legal_actions_are_planned(self, model: Any) -> None:
        space = model.action_space
        if not (self.takes_legal and isinstance(space, Discrete)):
            pytest.skip("it plans with all actions")
        for action, legal in enumerate(np.eye(int(space.n), dtype=bool)):
            (plan,) = self.plans(model, [0], legal=legal[None])
            assert plan.action == space.start + action


def _told(plan: Any) -> Any:
    return flat([np.asarray(plan.action), float(plan.value), plan.q])
