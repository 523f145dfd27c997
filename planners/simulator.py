"""Simulator: protocol of envs whose compiled rules search loops may call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from plangym_ext.planners.model import SearchModel, States


class SimulatorFunctions(Protocol):
    """Protocol: functions that a compiled loop may call, compiled as part of it.

    `rows` is what `Simulator.rows` makes of an array of states, and an integer is an
    index into it. `lane` is a lane of the context: each thread has one of its own.
    """

    check: Callable[..., bool]  # (context, rows, row): whether it is safe to step
    copy: Callable[..., None]  # (rows, row, others, other)
    advance: Callable[..., tuple[float, bool, bool]]  # (context, rows, row, action, lane)
    seal: Callable[..., None]  # (context, rows, row): afterwards any env takes it
    observe: Callable[..., None]  # (context, rows, row, lane), writes `context.obs[lane]`, [*obs]
    can_observe: Callable[..., bool]  # (context, rows, row, lane): nothing in it is invalid
    mask: Callable[..., None]  # (context, lane, out [A]): what the row last advanced allows
    swaps: Callable[..., bool]  # (context, lane): whether the other player moves next there


class Threads(Protocol):
    """Protocol: threads that run compiled code together."""

    @property
    def most(self) -> int:
        """How many, the caller's among them."""

    def run(self, function: Callable[..., Any], shares: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the function's result for each share of arguments, one thread each."""


class Simulator(Protocol):
    """Protocol: an env with compiled rules, as returned by `env.simulator()`.

    Planners know no backend: they ask an env for this, and step batches if it has none.
    """

    @property
    def functions(self) -> SimulatorFunctions:
        """What `make` in `build` is given."""

    @property
    def width(self) -> int:
        """S, the bytes of the states that `rows` takes."""

    @property
    def has_masks(self) -> bool:
        """Whether states allow some actions only."""

    @property
    def threads(self) -> Threads:
        """Those that may share the trees of a search."""

    def rows(self, states: States) -> Any:
        """Return views of `[M, S]` uint8, M at least 2, that functions step in place."""

    def context(self, lanes: int) -> Any:
        """Return constants and scratch memory of the functions, for a number of threads."""

    def check(self, states: States, where: str) -> None:
        """Raise the env's errors for damaged or foreign states `[B, S]`."""

    def build(self, make: Callable[[SimulatorFunctions], Callable[..., Any]], example: Any) -> Any:
        """Return `make(functions)`, compiled for arguments like those of `example`."""


class RaterCode(NamedTuple):
    """A compiled leaf rater: rollouts, and a value function of observations."""

    depth: int  # steps of a rollout, 0 for none
    num_rollouts: int
    value: Callable[[Any], float] | None  # obs [*obs] -> value; None: 0


def simulator_of(model: SearchModel) -> Simulator | None:
    """Return the model's simulator, or None."""
    offer: Callable[[], Simulator | None] | None = getattr(model, "simulator", None)
    return None if offer is None else offer()
