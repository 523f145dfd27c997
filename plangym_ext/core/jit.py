"""The two ways in which functions of this library are compiled by numba.

Options that change numbers are set here, once: `error_model="numpy"` divides as numpy does,
without a check of every divisor; `fastmath` is off everywhere, so that every sum is added in
the order in which it is written. `nogil` lets threads run kernels side by side, and
`cache` keeps what is compiled on disk. Nobody calls kernels from C, so the function for
that, `cfunc_wrapper`, is left out: it would be compiled with each of them.

A kernel that has been changed is compiled anew, but what it was compiled into is not: numba
looks at the file of the function alone. Clear the caches after editing what others inline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function when it is first called; `py_func` is the plain one."""
    compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)(
        function
    )
    return compiled


def kernel_inline(function: Function) -> Function:
    """As `kernel`, for functions that become part of the kernels that call them.

    A call copies what describes each array that is passed on, which can take longer than
    the function itself.
    """
    inline = numba.njit(
        cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True, forceinline=True
    )
    compiled: Any = inline(function)
    return compiled
