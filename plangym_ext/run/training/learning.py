"""What learns in a run: a trainer, what it remembers, and the chance in both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from plangym_ext.errors import InvalidOption
from plangym_ext.run.settings.config import RunConfig


class Learning:
    """Remembers episodes and teaches the network from them.

    Args:
        config: the settings.
        trainer: teaches.
        replay: remembers.

    Attributes:
        trainer: the same.
        replay: the same.
    """

    def __init__(self, config: RunConfig, trainer: Any, replay: Any) -> None:
        from plangym_ext.learn.repeatable import TorchRandom

        self._config, self.trainer, self.replay = config, trainer, replay
        self._random = TorchRandom(config.seed)

    def add(self, record: Any) -> None:
        """Add an episode to the replay.

        Raises:
            InvalidOption: the replay is to be balanced by what the episode does not have.
        """
        samples, name = self.trainer.samples(record), self._config.replay.grouped_by
        if name is None:
            self.replay.add(samples)
        else:
            self.replay.add(samples, groups=np.full(record.length, self._group(record, name)))

    def _group(self, record: Any, name: str) -> int:
        """Return the value of the attribute by which episodes are grouped."""
        if name not in record.attributes:
            raise InvalidOption(
                f"settings: replay.balance_by must name an attribute of the episodes; they "
                f"have {sorted(record.attributes)}, not {name!r}. Name it in "
                f"collector.attributes, if the env's infos have it."
            )
        return int(record.attributes[name])

    def train(self, after_update: Callable[[], None]) -> dict[str, float]:
        """Make the updates of a round, each on a batch that is drawn from the replay.

        Args:
            after_update: called after each update.

        Returns:
            Means by name, as "train/loss"; empty while the replay is too small.

        Raises:
            LossNotFinite: a loss was not finite.
        """
        if len(self.replay) < self._config.replay.min_rows:
            return {}
        rows = []
        with self._random.used():
            for _ in range(self._config.updates):
                batch = self.replay.sample(self.trainer.config.batch_size)
                rows.append(self.trainer.update(batch.samples, batch.weights))
                self.replay.update_priorities(batch.indices, self.trainer.errors)
                after_update()
        if not rows:
            return {}
        return {f"train/{name}": float(np.mean([row[name] for row in rows])) for name in rows[0]}

    def state_dict(self) -> dict[str, Any]:
        """Return what learning goes on from."""
        return {
            "trainer": self.trainer.state_dict(),
            "replay": self.replay.state_dict(),
            "torch_random": self._random.state_dict(),
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` has returned."""
        self.trainer.load_state_dict(saved["trainer"])
        self.replay.load_state_dict(saved["replay"])
        self._random.load_state_dict(saved["torch_random"])
