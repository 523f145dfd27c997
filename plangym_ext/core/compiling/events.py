"""Numba compiler events, for compile-time clocks and messages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba.core import event

from plangym_ext.core.compiling.progress import (
    begin_announced,
    begin_compiling,
    end_announced,
    end_compiling,
)


@functools.cache
def listen() -> None:
    """Time and announce all later compilation in this process, also of other libraries."""
    register: Callable[[str, event.Listener], None] = event.register
    register("numba:compiler_lock", _InCompiler())
    register("numba:compile", _Compiles())


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
