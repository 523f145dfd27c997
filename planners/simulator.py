"""Simulator: protocol of envs whose compiled rules search loops may call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from plangym_ext.planners.model import SearchModel, States


class SimulatorFunctions(Protocol):
    """Functions that a compiled loop may call; they are compiled as part of it.

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
    """Threads that share work in compiled code."""

    @property
    def most(self) -> int:
        """How many, the caller's among them."""

    def run(self, function: Callable[..., Any], shares: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return what the function returns for each share of arguments, a thread each."""


class Simulator(Protocol):
    """An env whose rules are compiled, as `env.simulator()` hands it out.

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
        """Return what functions know and scribble on, for so many threads."""

    def check(self, states: States, where: str) -> None:
        """Raise what the env raises at states `[B, S]` that are damaged or foreign."""

    def build(self, make: Callable[[SimulatorFunctions], Callable[..., Any]], example: Any) -> Any:
        """Return `make(functions)`, compiled for arguments like those of `example`."""


class RaterCode(NamedTuple):
    """A leaf rater that is compiled along: rollouts, and a value of what is seen."""

    depth: int  # steps of a rollout, 0 for none
    num_rollouts: int
    value: Callable[[Any], float] | None  # obs [*obs] -> value; None: 0


def simulator_of(model: SearchModel) -> Simulator | None:
    """Return what the model offers to compiled loops, if it does."""
    offer: Callable[[], Simulator | None] | None = getattr(model, "simulator", None)
    return None if offer is None else offer()
