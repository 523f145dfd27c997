"""Clocks around the parts of a training run."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from plangym_ext.learn.agents.network_agent import ActorCriticAgent, PolicyAgent
from plangym_ext.learn.agents.q_agent import QAgent
from plangym_ext.learn.algorithms.off_policy.drawn_steps import TargetNetwork
from plangym_ext.learn.algorithms.off_policy.q_learning import DQN
from plangym_ext.learn.algorithms.off_policy.replay_actor_critic import ReplayActorCritic
from plangym_ext.learn.engines.compiled.actor_critic import CompiledLosses
from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer
from plangym_ext.learn.networks.agent_network import AgentNetwork
from plangym_ext.learn.networks.quick_forward import QuickForward
from plangym_ext.learn.sampling.actors.venv_rows import VenvRows

#: What is not among these is ours.
PARTS = ("env", "forward", "losses", "optimiser")
#: By part, what is clocked: classes and their methods. One within another counts for itself.
_CLOCKED: dict[str, list[tuple[type, tuple[str, ...]]]] = {
    "env": [(VenvRows, ("step_async", "step_wait"))],
    "forward": [
        *((agent, ("step",)) for agent in (ActorCriticAgent, QAgent, PolicyAgent)),
        (AgentNetwork, ("forward",)),
        (QuickForward, ("__call__",)),
    ],
    "losses": [
        (CompiledLosses, ("losses", "leave")),
        (DQN, ("_update", "_rows")),
        (ReplayActorCritic, ("_update",)),
        (FlatOptimizer, ("differentiate",)),
    ],
    "optimiser": [(FlatOptimizer, ("descend", "read", "write")), (TargetNetwork, ("follow",))],
}


class Clocks:
    """Seconds that were spent in each part, those apart of parts within.

    Attributes:
        seconds: by name of the part.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._inside: list[str] = []
        self._since = 0.0

    def clear(self) -> None:
        """Begin anew."""
        self.seconds = dict.fromkeys(PARTS, 0.0)

    @contextmanager
    def set(self) -> Iterator[None]:
        """Put clocks around the parts, and take them away."""
        with ExitStack() as stack:
            for part, clocked in _CLOCKED.items():
                for owner, names in clocked:
                    for name in names:
                        timed = self._timed(part, getattr(owner, name))
                        stack.enter_context(mock.patch.object(owner, name, timed))
            yield

    def _timed(self, part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def timed(*arguments: Any, **named: Any) -> Any:
            if part == "forward" and self._inside:  # of a loss it is a part
                return method(*arguments, **named)
            self._turn()
            self._inside.append(part)
            try:
                return method(*arguments, **named)
            finally:
                self._turn()
                self._inside.pop()

        return timed

    def _turn(self) -> None:
        """Give the time since the last turn to the part that is innermost."""
        now = time.perf_counter()
        if self._inside:
            self.seconds[self._inside[-1]] += now - self._since
        self._since = now
