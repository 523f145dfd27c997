"""Logger: writes the numbers of a run to all its log files and services."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import secrets
import socket
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.inherited_options import load_own_class
from plangym_ext.core.numbers import at_least
from plangym_ext.errors import FolderTaken, InvalidOption, MissingExtra, installing
from plangym_ext.run.files import read_json, write_json
from plangym_ext.run.logs.appended import STEP, AppendedFile, CsvFile, JsonlFile, LateFile, Number
from plangym_ext.run.logs.table import LiveTable, as_text


class LogService(Closing):
    """Abstract; a service that receives the rows of a log.

    One of your own is named in the settings (`loggers`), and made with the folder of the run and
    its params, which are its settings, seed and versions.

    Args:
        folder: of the log.
        params: as of `Logger`.
    """

    def __init__(self, folder: Path, params: Mapping[str, Any] | None) -> None:
        self._folder, self._params = folder, params

    @abstractmethod
    def add(self, row: Mapping[str, int | float]) -> None:
        """Take a row of numbers by name, "step" among them."""

    def truncate_after(self, step: int) -> None:
        """Drop rows after `step`: those of a resumed run come again, and are the same."""

    def sync(self) -> None:
        """Write all rows out; called before a checkpoint."""

    def close(self) -> None:
        """Release what is held; the next `add` may open it again."""


class TextFile(LogService):
    """Writes the rows as text to `progress.txt`, without times, so that equal runs are equal."""

    def __init__(self, folder: Path, params: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder, params)
        self._file = AppendedFile(folder / "progress.txt")

    def add(self, row: Mapping[str, Number]) -> None:
        """Append a row; it is in the file when this returns."""
        told = {name: value for name, value in row.items() if not name.startswith("timings/")}
        self._file.write(as_text(told) + "\n")

    def truncate_after(self, step: int) -> None:
        """Drop rows after `step`, and half a row at the end."""
        kept = []
        with self._file.reading():
            for line in self._file.whole_lines().splitlines(keepends=True):
                if line.startswith(STEP) and int(line.split()[1]) > step:
                    break
                kept.append(line)
        self._file.replace("".join(kept))

    def sync(self) -> None:
        """Flush the file to disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file; the next `add` opens it again."""
        self._file.close()


PROGRESS = "progress.csv"
#: Names of what it writes.
FILES = (PROGRESS, "progress.jsonl", "params.json", "timings.csv")
#: Numbers by name.
Numbers = Mapping[str, float]


class Logger(Closing):
    """Writes `progress.csv`, `progress.jsonl`, `params.json`, `timings.csv`, and to services.

    Everything that the run computes goes to the progress files, which are the same bytes
    for the same run, resumed or not; everything that clocks say goes to `timings.csv`.

    Args:
        folder: made if it is not there.
        params: written to `params.json`: settings, seed, versions.
        resume: go on with the log in the folder; call `truncate_after` with the step of
            the checkpoint. False refuses a folder with a log.
        tensorboard: also write event files; None: if tensorboard is installed.
        wandb: project on Weights & Biases where a run with these numbers is kept as well; empty:
            none.
        loggers: "text", which writes them to `progress.txt`, and classes of your own that also
            get the rows, each a "module:Class" of a `LogService`.
        total: steps of the whole run, for the progress bar; None if unknown.
        show: 0 shows nothing, 1 the table and the bar, 2 all numbers of every row and the bar.
        columns: of the table, see `LiveTable`; None: as many as fit.
        stream: where to show them; standard error if None.

    Raises:
        FolderTaken: the folder holds a log and `resume` is False.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        params: Mapping[str, Any] | None = None,
        resume: bool = False,
        tensorboard: bool | None = None,
        wandb: str = "",
        loggers: Sequence[str] = (),
        total: int | None = None,
        show: int = 1,
        columns: list[str | tuple[str, ...]] | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self._folder = Path(folder).absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        if not resume:
            self._refuse_taken()
        if params is not None:
            write_json(self._folder / "params.json", dict(params))
        self._progress = CsvFile(self._folder / PROGRESS)
        self._lines = JsonlFile(self._folder / "progress.jsonl")
        self._timings = CsvFile(self._folder / "timings.csv")
        self._files: list[Any] = [self._progress, self._lines, self._timings]
        self._services: list[LogService] = []
        if tensorboard_is_there() if tensorboard is None else tensorboard:
            self._services.append(TensorBoardFile(self._folder, params))
        if wandb:
            self._services.append(WandbRun(self._folder, wandb, params))
        for name in loggers:
            own: Any = TextFile
            if name != "text":
                own = load_own_class(name, "settings: loggers", LogService)
            self._services.append(own(self._folder, params))
        self._files += self._services
        self._table = LiveTable(total, columns, stream) if show else None
        self._tells_all = show > 1
        self._start_clock()

    def _refuse_taken(self) -> None:
        taken = self._folder / PROGRESS
        if taken.exists():
            raise FolderTaken(
                f"Logger: the folder must have no log; there is {taken}. Resume that run, or "
                f"choose another folder."
            )

    def _start_clock(self) -> None:
        # The seconds of a resumed run go on from those it had.
        self._began = time.monotonic() - self._timings.last.get("seconds", 0.0)

    def log(self, step: int, values: Numbers, *, timings: Numbers | None = None) -> None:
        """Write and show one row.

        Args:
            step: greater than that of the row before.
            values: numbers by name, such as "eval/return"; new names may come at any time.
            timings: numbers that depend on the clock, such as "steps_per_second". They and
                the seconds since the start go to `timings.csv`.

        Raises:
            InvalidOption: the step is not greater, or a value is no number. Nothing has been
                written.
        """
        row, timed = _row(step, values), _row(step, timings or {})
        self._check_step(step)
        # Of the monotonic clock: the time of day may be set while a run goes on.
        seconds = round(time.monotonic() - self._began, 3)
        # After all checks: either all files get the row, or none.
        self._progress.add(row)
        self._lines.add(row)
        self._timings.add({STEP: step, "seconds": seconds, **timed})
        for service in self._services:
            service.add({**row, **{f"timings/{n}": v for n, v in timed.items() if n != STEP}})
        if self._table is not None and self._tells_all:
            self._table.text(step, as_text({**row, **timed}))
        elif self._table is not None:
            self._table.row(step, {n: v for n, v in {**row, **timed}.items() if n != STEP})

    def _check_step(self, step: int) -> None:
        before = self._progress.last.get(STEP)
        if before is not None and not step > before:
            raise InvalidOption(
                f"Logger.log: step must be greater than the one before, {before:g}; got {step}. "
                f"To go on from a checkpoint call truncate_after with its step."
            )

    def progress(self, step: int, text: str = "") -> None:
        """Move the bar between two rows."""
        if self._table is not None:
            self._table.progress(step, text)

    def leave(self) -> None:
        """Print the table's pending rows and end its line, before other output."""
        if self._table is not None:
            self._table.leave()

    def truncate_after(self, step: int) -> None:
        """Drop all rows after `step`, and rows half written at a kill.

        An interrupted run that calls it with the step of its checkpoint, and goes on, ends
        with the progress files of a run that was never interrupted.
        """
        for file in self._files:
            file.truncate_after(step)
        self._start_clock()

    def flush(self) -> None:
        """Write everything to disk before a checkpoint refers to it."""
        for file in self._files:
            file.sync()

    def close(self) -> None:
        for file in self._files:
            file.close()
        self.leave()


def _row(step: int, values: Numbers) -> dict[str, int | float]:
    """Return the step and the values as Python's own numbers, or refuse them."""
    row: dict[str, int | float] = {STEP: at_least("Logger.log: step", step, 0)}
    for name, value in values.items():
        if name == STEP:
            raise InvalidOption("Logger.log: step must be passed once; values contain it, too.")
        row[name] = _number(name, value)
    return row


def _number(name: str, value: Any) -> int | float:
    if hasattr(value, "item"):
        # A numpy scalar, or an array or tensor of one element; larger ones stay and are refused.
        with contextlib.suppress(ValueError, RuntimeError):
            value = value.item()
    if not isinstance(value, (int, float)):
        raise InvalidOption(
            f"Logger.log: {name!r} must be one number; got {type(value).__name__} "
            f"{str(value)[:40]!r}. Log a mean, or leave it out."
        )
    # Files have no bools: True is 1.
    return int(value) if isinstance(value, bool) else value


# TensorBoard event files, written with the `tensorboard` package only ---------


def tensorboard_is_there() -> bool:
    """Return whether the package is installed, without importing it."""
    return importlib.util.find_spec("tensorboard") is not None


class TensorBoardFile(LogService):
    """Scalars by step. Later rows are removed by a restart event, not by cutting files.

    Args:
        folder: where the event file is made, when there is something to write.
        params: not written.

    Raises:
        MissingExtra: tensorboard is not installed.
    """

    def __init__(self, folder: Path, params: Mapping[str, Any] | None = None) -> None:
        if not tensorboard_is_there():
            raise MissingExtra(
                "Logger: tensorboard is not installed. Pass tensorboard=False, or install it. "
                f"{installing('tensorboard')}"
            )
        super().__init__(folder, params)
        self._file = LateFile(self._opened)

    def add(self, row: Mapping[str, int | float]) -> None:
        """Write the numbers of a row, all but its step."""
        scalars = [
            {"tag": name, "simple_value": value} for name, value in row.items() if name != "step"
        ]
        self._write(step=int(row["step"]), summary={"value": scalars})

    def truncate_after(self, step: int) -> None:
        """Write a restart event, so that readers drop rows after `step`."""
        if any(self._folder.glob("events.out.tfevents.*")):
            # A restart makes readers drop its own step too, hence one more.
            self._write(step=step + 1, session_log={"status": "START"})

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        """Close the file; the next `add` begins another one."""
        self._file.close()

    def _write(self, **event: Any) -> None:
        # Here and not above: it takes a third of a second, and many runs go without.
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        records = RecordWriter(self._file)
        if not self._file.is_open:
            begin = Event(wall_time=time.time(), file_version="brain.Event:2")
            records.write(begin.SerializeToString())
        records.write(Event(wall_time=time.time(), **event).SerializeToString())

    def _opened(self) -> Any:
        # The time comes first: readers take files by name, and a restart must come after them.
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        return (self._folder / name).open("xb")


# WandbRun: logging to Weights & Biases ----------------------------------------


class WandbRun(LogService):
    """Scalars by step, of which none is dropped. A log in the same folder continues the same run.

    `WANDB_MODE=offline` keeps the run in the folder, for `wandb sync`.

    Args:
        folder: where `wandb.json` keeps the run's identity, and its own files lie.
        project: that it belongs to.
        params: its config, written when it begins.

    Raises:
        MissingExtra: wandb is not installed.
    """

    def __init__(self, folder: Path, project: str, params: Mapping[str, Any] | None) -> None:
        if importlib.util.find_spec("wandb") is None:
            raise MissingExtra(
                "Logger: wandb is not installed. Leave wandb out, or install it. "
                f"{installing('wandb')}"
            )
        super().__init__(folder, params)
        self._project = project
        self._run: Any = None

    def add(self, row: Mapping[str, int | float]) -> None:
        """Log the numbers of a row, all but its step."""
        if self._run is None:
            self._begin()
        step = int(row["step"])
        # Of a history nothing can be taken back: rows that a resumed run comes to again, and
        # which are the same, are left out.
        if step >= self._run.step:
            self._run.log({name: value for name, value in row.items() if name != "step"}, step=step)

    def close(self) -> None:
        """Wait for the upload; the next `add` continues the run."""
        if self._run is not None:
            self._run.finish()
            self._run = None

    def _begin(self) -> None:
        # Here and not above: it takes seconds, and few logs want it.
        wandb = importlib.import_module("wandb")
        self._run = wandb.init(
            project=self._project,
            id=self._identity(),
            name=self._folder.resolve().name,
            config=dict(self._params or {}),
            dir=str(self._folder),
            resume="allow",
            # The terminal is the live table's.
            settings=wandb.Settings(silent=True, console="off"),
        )

    def _identity(self) -> str:
        path = self._folder / "wandb.json"
        if not path.exists():
            write_json(path, {"id": secrets.token_hex(8), "project": self._project})
        return str(read_json(path, "the id of a run")["id"])
