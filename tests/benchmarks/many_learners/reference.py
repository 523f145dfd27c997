"""One process that learns from the rows of several learners, with their draws."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import torch

from plangym_ext.learn import PPO
from plangym_ext.learn.algorithms.off_policy import sac
from plangym_ext.learn.algorithms.rollouts import ppo
from plangym_ext.learn.distributions.torch_noise import TorchNoise
from plangym_ext.learn.replay.base import Batch
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.solutions import make_sampler


class Reference:
    """An algorithm with batches N times as large, of which each Nth is drawn as a learner does.

    Args:
        config: of a run of N learners, of PPO or of an algorithm that learns from a replay.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config, self._stack = config, ExitStack()
        parts = [Parts(replace(config, learners=1), learner=r) for r in range(config.learners)]
        env = self._stack.enter_context(parts[0].env())
        network = parts[0].network(env)
        #: What each learner draws by, as it is after its networks were made.
        drawn = [one.algorithm(copy.deepcopy(network)) for one in parts]
        self._streams = [one._random for one in drawn]
        self.agent = parts[0].agent(network)
        self.algorithm: Any = Parts(_larger(config, envs=False)).algorithm(network)
        self.on_policy = isinstance(self.algorithm, PPO)
        if self.on_policy:
            parts = [Parts(_larger(config, envs=True))]
        else:
            rows = drawn[0].config.batch_size
            self.algorithm.replay = _Replays([one.replay for one in drawn], rows)
        made = [make_sampler(one, env, network, self.agent) for one in parts]
        self.samplers = [self._stack.enter_context(one) for one in made]

    def run(self) -> None:
        """Play and learn as many rounds as the run has."""
        with self._drawing():
            for _ in range(self.config.rounds):
                self.round()

    def round(self) -> None:
        """Play and learn a round."""
        algorithm, moves = self.algorithm, self.config.collector.moves
        algorithm.prepare(self.agent)
        version = algorithm.updates
        for found in [sampler.collect(moves, version) for sampler in self.samplers]:
            algorithm.take(found)
        algorithm.train()

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """Draw as the learners do."""
        streams, envs = self._streams, self.config.collector.num_envs
        with (
            mock.patch.object(ppo, "minibatches", _Minibatches(streams, envs)),
            mock.patch.object(sac, "TorchNoise", lambda *a, **k: _Noise(streams, *a, **k)),
        ):
            yield

    def close(self) -> None:
        """Close the envs."""
        self._stack.close()


def difference(first: Any, second: Any) -> float:
    """Return by how much the numbers of two networks differ at most, beside 1 plus their size."""
    theirs = second.state_dict()
    return max(
        float(((mine - theirs[name]).abs() / (1 + mine.abs())).max())
        for name, mine in first.state_dict().items()
    )


def _larger(config: RunConfig, *, envs: bool) -> RunConfig:
    """Return the settings of one learner with the batches, and the envs, of all."""
    algorithm, count = config.algorithm, config.learners
    assert algorithm is not None
    own = replace(algorithm.config, batch_size=count * algorithm.config.batch_size)
    collector = config.collector
    if envs:
        collector = replace(collector, num_envs=count * collector.num_envs)
    algorithm = replace(algorithm, config=own)
    return replace(config, learners=1, algorithm=algorithm, collector=collector)


class _Replays:
    """The replays of the learners, which are filled in turn and drawn from at once.

    Steps of several updates may be drawn together: each update has as many of every learner.
    """

    def __init__(self, parts: Sequence[Any], rows: int) -> None:
        self._parts, self._rows, self._next = parts, rows, 0
        self.num_envs = sum(part.num_envs for part in parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def is_ready(self) -> bool:
        return all(part.is_ready for part in self._parts)

    def add(self, tree: Any) -> None:
        self._parts[self._next].add(tree)
        self._next = (self._next + 1) % len(self._parts)

    def sample(self, batch_size: int) -> Batch:
        batches = [part.sample(batch_size // len(self._parts)) for part in self._parts]
        samples = {
            name: self._joined([batch.samples[name] for batch in batches])
            for name in batches[0].samples
        }
        weights = self._joined([batch.weights for batch in batches])
        indices = self._joined([batch.indices for batch in batches])
        return batches[0]._replace(samples=samples, weights=weights, indices=indices)

    def _joined(self, arrays: Sequence[Any]) -> Any:
        """Return the rows of all learners, update by update."""
        shape = arrays[0].shape
        by_update = [array.reshape(-1, self._rows, *shape[1:]) for array in arrays]
        return np.concatenate(by_update, axis=1).reshape(-1, *shape[1:])


class _Noise:
    """Normal numbers for equal parts of N rows, each of a learner's stream."""

    def __init__(self, streams: Sequence[Any], shape: tuple[int, ...], **more: Any) -> None:
        self._streams = streams
        self._part = TorchNoise((shape[0] // len(streams), *shape[1:]), **more)

    def normal(self, k: int = 1) -> Any:
        found = []
        for stream in self._streams:
            with stream.used():
                found.append(self._part.normal(k))
        return torch.cat(found)


class _Minibatches:
    """Minibatches each of which is made of those that the learners draw of their own columns."""

    def __init__(self, streams: Sequence[Any], envs: int) -> None:
        self._streams, self._envs = streams, envs

    def __call__(self, rows: Any, batch_size: int, *, by_step: bool) -> Iterator[Any]:
        assert by_step
        size = len(self._streams)
        total, columns = len(rows.target), size * self._envs
        numbers = np.arange(total).reshape(-1, columns)
        count, orders = total // size, []
        for rank, stream in enumerate(self._streams):
            own = numbers[:, rank * self._envs : (rank + 1) * self._envs].ravel()
            with stream.used():
                orders.append(torch.from_numpy(own)[torch.randperm(count)])
        parts = -(-count // (batch_size // size))
        for i in range(parts):
            span = slice(i * count // parts, (i + 1) * count // parts)
            yield rows.take(torch.cat([order[span] for order in orders]))
