"""The samplers that the settings of a run ask for."""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.sampling.collected import Sampler
from plangym_ext.run.training.collector import PlanSampler
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.worker_collector import WorkerCollector


def make_sampler(parts: Parts, env: Any, network: Any, evaluator: Any) -> Sampler:
    """Make the sampler of a run.

    Args:
        parts: how things are made.
        env: to play in; the sampler owns it if no workers do.
        network: whose weights are played.
        evaluator: asks the network, in this process.
    """
    settings = parts.config.collector
    if settings.n_workers:
        return PlanSampler(WorkerCollector(parts, network))
    return PlanSampler(parts.collector(env, evaluator, range(settings.num_envs)))
