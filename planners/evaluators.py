"""Evaluators made from value functions, policies or Q functions.

Tree searches and planners that sample sequences ask one function,
`obs [L, *obs] -> (prior [L, A] or None, value [L])`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from plangym_ext.core.numbers import finite_between
from plangym_ext.errors import InvalidAnswer, InvalidOption
from plangym_ext.planners.rating import Evaluator, as_floats

# obs [L, *obs] -> [L], and -> [L, A]
Values = Callable[[Any], npt.ArrayLike]


def from_value(value: Values) -> Evaluator:
    """Make an evaluator of a value function `obs -> [L]`; the prior is uniform."""
    return lambda obs: (None, value(obs))


def from_code(value: Callable[[Any], float]) -> Evaluator:
    """Make an evaluator of a compilable value function; the prior is uniform.

    Where the env has a kernel, whole simulations then run in compiled code; see the
    option `compiled` of tree searches.

    Args:
        value: a plain function of one observation `[*obs]` (`[1]` where that is a
            number) that `numba.njit` can compile, at best in a module of its own. It
            does not write to what it is given.
    """
    coded = numba.njit(nogil=True, error_model="numpy")(value)

    def evaluate(obs: Any) -> tuple[None, npt.ArrayLike]:
        if isinstance(obs, dict | tuple):
            raise InvalidOption(
                f"from_code: a compiled function takes observations of one array; got a "
                f"{type(obs).__name__}. Use from_value, or flatten them with a wrapper."
            )
        rows = np.asarray(obs)
        rows = np.ascontiguousarray(rows.reshape(len(rows), *(rows.shape[1:] or (1,))))
        return None, np.array([coded(row) for row in rows], np.float64)

    evaluate.value_code = value  # type: ignore[attr-defined]
    return evaluate


def from_prior(policy: Values) -> Evaluator:
    """Make an evaluator of a policy `obs -> [L, A]` of probabilities; values are 0.

    With `rollout_depth` above 0 the leaves are valued by rollouts.
    """

    def evaluate(obs: Any) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        prior = as_floats("from_prior: what the policy returns", policy(obs), np.float32)
        if prior.ndim != 2:
            raise InvalidAnswer(
                f"from_prior: the policy must return probabilities [L, A], a row per observation; "
                f"got shape {prior.shape}."
            )
        return prior, np.zeros(len(prior))

    return evaluate


def from_q(q_function: Values, *, temperature: float = 1.0, policy: Values | None = None) -> Any:
    """Make an evaluator of a Q function `obs -> [L, A]`; the value is the best action's.

    In nodes of trees and graphs that is the best of those that the env's masks allow.

    Args:
        q_function: the function.
        temperature: the prior is softmax(q / temperature).
        policy: the prior instead, `obs -> [L, A]` of probabilities.

    Raises:
        InvalidOption: the temperature is no number above 0.

    Source: Alpacka's quality network rater.
    """
    temperature = finite_between("from_q: temperature", temperature, 1e-9, math.inf)

    def evaluate(
        obs: Any, legal: npt.NDArray[np.bool_] | None = None
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        q = as_floats("from_q: what the function returns", q_function(obs), np.float64)
        if q.ndim != 2:
            raise InvalidAnswer(
                f"from_q: the function must return Q values [L, A], a row per observation; got "
                f"shape {q.shape}."
            )
        # A wrong number of actions is reported by the planner.
        if legal is not None and legal.shape == q.shape:
            # Nothing was learned of what cannot be played. Where nothing can be, all counts.
            q = np.where(legal | ~legal.any(axis=1, keepdims=True), q, -np.inf)
        if policy is not None:
            return policy(obs), q.max(axis=1)
        # The largest exponent is 0: exp cannot overflow, whatever the scale of returns.
        weights = np.exp((q - q.max(axis=1, keepdims=True)) / temperature)
        return weights / weights.sum(axis=1, keepdims=True), q.max(axis=1)

    evaluate.heeds_masks = True  # type: ignore[attr-defined]
    return evaluate
