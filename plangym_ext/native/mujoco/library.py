"""ctypes bindings of MuJoCo's batch API (`mujoco/mjbatch.h`, MuJoCo 4).

`mujoco.batch.Batch` is the same API in Python, but it has no `mjb_apply`: what a task
reads of a step (contact forces, for one) may have to be computed from a simulation's
`mjData` while that still belongs to the simulation.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import mujoco

from plangym_ext.errors import BackendUnavailable

_POINTER = ctypes.c_void_p
#: Result and arguments of what is called from Python.
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "mjb_makeBatch": (
        _POINTER,
        [_POINTER, ctypes.c_int, _POINTER, ctypes.c_char_p, ctypes.c_int],
    ),
    "mjb_deleteBatch": (None, [_POINTER]),
    "mjb_apply": (
        ctypes.c_int,
        [_POINTER, _POINTER, ctypes.c_int, _POINTER, _POINTER, ctypes.c_int],
    ),
    "mjb_status": (_POINTER, [_POINTER]),
    "mjb_error": (ctypes.c_char_p, [_POINTER, ctypes.c_int]),
}


class BatchConfig(ctypes.Structure):
    """`mjBatchConfig`."""

    _fields_ = (("nthread", ctypes.c_int), ("persistent", ctypes.c_bool))


@functools.cache
def batch_library() -> ctypes.CDLL:
    """Return the library that the package `mujoco` itself runs on.

    Raises:
        BackendUnavailable: it has no batch API.
    """
    folder = Path(mujoco.__file__).parent
    found = [
        path
        for pattern in ("libmujoco.so*", "libmujoco*.dylib", "mujoco.dll")
        for path in sorted(folder.glob(pattern))
    ]
    library = ctypes.CDLL(str(found[0])) if found else None
    if library is None or not hasattr(library, "mjb_apply"):
        raise BackendUnavailable(
            "mujoco backend: it needs the batch API of MuJoCo 4 or newer; found mujoco "
            f"{mujoco.__version__}. Use backend='process', or upgrade mujoco."
        )
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
