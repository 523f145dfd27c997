"""`check_env`: prove that an env restores exactly, or learn what differs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.errors import OneEnvPerProcess
from plangym_ext.states.trials.round_trip import RoundTrip, Subject, check_round_trip


@dataclass(frozen=True)
class EnvReport:
    """What `check_env` found.

    Attributes:
        name: the env's id.
        layers: `(layer, method, bytes)` of every part of the state.
        state_width: bytes of a row.
        round_trip: outcome of the comparison.
        instances: how many were restored into; 1 where a process can hold but one.
    """

    name: str
    layers: tuple[tuple[str, str, int], ...]
    state_width: int
    round_trip: RoundTrip
    instances: int = 2

    @property
    def exact(self) -> bool:
        """Whether every restored future equalled the real one."""
        return self.round_trip.exact

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for layer, method, width in self.layers:
            yield f"  state of     {layer}: {method}, at most {width} bytes"
        yield f"  state row    {self.state_width} bytes, envelope included"
        found = self.round_trip
        if found.exact:
            second = " and in a second" if self.instances > 1 else ""
            yield (
                f"  round trip   exact: {found.transitions} transitions after a restore equal the "
                f"first run byte for byte, in the same{second} instance"
            )
        else:
            yield f"  round trip   NOT EXACT: {found.difference}"


def check_env(
    env: PlanEnv,
    *,
    seed: int = 0,
    num_steps: int = 100,
    progress: Callable[[int, int], None] | None = None,
) -> EnvReport:
    """Compare futures from restored states with the real ones, in two instances.

    The env is left where it was if it had been reset.

    Args:
        env: any `PlanEnv`; of one with workers the local env is checked.
        seed: of the resets and the random actions.
        num_steps: steps compared after each of the save points 0, 1 and 17.
        progress: called after every step with how many are done, and of how many.
    """
    local = env if isinstance(env, GymEnv) else env.plan_env  # type: ignore[attr-defined]
    here = local.get_state() if local.is_reset else None
    with contextlib.ExitStack() as stack:
        others = []
        with contextlib.suppress(OneEnvPerProcess):
            other = stack.enter_context(local.clone())
            others.append(("a second instance", Subject(other.gym_env, other.codec)))
        outcome = check_round_trip(
            Subject(local.gym_env, local.codec),
            others,
            seed=seed,
            num_steps=num_steps,
            progress=progress,
        )
    if outcome.exact and local.codec.exact:
        local.note_proof()
    if here is not None:
        local.set_state(here)
    layers = tuple((name, part.method, part.width) for part, name in local.codec.described())
    return EnvReport(local.name, layers, local.state_width, outcome, 1 + len(others))
