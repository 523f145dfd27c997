"""Agent protocol: interface of everything that selects actions; RandomAgent. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays.actions import check_actions
from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.arrays.spaces import Leaf, SpaceLayout
from plangym_ext.core.numbers import at_least
from plangym_ext.errors import InvalidAction, InvalidAnswer, InvalidOption, WrongKind
from plangym_ext.learn.agents.inputs import (
    Inputs,
    Mode,
    StepNoise,
    checked_mode,
    example_inputs,
    needed_noise,
)
from plangym_ext.learn.distributions.noise import Noise


class Acted(NamedTuple):
    """The output of an agent for B rows."""

    action: Any  # [B, *act], nested as the action space
    info: dict[str, Any]  # arrays [B, ...] by name, to learn from
    carry: Any  # nested arrays [B, ...]; None where nothing is carried


@runtime_checkable
class Agent(Protocol):
    """Protocol of agents: selects actions for B rows, step by step.

    Row i of the result depends only on row i of the arguments, so that rows may be split over
    processes. An agent of your own is any class with these methods; one that derives from this
    class has those below that it does not write itself.

    Attributes:
        mode: "sample" explores, "eval" plays as well as it can, and "train" is for
            learning: as "sample", with the networks in training mode.
        version: of the weights, counted by the learner; 0 before anything was learned.
        looks_at: which of "action", "reward" and "first" of its inputs it looks at, of an agent
            that carries nothing. The others may be those of another step.
    """

    mode: Mode = "sample"
    version: int = 0
    looks_at: frozenset[str] = frozenset({"action", "reward", "first"})

    def initial_carry(self, num_rows: int) -> Any:  # noqa: ARG002
        """Return the carry of B rows before their first step.

        Returns:
            Dicts and tuples of arrays `[B, ...]`, or None: nothing is carried.
        """
        return None

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        """Choose the actions of B rows.

        The carry is reset where `inputs.first`, in here. The one that is given is not
        changed: a caller that keeps it can go on from there again.

        Args:
            inputs: what is seen; see `Inputs`.
            carry: what the last step of these rows returned, or `initial_carry(B)`.

        Returns:
            Actions, infos and the new carry, all fresh. Names, shapes and dtypes are the
            same in every step.
        """
        raise NotImplementedError

    def value(self, inputs: Inputs, carry: Any) -> Any:  # noqa: ARG002
        """Return the values of the rows, `[B]` float32; arguments as of `step`.

        Nothing is carried on, and nothing is drawn.

        Raises:
            InvalidOption: the agent estimates none.
        """
        raise InvalidOption(
            f"{type(self).__name__}: it estimates no value, so returns cannot bootstrap from it. "
            f"Use an agent with a value or Q head, or returns that need no value."
        )

    def set_mode(self, mode: Mode) -> None:
        """Change the mode; carries remain valid.

        Raises:
            InvalidOption: there is no such mode.
        """
        self.mode = checked_mode(mode, type(self).__name__)

    def sent_to(self, num_rows: int) -> None:  # noqa: ARG002 - most agents have one shape
        """Prepare for copies of `num_rows` rows: `state_dict` keeps its shapes from now on."""
        return None  # noqa: RET501 - a body, or a protocol holds it to be abstract

    def as_planner(self) -> Any:
        """Return a planner that plays this agent greedily; see `AgentPlanner`."""
        # Here and not above: planners bring numba, which most agents never need.
        from plangym_ext.learn.agents.agent_planner import AgentPlanner

        return AgentPlanner(agent=self)

    def state_dict(self) -> dict[str, Any]:
        """Return the arrays for `load_state_dict` by name, and "version".

        Other learned data travel to copies of the agent as attributes.
        """
        return {"version": self.version}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the `state_dict` of another agent of the same construction."""
        self.version = int(state["version"])


# RandomAgent: random actions from the action space. Imports no torch ----------


class RandomAgent(Agent):
    """Draws actions uniformly; from a normal distribution where a Box has no bounds.

    Args:
        action_space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of them.
    """

    looks_at = frozenset()

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self._layout = SpaceLayout(action_space)

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        """Draw the actions of B rows from `inputs.noise`, among legal ones only."""
        noise = needed_noise(inputs, type(self).__name__)
        drawn = [_drawn(leaf, noise, inputs.legal) for leaf in self._layout.leaves]
        return Acted(self._layout.join(tuple(drawn)), {}, carry)


def _drawn(leaf: Leaf, noise: Noise, legal: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
    """Return `[B, *shape]` of one leaf."""
    count = int(np.prod(leaf.shape))
    if isinstance(leaf.space, spaces.Box):
        rows = _in_box(leaf.space, noise, count)
    elif legal is not None and isinstance(leaf.space, spaces.Discrete):
        rows = int(leaf.space.start) + legal_index(noise.uniform()[:, 0], legal)
    elif legal is not None and isinstance(leaf.space, spaces.MultiDiscrete):
        ends, uniform = np.cumsum(leaf.space.nvec.ravel())[:-1], noise.uniform(count)
        parts = enumerate(np.split(legal, ends, axis=1))
        drawn = [legal_index(uniform[:, k], part) for k, part in parts]
        rows = leaf.space.start.ravel() + np.stack(drawn, axis=1)
    else:
        low, high = leaf.bounds
        low, high = (np.broadcast_to(bound, leaf.shape).ravel() for bound in (low, high))
        # Both bounds are elements of the space.
        rows = low + np.floor(noise.uniform(count) * (high - low + 1))
    return rows.astype(leaf.dtype).reshape(-1, *leaf.shape)


def legal_index(uniform: npt.NDArray[Any], legal: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Return `[B]`, an index among each row's legal actions; among all where none is legal."""
    allowed = legal | ~legal.any(axis=1, keepdims=True)
    # The first index at which the count of legal actions reaches a number is a legal action.
    wanted = np.floor(uniform * allowed.sum(axis=1)) + 1
    return np.argmax(allowed.cumsum(axis=1) == wanted[:, None], axis=1)


def _in_box(space: spaces.Box, noise: Noise, count: int) -> npt.NDArray[np.float64]:
    """Return `[B, count]`: even between bounds, exponential from one bound, normal without any."""
    low, high = (bound.ravel().astype(np.float64) for bound in (space.low, space.high))
    whole = np.issubdtype(space.dtype, np.integer)
    below, above = np.isfinite(low), np.isfinite(high)
    uniform = noise.uniform(count)
    both, neither = below & above, ~below & ~above
    start = np.where(below, low, np.where(above, high, 0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        # Whole numbers are rounded down at the end, so the upper bound needs a width of its own.
        width = np.where(both, high - low + whole, 1.0)
        rows = np.where(both, start + uniform * width, start)
    if not both.all():
        # Exponential, away from the only bound; 1 - u is never 0.
        tail = -np.log1p(-uniform) * np.where(below, 1.0, -1.0)
        rows = np.where(both, rows, start + np.where(neither, noise.normal(count), tail))
    return np.floor(rows) if whole else np.clip(rows, low, high)


# Compatibility check of an agent with the spaces of its envs. Imports no torch


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
                f"{name}.step: it must not change the carry that it receives, since a sampler "
                f"keeps that; it did. Return a new one."
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
