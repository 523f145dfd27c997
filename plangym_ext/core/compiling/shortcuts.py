"""Answers that numba's compiler works out anew each time it asks for them.

Which code adds two numbers, or reads a number of an array, is looked for among hundreds of
templates at each place where it is done, twice. The options of a compilation, which are part of
keys, are collected one by one each time. Both are a tenth of the time in all. The answers
are the same, and so is what is compiled; this is written for one version of numba, as `parts`
is.
"""

# mypy: allow-untyped-calls
# numba's compiler has no types.

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from numba.core import targetconfig, types

_NUMBERS = (types.Number, types.Boolean)
_ITEMS = (operator.getitem, operator.setitem)


def take() -> None:
    """Take the shortcuts, in all that this process compiles from now on."""
    function: Any = types.BaseFunction
    function.get_call_type = _remembering(function.get_call_type)
    config: Any = targetconfig.TargetConfig
    config.values = _values


def _remembering(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """Return `resolve`, which remembers the signatures of operators on plain values."""
    known: dict[Any, Any] = {}

    @functools.wraps(resolve)
    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws or not _is_plain(self.typing_key, args):
            return resolve(self, context, args, kws)
        # Of this very object, which is kept: it knows from then on what code the answer means.
        key = id(self), context, tuple(args)
        if key not in known:
            known[key] = self, resolve(self, context, args, kws)
        return known[key][1]

    return get_call_type


def _is_plain(function: Any, args: Any) -> bool:
    """Return whether this is an operator on numbers, or on an item of an array."""
    if getattr(function, "__module__", None) != "_operator":
        return False
    if function in _ITEMS and isinstance(args[0], types.Array):
        index: Any = args[1]
        parts: Any = index if isinstance(index, types.BaseTuple) else (index,)
        args = (*parts, *args[2:])
    return all(isinstance(kind, _NUMBERS) for kind in args)


@functools.cache
def _defaults(config: Any) -> dict[str, Any]:
    return {name: option.default for name, option in config.options.items()}


def _values(self: Any) -> dict[str, Any]:
    """Return the values of all options, as `TargetConfig.values` does."""
    kind: Any = type(self)
    return {**_defaults(kind), **self._values}
