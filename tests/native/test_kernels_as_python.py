"""Kernels are plain Python, too: there a debugger works, and bounds are checked."""

from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext.native.kernel.known import find_kernel, first_difference
from plangym_ext.native.kernel.row_kernel import SEAL, make_loop
from plangym_ext.native.kernel.row_memory import RowMemory
from plangym_ext.native.row_checks import are_sealed

ENVS = {
    "CartPole-v1": {},
    "Pendulum-v1": {},
    "Acrobot-v1": {},
    "MountainCar-v0": {},
    "MountainCarContinuous-v0": {},
    "FrozenLake-v1": {},
    "CliffWalking-v1": {},
    "Taxi-v4": {"fickle_passenger": True},
    "plangym_ext/NarrowPath-v0": {},
    "plangym_ext/ChainMDP-v0": {},
    "plangym_ext/TMaze-v0": {"n": 3},
    "plangym_ext/2048-v0": {"size": 3},
    "plangym_ext/ConnectFour-v0": {"rows": 4, "columns": 4},
    "plangym_ext/Sokoban-v0": {"dim": (6, 6), "num_boxes": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVS)
def test_as_python_a_kernel_equals_its_env(name):
    with plangym_ext.make(name, backend="serial", **ENVS[name]) as env:
        kernel = find_kernel(env)
        memory, loop = RowMemory(env, kernel), make_loop(*kernel.functions())
        rows = []

        def run(request, guarded):
            size, resets = request.num_rows, request.reset_first
            dt = np.full(size, request.dt, np.int32)
            places = memory.rows(size, guarded.new)
            arrays = memory.arrays(request.actions[0], places, dt, resets, new=guarded.new)
            begin = memory.words(request.states, places)
            # Generators multiply beyond 64 bits, which only numpy's numbers mind.
            with np.errstate(over="ignore"):
                ended = loop(begin, arrays, memory.rules, kernel.params, 0, size, SEAL)
                rows.append(arrays.rows[: request.num_rows])
                assert are_sealed(rows[-1], memory.rules.header, memory.rules.weights)
            return memory.results(arrays, places) if ended >= 0 else None

        assert first_difference(env, run) == ""
        assert len(rows) == 4
