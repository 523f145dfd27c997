"""The compiled callback of a MuJoCo thread: one row through K env steps.

The function is compiled, since `mjb_apply` calls it from threads of its own, where
Python would make them wait for each other. All that it needs lies in one array of
64-bit integers, the *job*:

    0   K, env steps; with 0, what is recorded after steps is that of the rows themselves
    1   simulation steps in each (`frame_skip`)
    2   what follows them: 1 for `mj_rnePostConstraint`, plus 2 for `mj_step1`
    3   address of row 0's integration state, and 4 bytes from row to row
    5   the same for the states after the last step, and 6
    7   address of the controls `[K, n, nu]` float64, of 8 n rows, 9 bytes of a control
    10  address of states after each step `[K, n, nstate]`, or 0; 11 bytes of one
    12  index of `mjData.qpos` among the pointers of `mjData`
    13  number of carried fields, 14 of those read before a step, 15 after it
    16  where the positions begin: row `sim` is number `job[job[16] + sim]` of the n;
        after them those among the resets, or -1 for a row that begins at its state
    17  how many positions, 18 address of the joints of resets `[m, nq + nv]` float64, 19
        bytes of one
    20  for each field: bytes from qpos in mjData's memory, its size in bytes, and where it
        goes: for carried ones bytes from the state's beginning, else an address `[K, n]`
"""

from __future__ import annotations

import ctypes
import functools
import time
from pathlib import Path
from typing import Any

import mujoco

from plangym_ext.errors import BackendUnavailable

#: Where the fields begin in a job.
FIELDS_AT = 20
#: Bits of what follows the simulation steps.
FORCES, DERIVED = 1, 2
_INTEGRATION = int(mujoco.mjtState.mjSTATE_INTEGRATION)
_CONTROL = int(mujoco.mjtState.mjSTATE_CTRL)
_JOINTS = int(mujoco.mjtState.mjSTATE_QPOS | mujoco.mjtState.mjSTATE_QVEL)
_CALLED = (
    *("mj_setState", "mj_getState", "mj_step", "mj_rnePostConstraint"),
    *("mj_resetData", "mj_forward", "mj_step1"),
)


def prepared_seconds() -> float:
    """Prepare `compiled_play`; return the seconds it took: 0 after the first call."""
    begin = time.perf_counter()
    compiled_play()
    return time.perf_counter() - begin


@functools.cache
def compiled_play() -> Any:
    """Return the compiled function, as numba's `CFunc`; a quarter of a second on first use."""
    import llvmlite.binding
    from numba import cfunc, types

    library = batch_library()
    for name in _CALLED:
        place = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        llvmlite.binding.add_symbol(name, place)
    integer: Any = types.int64
    address: Any = types.uintp
    pointer_to: Any = types.CPointer
    pointers = pointer_to(types.uintp)
    state = types.void(address, pointers, address, types.int32)
    set_state: Any = types.ExternalFunction("mj_setState", state)
    get_state: Any = types.ExternalFunction("mj_getState", state)
    work = types.void(address, pointers)
    reset: Any = types.ExternalFunction("mj_resetData", work)
    forward: Any = types.ExternalFunction("mj_forward", work)
    simulate: Any = types.ExternalFunction("mj_step", work)
    find_forces: Any = types.ExternalFunction("mj_rnePostConstraint", work)
    derive: Any = types.ExternalFunction("mj_step1", work)
    copy: Any = types.ExternalFunction("memcpy", address(address, address, address))

    @cfunc(types.void(address, pointers, types.int32, pointer_to(integer)))
    def play(model, data, sim, job):  # type: ignore[no-untyped-def]
        row = integer(sim)
        number, num_rows = job[job[16] + row], job[8]
        source, target = job[3] + row * job[4], job[5] + row * job[6]
        # Fields keep their places in mjData's memory, so one of them leads to all.
        memory = integer(data[job[12]])
        carried_end = FIELDS_AT + 3 * job[13]
        before_end = carried_end + 3 * job[14]
        after_end = before_end + 3 * job[15]
        fresh = job[job[16] + job[17] + row]
        if fresh >= 0:
            reset(model, data)
            set_state(model, data, address(job[18] + fresh * job[19]), types.int32(_JOINTS))
            forward(model, data)
        else:
            set_state(model, data, address(source), types.int32(_INTEGRATION))
            for at in range(FIELDS_AT, carried_end, 3):
                size = job[at + 1]
                copy(address(memory + job[at]), address(source + job[at + 2]), address(size))
        for k in range(job[0]):
            cell = k * num_rows + number
            for at in range(carried_end, before_end, 3):
                size = job[at + 1]
                copy(address(job[at + 2] + cell * size), address(memory + job[at]), address(size))
            set_state(model, data, address(job[7] + cell * job[9]), types.int32(_CONTROL))
            for _ in range(job[1]):
                simulate(model, data)
            if job[2] & FORCES:
                find_forces(model, data)
            # After the forces, which are those of the last simulation step's contacts.
            if job[2] & DERIVED:
                derive(model, data)
            for at in range(before_end, after_end, 3):
                size = job[at + 1]
                copy(address(job[at + 2] + cell * size), address(memory + job[at]), address(size))
            if job[10]:
                into = address(job[10] + cell * job[11])
                get_state(model, data, into, types.int32(_INTEGRATION))
        if job[0] == 0:
            for at in range(before_end, after_end, 3):
                size = job[at + 1]
                into = job[at + 2] + number * size
                copy(address(into), address(memory + job[at]), address(size))
        get_state(model, data, address(target), types.int32(_INTEGRATION))
        for at in range(FIELDS_AT, carried_end, 3):
            copy(address(target + job[at + 2]), address(memory + job[at]), address(job[at + 1]))

    return play


# ctypes bindings of MuJoCo's batch API (`mujoco/mjbatch.h`, MuJoCo 4) ---------
# `mujoco.batch.Batch` is the same API in Python, but it has no `mjb_apply`: what a task
# reads of a step (contact forces, for one) may have to be computed from a simulation's
# `mjData` while that still belongs to the simulation.


_POINTER = ctypes.c_void_p
#: Result and arguments of what is called from Python.
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "mjb_makeBatch": (_POINTER, [_POINTER, ctypes.c_int, _POINTER, ctypes.c_char_p, ctypes.c_int]),
    "mjb_deleteBatch": (None, [_POINTER]),
    "mjb_apply": (
        ctypes.c_int,
        [_POINTER, _POINTER, ctypes.c_int, _POINTER, _POINTER, ctypes.c_int],
    ),
    "mjb_setModels": (None, [_POINTER, _POINTER]),
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
