"""KernelEnv: the kernel backend, with batches in one compiled loop of this process."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from plangym_ext.core.backend_env import NO_OUT
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.one_caller import one_call, usable_processors
from plangym_ext.core.options import Count
from plangym_ext.core.results import RowResults
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import KernelDiffers
from plangym_ext.native.compiled import SharingThreads, built_once
from plangym_ext.native.kernel.known import GuardedMemory, find_kernel, first_difference
from plangym_ext.native.kernel.row_kernel import (
    AUTORESET,
    BAD_ACTION,
    BAD_ROW,
    LIVE,
    SEAL,
    Kernel,
    RowArrays,
    make_loop,
)
from plangym_ext.native.kernel.row_memory import RowMemory
from plangym_ext.native.kernel.simulator import KernelSimulator
from plangym_ext.native.native_env import NativeEnv, proved_resets
from plangym_ext.states.randomness.reseeding import generator_words

#: Env steps that are worth waking another thread for.
_STEPS_PER_THREAD = 8192

Loop = Callable[[np.ndarray, RowArrays, Any, Any, int, int, int], int]


class KernelEnv(NativeEnv):
    """The kernel backend: batches run in a compiled kernel, single steps on the env itself.

    States are those of the serial and the process backend. The loop is compiled when a
    batch first needs it, or loaded from disk, and compared with the env before its
    first results are used.

    Args:
        env: the env to play, and the reference. It belongs to this one from now on.
        kernel: its rules; None looks the registered one up.
        threads: threads that share a batch's rows; None lets the batch's size decide.
        strict: raise `KernelDiffers` if the kernel is found to differ; otherwise warn,
            and run the rows on the env itself.

    Raises:
        NoKernel: there is no kernel for the env, its arguments or its wrappers.
    """

    backend = "kernel"

    @checking_arguments
    def __init__(
        self,
        env: GymEnv,
        kernel: Kernel | None = None,
        *,
        threads: Count | None = None,
        strict: bool = True,
    ) -> None:
        super().__init__()
        self._own_kernel, self._strict, self.threads = kernel, strict, threads
        self.kernel = find_kernel(env, kernel)
        self._plan_env = env
        self.name, self.frameskip, self.autoreset = env.name, env.frameskip, env.autoreset
        self._memory = RowMemory(env, self.kernel)
        self._loop: Loop | None = None
        self._shares = SharingThreads(threads or usable_processors())
        #: Seconds that compiling or loading took; None until then.
        self.compile_seconds: float | None = None

    # Rows -----------------------------------------------------------------------

    def widen(self, width: int) -> None:
        self.plan_env.widen(width)
        # The width of a row is part of the layout: all of it is made anew.
        self._memory = RowMemory(self.plan_env, self.kernel)
        if self._checks is not None:
            self._checks = self._memory.checks()

    def _run_rows(self, request: RowRequest) -> RowResults:
        self.plan_env._check_open("step_batch")
        if request.num_rows == 0 or request.infos == "all" or self.backend != "kernel":
            return self.plan_env._run_rows(request)
        # Compiled by the first batch: many envs are made and never stepped in batches.
        if self._loop is None:
            self.warm_up()
            return self._run_rows(request)
        found = self._compiled_rows(request)
        if found is None:
            # The env itself says what is wrong, if it is, in the words of every backend.
            return self.plan_env._run_rows(request)
        return found

    def step_live(
        self,
        actions: np.ndarray,
        states: np.ndarray,
        resets: np.ndarray,
        *,
        whole: bool,
        same_step: bool = False,
        infos: str = "numeric",
        out: Mapping[str, np.ndarray] = NO_OUT,
    ) -> RowResults | None:
        if self._loop is None:
            self.warm_up()
        memory = self._memory
        if self.backend != "kernel" or not memory.holds_all_infos:
            return None
        if self.reset_columns is None:
            if resets.any():
                return None
            same_step = False  # the caller resets rows by another way
        live = memory.other_live(states) if whole else memory.live(len(states))
        if actions.dtype != live.actions.dtype or actions.shape != live.actions.shape:
            actions = self._live_actions(actions, resets)
        live.actions[...], live.resets[...] = actions, resets
        arrays = live.with_out(out) if out else live.arrays
        begin = memory.words(states, live.rows)
        how = LIVE | AUTORESET * same_step | SEAL * (not whole)
        ended = self._run_loop(begin, arrays, how)
        if ended == BAD_ACTION:
            # Raises, unless only rows that are reset have one.
            live.actions[...] = self._live_actions(actions, resets)
            ended = self._run_loop(begin, arrays, how)
        if ended < 0:
            return None
        found = live.results
        if out or memory.has_infos or (same_step and ended):
            found = memory.results(arrays, live.rows, infos, out, resets=same_step and ended > 0)
        return self._checked(found) if memory.is_strict else found

    def _compiled_rows(
        self, request: RowRequest, guarded: GuardedMemory | None = None
    ) -> RowResults | None:
        """Return the results of the loop; None if it refused a state or a value, or raised."""
        new = np.empty if guarded is None else guarded.new
        memory, size, resets = self._memory, request.num_rows, request.reset_first
        dt, rows = new(size, np.int32), memory.rows(size, new)
        dt[...] = request.dt
        if resets is None:
            resets = np.zeros(size, np.bool_)
        actions, out = request.actions[0], request.out
        arrays = memory.arrays(actions, rows, dt, resets, out=out, new=new)
        seal = request.wants_states or "states_out" in out
        if self._run_loop(memory.words(request.states, rows), arrays, SEAL * seal) < 0:
            return None
        found = memory.results(arrays, rows, request.infos, out)
        return self._checked(found) if memory.is_strict else found

    def _run_loop(self, begin: np.ndarray, arrays: RowArrays, how: int) -> int:
        """Run all rows, on several threads if it pays; return what the loop returns."""
        assert self._loop is not None
        size, horizon = arrays.actions.shape[:2]
        rules, params = self._memory.rules, self.kernel.params
        # With fewer steps another thread has too little to do to be worth waking.
        threads = min(size, self.threads or size * horizon * self.frameskip // _STEPS_PER_THREAD)
        try:
            if threads < 2:
                return self._loop(begin, arrays, rules, params, 0, size, how)
            if self.threads is None:
                threads = min(threads, usable_processors())
            ends = itertools.pairwise(size * k // threads for k in range(threads + 1))
            shares = [(begin, arrays, rules, params, *share, how) for share in ends]
            found = self._shares.run(self._loop, shares)
        # What compiled code raises has no words: the env plays the rows again and raises its own.
        except Exception:
            return BAD_ROW
        return min(found) if min(found) < 0 else sum(found)

    def _checked(self, found: RowResults) -> RowResults | None:
        """Return results, or None if the env itself has to look at their bounds."""
        values = self.plan_env.values
        shown = [found.obs]
        if found.resets is not None:
            over = found.terminated | found.truncated
            shown.append(tuple(leaf[over] for leaf in found.resets.final_obs))
        return found if all(map(values.bounds_kept, shown)) else None

    def warm_up(self) -> float:
        """Compile the loop, or load it from disk, and compare it with the env.

        It is done by the first batch otherwise.

        Returns:
            Seconds that compiling or loading took.

        Raises:
            KernelDiffers: the kernel is not what the env is.
        """
        if self.compile_seconds is not None:
            return self.compile_seconds
        action = self.layout.action.leaves[0]
        memory, no_resets = self._memory, np.zeros(1, np.bool_)
        actions = np.zeros((1, 1, *action.shape), action.dtype)
        rows = memory.rows(1)
        arrays = memory.arrays(actions, rows, np.ones(1, np.int32), no_resets)
        name = type(self.plan_env.gym_env.unwrapped).__name__
        rules, params = memory.rules, self.kernel.params
        example: tuple[Any, ...] = (rows.words, arrays, rules, params, 0, 1, SEAL)
        self._loop, seconds = built_once(name, make_loop, example, self.kernel.functions())
        self._checks = self._memory.checks()
        self.compile_seconds = seconds + self._checks.seconds
        try:
            self._prove()
        except BaseException:
            self._loop = self.compile_seconds = None
            raise
        return self.compile_seconds

    @one_call
    def reseeded(self, states: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        rows = self.checked_states(states, "reseeded")
        if "rng" not in (self.kernel.state.names or ()):
            return self.plan_env.reseeded(states, rng)
        words = generator_words(rng, len(rows))
        # A copy, and never fewer than two rows.
        found = np.concatenate([rows, rows[:1]])
        _, state, _ = self._memory.views(found)
        for name, column in zip(("low", "high", "inc_low", "inc_high"), words.T, strict=True):
            state["rng"][name][:-1] = column
        state["rng"]["has_half"], state["rng"]["half"] = 0, 0
        return self.sealed(found[:-1])

    def simulator(self) -> KernelSimulator | None:
        """Return the kernel's functions for other compiled loops, such as tree search.

        Returns:
            What it offers; None if the kernel is not used, or bounds are looked at (it does
            not look), or its arrays are not plain.
        """
        self.plan_env._check_open("simulator")
        self.warm_up()
        if self.backend != "kernel" or self.plan_env.values.policy == "strict":
            return None
        name = type(self.gym_env.unwrapped).__name__
        players = int(self.metadata.get("num_players", 1))
        return KernelSimulator(
            name, self.kernel, self._memory, self._simulated, self._shares, players
        )

    def _simulated(self, states: np.ndarray, where: str) -> None:
        self.plan_env._check_open(where)
        self.checked_states(states, where)

    def _prove(self) -> None:
        difference = first_difference(self.plan_env, self._compiled_rows, required=self._strict)
        if not difference:
            self.reset_columns = ()  # for the proof, as if they were known
            run = functools.partial(KernelEnv.step_live, self, whole=False)
            self.reset_columns = proved_resets(self.plan_env, run)
            return
        self._checks = None
        text = f"{self.name}: {difference}"
        if self._strict:
            raise KernelDiffers(
                f"{text}. The kernel is written for another version of the env, or its "
                "arithmetic differs on this machine: use backend='serial', or correct it."
            )
        self.backend = "serial"
        warnings.warn(
            f"{text}, so its kernel is not used and batches run on the env itself. Choose "
            "backend='serial' or 'process' to be rid of this warning.",
            RuntimeWarning,
            stacklevel=2,
        )

    # Life -----------------------------------------------------------------------

    @property
    def _arguments(self) -> dict[str, Any]:
        own = {"kernel": self._own_kernel, "threads": self.threads, "strict": self._strict}
        return {**self.plan_env._arguments, **own}

    def clone(self, **overrides: Any) -> Self:
        settings = {**self._arguments, **overrides}
        own = {name: settings.pop(name) for name in ("kernel", "threads", "strict")}
        return type(self)(type(self.plan_env)(**settings), **own)

    def close(self) -> None:
        self._shares.close()
        self.plan_env.close()
