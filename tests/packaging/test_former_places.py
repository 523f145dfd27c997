"""Documented modules that have moved can still be imported from where they were."""

from __future__ import annotations

import importlib

import pytest


@pytest.mark.parametrize(
    ("former", "present", "name"),
    [
        ("run.training.compose", "run.settings.compose", "compose"),
        ("learn.algorithms.replay_algorithm", "learn.trainers.base", "ReplayAlgorithm"),
        ("run.paired", "run.evaluating.paired", "difference"),
        ("run.training.config", "run.settings.config", "RunConfig"),
        ("run.value_audit", "run.evaluating.value_audit", "audit_values"),
        ("vectorization.adapters.legacy_info", "vector.adapters.legacy_info", "LegacyInfo"),
    ],
)
def test_a_former_place_has_the_same_object(former, present, name):
    pytest.importorskip("torch")
    found = [getattr(importlib.import_module(f"plangym_ext.{m}"), name) for m in (former, present)]
    assert found[0] is found[1]


@pytest.mark.parametrize(
    ("module", "framework", "name"),
    [
        ("stable_baselines3", "stable_baselines3", "StableBaselines3VecEnv"),
        ("tianshou", "tianshou", "TianshouVectorEnv"),
    ],
)
def test_a_former_adapter_is_the_present_one(module, framework, name):
    pytest.importorskip(framework)
    former = importlib.import_module(f"plangym_ext.vectorization.adapters.{module}")
    present = importlib.import_module(f"plangym_ext.vector.adapters.{module}")
    assert getattr(former, name) is getattr(present, name)
