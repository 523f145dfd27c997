"""Numba decorators for the library's kernels, with one set of compile options.

Options that change numbers are set here, once: `error_model="numpy"` divides as numpy does,
without a check of every divisor; `fastmath` is off everywhere, so that every sum is added in
the order in which it is written. `nogil` lets threads run kernels side by side. What is
compiled is kept on disk, see `KernelCache`. No C code calls kernels, so the function for that,
`cfunc_wrapper`, is left out: it would be compiled with each of them.

Kernels count no references (numba's `_nrt`): the caller of one holds its arrays meanwhile. To
count up and down in each function for the dozens of arrays of a search would take longer than
the search, and is a fifth of what has to be compiled. So a kernel makes no arrays, as nothing
would free them, and returns none; numba refuses to compile one that does. Those that have to
are an `allocating_kernel` or an `allocating_part`; such a part returns none either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from plangym_ext.errors import InvalidOption

try:
    import numba
except ValueError as error:
    raise InvalidOption(
        f"numba cannot be loaded with the environment variables NUMBA_...: {error} Correct them, "
        f"such as NUMBA_NUM_THREADS, or leave them out."
    ) from error

from numba.core import event

from plangym_ext.core.compiling.kernel_cache import KernelCache
from plangym_ext.core.compiling.progress import (
    begin_announced,
    begin_compiling,
    end_announced,
    end_compiling,
)

Function = TypeVar("Function", bound=Callable[..., Any])

#: Whether parts are compiled as `parts` says, which is written for the insides of one version
#: of numba. Under any other parts are kernels, which compute the same and take longer to compile.
HAS_PARTS = numba.version_info[:2] == (0, 68)

# `Any`, as the stubs of numba do not know all of its options.
_COUNTING: Any = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": True}
#: What all kernels are compiled with, but those that make arrays.
OPTIONS: Any = {**_COUNTING, "_nrt": False}


def part_options() -> dict[str, Any]:
    """Return the options for numba's own decorators of functions that kernels call."""
    if not HAS_PARTS:
        return {}
    from plangym_ext.core.compiling.parts import PART_OPTIONS

    return dict(PART_OPTIONS)


def kernel(function: Function) -> Function:
    """Compile a function when it is first called; `py_func` is the plain one."""
    return _kept(function, numba.njit(**OPTIONS)(function))


def allocating_kernel(function: Function) -> Function:
    """Compile, as `kernel` does, a function that makes or returns arrays."""
    return _kept(function, numba.njit(**_COUNTING)(function))


def kernel_part(function: Function) -> Function:
    """Compile as part of the kernels that call the function, see `parts`.

    The compiler decides whether it is called there or its text copied.
    """
    return _part(function, OPTIONS)


def allocating_part(function: Function) -> Function:
    """Compile, as `kernel_part` does, a function that makes arrays but returns none."""
    return _part(function, _COUNTING)


def kernel_inline(function: Function) -> Function:
    """Compile as `kernel_part` does, with the function's code inlined at every call.

    A call copies what describes each array that is passed on, which can take longer than
    the function itself.
    """
    return _part(function, {"forceinline": True, **OPTIONS})


class _InCompiler(event.Listener):
    """Times a thread's stay in the compiler, waiting included."""

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        begin_compiling()

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        end_compiling()


class _Compiles(event.Listener):
    """Announces compilation, but not loading from the cache."""

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        begin_announced(f"{function.__module__}.{function.__qualname__}")

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        end_announced()


def _part(function: Function, options: Any) -> Function:
    if not HAS_PARTS or numba.njit(function) is function:  # NUMBA_DISABLE_JIT: for debuggers
        return _kept(function, numba.njit(**options)(function))
    from plangym_ext.core.compiling.parts import Part

    return _kept(function, Part(function, options))


def _kept(function: Function, compiled: Any) -> Function:
    if compiled is not function:  # NUMBA_DISABLE_JIT: for debuggers
        name = f"{function.__module__}.{function.__qualname__}"
        compiled._cache = KernelCache(name, function)
    found: Function = compiled
    return found


# All later compilation in this process is timed and announced, also of other libraries.
_register: Callable[[str, event.Listener], None] = event.register
_register("numba:compiler_lock", _InCompiler())
_register("numba:compile", _Compiles())
