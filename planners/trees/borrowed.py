"""Arrays whose references compiled code does not count."""

from __future__ import annotations

from typing import Any, TypeVar

from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from plangym_ext.core.compiling.jit import part_options

Value = TypeVar("Value")


def borrowed(value: Value) -> Value:
    """Return arrays, and tuples of them, as they are, but without an owner.

    For compiled code that passes the same arrays from function to function, whose
    caller holds them meanwhile. Each call would count a reference up and down with an
    atomic instruction; for the dozens of arrays of a search that takes longer than
    the search. As Python it does nothing.
    """
    return value


@intrinsic
def _without_owner(typing_context: Any, value: Any) -> Any:  # noqa: ARG001 - numba's signature
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _strip(context, builder, signature.args[0], arguments[0])

    return value(value), generate


def _strip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Write the code that clears the owner of every array in a value."""
    members: Any = kind
    null: Any = cgutils.get_null_value
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = null(array.meminfo.type)
        array.parent = null(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        unpack: Any = cgutils.unpack_tuple
        parts = zip(members, unpack(builder, value, len(members)), strict=True)
        stripped = [_strip(context, builder, *part) for part in parts]
        return context.make_tuple(builder, kind, stripped)
    return value


_strip_all: Any = _without_owner
_INLINE: Any = {"forceinline": True, **part_options()}
# Two functions without annotations, as numba compares their signatures.
overload(borrowed, jit_options=_INLINE)(
    lambda value: lambda value: _strip_all(value)  # noqa: ARG005
)
