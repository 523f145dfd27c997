"""Two sets of envs: while one steps, the agent acts for the other."""

from __future__ import annotations

from typing import Any

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.sampling.local import LocalSampler
from plangym_ext.learn.sampling.options import SamplerOptions
from plangym_ext.vector.vector_env import PlanVectorEnv


class AlternatingSampler(LocalSampler):
    """Play an agent in two vector envs by turns.

    Worth it where envs in worker processes take about as long as the agent. What is sampled
    is what a `SerialSampler` samples in one vector env with the rows of the first, then
    those of the second.

    Args:
        venvs: two, made with `autoreset_mode="same_step"`, of equal spaces; they are closed
            with the sampler. Their rows are numbered through.
        agent: acts in mode "sample".
        num_steps: T.
        **options: of `SamplerOptions`.

    Attributes:
        num_steps, num_envs: T, and B of both together.
        tree: the memory of a fragment; see `build_sample_tree`.

    Raises:
        WrongKind, InvalidOption, InvalidAnswer: as `SerialSampler`.
    """

    def __init__(
        self,
        venvs: tuple[PlanVectorEnv, PlanVectorEnv],
        agent: Agent,
        num_steps: int,
        **options: Any,
    ) -> None:
        if not isinstance(venvs, tuple | list) or len(venvs) != 2:
            raise InvalidOption(
                f"AlternatingSampler: venvs must be two vector envs, one for each half; got "
                f"{venvs!r}."
            )
        super().__init__(venvs, agent, num_steps, SamplerOptions(**options))
