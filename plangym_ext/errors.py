"""Exception classes of the library, one per failure that a caller can handle.

Every message says where it happened, what was expected, what came and what to
do. Errors about a caller's argument also derive from the builtin that Python
users expect (`ValueError`, `TypeError`), so plain `except ValueError` works.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable
from typing import Any


class PlangymExtError(Exception):
    """Base of every error that this library raises on purpose."""


class StateError(PlangymExtError, ValueError):
    """A state row cannot be used; the simulator has not seen it."""


class DamagedState(StateError):
    """A state row was truncated, extended or altered since it was captured."""


class ForeignState(StateError):
    """A state row belongs to another env, version or configuration."""


class UntrustedState(StateError):
    """A state row from elsewhere holds a pickle, or names what this env's states never hold."""


class IncompleteState(PlangymExtError):
    """An env's state cannot be captured exactly, and nothing is approximated."""


class NotExact(IncompleteState):
    """Played again from the same state, an env did something else than it did before."""


class InexactState(PlangymExtError):
    """An audit has found a state whose future is not the real one; earlier results may be wrong."""


class InvalidAction(PlangymExtError, ValueError):
    """An action batch has the wrong length, shape, dtype or range."""


class InvalidObservation(PlangymExtError, ValueError):
    """An env returned an observation that its own space does not allow, or no usable number."""


class WrongKind(PlangymExtError, TypeError):
    """An argument, or what a function of the caller's returned, is of another kind."""


class UnknownName(PlangymExtError, ValueError):
    """A name (env, planner, option) is not known; the message has a close match."""


class UnknownOption(UnknownName, TypeError):
    """A keyword of a constructor is not known; the message has a close match."""


class InvalidOption(PlangymExtError, ValueError):
    """An option (of a planner, of an episode) has a value that it cannot have."""


class InvalidAnswer(PlangymExtError, ValueError):
    """A function of the caller's, such as an evaluator, returned what cannot be used."""


class NoLegalAction(PlangymExtError, ValueError):
    """A state that is to be planned from allows no action."""


class OneEnvPerProcess(PlangymExtError, RuntimeError):
    """A second instance of a simulator of which a process can hold but one."""


class BackendUnavailable(PlangymExtError, ValueError):
    """The backend that was asked for cannot run this env; another one can."""


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
    """A compiled kernel does not give what the env itself gives; its results were not used."""


class InvalidSamples(PlangymExtError, ValueError):
    """Rows of experience do not fit each other, or the buffer that they are for."""


class ReplayEmpty(PlangymExtError, LookupError):
    """A batch was asked for before anything was added to the replay buffer."""


class NoSuchFile(PlangymExtError, FileNotFoundError):
    """There is no file of the name that was given."""


class FolderTaken(PlangymExtError, FileExistsError):
    """A folder for results holds those of another run, and nothing is overwritten."""


class FolderBusy(FolderTaken):
    """Another process is writing in a folder for results, and nothing was written there."""


class MissingExtra(PlangymExtError, ImportError):
    """An optional dependency is needed; the message names the extra to install."""


class CannotDraw(PlangymExtError, RuntimeError):
    """The renderer of an env failed; the message says what it was set to, and what it said."""


class EnvClosed(PlangymExtError, RuntimeError):
    """The env has been closed and cannot be used any more."""


class ResetNeeded(PlangymExtError, RuntimeError):
    """The env has not been reset yet, so it has no state to step or capture."""


class ConcurrentUse(PlangymExtError, RuntimeError):
    """Two threads called what serves one at a time; nothing was done for the second."""


class InheritedEnv(PlangymExtError, RuntimeError):
    """A forked process used an env whose workers belong to its parent; nothing was done."""


class BatchPending(PlangymExtError, RuntimeError):
    """A batch that was begun is still running, and the call would change what it reads."""


class WorkerError(PlangymExtError, RuntimeError):
    """A worker raised an exception that could not be brought over as itself."""


class WorkerDied(PlangymExtError, RuntimeError):
    """A worker process ended unasked.

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
    """Shared memory could not be had, reached or sent; the message says which."""


class ArrayClosed(PlangymExtError, RuntimeError):
    """An array, or the memory under it, was closed and cannot be used any more."""


class DamagedCheckpoint(PlangymExtError, ValueError):
    """A checkpoint was cut short or altered, or the file is none."""


class ForeignCheckpoint(PlangymExtError, ValueError):
    """A checkpoint belongs to other settings, another env or another network."""


class NotWritten(PlangymExtError, OSError):
    """A file of a run could not be written; checkpoints that are there are as they were."""


class ForeignNetwork(PlangymExtError, ValueError):
    """Weights, or the state of an algorithm, belong to another network; nothing was changed."""


class LearnerLost(PlangymExtError, RuntimeError):
    """A learner of a run has ended, failed or hung; the run goes on from its last checkpoint."""


class LossNotFinite(PlangymExtError, ArithmeticError):
    """A loss or its gradient is not finite; the parameters are as they were before."""


def installing(extra: str) -> str:
    """`Install it with ...`: how an extra of this library is had, the end of a message."""
    command = f"pip install -c constraints.txt '.[{extra}]'"
    where = "in the checkout of plangym-ext"
    if extra in ("dm_control", "retro"):  # they hold back packages that the others need
        return f"Install it {where}, in a virtual environment of its own, with: {command}"
    return f"Install it {where} with: {command}"


def suggestion(name: Any, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the closest of `known`, or nothing."""
    if not isinstance(name, str):
        return ""
    folded = {key.lower(): key for key in known}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    return f" (did you mean {folded[close[0]]!r}?)" if close else ""


def text_of(error: BaseException) -> str:
    """Return class and text of an error, or the class if it has no text."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # of its own `__str__`
        return type(error).__name__


def add_note(error: BaseException, note: str) -> None:
    """Add a note, if the error takes any: one that is frozen is raised as it is."""
    with contextlib.suppress(Exception):
        error.add_note(note)
