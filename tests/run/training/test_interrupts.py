"""Ctrl-C that lets a round end, at an unlucky moment."""

import contextlib
import io
import os
import signal
import sys
import time

import pytest

from plangym_ext.run.training import interrupts
from plangym_ext.run.training.interrupts import (
    Interrupts,
    closing_when_terminated,
    interrupts_held,
    interrupts_raised,
)


class _InterruptedWrite(io.RawIOBase):
    """A stream that Ctrl-C interrupts in the middle of its first write."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._calls = descriptor, 0

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: bytes) -> int:
        self._calls += 1
        if self._calls == 1:
            signal.raise_signal(signal.SIGINT)
        return os.write(self._descriptor, data)


def test_ctrl_c_within_a_write_to_stderr_is_noted_and_told(monkeypatch):
    read, write = os.pipe()
    stream = io.TextIOWrapper(io.BufferedWriter(_InterruptedWrite(write)), write_through=True)
    with open(read) as reader:
        with open(write, "w") as owner, Interrupts("ending the move") as interrupts:
            monkeypatch.setattr(sys, "stderr", stream)
            print("step 1/9", file=sys.stderr, flush=True)
            monkeypatch.undo()
            assert interrupts.seen
            owner.flush()
        shown = reader.read()
    assert "interrupted: ending the move" in shown
    assert shown.count("step 1/9") == 1


def test_a_second_ctrl_c_raises():
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.seen
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


class _Swallowing:
    """An object whose end is where Ctrl-C comes: Python swallows what is raised there."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_within_a_finaliser_is_raised_all_the_same():
    def swallowed():
        _Swallowing()
        time.sleep(60)

    with pytest.raises(KeyboardInterrupt), interrupts_raised():
        swallowed()


def test_sigterm_within_a_finaliser_ends_the_process_in_order(monkeypatch):
    ended_by, closed = [], []
    monkeypatch.setattr(interrupts.os, "kill", lambda _, number: ended_by.append(number))

    class Terminating:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)

    def swallowed():
        Terminating()
        time.sleep(60)

    with closing_when_terminated(), interrupts_raised():
        try:
            swallowed()
        finally:
            closed.append(True)
    assert (closed, ended_by) == ([True], [signal.SIGTERM])


def test_sigterm_ends_the_process_whatever_an_env_makes_of_it(monkeypatch):
    ended_by = []
    monkeypatch.setattr(interrupts.os, "kill", lambda _, number: ended_by.append(number))

    def step():
        try:
            signal.raise_signal(signal.SIGTERM)
        except BaseException:
            raise ValueError("its own") from None

    with pytest.raises(ValueError, match="its own"), closing_when_terminated():
        step()
    assert ended_by == [signal.SIGTERM]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_held_until_a_block_ends(number, monkeypatch):
    monkeypatch.setattr(interrupts.os, "kill", lambda *_: None)
    held = []
    with contextlib.suppress(KeyboardInterrupt), closing_when_terminated():
        with interrupts_held():
            signal.raise_signal(number)
            held.append(True)
        pytest.fail("it was forgotten")
    assert held
