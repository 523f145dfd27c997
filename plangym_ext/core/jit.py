"""The two ways in which functions of this library are compiled by numba.

Options that change numbers are set here, once: `error_model="numpy"` divides as numpy does,
without a check of every divisor; `fastmath` is off everywhere, so that every sum is added in
the order in which it is written. `nogil` lets threads run kernels side by side, and
`cache` keeps what is compiled on disk. No C code calls kernels, so the function for that,
`cfunc_wrapper`, is left out: it would be compiled with each of them.

A kernel that has been changed is compiled anew, but what it was compiled into is not: numba
looks at the file of the function alone. Clear the caches after editing what others inline.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


# `Any`, as the stubs of numba do not know all of its options.
_njit: Any = functools.partial(
    numba.njit, cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True
)


def kernel(function: Function) -> Function:
    """Compile a function when it is first called; `py_func` is the plain one."""
    compiled: Function = _njit()(function)
    return compiled


def kernel_inline(function: Function) -> Function:
    """As `kernel`, for functions that become part of the kernels that call them.

    A call copies what describes each array that is passed on, which can take longer than
    the function itself.
    """
    compiled: Function = _njit(forceinline=True)(function)
    return compiled
