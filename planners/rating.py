"""Rater: interface of leaf evaluation, with the zero and the evaluator rater."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.compiling.jit import kernel
from plangym_ext.core.options import Function
from plangym_ext.errors import InvalidAnswer, InvalidObservation
from plangym_ext.planners.simulator import RaterCode, Rng, SearchModel, States

Float = TypeVar("Float", np.float32, np.float64)

# obs [L, *obs] -> (prior [L, A] of probabilities, or None for uniform; value [L])
Evaluator = Annotated[Callable[[Any], tuple[npt.ArrayLike | None, npt.ArrayLike]], Function()]
# obs [L, *obs] -> [L, A] probabilities
Policy = Annotated[Callable[[Any], npt.ArrayLike], Function()]


class Leaves(NamedTuple):
    """L new nodes to rate, grouped by tree."""

    rows: npt.NDArray[np.integer[Any]]  # [L] tree of each, ascending
    states: States | None  # [L, S]; None unless the rater `reads_states`
    obs: Any  # [L, *obs], nested as the observation space
    truncated: npt.NDArray[np.bool_]  # [L] True: valued, but not stepped from
    legal: npt.NDArray[np.bool_] | None = None  # [L, A] if the env says what states allow


def without(ended: npt.NDArray[np.bool_], leaves: Leaves) -> Leaves:
    """Return the leaves whose episodes have not ended.

    Args:
        ended: `[L]`.
        leaves: L of them.
    """
    alive = np.flatnonzero(~ended)
    return Leaves._make(None if part is None else rows_of(part, alive) for part in leaves)


class Rating(NamedTuple):
    """A rater's values and priors of L leaves, with their cost."""

    value: npt.NDArray[np.float64]  # [L] estimated return from the leaf on, finite
    prior: npt.NDArray[np.floating[Any]] | None  # [L, A] probabilities; None: uniform
    model_steps: npt.NDArray[np.int64]  # [L]
    evaluator_rows: npt.NDArray[np.int64]  # [L]
    restores: npt.NDArray[np.int64]  # [L]


def unrated(count: int) -> Rating:
    """Return a rating of L leaves with values 0 and no cost."""
    zeros = np.zeros((3, count), np.int64)
    return Rating(np.zeros(count), None, zeros[0], zeros[1], zeros[2])


class Rater(ABC):
    """Rates the leaves of one wave in one call."""

    #: Whether a search should have its roots rated (for their prior).
    rates_roots: bool = False
    #: Whether it steps on from the leaves; if not, their states are not copied for it.
    reads_states: bool = False
    #: Most model steps that rating one leaf takes.
    most_steps: int = 0

    @abstractmethod
    def code(self) -> RaterCode | None:
        """Return the rater's compiled form; None if it has none."""

    @abstractmethod
    def rate(self, model: SearchModel, leaves: Leaves, rngs: Sequence[Rng]) -> Rating:
        """Rate L >= 1 leaves.

        Leaf i's rating depends only on leaf i, on the leaves of the same tree before it, and on
        `rngs[leaves.rows[i]]`.

        Args:
            model: what to step, if anything.
            leaves: the leaves; the rater does not keep or change them.
            rngs: one generator per tree; drawn from once per wave.
        """


class ZeroRater(Rater):
    """Values every leaf at 0: the search uses rewards only."""

    def code(self) -> RaterCode | None:
        """Return code that rates everything 0."""
        return RaterCode(0, 1, None)

    def rate(self, model: SearchModel, leaves: Leaves, rngs: Sequence[Rng]) -> Rating:  # noqa: ARG002
        """Rate everything 0."""
        return unrated(len(leaves.rows))


class EvaluatorRater(Rater):
    """Rates leaves by a function of the observations, such as a network."""

    rates_roots = True

    def __init__(self, evaluator: Evaluator, num_actions: int, who: str = "evaluator"):
        self.evaluator, self.who = evaluator, who
        self.num_actions = num_actions
        self._costs = np.zeros(0, np.int64), np.zeros(0, np.int64)  # none, and one each

    def code(self) -> RaterCode | None:
        """Return the evaluator's own code, if it has any."""
        value = value_code(self.evaluator)
        return None if value is None else RaterCode(0, 1, value)

    def rate(self, model: SearchModel, leaves: Leaves, rngs: Sequence[Rng]) -> Rating:  # noqa: ARG002
        """Call the evaluator once, on all leaves."""
        count = len(leaves.rows)
        asked = leaves.obs, count, self.num_actions, self.who, leaves.legal
        prior, value = evaluate(self.evaluator, *asked)
        none, one = self._costs
        if len(none) != count:
            none, one = self._costs = np.zeros(count, np.int64), np.ones(count, np.int64)
        return Rating(value, prior, none, one, none)


def value_code(evaluator: Evaluator) -> Callable[[Any], float] | None:
    """Return an evaluator's compiled function; None if it has none."""
    code: Callable[[Any], float] | None = getattr(evaluator, "value_code", None)
    return code


def evaluate(
    evaluator: Evaluator,
    obs: Any,
    count: int,
    num_actions: int | None,
    who: str = "evaluator",
    legal: npt.NDArray[np.bool_] | None = None,
) -> tuple[npt.NDArray[np.float32] | None, npt.NDArray[np.float64]]:
    """Call the evaluator, and refuse results that are not finite or not a distribution.

    Args:
        evaluator: is asked.
        obs: `[L, *obs]`, nested as the observation space.
        count: L.
        num_actions: A; None: actions are not discrete, and a prior is passed over.
        who: answers, by the name of the option, in what is said of wrong answers.
        legal: `[L, A]`, what can be played, if that is known; an evaluator with an attribute
            `heeds_masks` that is true is called with it as well.

    Returns:
        Prior `[L, A]` float32, or None for uniform ones, and value `[L]` float64, finite;
        they may be the evaluator's own arrays.

    Raises:
        InvalidAnswer: that is what it was.
    """
    heeds = legal is not None and getattr(evaluator, "heeds_masks", False)
    answer = evaluator(obs, legal) if heeds else evaluator(obs)  # type: ignore[call-arg]
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise _no_pair(who, answer)
    prior, value = answer
    values = as_floats(f"{who}: value", value, np.float64)
    if values.shape != (count,) or not all_finite(values):
        raise _wrong_values(who, values, count)
    if prior is None or num_actions is None:
        return None, values
    return check_prior(who, prior, count, num_actions), values


def _no_pair(who: str, answer: Any) -> InvalidAnswer:
    """Return the error for an answer that is not a prior and values."""
    return InvalidAnswer(
        f"{who}: must return (prior, value), the prior None for uniform; got "
        f"{type(answer).__name__}. `planners.evaluators.from_value` takes a function that "
        f"returns values alone."
    )


def _wrong_values(who: str, values: npt.NDArray[np.float64], count: int) -> InvalidAnswer:
    """Return the error for values that are not `count` finite numbers."""
    return InvalidAnswer(
        f"{who}: value must be {(count,)} finite numbers, one per observation; "
        f"got shape {values.shape}, {np.count_nonzero(~np.isfinite(values))} not finite. "
        f"Return (prior or None, value) for all observations, without nan, inf and beyond 1e30."
    )


def as_floats(what: str, given: npt.ArrayLike, dtype: type[Float]) -> npt.NDArray[Float]:
    """Return a function's result as floats, with its shape.

    Returns:
        The very array, if it has this dtype; else a fresh one.

    Raises:
        InvalidAnswer: it is no array of numbers.
    """
    if np.ma.isMaskedArray(given):
        # Masked numbers would be taken for the answer.
        raise InvalidAnswer(
            f"{what} must be an array of numbers; got one with a mask. Fill it: masked.filled(0.0)."
        )
    try:
        found = np.asarray(given)
        # Complex numbers are refused below: numpy would drop their imaginary parts.
        floats = None if found.dtype.kind == "c" else found.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise InvalidAnswer(
            f"{what} must be an array of numbers; got {type(given).__name__} ({error})."
        ) from None
    if floats is None:
        raise InvalidAnswer(
            f"{what} must be an array of real numbers; got {found.dtype}. Return its .real."
        )
    return floats


def check_prior(
    who: str, prior: npt.ArrayLike, count: int, num_actions: int
) -> npt.NDArray[np.float32]:
    """Return a prior or policy as `[L, A]` float32 after a check.

    Args:
        who: answered so, by the name of the option.
        prior: the answer.
        count: L.
        num_actions: A.

    Raises:
        InvalidAnswer: it is none.
    """
    priors = as_floats(f"{who}: prior", prior, np.float32)
    if priors.shape != (count, num_actions):
        raise InvalidAnswer(
            f"{who}: prior must be {(count, num_actions)}, one row per observation and "
            f"one column per action, or None for uniform; got {priors.shape}."
        )
    wrong = first_improper(priors)
    if wrong >= 0:
        raise InvalidAnswer(
            f"{who}: prior must be probabilities, >= 0 with rows that sum to 1; got "
            f"{priors[wrong]}. "
            f"Apply softmax to logits first."
        )
    return priors


@kernel
def first_improper(policy: npt.NDArray[Any]) -> int:
    """Return the first row of `[L, A]` that is not a distribution within 1e-3; -1 for none."""
    for i in range(len(policy)):
        total = 0.0
        for a in range(policy.shape[1]):
            # NaN fails every comparison, so it is caught as well.
            if not policy[i, a] >= 0.0:
                return i
            total += policy[i, a]
        if not abs(total - 1.0) < 1e-3:
            return i
    return -1


# Checks of rewards and returns for NaN ----------------------------------------


#: What no number may exceed: trees hold sums of some as float32, which ends at 3.4e38.
_MOST = 1e30
# A few thousand times what one operation rounds: what long sums of rewards come to.
_ROUNDING = 1e-12


def check_finite(where: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return `values` `[L]` as float64 after a check that all are finite.

    Raises:
        InvalidObservation: one of them is infinite, not a number, or beyond 1e30.
    """
    numbers = np.ascontiguousarray(values, np.float64)
    if not all_finite(numbers):
        raise InvalidObservation(
            f"{where} must be finite, and no larger than {_MOST:g}; got {numbers[:8]}. "
            f"Look for a division by zero in the env's reward, or scale it down."
        )
    return numbers


def spread_of(values: npt.NDArray[np.float64]) -> float:
    """Return the standard deviation of `values` `[L]`, or 0 if it is only rounding.

    To divide by the spread of equal sums that were rounded differently would make their
    last bits as large as any difference there can be.
    """
    spread, size = float(values.std()), float(np.abs(values).max())
    return spread if math.isfinite(spread) and spread > _ROUNDING * size else 0.0


@kernel
def all_finite(values: npt.NDArray[Any]) -> bool:
    """Return whether none of `values` `[L]` is NaN, infinite or beyond 1e30."""
    for value in values:  # noqa: SIM110 - numba has no all()
        if not abs(value) <= _MOST:  # NaN is not either
            return False
    return True
