"""Exception classes of the library, one per failure that a caller can handle.

Every message says where it happened, what was expected, what came and what to
do. Errors about a caller's argument also derive from the builtin that Python
users expect (`ValueError`, `TypeError`), so plain `except ValueError` works.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable
from typing import Any


class PlangymExtError(Exception):
    """Base of every error that this library raises on purpose."""


class StateError(PlangymExtError, ValueError):
    """A state row cannot be used; it has not reached the simulator."""


class DamagedState(StateError):
    """A state row was truncated, extended or altered since it was captured."""


class ForeignState(StateError):
    """A state row belongs to another env, version or configuration."""


class UntrustedState(StateError):
    """A state row from elsewhere holds a pickle, or refers to names outside the env's own."""


class IncompleteState(PlangymExtError):
    """An env's state cannot be captured exactly, and nothing is approximated."""


class NotExact(IncompleteState):
    """A replay from the same state gave another result."""


class InexactState(PlangymExtError):
    """An audit found a state with a different future; earlier results may be wrong."""


class InvalidAction(PlangymExtError, ValueError):
    """An action batch has the wrong length, shape, dtype or range."""


class InvalidObservation(PlangymExtError, ValueError):
    """An env returned an observation outside its space, or an invalid number."""


class WrongKind(PlangymExtError, TypeError):
    """An argument, or the result of a caller's function, has the wrong type."""


class UnknownName(PlangymExtError, ValueError):
    """A name (env, planner, option) is not known; the message has a close match."""


class UnknownOption(UnknownName, TypeError):
    """A keyword of a constructor is not known; the message has a close match."""


class InvalidOption(PlangymExtError, ValueError):
    """An option (of a planner, of an episode) has an invalid value."""


class NoSuchIndex(PlangymExtError, IndexError):
    """A requested row, cell or item does not exist."""


class InvalidAnswer(PlangymExtError, ValueError):
    """A caller's function, such as an evaluator, returned an unusable result."""


class NoLegalAction(PlangymExtError, ValueError):
    """A state to plan from allows no action."""


class UnequalEnvs(PlangymExtError, RuntimeError):
    """Sub-envs of a vector env whose spaces must be equal have different ones."""


class OneEnvPerProcess(PlangymExtError, RuntimeError):
    """A second instance of a simulator that allows one per process."""


class BackendUnavailable(PlangymExtError, ValueError):
    """The requested backend cannot run this env; another one can."""


class NoKernel(BackendUnavailable):
    """An env has no compiled kernel, or none for its arguments or wrappers.

    Attributes:
        reason: what is missing, without the env's name and the remedy.
    """

    def __init__(self, reason: str, *, name: str = "") -> None:
        remedy = "Use backend='serial' or 'process', or register a kernel."
        super().__init__(f"{name}: {reason}. {remedy}" if name else reason)
        self.reason = reason


class KernelDiffers(PlangymExtError, RuntimeError):
    """A compiled kernel and its env give different results; the kernel's were not used."""


class InvalidSamples(PlangymExtError, ValueError):
    """Rows of experience do not fit each other or their buffer."""


class ReplayEmpty(PlangymExtError, LookupError):
    """A batch was requested from an empty replay buffer."""


class NoSuchFile(PlangymExtError, FileNotFoundError):
    """A file of the given name does not exist."""


class FolderTaken(PlangymExtError, FileExistsError):
    """An output folder holds the results of another run; nothing was overwritten."""


class FolderBusy(FolderTaken):
    """Another process writes to the output folder; nothing was written."""


class MissingExtra(PlangymExtError, ImportError):
    """An optional dependency is needed; the message names the extra to install."""


class CannotDraw(PlangymExtError, RuntimeError):
    """The renderer of an env failed; the message has its settings and its own error."""


class EnvClosed(PlangymExtError, RuntimeError):
    """The env has been closed and cannot be used any more."""


class ResetNeeded(PlangymExtError, RuntimeError):
    """The env has not been reset yet, so it has no state to step or capture."""


class ConcurrentUse(PlangymExtError, RuntimeError):
    """Two threads called an object that serves one at a time; the second call did nothing."""


class InheritedEnv(PlangymExtError, RuntimeError):
    """A forked process used an env whose workers belong to its parent; nothing was done."""


class BatchPending(PlangymExtError, RuntimeError):
    """A batch is still running, and the call would change its inputs."""


class WorkerError(PlangymExtError, RuntimeError):
    """A worker raised an exception that could not be transferred as itself."""


class WorkerDied(PlangymExtError, RuntimeError):
    """A worker process ended unexpectedly.

    Attributes:
        worker: its number.
        pid: its process id.
        exit_status: as `subprocess` has it: minus the signal's number if one killed it.
        last_command: what it was asked last.
    """

    def __init__(
        self,
        message: str,
        *,
        worker: int | None = None,
        pid: int | None = None,
        exit_status: int | None = None,
        last_command: str = "",
    ) -> None:
        super().__init__(message)
        self.worker, self.pid = worker, pid
        self.exit_status, self.last_command = exit_status, last_command


class PoisonState(WorkerDied):
    """Stepping one state killed two workers, one after the other.

    The other rows are not to blame: run them again without this one.

    Attributes:
        row: its row in the batch.
        state: `[S]` uint8, the state itself.
        action: what was to be played from it.
    """

    def __init__(
        self, message: str, *, row: int = -1, state: Any = None, action: Any = None, **rest: Any
    ) -> None:
        super().__init__(message, **rest)
        self.row, self.state, self.action = row, state, action


class WorkerTimeout(PlangymExtError, TimeoutError):
    """A worker did not answer within the deadline and was stopped.

    Attributes:
        workers: numbers of the workers that did not answer.
        rows: of a vector env, numbers of the sub-envs that they were moving.
    """

    def __init__(
        self, message: str, *, workers: tuple[int, ...] = (), rows: tuple[int, ...] = ()
    ) -> None:
        super().__init__(message)
        self.workers, self.rows = workers, rows


class StorageError(PlangymExtError, OSError):
    """Shared memory could not be allocated, mapped or sent; the message says which."""


class ArrayClosed(PlangymExtError, RuntimeError):
    """An array, or the memory under it, was closed and cannot be used any more."""


class DamagedCheckpoint(PlangymExtError, ValueError):
    """A checkpoint was cut short or altered, or the file is not a checkpoint."""


class ForeignCheckpoint(PlangymExtError, ValueError):
    """A checkpoint belongs to other settings, another env or another network."""


class NotWritten(PlangymExtError, OSError):
    """A file of a run could not be written; earlier checkpoints are intact."""


class UnreadableFile(PlangymExtError, OSError, ValueError):
    """A file is a pipe, is larger than one of its kind may be, or holds something else."""


class ForeignNetwork(PlangymExtError, ValueError):
    """Weights, or the state of an algorithm, belong to another network; nothing was changed."""


class LearnerLost(PlangymExtError, RuntimeError):
    """A learner of a run has ended, failed or hung; resume the run from its last checkpoint."""


class LossNotFinite(PlangymExtError, ArithmeticError):
    """A loss or its gradient is not finite; the parameters are as they were before."""


def installing(extra: str) -> str:
    """Return the end of a message: the command that installs an extra of this library."""
    command = f"pip install -c constraints.txt '.[{extra}]'"
    where = "in the checkout of plangym-ext"
    if extra in ("dm_control", "retro"):  # they hold back packages that the others need
        return f"Install it {where}, in a virtual environment of its own, with: {command}"
    return f"Install it {where} with: {command}"


def in_our_words(name: str) -> str:
    """Return an option's name in lower case, with this library's word as its last part."""
    return re.sub(r"(?<![a-z])gamma$", "discount", name.lower())


def plural(noun: str, count: float) -> str:
    """Return a noun with the ending for so many."""
    return noun if count == 1 else f"{noun}s"


def suggestion(name: Any, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the closest of `known`, or nothing."""
    if not isinstance(name, str):
        return ""
    folded = {key.lower(): key for key in known}
    close = difflib.get_close_matches(in_our_words(name), folded, n=1, cutoff=0.5)
    return f" (did you mean {folded[close[0]]!r}?)" if close else ""


def text_of(error: BaseException) -> str:
    """Return class and text of an error, or the class if it has no text."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # of its own `__str__`
        return type(error).__name__


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error, if it takes notes; frozen ones stay as they are."""
    with contextlib.suppress(Exception):
        error.add_note(note)
