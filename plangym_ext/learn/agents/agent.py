"""Agent protocol: the interface of everything that selects actions. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays.spaces import Leaf, SpaceLayout
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import Inputs, Mode, checked_mode, needed_noise
from plangym_ext.learn.distributions.noise import Noise


class Acted(NamedTuple):
    """The output of an agent for B rows."""

    action: Any  # [B, *act], nested as the action space
    info: dict[str, Any]  # arrays [B, ...] by name, to learn from
    carry: Any  # nested arrays [B, ...]; None where nothing is carried


@runtime_checkable
class Agent(Protocol):
    """Protocol of agents: selects actions for B rows, step by step.

    Row i of what it returns depends on row i of the arguments alone, so that rows may be
    split over processes. An agent of your own is any class with these methods; one that
    derives from this class has those below that it does not write itself.

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
            f"{type(self).__name__}: it estimates no value, so nothing can be bootstrapped from "
            f"it. Use an agent with a value or Q head, or returns that need no value."
        )

    def set_mode(self, mode: Mode) -> None:
        """Change the mode; carries remain valid.

        Raises:
            InvalidOption: there is no such mode.
        """
        self.mode = checked_mode(mode, type(self).__name__)

    def sent_to(self, num_rows: int) -> None:  # noqa: ARG002 - most agents have one shape
        """Prepare for copies that play so many rows: `state_dict` keeps its shapes from now on."""
        return None  # noqa: RET501 - a body, or a protocol holds it to be abstract

    def as_planner(self) -> Any:
        """Return a planner that plays this agent greedily; see `AgentPlanner`."""
        # Here and not above: planners bring numba, which most agents never need.
        from plangym_ext.learn.agents.agent_planner import AgentPlanner

        return AgentPlanner(agent=self)

    def state_dict(self) -> dict[str, Any]:
        """Return the arrays for `load_state_dict` by name, and "version".

        What is learned and is not among them travels to copies of the agent besides, as attributes.
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
    """Return `[B]`, which action of those that a row allows; of all where it allows none."""
    allowed = legal | ~legal.any(axis=1, keepdims=True)
    # The first place at which the count of allowed actions comes to a number is allowed itself.
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
