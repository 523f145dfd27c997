"""`plangym-ext train PRESET`: train a network on a planner's plans or an agent's steps.

Settings come from a preset, from files given with `--config`, and from the command line;
later ones override earlier ones: `plangym-ext train cartpole --algorithm.learning_rate 3e-4`.
`plangym-ext train PRESET --help` lists them all, and `--list` the presets. With `--resume` the
same command continues after an interrupt, a crash or a power cut, with the same final result.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from plangym_ext.core.options import Count
from plangym_ext.errors import FolderBusy, FolderTaken, InvalidOption, UntrustedState, plural
from plangym_ext.run.arguments import (
    INTERRUPTED,
    Argument,
    Option,
    add_import_option,
    as_typed,
    import_modules,
    typed_settings,
)
from plangym_ext.run.pretrained import checkpoint_path
from plangym_ext.run.settings.compose import add_setting_options, chosen_settings

if TYPE_CHECKING:
    from plangym_ext.run.settings.config import RunConfig
    from plangym_ext.run.training.own_parts import Actors

_OUT = Path("runs/train")


def _add_settings(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_setting_options(parser, given, _sources(given))


class Options:
    """Options of the command.

    Args:
        preset: settings to begin with, named first: one that --list lists, or a file
        list: list the presets with their measured returns
        config: settings over the preset's: .toml, .yaml or .json; may be given again
        out: where to write
        resume: continue the run in DIR, if there is one
        init_from: begin with the weights of another run or checkpoint, or of a pretrained agent;
            settings may differ
        trust: open pickles in the states of the checkpoint, which can run any code: for runs of
            your own, of envs that have any
        quiet: show no table
        verbose: show all numbers of every round in place of the table
        ray: play in actors of a Ray cluster: the one at ADDRESS, or that RAY_ADDRESS names, or
            one of this machine
        ray_actors: how many (default: collector.n_workers, or one for each processor)
    """

    preset: Annotated[str | None, Argument("PRESET")] = None
    list: bool = False
    config: Annotated[Sequence[str] | None, Option("FILE")] = None
    out: Annotated[Path, Option("DIR")] = _OUT
    resume: bool = False
    init_from: Annotated[str | None, Option("RUN")] = None
    trust: bool = False
    quiet: bool = False
    verbose: bool = False
    ray: Annotated[str | None, Option("ADDRESS", bare="")] = None
    ray_actors: Annotated[Count | None, Option("N")] = None
    besides = (add_import_option, _add_settings)


def _sources(given: Sequence[str]) -> list[Any]:
    """Return the preset and the files that were typed, or the settings of the run to resume."""
    found: list[Any] = [given[0]] if given and not given[0].startswith("-") else []
    for position, word in enumerate(given):
        name, equals, value = word.partition("=")
        if name == "--config":
            # A slice, as the word may be the last: argparse then says that a file is missing.
            found += [value] if equals else given[position + 1 : position + 2]
    own = Path(typed_settings(given).get("out", str(_OUT))) / "config.json"
    # Only if none is named: a preset that is named is compared with the run's settings.
    if not found and "--resume" in given and own.exists():
        return [own]
    return found


def preset_lines() -> Iterator[str]:
    """Yield name and description of each preset, followed by its measured returns."""
    from plangym_ext.run.settings.compose import PRESETS

    found = reached()
    for name, preset in PRESETS.items():
        yield name
        yield f"    {preset.about}"
        yield f"    {found.get(name, 'not measured')}"


def run(options: argparse.Namespace) -> int:
    """Train; write settings, log and checkpoints into DIR."""
    if options.list:
        print("\n".join(preset_lines()))
        return 0
    # A preset that is not named first was not read when the options were added.
    if not options.sources or (options.preset and options.preset not in options.sources):
        raise InvalidOption("name a preset or a file of settings first, then options")
    if options.quiet and options.verbose:
        raise InvalidOption("--quiet shows nothing and --verbose more: leave one out")
    from plangym_ext.run.settings.compose import compose

    config = compose([*options.sources, chosen_settings(options)])
    # After the settings, which name the env.
    import_modules(options, [config.env.id])
    with ExitStack() as stack:
        # The runner ends in there: its actors are closed before their cluster is left.
        return _train(config, options, _actors(options, stack))


def _actors(options: argparse.Namespace, stack: ExitStack) -> Actors | None:
    """Return the actors that were asked for; the stack leaves their cluster."""
    if options.ray is None:
        if options.ray_actors:
            raise InvalidOption("--ray-actors needs --ray")
        return None
    from plangym_ext.run.training.own_parts import Actors
    from plangym_ext.workers.workplace import RayCluster

    return Actors(stack.enter_context(RayCluster(options.ray or None)), options.ray_actors)


def _train(config: RunConfig, options: argparse.Namespace, actors: Actors | None) -> int:
    """Train; return the exit status."""
    from plangym_ext.run.training.checkpoints import BEST, Checkpoints
    from plangym_ext.run.training.runner import Runner

    try:
        runner = Runner(
            config,
            options.out,
            resume=options.resume,
            init_from=options.init_from and checkpoint_path(options.init_from),
            show=0 if options.quiet else 1 + options.verbose,
            actors=actors,
            trust=options.trust,
        )
    except UntrustedState as error:
        raise UntrustedState(f"{error} To resume a run of your own, type --trust.") from None
    # A kind of FolderTaken, to which --resume is no answer: a run is writing there.
    except FolderBusy:
        raise
    except FolderTaken:
        # Else there is no run to go on with: what is in the way is said already.
        if options.resume or not Checkpoints(options.out).begun:
            raise
        raise FolderTaken(
            f"there is a run in {options.out}: go on with it by --resume, or name another "
            f"folder with --out"
        ) from None
    with runner:
        # Flushed: the table goes to another stream, which does not wait for these lines.
        if runner.note:
            print(runner.note, flush=True)
        of = "" if config.rounds is None else f" of {config.rounds}"
        if runner.round >= config.last_round:
            print(f"{runner.round} rounds are done, {config.rounds} were asked for", flush=True)
        elif runner.round:
            print(f"going on after round {runner.round}{of}", flush=True)
        try:
            runner.run()
        except KeyboardInterrupt:
            print(
                f"interrupted in round {runner.round}{of}; the last checkpoint is "
                f"{runner.newest_checkpoint}. Go on with the same command and --resume.",
                file=sys.stderr,
            )
            return INTERRUPTED
    # After the table, which leaves its line when it is closed.
    print(
        f"{config.env.id}: {runner.round} {plural('round', runner.round)}, {runner.steps} "
        f"{plural('move', runner.steps)}, {runner.algorithm.updates} "
        f"{plural('update', runner.algorithm.updates)}{'; ' * bool(runner.stopped)}{runner.stopped}"
    )
    if runner.best:
        mean, number = runner.best["return"], runner.best["round"]
        print(f"best evaluation: {mean:g} in round {number}: {as_typed(runner.folder / BEST)}")
    newest = runner.newest_checkpoint
    print(f"wrote {newest if newest is None else as_typed(newest)}")
    return 0


#: Written by `tests/benchmarks/training.py --presets`.
FILE = Path(__file__).parents[1] / "settings" / "reached.json"


class Reached(NamedTuple):
    """Measured final return of a preset.

    Attributes:
        mean: interquartile mean over the seeds, of the mean return of evaluations.
        low, high: its bootstrap interval of 95 %.
        seeds: how many runs.
        steps: of all envs together, in each.
    """

    mean: float
    low: float
    high: float
    seeds: int
    steps: int

    def __str__(self) -> str:
        # A single seed has no interval: both ends are its mean.
        spread = f" [{self.low:g}, {self.high:g}]" if self.low < self.high else ""
        seeds = f"{self.seeds} {plural('seed', self.seeds)}"
        return f"return {self.mean:g}{spread} after {self.steps:,} steps, {seeds}"


def reached() -> dict[str, Reached]:
    """Return the measured returns by preset."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: _read(row) for name, row in found.items()}


def _read(row: Mapping[str, Any]) -> Reached:
    low, high = row["interval"]
    return Reached(row["return"], low, high, row["seeds"], row["steps"])
