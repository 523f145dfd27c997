"""Agent protocol: the interface of everything that selects actions. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import Inputs, Mode, checked_mode


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
