"""The answers that the compiler remembers are those that it would work out."""

from __future__ import annotations

import itertools
import operator

import pytest
from numba.core import compiler, errors, types
from numba.core.registry import cpu_target

from plangym_ext.core.compiling.jit import HAS_PARTS

pytestmark = pytest.mark.skipif(not HAS_PARTS, reason="shortcuts are for another version of numba")

ARRAY = types.Array(types.float32, 2, "C")
NUMBERS = (types.boolean, types.int32, types.int64, types.float32, types.float64, types.literal(2))


def typed(function):
    """The context of all typing, and the compiler's type of a function."""
    context = cpu_target.typing_context
    context.refresh()
    return context, context.resolve_value_type(function)


def answers(function, *kinds):
    """The signatures of a call as remembered, twice, and worked out."""
    context, called = typed(function)
    found = [called.get_call_type(context, kinds, {}) for _ in range(2)]
    return *found, type(called).get_call_type.__wrapped__(called, context, kinds, {})


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "lt", "eq", "iadd"])
def test_signatures_of_operators_on_numbers(name):
    for pair in itertools.product(NUMBERS, repeat=2):
        first, again, fresh = answers(getattr(operator, name), *pair)
        assert first is again
        assert first == fresh


def test_signatures_of_items_of_arrays():
    index = types.UniTuple(types.int64, 2)
    for kinds in ((ARRAY, index), (ARRAY, types.int64), (ARRAY, types.slice2_type)):
        first, _, fresh = answers(operator.getitem, *kinds)
        assert first == fresh
    assert answers(operator.setitem, ARRAY, index, types.float64)[0].args[2] == types.float64


def test_what_has_no_answer_is_refused_each_time():
    context, called = typed(operator.lshift)
    for _ in range(2):
        with pytest.raises(errors.TypingError):
            called.get_call_type(context, (types.float64, types.float64), {})


def test_options_of_a_compilation_are_all_there():
    flags, other = compiler.Flags(), compiler.Flags()
    assert flags == other
    flags.nrt, flags.error_model = True, "numpy"
    assert list(flags.values().items()) == [(key, getattr(flags, key)) for key in flags.options]
    assert flags != other
