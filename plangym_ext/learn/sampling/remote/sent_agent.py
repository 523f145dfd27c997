"""SentAgent: transfer of an agent and its later changes to copies in other processes."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from plangym_ext.errors import WrongKind, text_of
from plangym_ext.learn.agents.agent import Agent, RandomAgent
from plangym_ext.learn.agents.planner_agent import PlannerAgent
from plangym_ext.learn.held_numbers import (
    attributes_of,
    generators_of,
    held_numbers,
    is_module,
    is_optimizer,
    is_tensor,
    objects_of,
    same_number,
)
from plangym_ext.learn.sampling.remote.out_of_reach import OutOfReach

#: Attributes of an agent that say how it is used where it is.
_OF_PLACE = frozenset({"mode", "training"})
#: Parts the names of nested dicts.
_INTO = "\x1f"
#: Stands for an attribute that there is not: it has no numbers.
_NONE = object()


class AgentCopy:
    """A copy of an agent that receives the agent's changes.

    Args:
        agent: the copy.
        tensors: names of what was a tensor in the agent's `state_dict`; arrays travel.
    """

    def __init__(self, agent: Any, tensors: frozenset[str]) -> None:
        self.agent, self._tensors = agent, tensors

    def load(self, weights: Mapping[str, Any]) -> None:
        """Load a result of `SentAgent.weights`."""
        if not _has_state(self.agent):
            return
        given = dict(weights)
        if self._tensors:
            torch: Any = sys.modules["torch"]
            given |= {name: torch.from_numpy(np.array(given[name])) for name in self._tensors}
        self.agent.load_state_dict(_nested(given))

    def take(self, changes: bytes | None) -> None:
        """Apply a result of `SentAgent.changes`."""
        if changes is None:
            return
        with io.BytesIO(changes) as file:
            attributes, gone = _Changes(file, self.agent).load()
        for name in gone:
            delattr(self.agent, name)
        mine = attributes_of(self.agent)
        for name, value in attributes.items():
            # How far this copy has drawn is its own affair.
            before, after = generators_of(mine.get(name)), generators_of(value)
            for where in before.keys() & after.keys():
                _go_on_as(after[where], before[where])
            object.__setattr__(self.agent, name, value)


class SentAgent:
    """Determines the changes of an agent that its copies need, and checks the copies.

    What the agent's `state_dict` has is sent as arrays. Attributes that hold other numbers than a
    copy does that was given these are sent besides, as a pickle. Agents of the library with
    networks of the library have all in their `state_dict`, and nothing is compared.

    Raises:
        WrongKind: the agent cannot be sent, or a copy would not play what it has learned.
    """

    def __init__(self, agent: Any, num_rows: int, sampler: str) -> None:
        self.agent, self._sampler = agent, sampler
        self._tensors: frozenset[str] = frozenset()
        self._copy: AgentCopy | None = None
        #: Attributes that were ever sent besides, and the last of them.
        self._sent: set[str] = set()
        self._one_sided: set[str] = set()
        if hasattr(agent, "sent_to"):
            agent.sent_to(num_rows)
        if _is_complete(agent):
            return
        self._reach = OutOfReach(agent, sampler)
        weights = self.weights()
        self._copy = AgentCopy(self._copied(), self._tensors)
        self._left_out = self._names_left_out()
        self.changes(weights)

    @property
    def tensors(self) -> frozenset[str]:
        """Names of tensors in its `state_dict`."""
        return self._tensors

    def weights(self) -> dict[str, Any]:
        """Return its `state_dict` as arrays and numbers by name."""
        if not _has_state(self.agent):
            return {"version": 0}
        state = dict(_flat(self.agent.state_dict()))
        self._tensors = frozenset(name for name, one in state.items() if is_tensor(one))
        return state | {name: state[name].detach().cpu().numpy() for name in self._tensors}

    def changes(self, weights: Mapping[str, Any]) -> bytes | None:
        """Return a pickle of the agent's changes except weights; None without changes.

        Raises:
            WrongKind: it cannot be pickled, or does not arrive as it is.
        """
        if self._copy is None:
            return None
        self._reach.check()
        # A copy: what is written in place here would reach what its `load_state_dict` kept.
        try:
            self._copy.load({name: np.array(one) for name, one in weights.items()})
        except Exception as error:
            raise WrongKind(
                f"{self._sampler}: load_state_dict of {self._name} must take the result of its "
                f"state_dict, with numbers as arrays and tensors as tensors; it raised "
                f"{text_of(error)}. Return only arrays, numbers and tensors, or leave out both "
                f"methods: attributes are sent without them."
            ) from error
        differing = self._differing()
        if not differing:
            return None
        found = self._pickled(differing.keys())
        self._copy.take(found)
        self._sent |= differing.keys()
        for name, where in self._differing(settle=True).items():
            raise WrongKind(
                f"{self._sampler}: a copy of {self._name} must hold the same numbers as the agent; "
                f"at .{name}{where} it does not, after it was sent. Have __getstate__ and "
                f"__setstate__ keep it, or write state_dict and load_state_dict that do."
            )
        return found

    def whole(self) -> bytes | None:
        """Return all changes for a new copy, in the form of `changes`, as of its last call."""
        if self._copy is None or not self._sent:
            return None
        return _dumped(self._copy.agent, self._sent)

    def besides(self) -> dict[str, Any]:
        """Return the differences between the agent and its copies, without the weights.

        Raises:
            WrongKind: it is nothing that a checkpoint can hold.
        """
        if self._copy is None or not self._sent:
            return {}
        from plangym_ext.learn.own_state import own_state

        return own_state(self._copy.agent, self.agent, "agent")

    def as_of(self, besides: Mapping[str, Any]) -> bytes | None:
        """Return `changes` that bring copies to a given result of `besides`."""
        self.changes(self.weights())
        if self._copy is None:
            return None
        if besides:
            from plangym_ext.learn.own_state import load_own_state

            load_own_state(self._copy.agent, besides)
            self._sent |= besides.keys()
        return self.whole()

    @property
    def _name(self) -> str:
        return type(self.agent).__name__

    def _copied(self) -> Any:
        """Return a copy such as workers get, of the same classes."""
        from plangym_ext.workers.processes import by_value

        classes: list[type] = []

        def named(one: Any) -> int | None:
            # By reference: cloudpickle would write its copy of a script's class over the class.
            if not isinstance(one, type):
                return None
            classes.append(one)
            return len(classes)

        try:
            with io.BytesIO(by_value.dumps(self.agent, named)) as file:
                return _Named(file, classes).load()
        except Exception as error:
            raise self._unpicklable(attributes_of(self.agent), error) from error

    def _pickled(self, names: Any) -> bytes:
        try:
            return _dumped(self.agent, names)
        except Exception as error:
            raise self._unpicklable(names, error) from error

    def _unpicklable(self, names: Any, error: Exception) -> WrongKind:
        """Return the error that names the attribute which cannot be pickled."""
        where = "it"
        for name in names:
            try:
                _dumped(self.agent, [name])
            except Exception as reason:
                where, error = f"its attribute {name}", reason
                break
        return WrongKind(
            f"{self._sampler}: a copy of {self._name} travels to each worker by pickle, and "
            f"{where} cannot be pickled ({text_of(error)}). Write a __getstate__ that leaves it "
            f"out, and make it again in __setstate__; or hold it outside of the agent."
        )

    def _names_left_out(self) -> set[str]:
        """Return the attributes that the agent's own pickle leaves out.

        Raises:
            WrongKind: one has learned something, and no `load_state_dict` brings it.
        """
        assert self._copy is not None
        mine, theirs = attributes_of(self.agent), attributes_of(self._copy.agent)
        found = mine.keys() - theirs.keys()
        kind = type(self.agent)
        own = _has_state(self.agent) and kind.load_state_dict is not Agent.load_state_dict
        for name in sorted(found):
            parts = [one for _, one in objects_of(mine[name])]
            if not own and any(is_module(one) or is_tensor(one) for one in parts):
                raise WrongKind(
                    f"{self._sampler}: the pickle of {self._name} leaves out its attribute {name}, "
                    f"which holds what is learned, and copies would play without. Have "
                    f"__getstate__ keep it, or write state_dict and load_state_dict that have it."
                )
        return found

    def _differing(self, settle: bool = False) -> dict[str, str]:
        """Return attributes by which agent and copy differ, and the first place where."""
        assert self._copy is not None
        mine, theirs = attributes_of(self.agent), attributes_of(self._copy.agent)
        found: dict[str, str] = {}
        for name in [*mine, *(theirs.keys() - mine.keys())]:
            if name in _OF_PLACE or (name in self._left_out and name not in theirs):
                continue
            # What one of them has by itself the other may have of the class.
            ours = held_numbers(mine.get(name, getattr(self.agent, name, _NONE)))
            copied = held_numbers(theirs.get(name, getattr(self._copy.agent, name, _NONE)))
            alone = {f"{name}{where}" for where in ours.keys() ^ copied.keys()}
            if settle:
                self._one_sided |= alone
            elif alone - self._one_sided:
                found[name] = ""
            for where in ours.keys() & copied.keys():
                if not same_number(ours[where], copied[where]):
                    found[name] = where
                    break
        return found


def _flat(state: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield joined names and values of nested dicts."""
    for name, one in state.items():
        if isinstance(one, Mapping) and one and all(isinstance(key, str) for key in one):
            yield from _flat(one, f"{before}{name}{_INTO}")
        else:
            yield before + name, one


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested dicts from the items of `_flat`."""
    found: dict[str, Any] = {}
    for joined, one in flat.items():
        *outer, name = joined.split(_INTO)
        inner = found
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[name] = one
    return found


def _dumped(agent: Any, names: Any) -> bytes:
    """Return the pickle of some attributes of an agent, and the names of those that it has not."""
    from plangym_ext.workers.processes import by_value

    def named(one: Any) -> str | None:
        if one is agent:
            return "agent"
        return "left out" if is_optimizer(one) else None

    there = attributes_of(agent)
    # Together, so that what two of them share is shared there.
    kept = {name: there[name] for name in sorted(names) if name in there}
    return by_value.dumps((kept, sorted(set(names) - there.keys())), named)


class _Changes(pickle.Unpickler):
    """Reads what `_dumped` wrote, for the copy that takes it."""

    def __init__(self, file: io.BytesIO, agent: Any) -> None:
        super().__init__(file)
        self._agent = agent

    def persistent_load(self, pid: Any) -> Any:
        return self._agent if pid == "agent" else None


class _Named(pickle.Unpickler):
    """Reads a pickle whose classes are in a list."""

    def __init__(self, file: io.BytesIO, classes: list[type]) -> None:
        super().__init__(file)
        self._classes = classes

    def persistent_load(self, pid: Any) -> Any:
        return self._classes[pid - 1]


def _has_state(agent: Any) -> bool:
    """Return whether an agent has `state_dict` and `load_state_dict` as agents do."""
    own = getattr(type(agent), "load_state_dict", None)
    # That of a module takes nothing else than what it has returned, and knows no version.
    module = sys.modules["torch"].nn.Module if is_module(agent) else None
    return own is not None and own is not getattr(module, "load_state_dict", None)


def _is_complete(agent: Any) -> bool:
    """Return whether an agent has all that it learns in its `state_dict`, as the library's do."""
    if not type(agent).__module__.startswith("plangym_ext."):
        return False
    if isinstance(agent, PlannerAgent):
        # Here, and not when a worker is started: it refuses if it cannot travel.
        agent.__reduce__()
    if isinstance(agent, RandomAgent | PlannerAgent):
        return True
    network = getattr(agent, "network", None)
    if network is None:
        return False
    kinds = {type(part).__module__.partition(".")[0] for part in network.modules()}
    return kinds <= {"plangym_ext", "torch"}


def _go_on_as(generator: Any, before: Any) -> None:
    if isinstance(generator, np.random.Generator):
        if type(generator.bit_generator) is type(before.bit_generator):
            generator.bit_generator.state = before.bit_generator.state
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(before.get_state())
    else:
        generator.setstate(before.getstate())
