"""Compatibility check of an agent with the spaces of its envs. Imports no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.actions import check_actions
from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.numbers import at_least
from plangym_ext.errors import InvalidAction, InvalidAnswer, WrongKind
from plangym_ext.learn.agents.agent import Acted
from plangym_ext.learn.agents.inputs import StepNoise, example_inputs

_METHODS = ("initial_carry", "step", "set_mode")


def check_agent(agent: Any, venv: Any, num_rows: int, noise: StepNoise | None = None) -> Acted:
    """Run one step of an agent on synthetic rows and check the result.

    Args:
        agent: what is to be an `Agent`.
        venv: a vector env, for its spaces; it is not touched.
        num_rows: B.
        noise: random numbers for the step; agents that explore need them.

    Returns:
        What the step returned: the names, shapes and dtypes of all steps to come.

    Raises:
        WrongKind: the agent lacks a method, or is a class.
        InvalidOption: `num_rows` is below 1, or the agent's network is of other spaces.
        InvalidAnswer: actions do not fit the action space; a carry or an info is not of
            B rows; the step changed the carry that it was given, or returned one of another
            layout.
    """
    name = _checked_name(agent)
    num_rows = at_least("check_agent: num_rows", num_rows, 1)
    # First: a network of other spaces would fail somewhere inside.
    if hasattr(agent, "check_spaces"):
        agent.check_spaces(venv.single_observation_space, venv.single_action_space)
    carry = agent.initial_carry(num_rows)
    _check_rows(f"{name}.initial_carry({num_rows})", carry, num_rows)
    # A copy: an agent that writes to what it is given would change both.
    before = None if carry is None else mapped(np.copy, carry)
    action_space = venv.single_action_space
    inputs = example_inputs(venv.single_observation_space, action_space, num_rows, noise)
    answer = agent.step(inputs, carry)
    if not isinstance(answer, tuple) or len(answer) != 3:
        raise InvalidAnswer(
            f"{name}.step: must return (action, info, carry); got {_kind(answer)}. Return an Acted."
        )
    # A plain tuple will do, too.
    acted = Acted(*answer)
    try:
        check_actions(SpaceLayout(action_space), acted.action, (num_rows,), f"{name}.step")
    except InvalidAction as error:
        said = str(error).rstrip(".")
        raise InvalidAnswer(f"{said}. Make the agent with the env's action space.") from error
    _check_info(name, acted.info, num_rows)
    _check_carry(name, before, carry, acted.carry)
    return acted


def _checked_name(agent: Any) -> str:
    """Return an agent's name for messages; refuse a value that is not an agent."""
    if isinstance(agent, type):
        raise WrongKind(
            f"check_agent: agent must be an instance; got the class {agent.__name__}. "
            f"Write {agent.__name__}(...)."
        )
    name = type(agent).__name__
    missing = [method for method in _METHODS if not callable(getattr(agent, method, None))]
    if missing:
        raise WrongKind(
            f"check_agent: an agent must have the methods {', '.join(_METHODS)}; {name} lacks "
            f"{', '.join(missing)}. Derive from plangym_ext.learn.Agent, which has all but step; "
            f"play a planner by PlannerAgent."
        )
    return name


def _check_rows(where: str, value: Any, num_rows: int) -> None:
    """Refuse a carry that is not nested arrays `[B, ...]`."""
    for part in () if value is None else leaves(value):
        if not isinstance(part, np.ndarray) or part.ndim == 0 or len(part) != num_rows:
            raise InvalidAnswer(
                f"{where}: a carry must be None, or dicts and tuples of arrays with a row per "
                f"env, ({num_rows}, ...); got {_kind(part)}. Move the axis of rows to the front."
            )


def _check_info(name: str, info: Any, num_rows: int) -> None:
    if not isinstance(info, dict):
        raise InvalidAnswer(
            f"{name}.step: info must be a dict of arrays by name; got {_kind(info)}. Return {{}} "
            f"where there is nothing to tell."
        )
    for key, value in info.items():
        for part in leaves(value):
            if not isinstance(part, np.ndarray) or len(part.shape) == 0 or len(part) != num_rows:
                raise InvalidAnswer(
                    f"{name}.step: info[{key!r}] must be an array with a row per env, "
                    f"({num_rows}, ...); got {_kind(part)}."
                )
            if part.dtype.hasobject:
                raise InvalidAnswer(
                    f"{name}.step: info[{key!r}] must hold numbers; got {_kind(part)}."
                )


def _check_carry(name: str, before: Any, given: Any, returned: Any) -> None:
    if _layout(returned) != _layout(before):
        raise InvalidAnswer(
            f"{name}.step: the carry it returns must be laid out as initial_carry's, "
            f"{_layout(before)}; got {_layout(returned)}."
        )
    if before is None:
        return
    for old, now in zip(leaves(before), leaves(given), strict=True):
        # A carry may hold NaN, which is unlike itself.
        if not np.array_equal(old, now, equal_nan=old.dtype.kind == "f"):
            raise InvalidAnswer(
                f"{name}.step: the carry that it is given must not be changed, since a sampler "
                f"keeps it; it was. Return a new one."
            )


def _layout(value: Any) -> Any:
    """Return the nesting, shapes and dtypes of a carry."""
    return None if value is None else mapped(_array_kind, value)


def _array_kind(part: npt.NDArray[Any]) -> str:
    return f"{part.shape} {part.dtype}" if isinstance(part, np.ndarray) else _kind(part)


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array {value.shape} {value.dtype}"
    return f"{value!r}" if isinstance(value, int | float | None) else f"a {type(value).__name__}"
