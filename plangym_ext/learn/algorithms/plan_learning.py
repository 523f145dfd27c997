"""Base classes of algorithms that train a planner's network or model on its episodes."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, mapped, rows_of, stacked
from plangym_ext.core.inherited_options import load_own_class
from plangym_ext.errors import InvalidOption, LossNotFinite, WrongKind
from plangym_ext.learn.algorithms.agent_algorithm import AgentAlgorithm
from plangym_ext.learn.engines.flat_optimizer import flat_optimizer
from plangym_ext.learn.group import LearnerGroup
from plangym_ext.learn.networks.quick_forward import of_observations
from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.replay.base import Replay
from plangym_ext.learn.replay.priorities import PrioritizedReplay, of_errors
from plangym_ext.learn.replay.uniform import BalancedReplay, ReplayBuffer
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import device_of, nn, torch
from plangym_ext.learn.whole_episodes import WholeEpisodes, check_begun

#: Works out what `PlanLearning.errors` are of an update, once it was made.
Errors = Callable[[], npt.NDArray[np.float64]]


class Part(NamedTuple):
    """One term of a loss."""

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


class PlanLearning(AgentAlgorithm):
    """Abstract; learns from a replay of the steps of episodes that a planner has played.

    It takes what a `PlannerAgent` has played in a sampler. Targets are of whole episodes: the
    steps of one that goes on wait until it has ended.

    Args:
        network: a `Network`, or a module like it; or that of an agent that looks at observations
            alone. It is changed in place.

    Attributes:
        replay: of steps and what they teach.
        optimizer: of the network's parameters.
        errors: `[batch]` float64, not negative, how far the loss of each row of the last
            update was above the least it can be: priorities for `PrioritizedReplay`.

    Raises:
        InvalidOption: the network looks at more than observations.
    """

    config_class: ClassVar[type[Any]]
    config: Any
    #: Whether the weight decay may change with the updates.
    _decays: ClassVar[bool] = True

    def __init__(self, network: nn.Module, config: Any = None, *, seed: int = 0) -> None:
        super().__init__(network, config, seed=seed)
        self.replay: Any = self._made_replay(seed)
        self.errors: npt.NDArray[np.float64] = np.zeros(0)
        self.optimizer = flat_optimizer(network, self.config, decays=self._decays)
        self._asked = of_observations(network)
        self._episodes = WholeEpisodes(
            getattr(network, "observation_space", None), getattr(network, "action_space", None)
        )
        self._augment = self.config.augmentation()
        #: Moments of observations that were taken in and do not normalise yet.
        self._seen: list[Any] = []
        #: Fields of the batch that are not finite, which messages name.
        self._wrong: list[str] = []

    def _made_replay(self, seed: int) -> Any:
        """Return the replay of the config, empty."""
        config = self.config
        if config.replay == "prioritized":
            beta = {"alpha": config.alpha, "beta": at(config.beta, 0)}
            return PrioritizedReplay(config.capacity, seed=seed, **beta)
        kinds = {"uniform": ReplayBuffer, "balanced": BalancedReplay}
        if config.replay in kinds:
            return kinds[config.replay](config.capacity, seed=seed)
        own = load_own_class(config.replay, "settings: algorithm.replay", Replay)
        found: Replay = own(config.capacity, seed=seed, **config.replay_options)
        return found

    def join(self, group: LearnerGroup) -> None:
        group.share(self.network.state_dict().values())
        self.group = self.optimizer.group = group

    @abstractmethod
    def samples(self, record: Any) -> dict[str, npt.NDArray[Any]]:
        """Return an episode's training rows, one per step: arrays `[T, ...]` for a replay.

        Names, shapes and dtypes are the same for all episodes of an env. They may be views of
        the record: a replay copies them.
        """

    @abstractmethod
    def _losses(self, batch: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """Return the parts of the loss by name, each a `Part`."""

    # Taking in ------------------------------------------------------------------

    def take(self, collected: Collected) -> None:
        """Add the steps of the episodes that ended to the replay; see `Algorithm.take`.

        Args:
            collected: the tree of a sampler, or the records of a `SolutionSampler`.

        Raises:
            InvalidOption: episodes are to be grouped by what they do not have.
        """
        records = collected.data
        if not isinstance(records, list):
            normalizer = getattr(self.network, "normalizer", None)
            if normalizer is not None:
                self._seen.append(self.group.merged(normalizer.moments(records)))
            records = self._valued(self._episodes.take(collected))
        for record in records:
            samples, groups = self.samples(record), {}
            if self.config.grouped_by is not None:
                groups["groups"] = np.full(record.length, self._group(record))
            self.replay.add(samples, **groups)
        self.steps += self._env_steps(collected)

    def _env_steps(self, collected: Collected) -> int:
        """Return the steps of the env that were taken: also those of searches in it."""
        return collected.cost.model_steps

    def _valued(self, records: list[EpisodeRecord]) -> list[EpisodeRecord]:
        """Return the records, with what the network says of the ends of those that were cut."""
        cut = [number for number, record in enumerate(records) if not record.terminated]
        if not cut:
            return records
        last = stacked([rows_of(records[number].observations, -1) for number in cut])
        with torch.inference_mode():
            out = self._asked(self._tensor(last))
        # Of Q values alone the best is what a state is worth.
        values = out.value if out.value is not None or out.q is None else out.q.amax(dim=1)
        found = list(records)
        if values is not None:
            for number, value in zip(cut, values.tolist(), strict=True):
                found[number] = dataclasses.replace(records[number], final_value=value)
        return found

    def _group(self, record: EpisodeRecord) -> int:
        """Return the value of the field by which episodes are grouped."""
        name = self.config.grouped_by
        if name not in record.attributes:
            raise InvalidOption(
                f"settings: algorithm.balance_by must name a field of the episodes; they have "
                f"{sorted(record.attributes)}, not {name!r}. Name it in collector.attributes, if "
                f"the env's infos have it."
            )
        return int(record.attributes[name])

    # Learning -------------------------------------------------------------------

    def train(self, progress: Progress | None = None) -> dict[str, float]:
        """Make the updates of a round; see `Algorithm.train`.

        Returns:
            "replay_rows", "updates" and, once something is learned, means such as "train/loss".

        Raises:
            LossNotFinite: a loss or gradient is NaN or infinite; that update was not made.
        """
        logged: list[dict[str, float]] = []
        # Learners wait for one another in each update: they begin together.
        if min(self.group.gathered(len(self.replay))) >= self.config.learning_starts:
            # Dropout and augmentation draw from a generator of this algorithm's own: what other
            # parts of the run draw does not change what is learned.
            with self._random.used(together=self.group.size > 1):
                for done in range(self.config.updates_per_round):
                    if isinstance(self.replay, PrioritizedReplay):
                        self.replay.beta = at(self.config.beta, self.updates)
                    batch = self.replay.sample(self.config.batch_size)
                    logged.append(self.update(batch.samples, batch.weights))
                    # Before the next draw: no row is added in between, so the indices still name
                    # the same rows.
                    self.replay.update_priorities(batch.indices, of_errors(self.errors))
                    if progress is not None:
                        progress(done + 1)
        for seen in self._seen:
            # Last, so that all of this round was normalised as when it was played.
            self.network.normalizer.add(seen)
        self._seen.clear()
        names = logged[0] if logged else ()
        means = {f"train/{name}": float(np.mean([row[name] for row in logged])) for name in names}
        return {"replay_rows": len(self.replay), "updates": self.updates, **means}

    def update(
        self, batch: Mapping[str, Any], weights: npt.ArrayLike | None = None
    ) -> dict[str, float]:
        """Make one update on a batch.

        Args:
            batch: rows of `samples`, arrays `[batch, ...]`.
            weights: `[batch]`, how much each row counts; None: all alike.

        Returns:
            "loss", its parts, "grad_norm" before clipping, and "learning_rate".

        Raises:
            LossNotFinite: the loss or its gradient is NaN or infinite; nothing was changed.
        """
        self._parameters.check()
        if self._augment is not None:
            # From torch's generator, which a checkpoint holds, so that a resumed run augments
            # alike.
            draws = torch.rand(len(next(iter(batch.values()))), dtype=torch.float64).numpy()
            batch = self._augment(batch, draws)
        self._wrong = [name for name, rows in batch.items() if _is_broken(rows)]
        self.optimizer.read()
        self.optimizer.set_decay(at(self.config.l2, self.updates))
        with _learning(self.network):
            tensors = {name: self._tensor(rows) for name, rows in batch.items()}
            loss, losses, errors = self._loss(tensors, weights)
            norm = self._step_down(self.optimizer, loss)
        # Last, after the step: an update that was refused leaves errors and count as they were.
        self.errors = errors()
        self.updates += 1
        found = {name: float(one.detach()) for name, one in {"loss": loss, **losses}.items()}
        return {**found, "grad_norm": norm, "learning_rate": self.optimizer.rate}

    def _loss(self, batch: Mapping[str, Any], weights: Any) -> tuple[Any, dict[str, Any], Errors]:
        """Return the loss of a batch, what is logged of it, and what works out `errors`."""
        parts = self._losses(batch)
        rows: Any = sum(part.weight * part.loss for part in parts.values())
        if weights is not None:
            rows = rows * self._tensor(np.asarray(weights, np.float32))
        losses = {f"{name}_loss": part.loss.mean() for name, part in parts.items()}
        return rows.mean(), losses, lambda: _errors(parts)

    def _tensor(self, rows: Any) -> Any:
        """Return arrays, which may be nested, as tensors on the network's device."""
        device = device_of(self.network)
        return mapped(lambda leaf: torch.from_numpy(np.ascontiguousarray(leaf)).to(device), rows)

    def _not_finite(self, what: str) -> LossNotFinite:
        wrong = ", ".join(self._wrong)
        remedy = (
            f"The batch is not finite in {wrong}: look at rewards and observations."
            if wrong
            else "The batch is finite: lower learning_rate, or raise value_scale."
        )
        return LossNotFinite(
            f"{type(self).__name__}.update: update {self.updates} must have a finite {what}. "
            f"{remedy}"
        )

    def _head(self, name: str, out: Any) -> torch.Tensor:
        """Return the numbers of a head that is taught."""
        if out is None:
            raise InvalidOption(
                f"{type(self).__name__}: there is a {name}_target, but the network has no such "
                f"head. Name it in NetworkConfig(heads=...)."
            )
        found: torch.Tensor = out
        return found

    # Saving ---------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state, running episodes included; see `AgentAlgorithm.state_dict`."""
        return {**super().state_dict(), "episodes": self._episodes.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        # Before the first change.
        episodes = state.get("episodes") if isinstance(state, Mapping) else None
        check_begun(f"{type(self).__name__}.load_state_dict", episodes)
        super().load_state_dict(state)
        self._episodes.load_state_dict(state["episodes"])

    def _own_state(self) -> dict[str, Any]:
        return {"moments": self.optimizer.state_dict()}

    def _check_own_state(self, theirs: Mapping[str, Any], where: str) -> None:
        self.optimizer.check_state(theirs["moments"], where)

    def _load_own_state(self, theirs: Mapping[str, Any]) -> None:
        self.optimizer.load_state_dict(theirs["moments"])
        self._seen.clear()


def _is_broken(rows: Any) -> bool:
    """Return whether arrays, which may be nested, hold NaN or infinities."""
    return not all(np.isfinite(leaf).all() for leaf in leaves(rows))


def _errors(parts: Mapping[str, Part]) -> npt.NDArray[np.float64]:
    """Return how far the loss of each row is above its least, `[batch]`."""
    excess: Any = sum(part.weight * (part.loss - part.least) for part in parts.values())
    # Rounding may leave a row that is learned a little below its least.
    found: npt.NDArray[np.float64] = excess.detach().cpu().numpy().astype(np.float64)
    return np.maximum(found, 0.0)


class ModelLearning(PlanLearning):
    """Abstract; the network is a model, so a search takes no steps of the env.

    Args:
        network: of `network_class`, changed in place.

    Raises:
        WrongKind: the network is of another class.
    """

    network_class: ClassVar[type[nn.Module]]
    #: How a network of this class is made, for messages.
    made_by: ClassVar[str]

    def __init__(self, network: Any, config: Any = None, *, seed: int = 0) -> None:
        if not isinstance(network, self.network_class):
            raise WrongKind(
                f"{type(self).__name__}: the network must be a {self.network_class.__name__}, "
                f"the model to train; got {type(network).__name__}. {self.made_by}"
            )
        super().__init__(network, config, seed=seed)
        self._seed = seed

    def _env_steps(self, collected: Collected) -> int:
        # What is searched is the model.
        return collected.steps
