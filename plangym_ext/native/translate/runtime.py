"""Arithmetic functions of translated code: equal to Python's and numpy's, or they raise.

Where the compiled code raises, the batch is played by the env itself. So what is rare need not be
translated, only noticed: an overflow, a division by zero, an index out of range.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
from typing import Any

import numpy as np

from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64

_HALF = 2**62


@compiled
def exact(value: int, about: float) -> Any:
    """Return a sum of two ints below 2**62; raise beyond, where Python's ints go on."""
    if abs(about) >= _HALF:  # the sum itself may have begun anew
        raise OverflowError
    return value


@compiled
def finite(value: float) -> Any:
    """Return what a function of `math` gives; raise where that may raise."""
    if not math.isfinite(value):
        raise ValueError
    return value


@compiled
def product(a: int, b: int) -> Any:
    """Return the product of two ints; raise beyond 2**53."""
    if abs(float(a) * float(b)) > 9007199254740992.0:
        raise OverflowError
    return a * b


@compiled
def nonzero(value: Any) -> Any:
    """Return a divisor; raise if it is zero."""
    if value == 0:
        raise ZeroDivisionError
    return value


@compiled
def place(index: int, size: int) -> Any:
    """Return an index from the front; raise if it is out of range."""
    if index < 0:
        index += size
    if index < 0 or index >= size:
        raise IndexError
    return index


@compiled
def whole(value: float) -> Any:
    """Return `int(value)`; raise beyond 2**62."""
    if not -_HALF < value < _HALF:
        raise OverflowError
    return np.int64(value)


@compiled
def within(value: int, lowest: int, highest: int) -> Any:
    """Return an int; raise if it is out of range."""
    if value < lowest or value > highest:
        raise OverflowError
    return value


@compiled
def float_mod(a: float, b: float) -> Any:
    """Return `a % b` of floats, as Python and numpy have it."""
    rest = np.fmod(a, nonzero(b))
    if rest != 0.0:
        return rest + b if (b < 0.0) != (rest < 0.0) else rest
    return math.copysign(0.0, b)


@compiled
def float_floor(a: float, b: float) -> Any:
    """Return `a // b` of floats, as Python and numpy have it."""
    rest = np.fmod(a, nonzero(b))
    quotient = (a - rest) / b
    if rest != 0.0 and (b < 0.0) != (rest < 0.0):
        quotient -= 1.0
    if quotient == 0.0:
        return math.copysign(0.0, a / b)
    lower = np.floor(quotient)  # of `math` it would be an int64, which larger ones do not fit
    return lower + 1.0 if quotient - lower > 0.5 else lower


@compiled
def power(a: Any, b: Any) -> Any:
    """Return `a ** b` of floats by the library's `pow`; raise if there is none."""
    found = a**b
    if not np.isfinite(found):
        raise ValueError
    return found


@compiled
def categorical(rng: Any, weights: Any, count: int) -> Any:
    """Draw as gymnasium's `categorical_sample` from the first weights."""
    drawn, total = pcg64.random(rng), 0.0
    for k in range(count):
        total = weights[k] if k == 0 else total + weights[k]
        if total > drawn:
            return k
    return 0


#: Tables of numpy's ziggurat, and where its tail begins.
_TABLES: Any = importlib.import_module("numba.np.random._constants")
_INSIDE, _WIDTH, _HEIGHT = _TABLES.ki_double, _TABLES.wi_double, _TABLES.fi_double
_TAIL, _PER_TAIL = _TABLES.ziggurat_nor_r, _TABLES.ziggurat_nor_inv_r
_1, _8, _9, _MANTISSA = (np.uint64(n) for n in (1, 8, 9, 0x000FFFFFFFFFFFFF))


@compiled
def uniform(rng: Any, low: float, high: float) -> Any:
    """Draw as `Generator.uniform(low, high)`; raise where that raises."""
    if not 0.0 <= high - low < math.inf:
        raise ValueError
    return pcg64.uniform(rng, low, high)


@compiled
def normal(rng: Any, mean: float, deviation: float) -> Any:
    """Draw as `Generator.normal(mean, deviation)`: float64; raise where that raises."""
    if not deviation >= 0.0:
        raise ValueError
    return mean + deviation * standard_normal(rng)


@compiled
def standard_normal(rng: Any) -> Any:
    """Draw as `Generator.standard_normal()`: float64.

    Source: Marsaglia & Tsang 2000, "The Ziggurat Method", as numpy's `distributions.c` has it.
    """
    while True:
        bits = pcg64.next64(rng)
        layer = np.int64(bits & np.uint64(0xFF))
        size = (bits >> _9) & _MANTISSA
        found = np.float64(size) * _WIDTH[layer]
        if (bits >> _8) & _1 != np.uint64(0):
            found = -found
        if size < _INSIDE[layer]:
            return found
        if layer == 0:
            while True:
                beyond = -_PER_TAIL * math.log1p(-pcg64.random(rng))
                height = -math.log1p(-pcg64.random(rng))
                if height + height > beyond * beyond:
                    is_left = (size >> _8) & _1 != np.uint64(0)
                    return -(_TAIL + beyond) if is_left else _TAIL + beyond
        elif (_HEIGHT[layer - 1] - _HEIGHT[layer]) * pcg64.random(rng) + _HEIGHT[layer] < math.exp(
            -0.5 * found * found
        ):
            return found


# numpy's own loops --------------------------------------------------------------


class _Ufunc(ctypes.Structure):
    """The beginning of `PyUFuncObject`, of numpy's C interface."""

    _fields_ = [
        ("references", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("counts", ctypes.c_int * 4),  # nin, nout, nargs, identity
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_char)),
    ]


@functools.cache
def loop_of(ufunc: np.ufunc, types: tuple[np.dtype[Any], ...]) -> tuple[int, int] | None:
    """Return the addresses of the C loop of a ufunc for types, and of its data; None: it has none.

    The loop that numpy itself runs on this processor: its last bits are no other library's.
    """
    found = _Ufunc.from_address(id(ufunc))
    count = found.counts[2]
    wanted = bytes(one.num for one in types)
    if found.name != ufunc.__name__.encode() or count != len(types):
        return None
    for k in range(found.ntypes):
        if found.types[k * count : (k + 1) * count] == wanted and found.functions[k]:
            return int(found.functions[k]), int(found.data[k] or 0)
    return None


def call_loop(address: Any, result: Any, arguments: Any) -> Any:
    """Return what a C loop gives for one element: of the type of `result`, from a tuple."""
    raise NotImplementedError("it runs in compiled code alone")


@functools.cache
def register_loops() -> None:
    """Let compiled code call `call_loop`."""
    extending: Any = importlib.import_module("numba.extending")
    core: Any = importlib.import_module("numba.core")
    ir: Any = importlib.import_module("llvmlite.ir")
    cgutils, types = core.cgutils, core.types

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        pointer, wide = ir.IntType(8).as_pointer(), ir.IntType(64)
        inputs = cgutils.unpack_tuple(builder, given[2])
        places = [cgutils.alloca_once_value(builder, value) for value in inputs]
        places.append(cgutils.alloca_once(builder, given[1].type))
        sizes = [context.get_abi_sizeof(place.type.pointee) for place in places]
        lists = [
            cgutils.alloca_once(builder, ir.ArrayType(t, len(places))) for t in (pointer, wide)
        ]
        for k, (one, size) in enumerate(zip(places, sizes, strict=True)):
            entries = [cgutils.gep_inbounds(builder, each, 0, k) for each in lists]
            builder.store(builder.bitcast(one, pointer), entries[0])
            builder.store(ir.Constant(wide, size), entries[1])
        arguments, steps = (cgutils.gep_inbounds(builder, each, 0, 0) for each in lists)
        count = cgutils.alloca_once_value(builder, ir.Constant(wide, 1))
        words = cgutils.unpack_tuple(builder, given[0])
        kinds = [pointer.as_pointer(), wide.as_pointer(), wide.as_pointer(), pointer]
        loop = builder.inttoptr(words[0], ir.FunctionType(ir.VoidType(), kinds).as_pointer())
        builder.call(loop, [arguments, count, steps, builder.inttoptr(words[1], pointer)])
        return builder.load(places[-1])

    @extending.intrinsic
    def run(typing: Any, address: Any, result: Any, arguments: Any) -> Any:  # noqa: ARG001
        return result(address, result, arguments), generate

    @extending.overload(call_loop)
    def chosen(address: Any, result: Any, arguments: Any) -> Any:  # noqa: ARG001
        def called(address: Any, result: Any, arguments: Any) -> Any:
            return run(address, result, arguments)

        return called if isinstance(arguments, types.BaseTuple) else None
