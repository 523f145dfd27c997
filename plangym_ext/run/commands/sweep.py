"""`plangym-ext sweep PRESET --over KEY=VALUES`: run many training runs as one experiment.

`plangym-ext sweep ppo_cartpole --over algorithm.learning_rate=1e-3,3e-4 --seeds 3` runs every
combination of the values with every seed, several processes at a time, each in its own folder.
`--sample N` draws values from ranges such as `log(1e-5, 1e-2)`. Settings of all runs are
given as for `train`: `--algorithm.epochs 4`. With `--resume` the same command continues after an
interrupt or a crash; `plangym-ext plot DIR` draws the curves.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from plangym_ext.core.options import Count, Whole
from plangym_ext.errors import (
    FolderTaken,
    ForeignCheckpoint,
    InvalidOption,
    MissingExtra,
    UnknownName,
    UnreadableFile,
    installing,
)
from plangym_ext.run.arguments import (
    INTERRUPTED,
    Argument,
    Option,
    add_import_option,
    as_typed,
    import_modules,
    typed_settings,
)
from plangym_ext.run.files import FolderLock, check_kind, read_json, write_json
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.settings.compose import add_setting_options, chosen_settings

if TYPE_CHECKING:
    from plangym_ext.run.experiments.plan import Job, Sweep
    from plangym_ext.run.experiments.queue import JobQueue, RayJobs

#: Exit status of a sweep of which a run failed.
FAILED = 1

_PLAN = "sweep.json"


def _add_settings(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_setting_options(parser, given, _sources(given))


class Options:
    """Options of the command.

    Args:
        preset: settings to begin with, named first: one that `train --list` lists, or a file
        over: a setting and its values, with commas between them, or with semicolons if they have
            commas; with --sample also log(LOW, HIGH), uniform(LOW, HIGH) or int(LOW, HIGH); may be
            given again
        file: a sweep as .toml, .yaml or .json
        sample: draw N variants (default: all there are)
        seeds: of each variant (default: 1)
        processes: runs at a time (default: 1; with --ray as many as there are processors for)
        ray: run on a Ray cluster: the one at ADDRESS, or that RAY_ADDRESS names, or one of this
            machine; DIR has to be the same on all its machines
        ray_cpus: processors per run
        gpus: accelerators to share out
        out: where to write
        resume: continue the sweep in DIR
        dry_run: list the runs without running them
    """

    preset: Annotated[str | None, Argument("PRESET")] = None
    over: Annotated[Sequence[str], Option("KEY=VALUES")] = []
    file: Annotated[Path | None, Option("FILE")] = None
    sample: Annotated[Count | None, Option("N")] = None
    seeds: Annotated[Count | None, Option("N")] = None
    processes: Annotated[Count | None, Option("N")] = None
    ray: Annotated[str | None, Option("ADDRESS", bare="")] = None
    ray_cpus: Annotated[Count, Option("N")] = 1
    gpus: Annotated[Whole, Option("N")] = 0
    out: Annotated[Path, Option("DIR")] = Path("runs/sweep")
    resume: bool = False
    dry_run: bool = False
    besides = (add_import_option, _add_settings)


def _sources(given: Sequence[str]) -> list[Any]:
    """Return the preset that was typed, or else that of the file, and the file's settings."""
    # Looked for by hand, as the options that the parser is to have depend on it.
    typed = [given[0]] if given and not given[0].startswith("-") else []
    file = typed_settings(given).get("file")
    # Of a file that is not there `_asked` tells: the help has to come without it.
    if not file or not Path(file).exists():
        return typed
    from plangym_ext.run.experiments.plan import read_sweep
    from plangym_ext.run.settings.settings import nested

    found = read_sweep(Path(file))
    preset = typed or [found["preset"]] * ("preset" in found)
    return [*preset, nested(found.get("settings", {}))]


def run(options: argparse.Namespace) -> int:
    """Run the remaining runs of the sweep; print the result of each variant."""
    from plangym_ext.run.experiments.plan import jobs_of
    from plangym_ext.run.experiments.summary import lines, scores

    if options.ray is not None and options.gpus:
        raise InvalidOption("--gpus is for GPUs of this machine; leave it out with --ray")
    import_modules(options)
    # All settings of all runs are checked here: a mistake in the last one would show after days.
    jobs = jobs_of(_asked(options))
    # Before torch is looked for and the folder is made: this needs neither.
    if options.dry_run:
        print("\n".join(job.name for job in jobs))
        return 0
    if find_spec("torch") is None:  # not imported: the runs need it, in processes of their own
        raise MissingExtra(
            "sweep: training needs torch; it is not installed. " + installing("learn")
        )
    # Two sweeps in one folder would start each run twice.
    with FolderLock(options.out, [_PLAN, "scores.json"]):
        check_kind(options.out, _PLAN)
        # Before the first run: an interrupt leaves a plan by which --resume can check itself.
        _keep_plan(jobs, options)
        failed = _run_all(jobs, options)
        # Of all runs, those of earlier calls and those that failed half way among them.
        found = scores(options.out, jobs)
        write_json(options.out / "scores.json", {row.variant: row._asdict() for row in found})
    print("\n".join(lines(found)))
    for name in failed:
        print(f"failed: {as_typed(options.out / name)}; see train.log there", file=sys.stderr)
    print(f"wrote {as_typed(options.out / 'scores.json')}")
    return FAILED if failed else 0


def _asked(options: argparse.Namespace) -> Sweep:
    """Return the sweep of the file, with what was typed over it."""
    from plangym_ext.run.experiments.plan import Sweep, read_sweep
    from plangym_ext.run.settings.compose import compose
    from plangym_ext.run.settings.settings import listed

    # First: a file that cannot be read names no sources either.
    said = read_sweep(options.file) if options.file else {}
    if not options.sources:
        raise InvalidOption("name a preset or a file of settings first, then options")
    # What is typed counts before what the file says, setting by setting.
    over = dict(said.get("over", {}))
    known = [setting.key for setting in listed(compose(options.sources))]
    for text in options.over:
        key, equals, values = text.partition("=")
        if not equals:
            raise InvalidOption(f"--over must be KEY=VALUES; got {text!r}.")
        meant = [one for one in known if one.endswith(f".{key}")]
        if meant and key not in known:
            raise UnknownName(
                f"--over: {key!r} is not known; name its section, too: {' or '.join(meant)}."
            )
        over[key.strip()] = values
    return Sweep(
        sources=[*options.sources, chosen_settings(options)],
        over=over,
        levels=said.get("levels", ()),
        seeds=options.seeds or said.get("seeds", 1),
        sample=options.sample or said.get("sample"),
    )


def _keep_plan(jobs: Sequence[Job], options: argparse.Namespace) -> None:
    """Write down which runs there are; refuse a folder where one of them had other settings."""
    from plangym_ext.run.settings.settings import differences

    path = options.out / _PLAN
    runs = {job.name: job.settings for job in jobs}
    if path.exists():
        if not options.resume:
            raise FolderTaken(
                f"there is a sweep in {options.out}: go on with it by --resume, or name another "
                f"folder with --out"
            )
        kept = read_json(path, "the runs of a sweep").get("runs")
        if not isinstance(kept, dict):
            raise UnreadableFile(f"{path}: it must hold the runs of a sweep; got {kept!r:.50}.")
        # Runs that are there and not asked for now stay in the plan: a sweep may be extended.
        # Settings of both are lists, dicts and plain values (`plain`), so that JSON has not changed
        # them.
        changed = [name for name in kept if name in runs and kept[name] != runs[name]]
        if changed:
            found = differences(runs[changed[0]], kept[changed[0]])
            raise ForeignCheckpoint(
                f"{path}: the run {changed[0]!r} was begun with other settings: "
                f"{'; '.join(found[:6])}. Go on with its own, or name another folder with --out; "
                f"new variants and seeds may be added."
            )
        runs = {**kept, **runs}
    write_json(path, {"runs": runs})


def _run_all(jobs: Sequence[Job], options: argparse.Namespace) -> list[str]:
    """Run the jobs that are not done; return the names of those that failed."""
    from plangym_ext.run.experiments.plan import DONE, outcome, write_outcome
    from plangym_ext.run.experiments.queue import JobQueue
    from plangym_ext.run.experiments.summary import final_return, share_done

    # Failed and interrupted ones run again: from their last checkpoints, as `train --resume`.
    left = [job for job in jobs if outcome(options.out / job.name) != DONE]
    if len(left) < len(jobs):
        print(f"{len(jobs) - len(left)} of {len(jobs)} runs are done already")
    cluster = _cluster(options)
    queue = JobQueue(
        options.out,
        left,
        where=cluster,
        # No more slots than runs: each slot takes a share of the processors, also if nothing runs
        # in it.
        processes=min(options.processes or 1, max(1, len(left))),
        gpus=options.gpus,
        imports=options.imports or (),
    )
    line = ProgressLine()
    failed: list[str] = []

    def look() -> None:
        done = len(jobs) - len(queue.waiting) - len(queue.running)
        # Looks come ten times a second, and the shares are read from files.
        if not line.is_due:
            return
        shares = [f"{one.job.name} {share_done(one.job, options.out):.0%}" for one in queue.running]
        line.update(f"{done} of {len(jobs)} runs have ended; {', '.join(shares)}")

    def ended(job: Job, status: int, seconds: float) -> None:
        folder = options.out / job.name
        # Written by this process, as a run that was killed writes nothing of its own.
        write_outcome(folder, status, seconds)
        if status:
            failed.append(job.name)
        found = final_return(folder)
        told = "" if found is None else f", return {found:.6g}"
        line.above(f"{outcome(folder)}: {job.name}{told}, {seconds:.0f} s")

    def interrupted() -> None:
        line.above("interrupted: the runs end their rounds and save; Ctrl-C again stops at once")

    try:
        queue.run(look, ended, interrupted)
    except KeyboardInterrupt:
        line.leave()
        print(
            f"interrupted: {_left(queue, options.out)}. Go on with the same command and --resume.",
            file=sys.stderr,
        )
        # No return, after which the caller would go on to scores.
        raise SystemExit(INTERRUPTED) from None
    finally:
        if cluster is not None:
            # The queue has ended all of its runs by now, in whatever way it was left.
            cluster.close()
    line.leave()
    return failed


def _left(queue: JobQueue, folder: Path) -> str:
    """Return the report of an interrupted sweep."""
    from plangym_ext.run.training.checkpoints import Checkpoints

    # A second Ctrl-C killed them, and their last checkpoints are what is left.
    if not queue.saved:
        return f"the runs are stopped; their last checkpoints are kept, in {folder}"
    # Those whose first round had not begun: they end at once, and have nothing to save.
    new = sum(not Checkpoints(folder / one.job.name).begun for one in queue.running)
    but = f", but for {new} that had not begun" if new else ""
    return f"the runs have saved where they are, in {folder}{but}"


def _cluster(options: argparse.Namespace) -> RayJobs | None:
    """Return the cluster to run on, if that was asked for."""
    if options.ray is None:
        return None
    from plangym_ext.run.experiments.queue import RayJobs

    imports = options.imports or ()
    # An empty address is --ray alone: the cluster is looked for.
    return RayJobs(options.ray or None, options.ray_cpus, options.processes, imports)
