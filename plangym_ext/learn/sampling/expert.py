"""ExpertSampler: sampler whose planner teacher labels visited and replayed states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import ArrayDict
from plangym_ext.arrays.nested import leaves
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.numbers import at_least, finite_between
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.planner_agent import COST, PlannerAgent
from plangym_ext.learn.replay.uniform import Ring
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.sampling.local import LocalSampler
from plangym_ext.learn.sampling.options import SamplerOptions, check_vector_env
from plangym_ext.learn.sampling.tree import steps_of
from plangym_ext.learn.schedule import Number, at
from plangym_ext.planners.plans import Budget
from plangym_ext.vector.vector_env import PlanVectorEnv

#: Stream of the random numbers of searches from stored states.
STREAM = 4


class Again(NamedTuple):
    """Targets of M stored states that were searched again; M may be 0. Fresh arrays.

    States are numbered in the order in which they were taught first: by fragment, step and env.
    """

    number: npt.NDArray[np.int64]  # [M]
    policy: npt.NDArray[np.float32]  # [M, P]
    value: npt.NDArray[np.float32]  # [M], NaN where unknown
    taught: int  # states that were taught before this fragment; the newest is number taught - 1


@final
class ExpertSampler(LocalSampler):
    """Play a student and its teacher as a `SerialSampler` plays an agent, and search again.

    From some of the states of earlier fragments the teacher searches again, with what the network
    knows by now (`Collected.again`). `Collected.cost` has the model steps of all searches.

    A planner's kept search is dropped where the student played another action, and at the beginning
    of a fragment, so that a saved sampler continues bit for bit.

    Source: Schrittwieser et al. 2021, "Online and offline reinforcement learning by planning with
    a learned model" (reanalyse; here the model is the simulator).

    Args:
        venv: as of `SerialSampler`, whose states can be captured.
        agent: with a student, which carries nothing; it searches the env that the vector env has
            several of.
        num_steps: T.
        share: how likely a step is the teacher's, by the version of the weights.
        reanalyze: states of earlier fragments that are searched again for each one visited.
        capacity: how many states are stored for that; the oldest ones make room.
        **options: of `SamplerOptions`.

    Raises:
        InvalidOption: there is no student, or it carries something; an option has a value that
            it cannot have.
        WrongKind, InvalidAnswer: as of `SerialSampler`.
    """

    def __init__(
        self,
        venv: PlanVectorEnv,
        agent: PlannerAgent,
        num_steps: int,
        *,
        share: Number = 0.0,
        reanalyze: float = 0.0,
        capacity: int = 50_000,
        **options: Any,
    ) -> None:
        check_vector_env(venv, "ExpertSampler")
        student = getattr(agent, "student", None)
        if student is None or student.initial_carry(1) is not None:
            raise InvalidOption(
                f"ExpertSampler: the agent must be a PlannerAgent with a student that is not "
                f"recurrent, as it learns from single states; got "
                f"{f'a recurrent {type(student).__name__}' if student else 'no student'}. Make its "
                f"network with recurrent='none'."
            )
        self._share, self._expert = share, agent
        self._again = finite_between("ExpertSampler: reanalyze", reanalyze, 0.0, 1000.0)
        self._capacity = at_least("ExpertSampler: capacity", capacity, 1)
        super().__init__(venv, agent, num_steps, SamplerOptions(**options), [range(venv.num_envs)])
        self._stored = Ring(self._capacity, "ExpertSampler")
        #: States that were ever stored, and fragments that were played.
        self._count = self._fragments = 0

    def collect(
        self, n: int | None = None, version: int = 0, progress: Progress | None = None
    ) -> Collected:
        """Play T steps in every env, and search; see `SerialSampler.collect`."""
        # By the updates: they are the version of the weights.
        self._expert.share = at(self._share, version)
        found = super().collect(n, version, progress)
        # After the searches: the states of this fragment are searched again from the next one on.
        self._store()
        again, cost = self._searched
        return found._replace(again=again, cost=found.cost + cost)

    def _play(self, progress: Progress | None) -> None:
        self._expert.visited = [] if self._again else None
        super()._play(progress)
        # Here, so that a fragment whose searches failed has not happened.
        self._searched = self._searched_again()

    def _searched_again(self) -> tuple[Again, Budget]:
        """Search from some of the stored states, drawn all alike and no two the same."""
        asked = round(self._again * np.count_nonzero(self.tree["valid"].to_ndarray(copy=False)))
        count = min(asked, len(self._stored))
        if not count:
            no = np.zeros(0, np.float32)
            return Again(no.astype(np.int64), no[:, None], no, self._count), Budget()
        rng = np.random.default_rng(
            np.random.SeedSequence(self._options.seed, spawn_key=(STREAM, self._fragments))
        )
        drawn = rng.choice(len(self._stored), count, replace=False)
        rows = self._stored.take(self._stored.by_age[drawn])
        self._expert.planner.reset()
        seeds = rng.integers(2**63, size=count, dtype=np.uint64)
        shown = self._nested(rows["obs"]), rows.get("legal")
        _, told = self._expert.search(rows["state"], *shown, seeds)
        # What is drawn are ages: 0 is the oldest that is stored, which came as number count - len.
        number = self._count - len(self._stored) + drawn
        cost = Budget(**{name: int(told[name].sum()) for name in COST})
        return Again(number, told["expert_policy"], told["expert_value"], self._count), cost

    def _nested(self, obs: Any) -> Any:
        """Return stored observations as the space nests them."""
        return SpaceLayout(self._venv.single_observation_space).join(tuple(leaves(obs)))

    def _store(self) -> None:
        """Store the states of a fragment, to be searched again."""
        self._fragments += 1
        if not self._again:
            return
        visited, self._expert.visited = self._expert.visited, None
        assert visited is not None
        rows = {"state": np.stack(visited), **shown_rows(self.tree)}
        valid = self.tree["valid"].to_ndarray(copy=False)
        counted = valid_rows(rows, valid)
        self._stored.check(counted)
        self._stored.add(counted)
        self._count += int(np.count_nonzero(valid))

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state, stored states included; see `LocalSampler.state_dict`."""
        stored = {"rows": self._stored.state_dict(), "count": self._count}
        return {**super().state_dict(), "stored": stored, "fragments": self._fragments}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        stored = state["stored"]
        self._stored = Ring.from_state(stored["rows"], self._capacity, "ExpertSampler")
        self._count, self._fragments = int(stored["count"]), int(state["fragments"])


def shown_rows(tree: ArrayDict) -> dict[str, Any]:
    """Return the inputs of a fragment's steps, views `[T, B, ...]`: "obs", "legal"."""
    found = {"obs": steps_of(tree["obs"])}
    if "action_mask" in tree:
        found["legal"] = steps_of(tree["action_mask"])
    return found


def valid_rows(rows: Any, valid: npt.NDArray[np.bool_]) -> Any:
    """Return the rows of valid steps, `[N, ...]` fresh, in the order of (step, env)."""
    if isinstance(rows, Mapping):
        return {name: valid_rows(part, valid) for name, part in rows.items()}
    # A mask of the first two axes makes one of them.
    return rows[valid]
