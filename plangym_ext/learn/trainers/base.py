"""Learning from records of episodes: what trainers share, and the algorithm that they make up.

A trainer says what an episode teaches, and takes a step of gradient descent on a batch of that.
`ReplayAlgorithm` has one learn in the rounds of a run, from what a replay remembers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import ForeignNetwork, InvalidOption, LossNotFinite
from plangym_ext.learn.devices import device_of
from plangym_ext.learn.networks.state import check_network_state
from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.repeatable import TorchRandom
from plangym_ext.learn.replay.base import Replay
from plangym_ext.learn.replay.priorities import of_errors
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import nn, torch
from plangym_ext.learn.trainers.config import TrainerConfig
from plangym_ext.learn.trainers.optimizers import load_moments, make_optimizer, set_rates


class Part(NamedTuple):
    """A part of a loss."""

    weight: float
    loss: torch.Tensor  # [batch]
    least: torch.Tensor | float = 0.0  # [batch], below which it cannot fall


@contextmanager
def _learning(network: nn.Module) -> Iterator[None]:
    """Put a network in training mode, in which modules such as dropout behave differently."""
    network.train()
    try:
        yield
    finally:
        network.eval()


class Trainer(ABC):
    """Teaches a network; owns the optimiser, not the network.

    Args:
        network: a `Network`, or a module like it; changed in place by `update`.
        config: None: the defaults of this trainer.

    Attributes:
        updates: how many have been made.
        errors: `[batch]` float64, not negative, how far the loss of each row of the last
            update was above the least it can be: priorities for `PrioritizedReplay`.
    """

    config_class: ClassVar[type[TrainerConfig]]

    def __init__(self, network: nn.Module, config: TrainerConfig | None = None) -> None:
        self.network = network
        self.config = config or self.config_class()
        if not isinstance(self.config, self.config_class):
            raise InvalidOption(
                f"{type(self).__name__}: config must be a {self.config_class.__name__}; got a "
                f"{type(self.config).__name__}."
            )
        self.updates = 0
        self.errors: npt.NDArray[np.float64] = np.zeros(0)
        self.optimizer = make_optimizer(network, self.config)
        self._augment = self.config.augmentation()

    @abstractmethod
    def samples(self, record: EpisodeRecord) -> dict[str, npt.NDArray[Any]]:
        """Return what an episode teaches, a row per step: arrays `[T, ...]` for a replay.

        Names, shapes and dtypes are the same for all episodes of an env. They may be views of
        the record: a replay copies them.
        """

    @abstractmethod
    def _losses(self, batch: Mapping[str, torch.Tensor]) -> dict[str, Part]:
        """Return the parts of the loss by name."""

    def update(
        self, batch: Mapping[str, npt.NDArray[Any]], weights: npt.ArrayLike | None = None
    ) -> dict[str, float]:
        """Take one step on a batch.

        Args:
            batch: rows of `samples`, arrays `[batch, ...]`.
            weights: `[batch]`, how much each row counts; None: all alike.

        Returns:
            "loss", its parts, "grad_norm" before clipping, and "learning_rate".

        Raises:
            LossNotFinite: the loss or its gradient is NaN or infinite; nothing was changed.
        """
        if self._augment is not None:
            size = len(next(iter(batch.values())))
            # From torch's generator, which a checkpoint holds, so that a resumed run augments
            # alike.
            batch = self._augment(batch, torch.rand(size, dtype=torch.float64).numpy())
        with _learning(self.network):
            parts = self._losses({name: self._tensor(rows) for name, rows in batch.items()})
            rows: Any = sum(part.weight * part.loss for part in parts.values())
            if weights is not None:
                rows = rows * self._tensor(np.asarray(weights, np.float32))
            loss = rows.mean()
            found = {
                f"{name}_loss": float(part.loss.detach().mean()) for name, part in parts.items()
            }
            found = {"loss": float(loss.detach()), **found}
            self._refuse_infinite(found, batch)
            found["grad_norm"] = self._gradients(loss)
            self._refuse_infinite(found, batch)
            # By the updates before this one, so the first one has the schedule's value at 0.
            found["learning_rate"] = set_rates(self.optimizer, self.config, self.updates)
            self.optimizer.step()
        # Last, after the step: an update that was refused leaves errors and count as they were.
        self.errors = _errors(parts)
        self.updates += 1
        return found

    def _gradients(self, loss: Any) -> float:
        """Compute and clip the gradients; return their norm before that."""
        self.optimizer.zero_grad()
        loss.backward()
        number = self.config.max_grad_norm
        most = math.inf if number is None else at(number, self.updates)
        return float(nn.utils.clip_grad_norm_(self.network.parameters(), most))

    def state_dict(self) -> dict[str, Any]:
        """Return weights, optimiser and counters: tensors and plain values, no objects.

        `torch.load(..., weights_only=True)` reads it. The tensors are the trainer's own:
        save or copy them before the next update.
        """
        return {
            "trainer": type(self).__name__,
            "optimizer": self.config.optimizer,
            "updates": self.updates,
            "network": self.network.state_dict(),
            "moments": self.optimizer.state_dict()["state"],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict`, bit for bit. Settings remain those of the config.

        Raises:
            ForeignNetwork: it is of another network, trainer or optimiser; nothing was
                changed.
        """
        self._check_state(state)
        self.network.load_state_dict(state["network"])
        load_moments(self.optimizer, state["moments"])
        self.updates = int(state["updates"])

    def _check_state(self, state: Mapping[str, Any]) -> None:
        """Refuse a state that is not of a trainer like this one."""
        where, mine = f"{type(self).__name__}.load_state_dict", self.state_dict()
        missing = [name for name in mine if name not in state]
        if missing:
            raise ForeignNetwork(
                f"{where}: the state lacks {', '.join(missing)}. Pass what state_dict returned."
            )
        for name in ("trainer", "optimizer"):
            if state[name] != mine[name]:
                raise ForeignNetwork(
                    f"{where}: the state is of the {name} {state[name]!r}; here it is "
                    f"{mine[name]!r}. Make the trainer with the same config."
                )
        check_network_state(self.network, state["network"], where)

    def _tensor(self, rows: npt.NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(rows)).to(self._device)

    @property
    def _device(self) -> torch.device:
        return device_of(self.network)

    def _refuse_infinite(
        self, found: Mapping[str, float], batch: Mapping[str, npt.NDArray[Any]]
    ) -> None:
        """Stop before the parameters change, and say where to look."""
        wrong = {name: number for name, number in found.items() if not math.isfinite(number)}
        if not wrong:
            return
        # What is not finite must not be left for a later step.
        self.optimizer.zero_grad()
        parts = ", ".join(f"{name} is {number}" for name, number in wrong.items())
        fields = [name for name, rows in batch.items() if not np.isfinite(rows).all()]
        remedy = (
            f"The batch is not finite in {', '.join(fields)}: look at rewards and observations."
            if fields
            else "The batch is finite: lower learning_rate, or raise value_scale."
        )
        raise LossNotFinite(
            f"{type(self).__name__}.update: update {self.updates} must have a finite loss; "
            f"{parts}. {remedy}"
        )


def _errors(parts: Mapping[str, Part]) -> npt.NDArray[np.float64]:
    """Return how far the loss of each row is above its least, `[batch]`."""
    excess: Any = sum(part.weight * (part.loss - part.least) for part in parts.values())
    # Rounding may leave a row that is learned a little below its least.
    found: npt.NDArray[np.float64] = excess.detach().cpu().numpy().astype(np.float64)
    return np.maximum(found, 0.0)


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
        self._random = TorchRandom(seed, device_of(trainer.network))

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
            # Dropout and augmentation draw from a generator of this algorithm's own: what other
            # parts of the run draw does not change what is learned.
            with self._random.used():
                for done in range(self._num_updates):
                    batch = self.replay.sample(self.trainer.config.batch_size)
                    rows.append(self.trainer.update(batch.samples, batch.weights))
                    # Before the next draw: no row is added in between, so the indices still name
                    # the same rows.
                    self.replay.update_priorities(batch.indices, of_errors(self.trainer.errors))
                    if progress is not None:
                        progress(done + 1)
        found: dict[str, float] = {"replay_rows": len(self.replay), "updates": self.updates}
        for name in rows[0] if rows else ():
            found[f"train/{name}"] = float(np.mean([row[name] for row in rows]))
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return what learning goes on from."""
        return {
            "trainer": self.trainer_dict(),
            "replay": self.replay.state_dict(),
            "torch_random": self._random.state_dict(),
        }

    def trainer_dict(self) -> dict[str, Any]:
        """Return weights, optimiser and counters; see `Algorithm.trainer_dict`."""
        return self.trainer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` has returned."""
        self.trainer.load_state_dict(state["trainer"])
        self.replay.load_state_dict(state["replay"])
        self._random.load_state_dict(state["torch_random"])
