"""Disk cache of compiled kernels, keyed by all code that they use.

numba's `cache=True` looks at the date of the function's own file. So a library that is
installed again compiles everything again; and a kernel that was edited would go on running
as it was, as part of a function from another file.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pickle
import re
import stat
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.arrays.nested import content
from plangym_ext.core.files.whole_file import opened, replacing

#: Packages whose functions are identified by version, not by source.
_COMPILER = ("numba", "llvmlite", "numpy")
#: Seconds after which a file that no process has read is removed.
_MAX_AGE = 60 * 24 * 3600.0
#: Seconds of its age before the date of a file that is read is renewed: it is a write.
_RENEWAL = 24 * 3600.0
#: Begins a file; what follows is the digest of the rest.
_MAGIC = b"plangym-ext kernel 1\n"
_DIGEST_BYTES = 32
#: Of a function, or of one that a process which was killed has not written to its end.
_OURS = re.compile(r"^unfinished-|-[0-9a-f]{32}\.nbc(\.partial)?$")


def cache_folder() -> Path:
    """Return the cache folder: `NUMBA_CACHE_DIR`, or one in the user's cache folder."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "plangym-ext" / "kernels"


class KernelCache:
    """One compiled function in one file, named by everything that went into it.

    Implements what numba's dispatcher asks of a cache.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function = name, function
        self.cache_path = str(cache_folder())

    def _path(self, signature: Any, codegen: Any) -> Path:
        digest = hashlib.blake2b(digest_size=16)
        versions = (sys.version, *(importlib.import_module(name).__version__ for name in _COMPILER))
        for part in (*versions, codegen.magic_tuple(), *map(_text, signature)):
            digest.update(repr(part).encode())
        hash_function(self._function, digest, set())
        plain = "".join(c if c.isalnum() else "-" for c in self._name)
        return Path(self.cache_path) / f"{plain}-{digest.hexdigest()}.nbc"

    def keeps(self, signature: Any, codegen: Any) -> bool:
        """Return whether there is a file of the compiled function."""
        return self._path(signature, codegen).exists()

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the compiled function, or None."""
        compiler: Any = importlib.import_module("numba.core.compiler")
        target_context.refresh()
        path = self._path(signature, target_context.codegen())
        _renew(path)
        try:
            found = compiler.CompileResult._rebuild(target_context, *pickle.loads(_read(path)))
        except Exception:
            return None  # none, or damaged: it is compiled anew, and takes its place
        # Types of a main program are other ones in every process.
        return found if tuple(found.signature.args) == tuple(signature) else None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled function, if there is a place to keep it."""
        serialize: Any = importlib.import_module("numba.core.serialize")
        if result.library.has_dynamic_globals:  # addresses of this process are written into it
            return
        path = self._path(signature, result.codegen)
        # A folder that is read-only or full, a type that cannot be pickled: it is compiled
        # anew next time.
        with contextlib.suppress(Exception):
            data = serialize.dumps(result._reduce())
            path.parent.mkdir(parents=True, exist_ok=True)
            # Another process that writes the same one has the same content: this one leaves it.
            with replacing(path, "wb") as file:
                file.write(_MAGIC + _digest(data) + data)
            prune(path.parent)

    def enable(self) -> None:
        """Do nothing; part of numba's protocol."""

    def disable(self) -> None:
        """Do nothing; part of numba's protocol."""

    def flush(self) -> None:
        """Do nothing; part of numba's protocol."""


def _read(path: Path) -> bytes:
    """Return the content of a file as it was written, by this user or the system's.

    Raises:
        OSError: there is none that can be read.
        ValueError: a bit is not as it was written, or another user may have written it: machine
            code that is damaged would run all the same.
    """
    with opened(path) as file:
        about = os.fstat(file.fileno())
        if about.st_uid not in (os.getuid(), 0) or about.st_mode & stat.S_IWOTH:
            raise ValueError("it is another user's")
        data = file.read()
    head = len(_MAGIC) + _DIGEST_BYTES
    if data[:head] != _MAGIC + _digest(data[head:]):
        raise ValueError("it is damaged, or cut short")
    return data[head:]


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _renew(path: Path) -> None:
    """Note that a file is in use: dates of reading are not kept on every system."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _RENEWAL:
            os.utime(path)


def prune(folder: Path) -> None:
    """Remove compiled functions that nothing has read for so long, and unfinished files.

    A new version of a function has another name, so those of former ones are never read again.
    Called when a file is added: a process that compiles has seconds for it. A process that is
    reading a file has it open, or compiles the function again.
    """
    oldest = time.time() - _MAX_AGE
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):  # another process may prune at the same time
            if _OURS.search(entry.name) and entry.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(entry.path)


def _text(kind: Any) -> str:
    """Return a compiler's type as text, with the names of what it holds."""
    fields = getattr(kind, "fields", None)
    if fields is None or not hasattr(kind, "instance_class"):
        return repr(kind)
    held = ", ".join(f"{name}: {_text(part)}" for name, part in zip(fields, kind, strict=True))
    return f"{kind.instance_class!r}({held})"


def hash_function(function: Any, digest: Any, seen: set[Any]) -> None:
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
    digest.update(repr(sorted(getattr(function, "targetoptions", {}).items())).encode())
    digest.update(content(plain.__defaults__))
    names = _names(plain.__code__)
    for cell in plain.__closure__ or ():
        _hash_value("closure", cell.cell_contents, names, digest, seen)
    for name in names:
        if name in plain.__globals__:
            _hash_value(name, plain.__globals__[name], names, digest, seen)


def _names(code: types.CodeType) -> list[str]:
    """Return the names of globals and attributes in a function, and in functions within it."""
    inner = [name for c in code.co_consts if isinstance(c, types.CodeType) for name in _names(c)]
    return [*code.co_names, *inner]


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


def _hash_value(name: str, value: Any, names: list[str], digest: Any, seen: set[Any]) -> None:
    """Add what a name stands for; `names` are those that may be looked up in a module."""
    if isinstance(getattr(value, "py_func", value), types.FunctionType):
        hash_function(value, digest, seen)
    elif isinstance(value, types.ModuleType):
        digest.update(value.__name__.encode())
        if value.__name__.partition(".")[0] in _COMPILER:
            return
        for attribute in names:
            member = getattr(value, attribute, None)
            if member is not None and not isinstance(member, types.ModuleType):
                _hash_value(attribute, member, names, digest, seen)
    elif isinstance(value, np.ndarray):
        digest.update(f"{name}: {value.dtype} {value.shape}".encode() + value.tobytes())
    elif isinstance(value, type):
        # Of named tuples too: what is compiled knows fields by their places.
        digest.update(f"{value!r}{getattr(value, '_fields', '')}".encode())
    else:
        # Not the text of an array within a tuple, which leaves out the middle of a long one.
        digest.update(f"{name}=".encode() + content(value))
