"""Deferred numba compilation: plain kernel functions, compiled at their first use in a batch.

Kernels are written as plain functions, so importing them brings no numba in and a
debugger can step through them. What they call is marked with `compiled`. `build`
compiles a whole loop at once, or loads it from disk.
"""

from __future__ import annotations

import threading
import time
import types
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from plangym_ext.core.compiling.kernel_cache import KernelCache
from plangym_ext.core.compiling.progress import announced
from plangym_ext.core.numbers import at_least
from plangym_ext.core.one_caller import fork_count, usable_processors

Function = TypeVar("Function", bound=Callable[..., Any])

#: Imported when something is compiled.
_JIT = "plangym_ext.core.compiling.jit"
#: Threads may make envs side by side; what is marked is registered once.
_one_builder = threading.RLock()
_waiting: list[Callable[..., Any]] = []
_registered: set[Callable[..., Any]] = set()
_inline: set[Callable[..., Any]] = set()


def compiled(function: Function) -> Function:
    """Mark a function that kernels call. It stays a Python function.

    It must be a function that `numba.njit` can compile.
    """
    _waiting.append(function)
    return function


def compiled_inline(function: Function) -> Function:
    """Mark a function as `compiled` does, to become part of the functions that call it.

    They may pass many arrays on: a call would copy what describes each of them.
    """
    _inline.add(function)
    return compiled(function)


def build(name: str, function: Callable[..., Any], example: tuple[Any, ...]) -> Callable[..., Any]:
    """Compile a function for arguments like those of an example, or load it from disk.

    Nothing is ever compiled unasked, and nothing is checked: what comes
    back must be called with arguments of the very types and memory layouts of the example.

    Args:
        name: for the file on disk and for the log, which says what takes so long.
        function: it may be a closure; what it calls is marked, or compiled by itself.
        example: arguments of the types to compile for; they are not used otherwise.
    """
    with _one_builder:
        return _build(name, function, example)


def _build(name: str, function: Callable[..., Any], example: tuple[Any, ...]) -> Callable[..., Any]:
    numba = import_module("numba")
    _register_marked(function)
    loop = numba.njit(**import_module(_JIT).OPTIONS)(function)
    if not hasattr(loop, "compile"):  # NUMBA_DISABLE_JIT: for debuggers
        return np.errstate(over="ignore")(function)  # generators multiply beyond 64 bits
    signature = tuple(map(type_of, example))
    loop._cache = cache = KernelCache(name, function)
    if cache.keeps(signature, loop.targetctx.codegen()):
        loop.compile(signature)
    else:
        with announced(f"the kernel of {name}"):
            loop.compile(signature)
    # Called without the dispatcher, which would look at the type of every array again.
    direct: Callable[..., Any] = loop.overloads[signature].entry_point
    return direct


def type_of(value: Any) -> Any:
    """Return the compiler's type of a value; equal types have equal texts."""
    return import_module("numba").typeof(value)


def _register_marked(function: Callable[..., Any]) -> None:
    register_jitable = import_module("numba.extending").register_jitable
    options = import_module(_JIT).part_options()
    found = [*_waiting, *(cell.cell_contents for cell in function.__closure__ or ())]
    _waiting.clear()
    for marked in found:
        if isinstance(marked, types.FunctionType) and marked not in _registered:
            _registered.add(marked)
            how = {"forceinline": marked in _inline, "_nrt": not _makes_no_arrays(marked)}
            register_jitable(**how, **options)(marked)


def _makes_no_arrays(function: Callable[..., Any]) -> bool:
    """Return whether a function is of the loops of this library; rules of envs may make arrays."""
    package = __name__.partition(".")[0]
    return function.__module__.startswith(f"{package}.") and not function.__module__.startswith(
        f"{package}.envs."
    )


#: Compiled functions of this process, by name, what they were made of and argument types.
_built: dict[Any, Callable[..., Any]] = {}


def built_once(
    name: str,
    function: Callable[..., Any],
    example: tuple[Any, ...],
    parts: tuple[Callable[..., Any], ...] = (),
) -> tuple[Callable[..., Any], float]:
    """Build once; return the function and the seconds it took: 0 if the process has it.

    Args:
        name: as for `build`.
        function: as for `build`.
        example: as for `build`.
        parts: if there are any, `function(*parts)` is compiled, which has to be the same
            for the same parts.
    """
    # The name too: by it the next process looks for the file.
    key = (name, function, parts, str(tuple(map(type_of, example))))
    if key in _built:
        return _built[key], 0.0
    start = time.perf_counter()
    _built[key] = build(name, function(*parts) if parts else function, example)
    return _built[key], time.perf_counter() - start


# Worker threads of a native backend -------------------------------------------


Result = TypeVar("Result")


def checked_threads(threads: Any) -> int:
    """Return the number of threads to use; None means the number of processors.

    Raises:
        InvalidOption: not an integer >= 1.
    """
    if threads is None:
        return usable_processors()
    return at_least("threads", threads, 1)


class SharingThreads:
    """Threads that run shares of one piece of work; started when they are first needed.

    What they run has to let the interpreter go, as compiled code does.

    Args:
        most: threads that pay, the caller's among them.

    Attributes:
        most: the same.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._pool: ThreadPoolExecutor | None = None
        self._forks = 0

    def run(
        self, function: Callable[..., Result], shares: Sequence[tuple[Any, ...]]
    ) -> list[Result]:
        """Return a function's results for each share of arguments, on at most `most` threads.

        Returns when all of them have ended. Raises what one of them has raised.
        """
        if len(shares) == 1:
            return [function(*shares[0])]
        if self._pool is None or self._forks != fork_count():  # a child has no threads
            self._forks = fork_count()
            # The processors that a process may run on can have become more since `most` was set.
            count = max(self.most, len(shares)) - 1
            self._pool = ThreadPoolExecutor(count, thread_name_prefix="plangym-ext-kernel")
        # The first share runs in this thread: it would only wait otherwise.
        parts = [self._pool.submit(function, *share) for share in shares[1:]]
        try:
            first = function(*shares[0])
        finally:
            for part in parts:  # or they would go on writing to what the caller lets go
                part.exception()
        return [first, *(part.result() for part in parts)]

    def close(self) -> None:
        """End the threads; a further `run` would start new ones."""
        if self._pool is not None:
            # Another process has its threads, if they were started there.
            self._pool.shutdown(wait=self._forks == fork_count())
            self._pool = None
