"""`plangym-ext explore ENV_ID`: fill an archive of cells from restored states (Go-Explore).

DIR/archive.npz holds the complete exploration, DIR/log.csv a line per round, DIR/explore.json the
actions of the best score.
"""

from __future__ import annotations

import argparse
import collections
import csv
import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

from plangym_ext.core.files.whole_file import contents, replacing
from plangym_ext.core.options import Count, OneOf, Whole
from plangym_ext.errors import InvalidOption, UnreadableFile
from plangym_ext.run.arguments import (
    INTERRUPTED,
    Argument,
    Option,
    add_env_options,
    as_typed,
    env_arguments,
    import_modules,
    made_env,
    typed_settings,
)
from plangym_ext.run.files import FolderLock, check_vacant, read_json, remove_stale, write_json
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.training.interrupts import Interrupts
from plangym_ext.run.video import first_frame, recorded

# First what is there from the first save on, which tells whose folder it is.
_FILES = ("archive.npz", "explore.json", "log.csv", "best.mp4", "demonstration.npz")
_COLUMNS = ("steps", "rounds", "cells", "score", "length", "seconds")


def _note_typed(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    """Note what was typed: where an exploration goes on, it is told from defaults."""
    parser.set_defaults(typed=frozenset(typed_settings(given)))


class Options:
    """Options of the command.

    Args:
        env: a gymnasium id, such as ALE/MsPacman-v5
        cells: cell function: frames, frames:8x11x8, obs, obs:RESOLUTION, or
            info:NAME,NAME/WIDTH,... (default: frames of screens, else obs)
        kind: continue rows from cells of the archive, or from their own states
        max_steps: steps of all rows in total, in whole rounds
        rows: number of rows side by side
        horizon: steps from one return to the next
        seed: of the episode and the random actions
        save_every: seconds between saves
        repeat: probability of repeating the action
        n_workers: worker processes; 0 explores in this process (default: the fastest way for this
            env)
        frameskip: env steps per step
        out: where to write
        overwrite: overwrite the exploration in DIR
        resume: go on with the exploration in DIR, as it was set; --max-steps counts its steps too
        video: also write DIR/best.mp4, a film of the best score
        demonstration: also write DIR/demonstration.npz, states on the way there, for train
            --starts.file
    """

    env: Annotated[str, Argument("ENV_ID")]
    cells: Annotated[str | None, Option("TEXT")] = None
    kind: Annotated[str, OneOf(("archive", "particles"))] = "archive"
    max_steps: Annotated[Count, Option("M")] = 100_000
    rows: Annotated[Count, Option("B")] = 64
    horizon: Annotated[Count, Option("H")] = 100
    seed: Annotated[Whole, Option("SEED")] = 0
    save_every: Annotated[Count, Option("S")] = 60
    repeat: Annotated[float, Option("P")] = 0.95
    n_workers: Annotated[Whole | None, Option("W")] = None
    frameskip: Annotated[Count | None, Option("K")] = None
    out: Annotated[Path, Option("DIR")] = Path("runs/explore")
    overwrite: bool = False
    resume: bool = False
    video: bool = False
    demonstration: bool = False
    besides = (add_env_options, _note_typed)


def run(options: argparse.Namespace) -> int:
    """Explore, show progress, write the folder; Ctrl-C ends the command after the round."""
    from plangym_ext.explore import demonstration, verify

    import_modules(options, [options.env])
    with FolderLock(options.out, _FILES):
        # Under the lock: else two that begin at once would both find the folder vacant.
        if options.resume:
            _take_frameskip(options)
        else:
            check_vacant(options.out, _FILES[0], overwrite=options.overwrite)
        line = ProgressLine()
        with (
            made_env(options, line, draws=options.video) as env,
            # Once the env is made: until then there is nothing to save, and Ctrl-C ends at once.
            Interrupts("ending the round and saving") as interrupts,
        ):
            if options.video:
                # Before hours of exploring: what is no picture would end the film after them.
                first_frame(env, 0)
            kept = _Kept(options, _explorer(options, env), line, interrupts)
            line.update(f"{env.name}: exploring", force=True)
            kept.explorer.run(options.max_steps, callback=kept.note)
            # Before all that may fail, such as a film.
            kept.save()
            line.end(kept.text())
            verify(kept.explorer, kept.explorer.archive.best)
            # Of a best trajectory that was just played again from the reset: its actions can be
            # relied on.
            _write_summary(options, kept)
            _film(options, kept)
            if options.demonstration:
                states = demonstration(kept.explorer)
                states.save(options.out / "demonstration.npz", env)
    _tell(options, kept)
    # Everything is written in either case: the status alone says that there was more to do.
    return INTERRUPTED if kept.interrupted else 0


class _Kept:
    """Writer of an exploration's log and archive file."""

    def __init__(
        self, options: argparse.Namespace, explorer: Any, line: ProgressLine, interrupts: Interrupts
    ) -> None:
        self.explorer, self.interrupted = explorer, False
        self._options, self._line, self._interrupts = options, line, interrupts
        self._rows = _logged(options.out / "log.csv", explorer.steps_taken)
        # From the last line of the log: the time between two calls does not count.
        self._before = float(self._rows[-1]["seconds"]) if self._rows else 0.0
        # The rate is of this call: steps before it had seconds of their own.
        self._steps_before = explorer.steps_taken
        # Those of an exploration that is written over: kept until there is one in its place.
        self._stale = () if options.resume else _FILES[1:]
        self._began = time.monotonic()
        self._saved = self._began

    @property
    def seconds(self) -> float:
        """Seconds of this exploration, those before it was resumed counted in."""
        return self._before + time.monotonic() - self._began

    @property
    def why_more(self) -> str:
        """Why more steps were taken than were asked for."""
        if self._steps_before >= self._options.max_steps:
            return "as many were taken before"
        explorer = self.explorer
        return f"rounds of {explorer.num_rows} x {explorer.horizon} steps are played to their ends"

    def note(self, progress: Any) -> bool:
        """Take in a round; true to stop."""
        row = {**progress._asdict(), "seconds": round(self.seconds, 3)}
        self._rows.append(row)
        self._line.update(self.text())
        if time.monotonic() - self._saved >= self._options.save_every:
            self.save()
        # After the round was taken in: what it found is kept.
        self.interrupted = self._interrupts.seen
        return self.interrupted

    def save(self) -> None:
        """Write the exploration, then its log."""
        # The archive first: a full disk refuses the larger file, and the log is still that of
        # the archive which is there.
        self.explorer.save(self._options.out / "archive.npz")
        remove_stale(self._options.out, self._stale)
        self._stale = ()
        with replacing(self._options.out / "log.csv") as file:
            writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self._rows)
        self._saved = time.monotonic()

    def text(self) -> str:
        """Return the progress line."""
        explorer = self.explorer
        archive, steps = explorer.archive, explorer.steps_taken
        # Rounds are played to their ends.
        per_round = explorer.num_rows * explorer.horizon
        last = -(-self._options.max_steps // per_round) * per_round
        rate = (steps - self._steps_before) / max(time.monotonic() - self._began, 1e-9)
        score, length = archive.scores[archive.best], archive.steps[archive.best]
        return (
            f"step {steps:,}/{last:,}  {len(archive):,} cells  "
            f"best {score:g} after {length:,} steps  {rate:,.0f} steps/s"
        )


def _explorer(options: argparse.Namespace, env: Any) -> Any:
    """Return the exploration to go on with: a new one, or that of the folder."""
    from plangym_ext.explore import GoExplore

    if options.resume:
        file = options.out / "archive.npz"
        if not file.exists():
            raise InvalidOption(
                f"--resume: there is no exploration in {options.out}. Leave it out to begin one."
            )
        explorer = GoExplore.load(file, env)
        _check_same(options, explorer)
        return explorer
    return GoExplore(
        env,
        options.cells,
        kind=options.kind,
        rows=options.rows,
        horizon=options.horizon,
        repeat=options.repeat,
        seed=options.seed,
    )


def _check_same(options: argparse.Namespace, explorer: Any) -> None:
    """Refuse settings that are typed and not those of the file: it would be another exploration."""
    from plangym_ext.explore import cells_named

    there = {
        "cells": explorer.cell,
        "kind": explorer.kind,
        "rows": explorer.num_rows,
        "horizon": explorer.horizon,
        "repeat": explorer.repeat,
        "seed": explorer.seed,
    }
    for name in there:
        if name not in options.typed:
            continue
        asked = getattr(options, name)
        if (cells_named(asked) if name == "cells" else asked) != there[name]:
            _refuse(options, name, asked, there[name])


def _take_frameskip(options: argparse.Namespace) -> None:
    """Take the frameskip of the exploration that goes on; refuse another one."""
    # States do not tell it, so that the archive would be of both.
    path = options.out / "explore.json"
    if not path.exists():
        return
    there = read_json(path, "the summary of an exploration").get("frameskip")
    if there is not None and (type(there) is not int or there < 1):
        raise UnreadableFile(f"{path}: frameskip must be a positive int or null; got {there!r}.")
    if options.frameskip not in (None, there):
        _refuse(options, "frameskip", options.frameskip, there)
    options.frameskip = there


def _refuse(options: argparse.Namespace, name: str, asked: Any, there: Any) -> NoReturn:
    found = "none" if there is None else there
    raise InvalidOption(
        f"--resume: --{name} must be as in {options.out}, {found}; got {asked}. Leave it out, or "
        f"begin another exploration in another folder, with --out and without --resume."
    )


def _logged(path: Path, steps: int) -> list[dict[str, Any]]:
    """Return the lines of a log up to so many steps; rounds after these were lost."""
    if not path.exists() or not steps:
        return []
    data = contents(path)
    try:
        lines = csv.DictReader(io.StringIO(data.decode(), newline=""))
        # Texts, which are written again as they are: lines of before do not change by resuming.
        return [row for row in lines if int(row["steps"]) <= steps]
    except (ValueError, LookupError, TypeError, csv.Error) as error:
        raise UnreadableFile(
            f"{path}: the log of the exploration is damaged ({error}). Remove it: the "
            "exploration continues without."
        ) from None


def _write_summary(options: argparse.Namespace, kept: _Kept) -> None:
    import plangym_ext

    explorer, archive = kept.explorer, kept.explorer.archive
    best = archive.best
    write_json(
        options.out / "explore.json",
        {
            "env": options.env,
            "env_arguments": env_arguments(options),
            "frameskip": options.frameskip,
            "cells": str(explorer.cell),
            "kind": explorer.kind,
            "rows": explorer.num_rows,
            "horizon": explorer.horizon,
            "repeat": explorer.repeat,
            "seed": explorer.seed,
            "steps": explorer.steps_taken,
            "num_cells": len(archive),
            "score": float(archive.scores[best]),
            "length": int(archive.steps[best]),
            "ended": bool(archive.ended[best]),
            "actions": archive.trajectory(best).tolist(),
            "interrupted": kept.interrupted,
            "seconds": round(kept.seconds, 3),
            "version": plangym_ext.__version__,
        },
    )


def _film(options: argparse.Namespace, kept: _Kept) -> None:
    """Write the video of the best trajectory, if it was asked for."""
    from plangym_ext.explore.playing import steps_again

    explorer = kept.explorer
    target = options.out / "best.mp4" if options.video else None
    with recorded(target, explorer.env, explorer.seed) as video:
        if video is not None:
            # Played again with the seed of the exploration: states are not filmed as found.
            actions = explorer.archive.trajectory(explorer.archive.best)
            collections.deque(steps_again(explorer.env, explorer.seed, actions), maxlen=0)


def _tell(options: argparse.Namespace, kept: _Kept) -> None:
    """Print the results and the files written."""
    explorer, archive = kept.explorer, kept.explorer.archive
    if kept.interrupted:
        print(f"interrupted after {explorer.steps_taken:,} steps, which are kept")
    score, length = archive.scores[archive.best], archive.steps[archive.best]
    print(
        f"{options.env}: {len(archive):,} cells in {explorer.steps_taken:,} steps, best score "
        f"{score:g} after {length:,} steps, played again from the reset bit for bit"
    )
    if explorer.steps_taken > options.max_steps:
        print(f"{options.max_steps:,} steps were asked for: {kept.why_more}")
    # A film or demonstration of an earlier call may be there, too, when one was resumed.
    asked = {"best.mp4": options.video, "demonstration.npz": options.demonstration}
    for name in _FILES:
        if asked.get(name, True):
            print(f"wrote {as_typed(options.out / name)}")
