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
from plangym_ext.learn.agents.expert_agent import ExpertAgent
from plangym_ext.learn.agents.network_agent import NetworkAgent
from plangym_ext.learn.agents.teacher import Teacher, cost_of
from plangym_ext.learn.replay.uniform import Ring
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.sampling.fitting import check_vector_env
from plangym_ext.learn.sampling.local import LocalSampler
from plangym_ext.learn.sampling.options import SamplerOptions
from plangym_ext.learn.sampling.tree import steps_of
from plangym_ext.learn.schedule import Number, at
from plangym_ext.planners.plans import Budget
from plangym_ext.vector.vector_env import PlanVectorEnv

#: Stream of the random numbers of searches from stored states.
STREAM = 4


class Again(NamedTuple):
    """A teacher's new targets for M stored states; fresh arrays.

    States are numbered in the order in which they were taught first: by fragment, step and env.
    """

    number: npt.NDArray[np.int64]  # [M]
    policy: npt.NDArray[np.float32]  # [M, P]
    value: npt.NDArray[np.float32]  # [M], NaN where unknown
    taught: int  # states that were taught before this fragment; the newest is number taught - 1


class Taught(NamedTuple):
    """The search results of a fragment beyond the infos of its steps."""

    again: Again | None  # None: nothing was searched again
    cost: Budget  # of all searches


@final
class ExpertSampler(LocalSampler):
    """Play a student or its teacher, and search from every visited state.

    The teacher searches from each state that is visited, from the exact state, for all envs in
    one batch; what it says is among the infos of the steps (see `ExpertAgent`). From some of the
    states of earlier fragments it searches again, with what the network knows by now
    (`Collected.taught`). `Collected.cost` has the model steps of all searches.

    What a planner keeps from move to move is forgotten where the student played something else,
    and when a fragment begins, so that a sampler that was saved goes on bit for bit.

    Source: Schrittwieser et al. 2021, "Online and offline reinforcement learning by planning with
    a learned model" (reanalyse; here the model is the simulator).

    Args:
        venv: as of `SerialSampler`, whose states can be captured.
        student: that is taught; carries nothing.
        num_steps: T.
        teacher: searches the env that the vector env has several of.
        share: how likely a step is the teacher's, by the version of the weights.
        reanalyze: states of earlier fragments that are searched again for each one visited.
        capacity: how many states are stored for that; the oldest ones make room.
        **options: of `SamplerOptions`.

    Raises:
        InvalidOption: the student carries something, or an option has a value that it cannot
            have.
        WrongKind, InvalidAnswer: as of `SerialSampler`.
    """

    def __init__(
        self,
        venv: PlanVectorEnv,
        student: NetworkAgent,
        num_steps: int,
        teacher: Teacher,
        *,
        share: Number = 0.0,
        reanalyze: float = 0.0,
        capacity: int = 50_000,
        **options: Any,
    ) -> None:
        check_vector_env(venv, "ExpertSampler")
        if student.initial_carry(1) is not None:
            raise InvalidOption(
                f"ExpertSampler: the student must carry nothing, as it is taught single states; "
                f"{type(student).__name__} is recurrent. Make its network without a core."
            )
        self._share, self._teacher = share, teacher
        self._again = finite_between("ExpertSampler: reanalyze", reanalyze, 0.0, 1000.0)
        self._capacity = at_least("ExpertSampler: capacity", capacity, 1)
        self._expert = ExpertAgent(student, teacher)
        chosen = SamplerOptions(**options)
        super().__init__(venv, self._expert, num_steps, chosen, [range(venv.num_envs)])
        self._stored = Ring(self._capacity, "ExpertSampler")
        #: States that were ever stored, and fragments that were played.
        self._count = self._fragments = 0
        self._taught: Taught | None = None

    def collect(
        self, n: int | None = None, version: int = 0, progress: Progress | None = None
    ) -> Collected:
        """Play T steps in every env, and search; see `SerialSampler.collect`."""
        # By the updates: they are the version of the weights.
        self._expert.share = at(self._share, version)
        found = super().collect(n, version, progress)
        taught, self._taught = self._taught, None
        assert taught is not None
        # After the searches: the states of this fragment are searched again from the next one on.
        self._store()
        return found._replace(taught=taught, cost=found.cost + taught.cost)

    def _play(self, progress: Progress | None) -> None:
        self._expert.visited = [] if self._again else None
        self._teacher.planner.reset()
        super()._play(progress)
        # Here, so that a fragment whose searches failed has not happened.
        cost = cost_of(self.tree["agent_info"]["expert_cost"].to_ndarray(copy=False))
        again, more = self._searched_again()
        self._taught = Taught(again, cost + more)

    def _searched_again(self) -> tuple[Again | None, Budget]:
        """Search from some of the stored states, drawn all alike and no two the same."""
        asked = round(self._again * np.count_nonzero(self.tree["valid"].to_ndarray(copy=False)))
        count = min(asked, len(self._stored))
        if not count:
            return None, Budget()
        rng = np.random.default_rng(
            np.random.SeedSequence(self._options.seed, spawn_key=(STREAM, self._fragments))
        )
        drawn = rng.choice(len(self._stored), count, replace=False)
        rows = self._stored.take(self._stored.by_age[drawn])
        self._teacher.planner.reset()
        seeds = rng.integers(2**63, size=count, dtype=np.uint64)
        shown = self._nested(rows["obs"]), rows.get("legal")
        lessons = self._teacher.lessons(rows["state"], *shown, seeds)
        # What is drawn are ages: 0 is the oldest that is stored, which came as number count - len.
        number = self._count - len(self._stored) + drawn
        return Again(number, lessons.policy, lessons.value, self._count), cost_of(lessons.cost)

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
        """Continue from a `state_dict`, bit for bit."""
        super().load_state_dict(state)
        stored = state["stored"]
        self._stored = Ring.from_state(stored["rows"], self._capacity, "ExpertSampler")
        self._count, self._fragments = int(stored["count"]), int(state["fragments"])


def shown_rows(tree: ArrayDict) -> dict[str, Any]:
    """Return the inputs of a fragment's steps, views `[T, B, ...]`: "obs", "legal"."""
    steps = len(tree["valid"].to_ndarray(copy=False))
    found = {"obs": steps_of(tree["obs"], steps)}
    if "action_mask" in tree:
        found["legal"] = steps_of(tree["action_mask"], steps)
    return found


def valid_rows(rows: Any, valid: npt.NDArray[np.bool_]) -> Any:
    """Return the rows of valid steps, `[N, ...]` fresh, in the order of (step, env)."""
    if isinstance(rows, Mapping):
        return {name: valid_rows(part, valid) for name, part in rows.items()}
    # A mask of the first two axes makes one of them.
    return rows[valid]
