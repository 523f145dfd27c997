"""Time and random bytes that the system gives an env, altered in a process that is thrown away.

An episode that ends after a minute by the clock ends elsewhere where it goes on later. What is
drawn from the system's entropy is drawn anew after a restore, but shows in few steps if it is
rarely looked at. So the clock leaps with each restore, and the first random bytes after it are all
zeros or all ones: numbers close to 0 or to 1, which a bound on them tells from others at once.
"""

from __future__ import annotations

import datetime
import os
import random
import sys
import time
import types
from typing import Any

from plangym_ext.states.trials.digests import is_own_module

#: Functions of `time` that tell it, and seconds by which it leaps forward with each restore.
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_LEAP = 100_003
#: Draws of altered bytes after a restore: code that draws until it likes a number ends.
_ALTERED = 64
#: Frames of Python and numpy between the env's own code and what asks the system, at most.
_FRAMES = 8
_BETWEEN = {*sys.stdlib_module_names, "numpy"}


class SystemAnswers:
    """Clocks and entropy of this process.

    Attributes:
        clock_asked_by: code of the env's own that has asked for the time; "" for none.
        entropy_asked_by: code of the env's own that has asked for random bytes; "" for none.
    """

    def __init__(self) -> None:
        self.clock_asked_by = self.entropy_asked_by = ""
        self._restores = self._draws = 0

    def restored(self) -> None:
        """Let some time pass, and alter the next random bytes."""
        self._restores += 1
        self._draws = 0

    def take_the_place(self) -> None:
        """Take the place of the system's functions, also where modules of the env's have them."""
        stands_in: dict[int, Any] = {}
        for name in _CLOCKS:
            for suffix, scale in (("", 1), ("_ns", 10**9)):
                plain = getattr(time, f"{name}{suffix}")
                stands_in[id(plain)] = self._later(plain, _LEAP * scale)
                setattr(time, f"{name}{suffix}", stands_in[id(plain)])
        stands_in[id(datetime.datetime)] = self._later_dates(datetime.datetime)
        datetime.datetime = stands_in[id(datetime.datetime)]  # type: ignore[misc]
        stands_in[id(os.urandom)] = self._altered(os.urandom)
        # `random` has a name of its own for it, which `secrets` and numpy's entropy lead to.
        os.urandom = random._urandom = stands_in[id(os.urandom)]  # type: ignore[attr-defined]
        random.Random.seed = self._seeded(random.Random.seed)  # type: ignore[method-assign]
        for name, module in list(sys.modules.items()):
            content = getattr(module, "__dict__", {}) if is_own_module(name) else {}
            for attribute, value in list(content.items()):
                if id(value) in stands_in:
                    content[attribute] = stands_in[id(value)]

    def reason(self) -> str:
        """Return what the env has asked the system for, as a cause of a difference."""
        text = ""
        if self.clock_asked_by:
            text = (
                f". It asks for the time ({self.clock_asked_by}), which no state holds and which "
                "goes on; count steps instead"
            )
        if self.entropy_asked_by:
            text += (
                f". It asks the system for random numbers ({self.entropy_asked_by}), which no "
                "state holds; draw from self.np_random"
            )
        return text

    def _later(self, plain: Any, leap: int) -> Any:
        def asked() -> Any:
            self._note_clock(f"time.{plain.__name__}", sys._getframe(1))
            return plain() + self._restores * leap

        return asked

    def _note_clock(self, function: str, frame: types.FrameType) -> None:
        if is_own_module(frame.f_globals.get("__name__", "")):
            self.clock_asked_by = f"{function} in {frame.f_code.co_qualname}"

    def _later_dates(self, plain: Any) -> Any:
        """Return what stands in for the class of dates: what it makes is of the class itself."""

        class Kind(type):
            def __instancecheck__(cls, value: Any) -> bool:
                return isinstance(value, plain)

            def __subclasscheck__(cls, value: Any) -> bool:
                return issubclass(value, plain)

            def __getattr__(cls, name: str) -> Any:
                return getattr(plain, name)

            def __call__(cls, *args: Any, **kwargs: Any) -> Any:
                return plain(*args, **kwargs)

        def leaping(name: str) -> Any:
            def asked(*args: Any, **kwargs: Any) -> Any:
                self._note_clock(f"datetime.{name}", sys._getframe(1))
                passed = datetime.timedelta(seconds=self._restores * _LEAP)
                return getattr(plain, name)(*args, **kwargs) + passed

            return staticmethod(asked)

        names = ("now", "utcnow", "today")
        return Kind("datetime", (), {name: leaping(name) for name in names})

    def _altered(self, plain: Any) -> Any:
        def asked(size: int) -> bytes:
            if self._is_own_draw():
                self._draws += 1
                if self._draws <= _ALTERED:
                    return (b"\0", b"\xff")[self._restores % 2] * size
            return bytes(plain(size))

        return asked

    def _seeded(self, plain: Any) -> Any:
        def seed(generator: Any, a: Any = None, *args: Any, **kwargs: Any) -> None:
            # Compiled code asks the system where no seed is given.
            if a is None and self._is_own_draw():
                a = os.urandom(32)
            plain(generator, a, *args, **kwargs)

        return seed

    def _is_own_draw(self) -> bool:
        frame: Any = sys._getframe(2)
        for _ in range(_FRAMES):
            module = "" if frame is None else frame.f_globals.get("__name__", "")
            if is_own_module(module):
                self.entropy_asked_by = frame.f_code.co_qualname
                return True
            # Not through gymnasium, whose spaces seed themselves: it is they that states leave out.
            if module.partition(".")[0] not in _BETWEEN:
                return False
            frame = frame.f_back
        return False
