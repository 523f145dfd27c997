"""What a training run is doing, as seen from the process that is to kill it."""

from __future__ import annotations

import ctypes
import functools
import mmap
import time
from collections.abc import Callable
from typing import Any

from plangym_ext.run.training.evaluation import Evaluation
from plangym_ext.run.training.runner import Runner

#: In the order of their numbers. Rounds: playing, learning and logging.
STAGES = ("start", "rounds", "evaluation", "checkpoint")
START, ROUNDS, EVALUATION, CHECKPOINT = range(len(STAGES))


class _Shared(ctypes.Structure):
    """What the run writes; it holds after the run was killed."""

    _fields_ = (
        ("stage", ctypes.c_int64),
        ("begun", ctypes.c_int64),
        ("round", ctypes.c_int64),
        ("times", ctypes.c_int64 * len(STAGES)),
        ("seconds", ctypes.c_double * len(STAGES)),
    )


class Stages:
    """Shared with a forked process, in which `follow` is called before the run begins.

    Attributes:
        shared: the stage in which the run is; the round with which this process began, and
            that of its newest checkpoint; how often the run was in each stage, and for how
            many seconds, those apart of stages within.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, ctypes.sizeof(_Shared))
        self.shared = _Shared.from_buffer(self._memory)
        self._since = 0.0

    def seconds_of(self, stage: int) -> float:
        """Return how long a stage took, the mean over its times."""
        return float(self.shared.seconds[stage] / max(1, self.shared.times[stage]))

    def follow(self) -> None:
        """Note from now on what the run of this process does."""
        self._since = time.perf_counter()
        self._noted(Runner, "run", ROUNDS)
        self._noted(Runner, "checkpoint", CHECKPOINT)
        self._noted(Evaluation, "episodes", EVALUATION)

    def _noted(self, owner: type, name: str, stage: int) -> None:
        """Have a method of the run say when it begins and when it is over."""
        method: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(method)
        def noted(self_of_run: Any, *arguments: Any, **named: Any) -> Any:
            before = self.shared.stage
            if stage == ROUNDS:
                self.shared.begun = self.shared.round = self_of_run.round
            elif stage == CHECKPOINT:
                self.shared.round = self_of_run.round
            self._enter(stage)
            try:
                return method(self_of_run, *arguments, **named)
            finally:
                self._enter(before)

        setattr(owner, name, noted)

    def _enter(self, stage: int) -> None:
        now = time.perf_counter()
        self.shared.seconds[self.shared.stage] += now - self._since
        self.shared.times[stage] += 1
        self.shared.stage, self._since = stage, now
