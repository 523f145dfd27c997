"""Children of this process that run a role, with a limit; whatever they start ends with them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

#: The program that runs a role in a process of its own.
PROGRAM = Path(__file__).parents[1] / "hidden_state.py"
#: Processor seconds that a role may take, beside the audit's own; by the clock, six times that.
SECONDS = 90


def run_role(
    role: str, kind: str, folder: Path, seconds: float, steps: int, *, forked: bool
) -> str:
    """Run a role in a child; return why it has no result, or "".

    Args:
        role: "live", "fresh" or "audit".
        kind: of env.
        folder: where it reads and writes.
        seconds: of the audit.
        steps: of the others.
        forked: in a fork of this process, which must have made no env; else in a new one.
    """
    pid = os.fork()
    if pid == 0:
        _be(role, kind, folder, seconds, steps, forked=forked)
    limit = SECONDS + (seconds if role == "audit" else 0)
    return _waited(pid, limit)


def _be(role: str, kind: str, folder: Path, seconds: float, steps: int, *, forked: bool) -> None:
    """Be the child, which never returns."""
    status = 1
    try:
        os.setsid()
        out = os.open(folder / f"{role}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        # What envs leave behind goes with the folder.
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        if not forked:
            part = [role, kind, str(folder), str(seconds), str(steps)]
            os.execv(sys.executable, [sys.executable, "-P", str(PROGRAM), "--role", *part])
        from hidden_kinds.trial import written

        written(role, kind, folder, seconds, steps)
        status = 0
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(status)


def _waited(pid: int, limit: float) -> str:
    begun, why = time.monotonic(), ""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            why = "" if status == 0 else f"ended with {os.waitstatus_to_exitcode(status)}"
            break
        passed = time.monotonic() - begun
        if _worked(pid) > limit or passed > 6 * limit:
            why = f"did not end within {limit:g} s"
            break
        time.sleep(0.02)
    # The whole session of the child: nothing that it started goes on.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if not done:
        os.waitpid(pid, 0)
    return why


def _worked(pid: int) -> float:
    """Return the processor seconds of a process and its ended children."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def emptied(folder: Path) -> None:
    """Remove what a trial has left."""
    shutil.rmtree(folder, ignore_errors=True)
