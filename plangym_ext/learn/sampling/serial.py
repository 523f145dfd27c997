"""SerialSampler: one agent and one vector env, without overlap."""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.sampling.fitting import check_vector_env
from plangym_ext.learn.sampling.local import LocalSampler
from plangym_ext.learn.sampling.options import SamplerOptions
from plangym_ext.vector.vector_env import PlanVectorEnv


class SerialSampler(LocalSampler):
    """Play an agent in a vector env of any backend, T steps at a time.

    With envs in worker processes this is central inference: all envs step side by side, and
    the agent acts for all of them here.

    Args:
        venv: made with `autoreset_mode="same_step"`; it is closed with the sampler.
        agent: acts in mode "sample".
        num_steps: T.
        **options: of `SamplerOptions`.

    Attributes:
        num_steps, num_envs: T and B.
        tree: the memory of a fragment; see `build_sample_tree`.

    Raises:
        WrongKind: not a vector env, or not an agent.
        InvalidOption: T is below 1; the vector env resets in another way, or spaces of its
            envs differ; an option has a value that it cannot have.
        InvalidAnswer: what the agent returns does not fit the envs.
    """

    def __init__(
        self,
        venv: PlanVectorEnv,
        agent: Agent,
        num_steps: int,
        **options: Any,
    ) -> None:
        check_vector_env(venv, "SerialSampler")
        rows = [range(venv.num_envs)]
        super().__init__(venv, agent, num_steps, SamplerOptions(**options), rows)
