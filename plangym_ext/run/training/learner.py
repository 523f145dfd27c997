"""Learner: one of several data-parallel learners, in its own process."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plangym_ext.learn.parallel.group import LearnerGroup
from plangym_ext.learn.sampling.collected import Collected, Sampler
from plangym_ext.learn.sampling.episode_statistics import merged_episodes
from plangym_ext.planners.plans import Budget
from plangym_ext.run.training.checkpoints import Checkpoints, read_checkpoint
from plangym_ext.run.training.own_parts import OWN_STATE, OwnParts
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.solutions import make_sampler


@dataclass(frozen=True)
class LearnerMaker:
    """Makes a learner in its worker process.

    Attributes:
        parts: of the run.
        rank: number of the learner, at least 1.
        folder: of what it saves.
        file: by which the learners find each other.
    """

    parts: Parts
    rank: int
    folder: Path
    file: Path

    def __call__(self) -> Learner:
        """Make it."""
        parts = replace(self.parts.alone(), learner=self.rank)
        device = learner_device(parts.config.device, self.rank)
        config = replace(parts.config, device=device)
        return Learner(replace(parts, config=config), self.folder, self.file)


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
        from plangym_ext.learn.parallel.torch_group import TorchGroup

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
        """Load the checkpoint of a round."""
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
