"""AlternatingSampler: overlaps env steps of one half with agent steps of the other."""

from __future__ import annotations

from typing import Any

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.sampling.fitting import check_vector_env
from plangym_ext.learn.sampling.local import LocalSampler
from plangym_ext.learn.sampling.options import SamplerOptions
from plangym_ext.vector.vector_env import PlanVectorEnv


class AlternatingSampler(LocalSampler):
    """Play an agent alternately in the two halves of a vector env.

    Worth it where envs in worker processes take about as long as the agent; each half needs a
    worker of its own. What is sampled is what a `SerialSampler` samples.

    Args:
        venv: as of `SerialSampler`, with two envs or more; its first rows are one half.
        agent, num_steps, options: as of `SerialSampler`, and so are attributes and errors.
    """

    def __init__(self, venv: PlanVectorEnv, agent: Agent, num_steps: int, **options: Any) -> None:
        check_vector_env(venv, "AlternatingSampler")
        count = venv.num_envs
        if count < 2:
            raise InvalidOption(
                "AlternatingSampler: the vector env must have two envs or more; it has one. Use "
                "a SerialSampler."
            )
        if hasattr(agent, "visit"):
            # What it keeps from step to step is by the number of a row, which both halves have.
            raise InvalidOption(
                f"AlternatingSampler: {type(agent).__name__} searches for all rows of its vector "
                f"env at once, and is asked for halves here. Use a SerialSampler."
            )
        # Adjoining rows, so that the columns of a half are views of the tree.
        halves = [range(count // 2), range(count // 2, count)]
        super().__init__(venv, agent, num_steps, SamplerOptions(**options), halves)
