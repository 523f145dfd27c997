"""FixedFields: constants of a known simulator, checked in case a wrapper changes them.

A wrapper may change them all the same: gravity from the tenth step on, say, or a time step.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from plangym_ext.errors import IncompleteState
from plangym_ext.states.layer_attributes import LayerAttributes
from plangym_ext.states.part import StatePart

_NUMBERS = (bool, int, float)


class FixedFields:
    """Numeric attributes of a simulator outside its codec, which must not change.

    Args:
        simulator: of the very class that the codec was written for, after a reset.
        codec: the part that captures it; None: nothing is fixed.

    Attributes:
        first: by name, what they are while states are exact.
    """

    def __init__(self, simulator: Any, codec: StatePart | None) -> None:
        self._simulator, self._codec = simulator, codec
        self._name = type(simulator).__qualname__
        self.rebase()

    def rebase(self) -> None:
        """Take them as they are now: they were set for good."""
        codec = self._codec
        fields = {} if codec is None else LayerAttributes(self._simulator, ()).state()
        self._hold(
            {
                name: value
                for name, value in fields.items()
                # What gymnasium keeps of the seed decides nothing: the generator does.
                if type(value) in _NUMBERS
                and name != "_np_random_seed"
                and not (codec is not None and codec.covers(name, value))
            }
        )

    def adopt(self, first: Mapping[str, Any]) -> None:
        """Take them as they are in an equal env."""
        self._hold({name: first.get(name, value) for name, value in self.first.items()})

    def _hold(self, first: dict[str, Any]) -> None:
        self.first = first
        # Once more the first of them: of a single name no tuple would be returned.
        names = (*first, *[*first][:1])
        self._read: Any = operator.itemgetter(*names) if names else None
        self._values = tuple(first[name] for name in names)

    def _is_as_held(self) -> bool:
        """Return whether nothing was changed; in a few hundred nanoseconds, as rows are many."""
        if self._read is None:
            return True
        try:
            # Elements of tuples are compared by identity before anything else.
            return bool(self._read(vars(self._simulator)) == self._values)
        except KeyError:  # one was deleted
            return False

    def changed(self) -> list[str]:
        """Return the names of those that are another number now."""
        if self._is_as_held():
            return []
        now = vars(self._simulator)
        return [name for name, value in self.first.items() if not _equal(now.get(name), value)]

    def check(self) -> None:
        """Refuse a capture while one of them is another number.

        Raises:
            IncompleteState: one is.
        """
        if self._is_as_held():
            return
        for name in self.changed():
            raise IncompleteState(
                f"{self._name}.{name} must be {self.first[name]!r}, as it was when the state was "
                f"first looked at, since states of this env do not hold it; it is "
                f"{vars(self._simulator).get(name)!r}. Leave it alone, or capture states as "
                f"attributes or by replay: make(..., state='snapshot') or state='replay'."
            )

    def put_back(self) -> None:
        """Set the fields to their values at the capture of a state."""
        if not self._is_as_held():
            vars(self._simulator).update(self.first)


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
