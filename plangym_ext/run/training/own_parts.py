"""Checkpointing of state in user-defined classes that their `state_dict` leaves out."""

from __future__ import annotations

import random
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from plangym_ext.errors import (
    DamagedCheckpoint,
    ForeignCheckpoint,
    InvalidOption,
    WrongKind,
    text_of,
)
from plangym_ext.learn.held_numbers import is_own
from plangym_ext.run.settings.config import CollectorSettings, RunConfig
from plangym_ext.run.training.parts import Parts
from plangym_ext.workers.workplace import Workplace

#: Part of a checkpoint.
OWN_STATE = "own_state"


class OwnParts:
    """The user-defined parts of a run."""

    def __init__(self, parts: Parts, env: Any, agent: Any, algorithm: Any) -> None:
        self._parts, self._env, self._checked = parts, env, False
        replay = getattr(algorithm, "replay", None)
        named = {"agent": agent, "algorithm": algorithm, "replay": replay}
        self._own = {name: one for name, one in named.items() if is_own(type(one))}

    def state_dict(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts' unsaved attributes: names and plain data only.

        Raises:
            WrongKind: one holds what no checkpoint can hold.
        """
        from plangym_ext.learn.own_state import own_state
        from plangym_ext.learn.packed_values import packed

        if not self._own:
            return {}
        try:
            with _nothing_drawn():
                others = self._made_anew(saved)
        except Exception as error:
            packed(saved)  # which names what no file can hold
            names = ", ".join(f"{name} {type(one).__name__}" for name, one in self._own.items())
            raise WrongKind(
                f"checkpoint: a run must be able to resume from its checkpoint; new parts "
                f"({names}), loaded with the saved state, raised {text_of(error)}. Make "
                f"load_state_dict accept the result of state_dict."
            ) from error
        found = {name: own_state(one, others[name], name) for name, one in self._own.items()}
        return {name: one for name, one in found.items() if one}

    def check(self, algorithm: Any) -> None:
        """Refuse attributes that no checkpoint can hold; called after the first updates.

        Raises:
            WrongKind: as `state_dict`.
        """
        if self._own and not self._checked and algorithm.updates:
            self._checked = True
            self.state_dict(algorithm.state_dict())

    def agent_state(self) -> dict[str, Any]:
        """Return the agent's part of `state_dict`."""
        if "agent" not in self._own:
            return {}
        whole, self._own = self._own, {"agent": self._own["agent"]}
        try:
            return self.state_dict({})
        finally:
            self._own = whole

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Set the attributes from a `state_dict`."""
        from plangym_ext.learn.own_state import load_own_state

        for name, one in saved.items():
            load_own_state(self._own[name], one)

    def _made_anew(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return freshly made parts, like those of a resumed run."""
        parts, saved = self._parts, _apart(saved)
        network = parts.network(self._env)
        others = {"agent": parts.agent(network)}
        if "agent" in self._own:
            others["agent"].load_state_dict(self._own["agent"].state_dict())
        if not self._own.keys() & {"algorithm", "replay"}:
            return others
        other: Any = parts.algorithm(network)
        replay: Any = getattr(other, "replay", None)
        if "algorithm" not in self._own:
            replay.load_state_dict(saved["replay"])
            return {**others, "replay": replay}
        if replay is not None and not is_own(type(replay)):
            # One of the library's is complete, and may take half of the memory.
            saved = {**saved, "replay": replay.state_dict()}
        other.load_state_dict(saved)
        return {**others, "algorithm": other, "replay": replay}


def load_agent(agent: Any, saved: Mapping[str, Any], path: str) -> None:
    """Load an agent's attributes from a checkpoint.

    Raises:
        DamagedCheckpoint: it cannot hold that.
    """
    from plangym_ext.learn.own_state import load_own_state

    found = saved.get(OWN_STATE, {})
    try:
        if "agent" in found and is_own(type(agent)):
            load_own_state(agent, found["agent"])
    except Exception as error:
        raise DamagedCheckpoint(
            f"{path}: {type(agent).__name__} cannot load its saved attributes "
            f"({type(error).__name__}: {str(error)[:200]}). Restore the class of the checkpoint."
        ) from error


def _apart(saved: Any) -> Any:
    """Return nested dicts and lists anew: who is given them may take out what it reads."""
    if isinstance(saved, dict):
        return {key: _apart(one) for key, one in saved.items()}
    return [_apart(one) for one in saved] if type(saved) is list else saved


@contextmanager
def _nothing_drawn() -> Iterator[None]:
    """Put the global generators back: parts that are made may draw from them."""
    from plangym_ext.learn.repeatable import seeded

    before, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002 - the global one
    try:
        with seeded(0):
            yield
    finally:
        random.setstate(before)
        np.random.set_state(numpys)  # noqa: NPY002 - the global one


def check_own_parts(where: str, saved: Mapping[str, Any], given: Container[str]) -> None:
    """Refuse to replace parts from the caller's functions by parts from the settings.

    Raises:
        ForeignCheckpoint: one is not given; the settings name another env, or another network.
    """
    for argument, name in saved.get("own", {}).items():
        if argument in given:
            continue
        part, means = argument.removeprefix("make_"), "settings"
        if part == "env":
            means = f"settings, which name {saved['config']['env']['id']},"
        raise ForeignCheckpoint(
            f"{where}: its {part} was made by a function of your own, {name}; the {means} make "
            f"another one. Pass {argument}={name.rpartition('.')[2]} in Python; for the command "
            f"line, register the {part} and train by its name."
        )


# Actors -----------------------------------------------------------------------


@dataclass(frozen=True)
class Actors:
    """The workplace of a run's games, and the number of actors.

    They are no setting: what is played does not depend on where, and a run may go on with others.

    Args:
        workplace: where the actors run, such as a `RayCluster`. It stays open.
        count: how many; None for `collector.n_workers`, and if that is 0 for one per processor.
    """

    workplace: Workplace
    count: int | None = None

    def number(self, settings: CollectorSettings) -> int:
        """Return the number of actors, at most one per game."""
        wanted = self.count or settings.n_workers or self.workplace.default_workers()
        return min(wanted, settings.num_envs)

    def check(self, config: RunConfig) -> None:
        """Refuse a run whose games these actors cannot play.

        Raises:
            InvalidOption: it has several learners, or there is more to step than its games.
        """
        if config.played_here:
            raise InvalidOption(
                f"settings: {config.played_here} needs searches, branches or opponents in the "
                f"run's own process; actors only play games. Leave out --ray."
            )
        if config.learners > 1:
            raise InvalidOption(
                f"settings: learners must be 1 in a run with --ray; got "
                f"{config.learners}. Leave out --ray, or learners."
            )
