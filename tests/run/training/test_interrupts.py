"""Ctrl-C that lets a round end, at an unlucky moment."""

import io
import os
import signal
import sys
import time

import pytest

from plangym_ext.run.training.interrupts import Interrupts, interrupts_raised


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
