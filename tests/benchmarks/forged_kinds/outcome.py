"""What a mutant has done, in a word; and mutants that are used in forked children."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from plangym_ext.errors import PlangymExtError

ROOT = Path(__file__).parents[3]
#: Folders of the library: an error that comes from there is to be one of its own.
LIBRARY = tuple(f"{ROOT / name}{os.sep}" for name in ("plangym_ext", "envs", "planners"))
#: What nothing that is read may do.
_FORBIDDEN = ("os.", "subprocess.", "socket.", "shutil.", "ctypes.dlopen", "pty.")
#: Of the library itself, and of Python's own.
_HARMLESS = ("os.scandir", "os.listdir", "os.fwalk", "os.walk", "os.putenv", "os.unsetenv")
#: Processor time that a mutant may take.
SECONDS = 20
GOOD = ("refused", "told", "accepted", "error of the env")

#: Whole numbers that mutants put in the place of others: at the ends of types, and small ones.
WHOLE = (
    0,
    1,
    -1,
    2,
    255,
    -5,
    2**31 - 1,
    -(2**31),
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
    10**6,
    7,
    64,
)


class Watch:
    """Notes what the interpreter is asked to do while it is on; a hook stays for ever."""

    def __init__(self) -> None:
        self.on, self.seen = False, set[str]()
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: Any) -> None:
        if not self.on or event in _HARMLESS:
            return
        if event.startswith(_FORBIDDEN):
            self.seen.add(f"{event} {str(arguments)[:80]}")


def outcome(use: Callable[[], str], refusals: tuple[type[Exception], ...]) -> str:
    """Return what came of it: one of `GOOD`, or "raw ..." with the place.

    Args:
        use: what is tried; it returns the word if nothing is raised.
        refusals: errors that say that what was read is no good.
    """
    try:
        return use()
    except refusals:
        return "refused"
    except PlangymExtError:
        return "told"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1]
        # A state that an env accepts, and then cannot step from: its own code says so.
        if not any(frame.name == "restore" for frame in frames) and _is_of_env(frames):
            return "error of the env"
        place = f"{Path(last.filename).name}:{last.lineno}"
        return f"raw {type(error).__name__} at {place}: {str(error)[:80]}"


def _is_of_env(frames: Iterable[Any]) -> bool:
    return any(frame.name == "step" and not frame.filename.startswith(LIBRARY) for frame in frames)


def batch(numbers: list[int], use: Callable[[int], str]) -> dict[int, str]:
    """Use mutants in a forked child; in another one after each that ended it.

    Args:
        numbers: of the mutants.
        use: makes and uses one, and returns its outcome.
    """
    found: dict[int, str] = {}
    while left := [number for number in numbers if number not in found]:
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(out)
            _serve(left, use, into)
        os.close(into)
        with os.fdopen(out, encoding="utf-8", errors="replace") as lines:
            said = [line for line in lines.read().splitlines() if line]
        _, status = os.waitpid(child, 0)
        begun = -1
        for line in said:
            begun, *rest = json.loads(line)
            if rest:
                found[begun] = rest[0]
        if status and begun not in found:
            ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            name = signal.Signals(ended).name if ended else f"exit {os.WEXITSTATUS(status)}"
            found[begun] = "hang" if ended == signal.SIGPROF else f"crash {name}"
        elif status and len(left) == len([number for number in left if number not in found]):
            raise RuntimeError(f"a child ended with status {status} before it began")
    return found


def _serve(numbers: list[int], use: Callable[[int], str], into: int) -> None:
    """Use all of them; never returns."""
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for number in numbers:
        os.write(into, f"{json.dumps([number])}\n".encode())
        # By processor time: a busy machine is no hang.
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            word = use(number)
        except BaseException as error:
            word = f"raw {type(error).__name__}: {str(error)[:80]}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.write(into, f"{json.dumps([number, word])}\n".encode())
    os._exit(0)
