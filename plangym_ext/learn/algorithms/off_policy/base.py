"""OffPolicyAlgorithm: base class with replay, update schedule and several learners."""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from plangym_ext.errors import ForeignNetwork, InvalidOption
from plangym_ext.learn.algorithms.agent_algorithm import AgentAlgorithm
from plangym_ext.learn.algorithms.off_policy.config import OffPolicyConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps, StepTensors, parts
from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer, flat_optimizer
from plangym_ext.learn.engines.update_graphs import UpdateGraphs, Work, torch_compiled
from plangym_ext.learn.group import LearnerGroup
from plangym_ext.learn.networks.state import check_network_state
from plangym_ext.learn.replay.base import Batch, steps_within
from plangym_ext.learn.replay.priorities import of_errors
from plangym_ext.learn.replay.ring_replay import RingReplay, StepReplay
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import nn

#: Most updates whose steps are drawn at once.
_BLOCK = 16
#: Most bytes of the observations of these.
_BLOCK_BYTES = 64 * 2**20
#: A share of updates per step is taken for the nearest fraction with at most this below.
_DENOMINATOR = 10**6

#: By name, the sum of what updates have logged, and how many have.
Sums = dict[str, tuple[Any, int]]
_NOTHING: tuple[Any, int] = (0.0, 0)


class Updated(NamedTuple):
    """Log numbers and errors of an update."""

    logged: Mapping[str, Any]  # scalars by name, numbers or tensors
    errors: Any = None  # [N] the steps' new priorities; None: they keep theirs


class OffPolicyAlgorithm(AgentAlgorithm):
    """Abstract; learns from steps that are drawn from a replay, which it makes and fills.

    A class that derives from this one makes its networks and optimisers in `_build`, and one
    update in `_update`.

    Attributes:
        replay: of steps.
        optimizers: by name, each of a network or a part of one.
        modules: networks besides the agent's, by name: they are saved with it.

    Raises:
        InvalidOption: the config is of another algorithm, or the network is recurrent or looks
            at more than observations.
    """

    config_class: ClassVar[type[OffPolicyConfig]]
    #: Whether `_update` never waits for the device, nor reads what changes on the host besides
    #: rates and what `_kind` tells: then it can be recorded on a GPU.
    _can_be_recorded: ClassVar[bool] = False

    def __init__(self, network: nn.Module, config: Any = None, *, seed: int = 0) -> None:
        super().__init__(network, config, seed=seed)
        self._check_network()
        config = self.config
        self.replay: RingReplay = self._make_replay(self._replay_options(seed))
        self._ratio = _fraction(type(self).__name__, config.updates_per_step)
        self._owed = Fraction(0)
        #: Policy lag of the last fragment, in updates.
        self._age = 0
        #: Moments of the observations that were taken in since the last `train`.
        self._seen: list[Any] = []
        self.optimizers: dict[str, FlatOptimizer] = {}
        self.modules: dict[str, nn.Module] = {}
        self._tensors = StepTensors(network)
        self._device = self._tensors.device
        #: By the identity of a module, the function that calls it in compiled code.
        self._called: dict[int, Any] = {}
        #: Returns what calls a network while it is learned. No method, which engines would keep
        #: this object alive by.
        self._asked = functools.partial(_asked, self._called)
        # Networks of the algorithm's own begin with weights of its own stream.
        with self._random.used():
            self._build()
        if config.compile:
            for module in (network, *self.modules.values()):
                self._called[id(module)] = torch_compiled(module, type(self).__name__)
        #: Makes updates on a GPU; None: they are made kernel by kernel.
        self._graphs = UpdateGraphs(self._device) if self._is_recorded() else None

    def _check_network(self) -> None:
        used = set(getattr(self.network, "inputs_used", ("obs",)))
        if used != {"obs"}:
            raise InvalidOption(
                f"{type(self).__name__}: the network must take only observations, since single "
                f"steps are drawn; it takes {', '.join(sorted(used))}. Make it without a "
                f"recurrent layer, previous_action and previous_reward."
            )

    def _make_replay(self, options: dict[str, Any]) -> RingReplay:
        """Return the replay of so many steps, with these options of `RingReplay`."""
        return StepReplay(self.config.capacity, **options)

    def _replay_options(self, seed: int) -> dict[str, Any]:
        config = self.config
        return {
            "n_steps": config.n_steps,
            "discount": at(self.config.discount, self.updates),
            "alpha": config.alpha if config.prioritized else None,
            "seed": seed,
            "frames": config.frames,
            "clip_reward": config.clip_reward,
        }

    @abstractmethod
    def _build(self) -> None:
        """Make networks and optimisers, and name them in `modules` and `optimizers`."""

    @abstractmethod
    def _update(self, steps: Steps) -> Updated:
        """Learn from some steps, and step all optimisers that are due."""

    def _make_optimizer(self, module: nn.Module) -> FlatOptimizer:
        """Return the config's optimiser for a module."""
        return flat_optimizer(module, self.config)

    def _is_recorded(self) -> bool:
        """Return whether updates are recorded on a GPU, and replayed."""
        config = self.config
        # Graphs hold these as they are when they are recorded; schedules would change them.
        fixed = not any(map(callable, (config.max_grad_norm, config.target_rate)))
        wanted = self._can_be_recorded and config.compiled and not config.compile
        return wanted and fixed and all(o.can_be_recorded for o in self.optimizers.values())

    def _changed(self) -> Iterator[Any]:
        """Yield the tensors of all networks."""
        for module in (self.network, *self.modules.values()):
            yield from (parameter.detach() for parameter in module.parameters())
            yield from module.buffers()

    def join(self, group: LearnerGroup) -> None:
        """Join a group of data-parallel learners, each with its own replay.

        See `AgentAlgorithm.join`. Priorities, and the weights that undo them, are of each replay.
        """
        for module in (self.network, *self.modules.values()):
            # They are the weights themselves, not copies: written in place, the module has them.
            group.share(module.state_dict().values())
        for optimizer in self.optimizers.values():
            optimizer.group = group
        self.group = group
        # Learners wait for one another in each update.
        self._graphs = None

    # Taking in ------------------------------------------------------------------

    def take(self, collected: Collected) -> None:
        """Add a fragment to the replay; see `Algorithm.take`."""
        self.replay.discount = at(self.config.discount, self.updates)
        self.replay.add(collected.data)
        normalizer = getattr(self.network, "normalizer", None)
        if normalizer is not None:
            self._seen.append(self.group.merged(normalizer.moments(collected.data)))
        self._age = self.updates - collected.version
        num = collected.steps
        # Of this fragment, the steps after `learning_starts`.
        learned_from = max(0, min(num, self.steps + num - self.config.learning_starts))
        self.steps += num
        self._owed += self._ratio * learned_from

    # Learning -------------------------------------------------------------------

    def train(self, progress: Progress | None = None) -> dict[str, float]:
        """Make all updates that are due; see `Algorithm.train`.

        Those that are interrupted remain owed.

        Returns:
            "updates", "replay_steps", "policy_age" where what was taken in was played by older
            weights, and, once something is learned, means such as "train/loss".

        Raises:
            LossNotFinite: a loss or gradient is NaN or infinite; that update was not made, and on a
            GPU none of those after it in this call.
            InvalidOption: updates on a GPU cannot be recorded, as a network reads numbers from it.
        """
        found: dict[str, float] = {"replay_steps": len(self.replay)}
        if self._age:
            found["policy_age"] = self._age
        # What is left, less than one, is owed to later rounds; and all of it while no row is old
        # enough to be drawn.
        count = math.floor(self._owed) if self.replay.is_ready else 0
        sums: Sums = {}
        if count:
            self._parameters.check()
            for optimizer in self.optimizers.values():
                optimizer.read()
            self.network.train()
            try:
                with self._random.used(together=self.group.size > 1):
                    self._learn(count, sums, progress)
            finally:
                for optimizer in self.optimizers.values():
                    optimizer.write()
                self.network.eval()
        # After the updates: what observations are normalised by holds still within a round.
        for moments in self._seen:
            self.network.normalizer.add(moments)
        self._seen.clear()
        found["updates"] = self.updates
        # Not all updates log all numbers: those without a policy step have none of the policy.
        means = {f"train/{name}": float(total) / told for name, (total, told) in sums.items()}
        return found | self.group.means(means)

    def _learn(self, count: int, sums: Sums, progress: Progress | None) -> None:
        """Make a number of updates; add their log numbers to `sums`."""
        if self._graphs is not None:
            self._graphs.begin()
        done = 0
        while done < count:
            # What follows counts as much as it does at the update.
            for steps in self._draw(1 if callable(self.config.discount) else count - done):
                updated = self._update_made(steps)
                if self.config.prioritized and updated.errors is not None:
                    self.replay.update_priorities(steps.indices, of_errors(_array(updated.errors)))
                self.updates += 1
                self._owed -= 1
                for name, number in updated.logged.items():
                    # Tensors are summed as they are: to read each one would be to wait for the
                    # device.
                    total, told = sums.get(name, _NOTHING)
                    sums[name] = total + number, told + 1
                done += 1
                if progress is not None:
                    progress(done)
        if self._graphs is not None:
            self._check_finite(self._graphs)
            for name, found, replays in self._graphs.totals():
                total, told = sums.get(name, _NOTHING)
                sums[name] = total + found, told + replays

    def _update_made(self, steps: Any) -> Updated:
        """Make an update, as a graph if there is one."""
        if self._graphs is None:
            return self._update(steps)
        work = Work(self._update, self._changed, self.optimizers)
        held = steps._replace(indices=None)
        errors = self._graphs.update(work, self._kind(), held, self.updates)
        if self.config.prioritized:
            # The host waits for priorities in any case, and none is to be infinite.
            self._check_finite(self._graphs)
        return Updated({}, errors)

    def _kind(self) -> Hashable:
        """Return the kind of the next update, such as one with a policy step."""
        return self._target_is_due()

    def _check_finite(self, graphs: UpdateGraphs) -> None:
        """Refuse to go on after a loss that was not finite; what came after it was not made."""
        lost = graphs.lost()
        if not lost:
            return
        # With priorities the update is not counted as yet.
        self.updates -= lost - int(self.config.prioritized)
        self._owed += lost - int(self.config.prioritized)
        raise self._not_finite("loss and gradient")

    def _draw(self, most: int) -> Iterator[Any]:
        """Yield the steps of the next update, or of several, at most so many."""
        if not self._draws_ahead():
            yield self._steps_of(self._sample(1))
            return
        count = min(most, self._most_ahead())
        drawn = self._steps_of(self._sample(count))._replace(indices=None)
        yield from self._parts(drawn, count)

    def _parts(self, drawn: Any, count: int) -> Iterator[Any]:
        """Yield the steps of one update after the other, of those that were drawn at once."""
        yield from parts(drawn, count, self.config.batch_size)

    def _draws_ahead(self) -> bool:
        """Return whether the steps of several updates are drawn at once."""
        # Priorities change with each update, so the next steps cannot be drawn ahead of it.
        return self._graphs is not None and not self.config.prioritized

    def _most_ahead(self) -> int:
        """Return the most updates whose steps are drawn at once."""
        row = self._tensors.obs_bytes
        if row is None:
            return 1
        # Of a step there are two observations.
        return max(1, min(_BLOCK, _BLOCK_BYTES // max(1, 2 * row * self.config.batch_size)))

    def _sample(self, updates: int) -> Batch:
        """Return the steps of so many updates, drawn at once."""
        config = self.config
        if config.prioritized:
            self.replay.beta = at(config.beta, self.updates)
        self.replay.discount = at(self.config.discount, self.updates)
        return self.replay.sample(updates * config.batch_size)

    def _steps_of(self, batch: Batch) -> Steps:
        """Return a batch as tensors, nested as the spaces."""
        return self._tensors.steps(batch, weighted=self.config.prioritized)

    def _descend(self, name: str, loss: Any, rate: Any = None) -> Any:
        """Take one step down the gradient that is in an optimiser's vector; see `_step_down`.

        The network is not written: several steps may be taken in the vector.
        """
        if self._graphs is not None:
            speed = self.config.learning_rate if rate is None else rate
            return self._graphs.descend(self.optimizers[name], loss, speed, self._most_norm())
        return self._step_down(self.optimizers[name], float(loss), name=name, rate=rate)

    def _target_is_due(self) -> bool:
        """Return whether target networks follow after the update that is being made."""
        return self._until_target() == 1

    def _until_target(self) -> int:
        """Return how many updates are made by the target networks as they are, at least 1."""
        return self.config.target_every - self.updates % self.config.target_every

    # Saving ---------------------------------------------------------------------

    def _own_state(self) -> dict[str, Any]:
        return {
            "owed": [self._owed.numerator, self._owed.denominator],
            "modules": {name: part.state_dict() for name, part in self.modules.items()},
            "moments": {name: part.state_dict() for name, part in self.optimizers.items()},
        }

    def _check_own_state(self, theirs: Mapping[str, Any], where: str) -> None:
        for what, here in (("modules", self.modules), ("moments", self.optimizers)):
            saved, mine = sorted(theirs[what]), sorted(here)
            if saved != mine:
                raise ForeignNetwork(
                    f"{where}: the state has the {what} {saved!r}; here they are {mine!r}. Make "
                    f"the algorithm with the same config."
                )
        for name, module in self.modules.items():
            check_network_state(module, theirs["modules"][name], where)
        for name, optimizer in self.optimizers.items():
            optimizer.check_state(theirs["moments"][name], where)
        owed = Fraction(*map(int, theirs["owed"]))
        # They are made when the replay has enough, at the latest when it is full.
        if not -1 <= owed <= self._ratio * steps_within(self.replay.capacity, 1) + 1:
            raise ValueError(
                f"{where}: {float(owed):g} updates are owed, more than by a full replay"
            )

    def _load_own_state(self, theirs: Mapping[str, Any]) -> None:
        for name, module in self.modules.items():
            module.load_state_dict(theirs["modules"][name])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(theirs["moments"][name])
        self._owed = Fraction(*map(int, theirs["owed"]))
        self._seen.clear()
        if self._graphs is not None:
            # Moments that are loaded are tensors of their own.
            self._graphs.forget()


def _fraction(where: str, updates_per_step: float) -> Fraction:
    """Return the share of updates per step, which is kept exactly."""
    found = Fraction(updates_per_step).limit_denominator(_DENOMINATOR)
    if updates_per_step > 0 and not found:
        raise InvalidOption(
            f"{where}: updates_per_step must be 0, or at least 1 in {_DENOMINATOR:,}; got "
            f"{updates_per_step}."
        )
    return found


def _asked(called: Mapping[int, Any], module: Any) -> Any:
    return called.get(id(module), module)


def _array(errors: Any) -> Any:
    return errors if isinstance(errors, np.ndarray) else errors.cpu().numpy()
