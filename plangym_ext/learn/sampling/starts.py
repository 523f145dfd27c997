"""Start distributions over stored states: weighted set, backward curriculum, critic error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.files.state_set import StateSet
from plangym_ext.core.numbers import at_least, check_kind, finite_between, rounding_of
from plangym_ext.errors import ForeignCheckpoint, InvalidOption

Ndarray = npt.NDArray[Any]


class Starts(ABC):
    """Abstract; a start distribution over stored states and the ordinary reset.

    Never changed: the episodes of a fragment lead to another one, so that a fragment that failed
    has not happened here either. Draws depend only on the sampler's seed, the row and the step, so
    they are the same for all kinds of samplers.

    Args:
        states: what episodes may begin from.
        share: in [0, 1], how likely an episode begins there instead of by a reset.
    """

    def __init__(self, states: StateSet, *, share: float = 1.0) -> None:
        name = type(self).__name__
        check_kind(name, states, StateSet, "a StateSet, as demonstrated_states makes it")
        self.states = states
        self.share = finite_between(f"{name}: share", share, 0.0, 1.0)
        at_least(f"{name}: len(states)", len(states), 1)

    @abstractmethod
    def weights(self) -> npt.NDArray[np.float64]:
        """Return relative probabilities of the states, `[N]` float64 >= 0, not all 0.

        It may be a view of the object's own, which is not to be written to.
        """

    @abstractmethod
    def after(self, episodes: Mapping[str, Ndarray]) -> Self:
        """Return the distribution after some episodes have ended.

        Args:
            episodes: `Collected.episodes`, with "start" `[E]` int64: the index of the state that
                each began from, -1 where it began by a reset; and "last_obs" `[E, *obs]`, its last
                observation, and "last_discount" `[E]`, the weight of a reward after that.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return all data that `after` has changed: arrays and numbers by name."""

    @abstractmethod
    def loaded(self, state: Mapping[str, Any]) -> Self:
        """Return the distribution with the data of a `state_dict`."""

    def table(self) -> npt.NDArray[np.float64]:
        """Return cumulative weights of the states, `[N]` float64, fresh; the last is `share`."""
        weights = self.weights()
        # Numbers of [0, 1) are looked up in the sums; those above `share` are resets.
        found: npt.NDArray[np.float64] = np.cumsum(weights) * (self.share / weights.sum())
        # Exactly, or rounding would let a reset, or a state of no weight, be drawn.
        found[np.flatnonzero(weights)[-1] :] = self.share
        return found

    def _with(self, **changed: Any) -> Self:
        found = type(self).__new__(type(self))
        # A new object, as `after` must not change this one; the states, which are large, are
        # shared.
        found.__dict__ = {**self.__dict__, **changed}
        return found

    def _own(self, state: Mapping[str, Any], name: str) -> npt.NDArray[np.float64]:
        """Return `[N]` numbers that were saved."""
        found = np.array(state[name])
        self._check_count(len(found))
        return found

    def _check_count(self, count: int) -> None:
        """Refuse what was saved with a set of another size."""
        if count != len(self.states):
            raise ForeignCheckpoint(
                f"{type(self).__name__}: the state was saved with {count} stored states; there are "
                f"{len(self.states)} now. Load it with the set that it was saved with."
            )


@final
class StoredStarts(Starts):
    """The states of a set, with equal or given weights.

    Args:
        states: the set.
        share: see `Starts`.
        weights: `[N]` >= 0, not all 0; None: all alike.
    """

    def __init__(self, states: StateSet, *, share: float = 1.0, weights: Any = None) -> None:
        super().__init__(states, share=share)
        found = np.ones(len(states)) if weights is None else np.array(weights, np.float64)
        if found.shape != (len(states),) or not (found >= 0).all() or not 0 < found.sum() < np.inf:
            raise InvalidOption(
                f"StoredStarts: weights must be {len(states)} numbers >= 0, not all 0; got shape "
                f"{found.shape} with sum {found.sum():g}."
            )
        self._weights = found

    def weights(self) -> npt.NDArray[np.float64]:
        return self._weights

    def after(self, episodes: Mapping[str, Ndarray]) -> StoredStarts:  # noqa: ARG002
        """Return the same distribution: it does not change."""
        return self

    def state_dict(self) -> dict[str, Any]:
        """See `Starts`: nothing changes."""
        return {}

    def loaded(self, state: Mapping[str, Any]) -> StoredStarts:  # noqa: ARG002
        return self


@final
class BackwardStarts(Starts):
    """A curriculum: from near the end of a demonstration back to its beginning.

    Episodes begin from a window of its states. Once a share of the last of them that began there
    have earned at least what the demonstration earned from the same state on, the window moves
    back. It stays at the beginning when it has come there.

    Source: Salimans & Chen 2018, "Learning Montezuma's Revenge from a single demonstration".

    Args:
        states: of one demonstration, in order, with `to_go`.
        share: see `Starts`.
        window: how many states episodes begin from.
        step: by how many the window moves.
        success: share of the episodes that have to succeed.
        episodes: how many are looked at.
        slack: how much less than the demonstration an episode may earn, beside rounding.

    Attributes:
        place: index of the first state of the window.

    Raises:
        InvalidOption: the states do not say what was earned from there on.
    """

    def __init__(
        self,
        states: StateSet,
        *,
        share: float = 1.0,
        window: int = 8,
        step: int = 4,
        success: float = 0.2,
        episodes: int = 50,
        slack: float = 0.0,
    ) -> None:
        super().__init__(states, share=share)
        name = type(self).__name__
        if states.to_go is None:
            raise InvalidOption(
                f"{name}: the states must have the demonstration's return from there on (to_go), "
                f"which an episode has to reach. Take them from demonstrated_states."
            )
        slack = finite_between(f"{name}: slack", slack, 0.0, np.inf)
        # What is left to earn is a difference of sums, and a return is added from its start on.
        self._needed = states.to_go - slack - rounding_of(states.to_go)
        self._window = min(at_least(f"{name}: window", window, 1), len(states))
        self._step = at_least(f"{name}: step", step, 1)
        self._success = finite_between(f"{name}: success", success, 0.0, 1.0)
        self._episodes = at_least(f"{name}: episodes", episodes, 1)
        # At the end of the demonstration, where success is near.
        self.place = len(states) - self._window
        self._last = np.zeros(0, bool)

    def weights(self) -> npt.NDArray[np.float64]:
        found = np.zeros(len(self.states))
        found[self.place : self.place + self._window] = 1.0
        return found

    def after(self, episodes: Mapping[str, Ndarray]) -> BackwardStarts:
        start, returns = episodes["start"], episodes["return"]
        # Those that began in an earlier, easier window say nothing of this one.
        own = (start >= self.place) & (start < self.place + self._window)
        reached = returns[own] >= self._needed[start[own]]
        last = np.concatenate([self._last, reached])[-self._episodes :]
        # By so many episodes at least: a few that succeed by chance do not move the window.
        if len(last) < self._episodes or last.mean() < self._success or self.place == 0:
            return self._with(_last=last)
        return self._with(place=max(0, self.place - self._step), _last=last[:0])

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place, "last": self._last, "count": len(self.states)}

    def loaded(self, state: Mapping[str, Any]) -> BackwardStarts:
        self._check_count(int(state.get("count", len(self.states))))
        return self._with(place=int(state["place"]), _last=np.array(state["last"], bool))


@final
class UnsureStarts(Starts):
    """Weights by the critic's error: states whose returns differed from the predicted value.

    A state counts by the rank of its error, the distance between the critic's value and what
    the last episode from there has returned, discounted. After a truncation, the critic's value of
    the last observation is added. States that no episode began from come first.

    Source: Jiang et al. 2021, "Prioritized level replay", for whole levels and with the error of
    every step.

    Args:
        states: the set.
        value: what a critic says of observations `[n, *obs]`: `[n]`. It is asked when a fragment
            has ended, in the process of the sampler.
        share: see `Starts`.
        sharpness: the state of rank k counts `k ** -sharpness`; 0: all alike.
        spread: share of what is drawn evenly, so that no state is forgotten.
    """

    def __init__(
        self,
        states: StateSet,
        value: Callable[[Any], Any],
        *,
        share: float = 1.0,
        sharpness: float = 1.0,
        spread: float = 0.1,
    ) -> None:
        super().__init__(states, share=share)
        name = type(self).__name__
        self._value = value
        self._sharpness = finite_between(f"{name}: sharpness", sharpness, 0.0, 100.0)
        self._spread = finite_between(f"{name}: spread", spread, 0.0, 1.0)
        # Infinite until an episode began there: such states are ranked first.
        self.errors = np.full(len(states), np.inf)

    def weights(self) -> npt.NDArray[np.float64]:
        # Stable, so that states that nothing is known of are ranked in their order.
        order = np.argsort(-self.errors, kind="stable")
        ranked = np.empty(len(order))
        ranked[order] = np.arange(1, len(order) + 1.0) ** -self._sharpness
        return (1 - self._spread) * ranked / ranked.sum() + self._spread / len(order)

    def after(self, episodes: Mapping[str, Ndarray]) -> UnsureStarts:
        began = episodes["start"] >= 0
        start, returned = episodes["start"][began], episodes["discounted_return"][began]
        if not len(start):
            return self
        expected = np.asarray(self._value(self.states[start].obs), np.float64)
        cut = np.flatnonzero(began & ~episodes["terminated"])
        if len(cut):
            follows = np.asarray(self._value(rows_of(episodes["last_obs"], cut)), np.float64)
            returned[~episodes["terminated"][began]] += episodes["last_discount"][cut] * follows
        errors = self.errors.copy()
        errors[start] = abs(returned - expected)  # of several episodes the last one counts
        return self._with(errors=errors)

    def state_dict(self) -> dict[str, Any]:
        return {"errors": self.errors}

    def loaded(self, state: Mapping[str, Any]) -> UnsureStarts:
        return self._with(errors=self._own(state, "errors").astype(np.float64))

    def __getstate__(self) -> dict[str, Any]:
        """Return it without the critic, which stays in the process of the sampler."""
        return {**self.__dict__, "_value": None}
