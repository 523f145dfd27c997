"""Plain Python functions that are compiled when a batch first needs them.

Kernels are written as plain functions, so importing them brings no numba in and a
debugger can step through them. What they call is marked with `compiled`. `build`
compiles a whole loop at once, or loads it from disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pickle
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from plangym_ext.core.compiling import announced

Function = TypeVar("Function", bound=Callable[..., Any])

#: Packages whose functions are identified by version, not by source.
_COMPILER = ("numba", "llvmlite", "numpy")

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


def cache_folder() -> Path:
    """Return where compiled loops are kept: `NUMBA_CACHE_DIR`, or the user's cache folder."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "plangym-ext" / "kernels"


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
    numba = _module("numba")
    _register_marked(function)
    loop = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    if not hasattr(loop, "compile"):  # NUMBA_DISABLE_JIT: for debuggers
        return np.errstate(over="ignore")(function)  # generators multiply beyond 64 bits
    signature = tuple(map(type_of, example))
    # The documented `cache=True` looks at the function's own file alone. A kernel that
    # was edited would go on running as it was, as part of a loop from another file.
    loop._cache = cache = _DiskCache(name, function)
    if cache.keeps(signature, loop.targetctx.codegen()):
        loop.compile(signature)
    else:
        with announced(f"the kernel of {name}"):
            loop.compile(signature)
    # Called without the dispatcher, which would look at the type of every array again.
    direct: Callable[..., Any] = loop.overloads[signature].entry_point
    return direct


def _module(name: str) -> Any:
    """Return a module of the compiler, which only those pay for who compile."""
    return importlib.import_module(name)


def type_of(value: Any) -> Any:
    """Return the compiler's type of a value; equal types have equal texts."""
    return _module("numba").typeof(value)


def _register_marked(function: Callable[..., Any]) -> None:
    register_jitable = _module("numba.extending").register_jitable
    found = [*_waiting, *(cell.cell_contents for cell in function.__closure__ or ())]
    _waiting.clear()
    for marked in found:
        if isinstance(marked, types.FunctionType) and marked not in _registered:
            _registered.add(marked)
            register_jitable(forceinline=marked in _inline, no_cfunc_wrapper=True)(marked)


class _DiskCache:
    """One compiled function in one file, named by everything that went into it.

    Implements what numba's dispatcher asks of a cache.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function = name, function
        self.cache_path = str(cache_folder())

    def _path(self, signature: Any, codegen: Any) -> Path:
        digest = hashlib.blake2b(digest_size=16)
        versions = (sys.version, *(_module(name).__version__ for name in _COMPILER))
        for part in (*versions, codegen.magic_tuple(), signature):
            digest.update(repr(part).encode())
        _hash_function(self._function, digest, set())
        plain = "".join(c if c.isalnum() else "-" for c in self._name)
        return Path(self.cache_path) / f"{plain}-{digest.hexdigest()}.nbc"

    def keeps(self, signature: Any, codegen: Any) -> bool:
        """Return whether there is a file of the compiled function."""
        return self._path(signature, codegen).exists()

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the compiled function, or None."""
        rebuild = _module("numba.core.compiler").CompileResult._rebuild
        target_context.refresh()
        path = self._path(signature, target_context.codegen())
        try:
            # Written by this user's own processes, as numba's own cache is.
            found = rebuild(target_context, *pickle.loads(path.read_bytes()))
        except Exception:
            return None  # none, or unreadable: it is compiled anew
        # Types of a main program are other ones in every process.
        return found if tuple(found.signature.args) == tuple(signature) else None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled function, if there is a place to keep it."""
        path = self._path(signature, result.codegen)
        # A folder that is read-only or full, a type that cannot be pickled: it is compiled
        # anew next time.
        with contextlib.suppress(Exception):
            data = _module("numba.core.serialize").dumps(result._reduce())
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, unfinished = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(unfinished, path)

    def enable(self) -> None:
        """Do nothing; part of numba's protocol."""

    def disable(self) -> None:
        """Do nothing; part of numba's protocol."""

    def flush(self) -> None:
        """Do nothing; part of numba's protocol."""


def _hash_function(function: Any, digest: Any, seen: set[Any]) -> None:
    """Add to `digest` the code of a function and of all that it refers to."""
    plain = getattr(function, "py_func", function)
    if plain in seen:
        return
    seen.add(plain)
    if (plain.__module__ or "").partition(".")[0] in _COMPILER:
        # What it refers to would be identified by its address, another one every time.
        digest.update(f"{plain.__module__}.{plain.__qualname__}".encode())
        return
    _hash_code(plain.__code__, digest)
    digest.update(repr(plain.__defaults__).encode())
    for cell in plain.__closure__ or ():
        _hash_value("closure", cell.cell_contents, plain, digest, seen)
    for name in plain.__code__.co_names:
        if name in plain.__globals__:
            _hash_value(name, plain.__globals__[name], plain, digest, seen)


def _hash_code(code: types.CodeType, digest: Any) -> None:
    # Not `marshal`: its bytes depend on how often a constant is referred to just now.
    digest.update(code.co_code)
    for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
        digest.update(repr(names).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _hash_code(constant, digest)
        else:
            digest.update(repr(constant).encode())


def _hash_value(name: str, value: Any, user: Any, digest: Any, seen: set[Any]) -> None:
    if isinstance(getattr(value, "py_func", value), types.FunctionType):
        _hash_function(value, digest, seen)
    elif isinstance(value, types.ModuleType):
        digest.update(value.__name__.encode())
        for attribute in user.__code__.co_names:
            member = getattr(value, attribute, None)
            if isinstance(getattr(member, "py_func", member), types.FunctionType):
                _hash_function(member, digest, seen)
    elif isinstance(value, np.ndarray):
        digest.update(value.tobytes())
    else:
        digest.update(f"{name}={value!r}".encode())


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
