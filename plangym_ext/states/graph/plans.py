"""Plans: cache of the generated write and read functions of one env's graphs."""

from __future__ import annotations

import array
import itertools
import struct
from collections.abc import Callable
from typing import Any

from plangym_ext.states.graph.plan_source import PlanSource
from plangym_ext.states.graph.plan_text import SIZES, NoPlan

#: A plan takes as long as some dozen graphs without one.
_SIGHTINGS = 12
#: Plans of one env, and structures that are counted.
_MOST_PLANS, _MOST_COUNTED = 64, 512
#: Plans that are tried before the writer goes through a graph by itself.
_MOST_TRIED = 6


class _Plan:
    """The writing or reading function for graphs of one structure.

    Attributes:
        run: the function.
        begin: sizes of table, kinds and numbers, which each of its graphs begins with.
        head: table and kinds.
        note: what else its owner knows of all of its graphs.
    """

    __slots__ = ("begin", "head", "note", "run")

    def __init__(self, run: Callable[..., Any], begin: bytes, head: bytes, note: Any) -> None:
        self.run, self.begin, self.head, self.note = run, begin, head, note


class Plans:
    """The plans of one env."""

    def __init__(self) -> None:
        self._writing: dict[Any, list[_Plan]] = {}
        self._reading: dict[Any, list[_Plan]] = {}
        self._sightings: dict[Any, int] = {}
        #: Structures that were written here: of others, which rows may have, no code is made.
        self._own: set[Any] = set()

    def forget(self) -> None:
        """Forget all plans: the names that a graph may refer to have changed."""
        self.__init__()  # type: ignore[misc]

    def written(
        self, key: Any, roots: list[Any], named: dict[int, Any], shared: dict[int, Any]
    ) -> tuple[bytes, Any] | None:
        """Return the graph of the roots and the note of its plan; None if none of them fits.

        Args:
            key: which attributes the roots are, and of which types.
            roots: values of the attributes.
            named: as of `GraphWriter`.
            shared: as of `GraphWriter`.
        """
        plans = self._writing.get(key) or []
        for i, plan in enumerate(plans):
            try:
                data = plan.run(roots, named, shared)
            except (struct.error, OverflowError):  # too large a number
                continue
            if data is not None:
                if i:
                    plans.insert(0, plans.pop(i))
                return data, plan.note
        return None

    def read(self, key: Any, data: bytes, start: int, find: Callable[[int, str], Any]) -> Any:
        """Return the attributes and the generators of a graph; None if no plan fits.

        Args:
            key: of the plans that may read it.
            data: the graph, after `start` other bytes.
            start: where it begins.
            find: as `named` of `GraphReader`.

        Raises:
            one of `plain.MALFORMED`: it is no graph.
        """
        head = start + SIZES.size
        if sum(SIZES.unpack_from(data, start)) + head != len(data):
            return None
        plans = self._reading.get(key) or []
        for i, plan in enumerate(plans):
            if data.startswith(plan.head, head) and data.startswith(plan.begin, start):
                found = plan.run(data, head + len(plan.head), find)
                if found is not None:
                    if i:
                        plans.insert(0, plans.pop(i))
                    return found
        return None

    def saw_written(self, key: Any, data: bytes, levels: list[list[Any]], note: Any) -> None:
        """Make a plan for graphs like the one just written, once there were enough of them."""
        self._saw(self._writing, key, data, levels, note)

    def saw_read(self, key: Any, data: bytes, levels: list[list[Any]]) -> None:
        """Make a plan for graphs like the one just read, once there were enough of them.

        Only of a structure that this env was written with.
        """
        self._saw(self._reading, key, data, levels, None)

    def _saw(
        self, plans: dict[Any, list[_Plan]], key: Any, data: bytes, levels: Any, note: Any
    ) -> None:
        sizes = SIZES.unpack_from(data)
        ends = list(itertools.accumulate(sizes, initial=SIZES.size))
        head = data[SIZES.size : ends[2]]
        if plans is self._writing:
            if len(self._own) >= _MOST_COUNTED:
                self._own.clear()
            self._own.add((sizes[:4], head))
        elif (sizes[:4], head) not in self._own:
            return
        sighting = (plans is self._reading, key, sizes[:4], head)
        count = self._sightings.get(sighting, 0) + 1
        if len(self._sightings) >= _MOST_COUNTED:
            self._sightings.clear()
        self._sightings[sighting] = count
        if count != _SIGHTINGS or not levels:
            return
        try:
            source = PlanSource(
                levels,
                data[ends[1] : ends[2]],
                array.array("q", data[ends[2] : ends[3]]).tolist(),
                data[ends[0] : ends[1]],
            )
            run = source.reader() if plans is self._reading else source.writer(head, sizes[:2])
        except NoPlan:
            return
        if sum(map(len, plans.values())) >= _MOST_PLANS:
            plans.clear()
        found = plans.setdefault(key, [])
        found.insert(0, _Plan(run, data[: SIZES.size - 4], head, note))
        del found[_MOST_TRIED if plans is self._writing else _MOST_PLANS :]
