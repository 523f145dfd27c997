"""Learning from records of episodes: a trainer, what it remembers, and the chance in both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.repeatable import TorchRandom
from plangym_ext.learn.replay.base import Replay
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.trainers.base import Trainer


@final
class ReplayAlgorithm:
    """Remembers episodes, and teaches the network from batches that are drawn of their steps.

    Args:
        trainer: teaches.
        replay: remembers.
        updates: made in each `train`.
        min_rows: rows that must be there before learning begins.
        group_by: attribute of the episodes whose values are the groups of a `BalancedReplay`;
            None: there are no groups.
        seed: of what the network draws while it learns.

    Attributes:
        trainer: the same.
        replay: the same.
    """

    def __init__(
        self,
        trainer: Trainer,
        replay: Replay,
        *,
        updates: int,
        min_rows: int,
        group_by: str | None = None,
        seed: int,
    ) -> None:
        self.trainer, self.replay = trainer, replay
        self._num_updates, self._min_rows, self._group_by = updates, min_rows, group_by
        self._random = TorchRandom(seed)

    @property
    def updates(self) -> int:
        """How many were made, ever; see `Algorithm`."""
        return self.trainer.updates

    def prepare(self, agent: Any) -> None:
        """Leave the planner as it is; see `Algorithm.prepare`."""

    def take(self, collected: Collected) -> None:
        """Add the episodes that ended to the replay; see `Algorithm.take`.

        Raises:
            InvalidOption: episodes are to be grouped by what they do not have.
        """
        for record in collected.data:
            samples, groups = self.trainer.samples(record), {}
            if self._group_by is not None:
                groups["groups"] = np.full(record.length, self._group(record, self._group_by))
            self.replay.add(samples, **groups)

    def _group(self, record: EpisodeRecord, name: str) -> int:
        """Return the value of the attribute by which episodes are grouped."""
        if name not in record.attributes:
            raise InvalidOption(
                f"settings: replay.balance_by must name an attribute of the episodes; they "
                f"have {sorted(record.attributes)}, not {name!r}. Name it in "
                f"collector.attributes, if the env's infos have it."
            )
        return int(record.attributes[name])

    def train(self, progress: Progress | None = None) -> dict[str, float]:
        """Make updates, each on a batch that is drawn from the replay; see `Algorithm.train`.

        Returns:
            "replay_rows", "updates" and, once something is learned, means such as "train/loss".
        """
        rows: list[dict[str, float]] = []
        if len(self.replay) >= self._min_rows:
            with self._random.used():
                for done in range(self._num_updates):
                    batch = self.replay.sample(self.trainer.config.batch_size)
                    rows.append(self.trainer.update(batch.samples, batch.weights))
                    self.replay.update_priorities(batch.indices, self.trainer.errors)
                    if progress is not None:
                        progress(done + 1)
        found: dict[str, float] = {"replay_rows": len(self.replay), "updates": self.updates}
        for name in rows[0] if rows else ():
            found[f"train/{name}"] = float(np.mean([row[name] for row in rows]))
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return what learning goes on from."""
        return {
            "trainer": self.trainer.state_dict(),
            "replay": self.replay.state_dict(),
            "torch_random": self._random.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` has returned."""
        self.trainer.load_state_dict(state["trainer"])
        self.replay.load_state_dict(state["replay"])
        self._random.load_state_dict(state["torch_random"])
