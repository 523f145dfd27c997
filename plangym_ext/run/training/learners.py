"""Learners: the first learner's handle on the other data-parallel learners."""

from __future__ import annotations

import functools
import hashlib
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.pending import Pending
from plangym_ext.errors import LearnerLost, WorkerDied
from plangym_ext.learn.group import LearnerGroup
from plangym_ext.learn.sampling.collected import Collected, Progress, Sampler
from plangym_ext.learn.sampling.episode_statistics import merged_episodes
from plangym_ext.planners.plans import Budget
from plangym_ext.run.training.checkpoints import Checkpoints, read_checkpoint
from plangym_ext.run.training.own_parts import OWN_STATE, OwnParts
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.solutions import make_sampler
from plangym_ext.workers.limits import LEARNER_GRACE, SLOW_LOOK
from plangym_ext.workers.protocol import NETWORKS, Service
from plangym_ext.workers.worker_handle import WorkerHandle

#: Subfolder of a run, with a folder for each learner besides the first.
FOLDER = "learners"


class Learners(Closing):
    """Learner 0's sampler, which makes the other learners play and learn in step with it.

    They are workers. `collect` tells them to play a fragment of their own envs and to learn from
    it, while this process does the same; in each update they meet in the `TorchGroup`. What a
    checkpoint needs of them they write themselves, into `learners/1/checkpoints` and so on of
    the run's folder, before learner 0 writes its own.

    Args:
        parts: of the run.
        folder: of the run.
        sampler: of learner 0; it is not closed with this.
        algorithm: of learner 0.

    Raises:
        InvalidOption: the algorithm cannot learn in several processes, or torch is in a group.
        LearnerLost: a learner has ended or failed. So do the methods, and those of the algorithm.
    """

    def __init__(self, parts: Parts, folder: Path, sampler: Sampler, algorithm: Any) -> None:
        self._sampler, self._algorithm = sampler, algorithm
        self._size = parts.config.learners
        self._timeout = parts.config.collector.timeout
        #: Rounds that were played.
        self._rounds = 0
        self._workers: list[WorkerHandle] = []
        self._asked: list[Pending[Any]] = []
        self._group: Any = None
        try:
            with tempfile.TemporaryDirectory(prefix="learners-") as meeting:
                self._start(parts, folder.absolute() / FOLDER, Path(meeting) / "file")
        except BaseException:
            self.close()
            raise

    def _start(self, parts: Parts, folder: Path, file: Path) -> None:
        from plangym_ext.learn.torch_group import TorchGroup

        for rank in range(1, self._size):
            maker = functools.partial(_made_learner, parts, rank, folder / str(rank), file)
            # torch's optimisers import `torch._dynamo` when the first one is made.
            service = Service(maker, (*NETWORKS, "torch._dynamo", __name__))
            self._workers.append(WorkerHandle(service, index=rank))
            self._workers[-1].build()
        for worker in self._workers:
            worker.describe()
        # Begun before this process joins: it would wait in `TorchGroup` for learners that were not
        # asked to come.
        self._ask("join")
        self._group = TorchGroup(
            file,
            0,
            self._size,
            device=parts.config.device,
            timeout=self._timeout,
            failed=self._explain,
        )
        self._algorithm.join(self._group)
        self._answers(self._timeout)

    # Asking the others ------------------------------------------------------------------

    def _ask(self, name: str, *args: Any) -> None:
        """Begin a call in all other learners."""
        self._answers(self._timeout)
        try:
            self._asked = [worker.call(name, *args) for worker in self._workers]
        except WorkerDied as error:
            self._lost(error.worker or 0, error)

    def _answers(self, seconds: float | None = None) -> list[Any]:
        """Wait for the others' last call; return its answers."""
        asked, self._asked = self._asked, []
        deadline = None if seconds is None else time.monotonic() + seconds
        found, errors = [], []
        for worker, pending in zip(self._workers, asked, strict=False):
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                found.append(pending.wait(left))
            except Exception as error:
                errors.append((worker.index, error))
        if errors:
            # What has failed by itself comes before those that have waited for it.
            self._lost(*min(errors, key=lambda one: isinstance(one[1], LearnerLost)))
        return found

    def _explain(self) -> None:
        """Raise why a learner does not meet the others any more."""
        self._answers(LEARNER_GRACE)

    def _lost(self, rank: int, error: Exception) -> NoReturn:
        self._asked = []
        raise LearnerLost(
            f"learner {rank} of {self._size}: {type(error).__name__}: {error} The run "
            f"has ended, and its last checkpoint is as it was: go on with --resume (resume=True)."
        ) from error

    def _watched(self, progress: Progress | None) -> Callable[[int], None]:
        """Return a progress callback that checks the others during play."""
        looked = time.monotonic()

        def told(done: int) -> None:
            nonlocal looked
            if time.monotonic() - looked > SLOW_LOOK:
                looked = time.monotonic()
                # None can be done before this one is.
                if any(pending.poll(0.0) for pending in self._asked):
                    self._explain()
            if progress is not None:
                progress(done * self._size)

        return told

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the other learners."""
        return tuple(worker.process.pid for worker in self._workers)

    # As a sampler -----------------------------------------------------------------------

    def collect(self, n: int, version: int = 0, progress: Progress | None = None) -> Collected:
        """Play n steps in every env of this learner, and return the totals of all.

        Returns:
            `data` of this learner; `episodes` and `cost` of all.
        """
        # Before this learner plays, so that they do so at the same time.
        self._ask("round", n)
        found = self._sampler.collect(n, version, self._watched(progress))
        found = with_the_others(found, self._group)
        self._rounds += 1
        return found

    def state_dict(self) -> dict[str, Any]:
        """Make the others save, and return learner 0's state.

        Raises:
            LearnerLost: the weights of a learner are not those of the others.
        """
        self._ask("save", self._rounds)
        # While the others save: they were asked, and not waited for yet.
        mine = weights_hash(self._algorithm)
        for worker, theirs in zip(self._workers, self._answers(self._timeout), strict=True):
            if theirs != mine:
                raise LearnerLost(
                    f"learner {worker.index} of {self._size}: its weights differ from those of "
                    f"learner 0; {type(self._algorithm).__name__} does not average all gradients, "
                    f"or computes updates differently. Run it with one learner."
                )
        return {"own": self._sampler.state_dict(), "rounds": self._rounds}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make all learners continue from a saved state."""
        self._sampler.load_state_dict(state["own"])
        self._rounds = int(state["rounds"])
        self._ask("load", self._rounds)
        self._answers(self._timeout)

    def close(self) -> None:
        # First: a learner that waits in the group for this one then ends with an error, and can be
        # told to leave.
        if self._group is not None:
            self._group.close()
        for worker in self._workers:
            worker.begin_close()
        for worker in self._workers:
            worker.close()


# Learner: one of several data-parallel learners, in its own process -----------


def _made_learner(parts: Parts, rank: int, folder: Path, file: Path) -> Learner:
    """Return learner `rank`, at least 1, in its process; the learners meet by the file."""
    parts = replace(parts.alone(), learner=rank)
    config = replace(parts.config, device=learner_device(parts.config.device, rank))
    return Learner(replace(parts, config=config), folder, file)


class Learner:
    """Network, sampler and algorithm of one learner, called by learner 0; see `Service`."""

    def __init__(self, parts: Parts, folder: Path, file: Path) -> None:
        from plangym_ext.learn.repeatable import fix_threads, keep_freed_memory

        # As in learner 0, before anything is computed: the weights are compared bit for bit.
        fix_threads(parts.config.threads)
        keep_freed_memory()
        self._parts, self._file = parts, file
        self._checkpoints = Checkpoints(folder)
        self._env = parts.env()
        network = parts.network(self._env)
        self._agent = parts.agent(network)
        self._algorithm: Any = parts.algorithm(network)
        self._own = OwnParts(parts, self._env, self._agent, self._algorithm)
        self._sampler: Sampler = make_sampler(parts, self._env, network, self._agent)
        self._group: Any = None

    def description(self) -> dict[str, Any]:
        """Return nothing: learner 0 needs no description."""
        return {}

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method below; after an error the other learners are waited for no more."""
        try:
            return getattr(self, f"_{name}")(*args, **kwargs)
        except BaseException:
            self._leave()
            raise

    def _join(self) -> None:
        """Learn together with the others, from the weights of learner 0 on."""
        from plangym_ext.learn.torch_group import TorchGroup

        config = self._parts.config
        self._group = TorchGroup(
            self._file,
            self._parts.learner,
            config.learners,
            device=config.device,
            timeout=config.collector.timeout,
        )
        self._algorithm.join(self._group)

    def _round(self, moves: int) -> None:
        """Play and learn as often as learner 0."""
        self._algorithm.prepare(self._agent)
        collected = self._sampler.collect(moves, self._algorithm.updates)
        # With the tables of all: statistics that learning depends on must be the same everywhere.
        self._algorithm.take(with_the_others(collected, self._group))
        self._algorithm.train()

    def _save(self, round_number: int) -> bytes:
        """Write a checkpoint; return a hash of the weights."""
        # Settings are in the checkpoint of learner 0, which is checked.
        content = {"config": {}, "collector": self._sampler.state_dict()}
        learned = self._algorithm.state_dict()
        content |= {**learned, OWN_STATE: self._own.state_dict(learned)}
        self._checkpoints.save(round_number, content)
        return weights_hash(self._algorithm)

    def _load(self, round_number: int) -> None:
        saved = read_checkpoint(self._checkpoints.path(round_number))
        self._algorithm.load_state_dict(saved)
        self._own.load_state_dict(saved.get(OWN_STATE, {}))
        self._sampler.load_state_dict(saved["collector"])
        # Left by a kill between this learner's checkpoint and that of learner 0, which is the one
        # that counts.
        self._checkpoints.drop_after(round_number)

    def _leave(self) -> None:
        if self._group is not None:
            self._group.close()

    def close(self) -> None:
        """Close the envs."""
        self._leave()
        self._sampler.close()
        self._env.close()


def with_the_others(collected: Collected, group: LearnerGroup) -> Collected:
    """Return a sampler's result with the episodes and costs of all learners.

    Its `data` is this learner's own.
    """
    # Rows are numbered over all learners.
    first = group.rank * collected.data["reward"].shape[1]
    mine = {**collected.episodes, "row": collected.episodes["row"] + first}
    parts = group.gathered((mine, collected.cost, collected.steps))
    episodes = merged_episodes([table for table, *_ in parts])
    cost = sum((cost for _, cost, _ in parts), Budget())
    played = sum(steps for *_, steps in parts)
    return collected._replace(episodes=episodes, cost=cost, played=played)


def learner_device(device: str, rank: int) -> str:
    """Return the device of a learner's network: with "cuda" a GPU each, if there are enough."""
    if device != "cuda":
        return device
    from plangym_ext.learn.torch_extra import torch

    return f"cuda:{rank % max(1, torch.cuda.device_count())}"


def weights_hash(algorithm: Any) -> bytes:
    """Return a hash of the weights that an algorithm saves."""
    saved, found = algorithm.state_dict()["trainer"], hashlib.sha256()
    for state in (saved["network"], *saved.get("modules", {}).values()):
        for name, tensor in state.items():
            found.update(name.encode() + tensor.cpu().numpy().tobytes())
    return found.digest()
