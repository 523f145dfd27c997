"""`plangym-ext compare`: compare planners at equal model steps, over envs and seeds.

A planner is a name, or a name with options: `mcts:selection=uct,c-puct=1.4`, or one of your own:
`module:Class:depth=5`. DIR/compare.json keeps finished
episodes; the same command continues after an interrupt.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Annotated, Any

from plangym_ext.core.masks import MASK, checked_mask, choices_of
from plangym_ext.core.options import Count, Whole
from plangym_ext.errors import FolderTaken
from plangym_ext.run.arguments import (
    INTERRUPTED,
    Argument,
    Option,
    add_env_options,
    as_typed,
    env_arguments,
    import_modules,
)
from plangym_ext.run.figures import load_pyplot, save, styled
from plangym_ext.run.files import FolderLock, check_kind, read_json, write_json
from plangym_ext.run.named_player import NamedPlayer
from plangym_ext.run.progress import ProgressLine

_FILE = "compare.json"


class Options:
    """Options of the command.

    Args:
        envs: gymnasium ids
        planners: NAME or NAME:option=value,...; of your own, module:Class:option=value,... or
            module:function, which takes the env and returns a planner or an agent
        model_steps: model steps per move, at most
        seeds: episodes: seeds 0 to K-1
        max_steps: moves per episode
        n_workers: worker processes; 0 plans in this process (default: the fastest way for each
            env)
        frameskip: env steps per move
        out: where to write
        plot: also write DIR/compare.png
    """

    envs: Annotated[tuple[str, ...], Argument("ENV_ID")]
    planners: Annotated[tuple[str, ...], Option("SPEC")]
    model_steps: Annotated[Count, Option("N")] = 500
    seeds: Annotated[Count, Option("K")] = 5
    max_steps: Annotated[Count, Option("M")] = 200
    n_workers: Annotated[Whole | None, Option("W")] = None
    frameskip: Annotated[Count | None, Option("K")] = None
    out: Annotated[Path, Option("DIR")] = Path("runs/compare")
    plot: bool = False
    besides = (add_env_options,)


def run(options: argparse.Namespace) -> int:
    """Play the missing episodes, show the table, write `compare.json`."""
    # Now, where it costs nothing: without matplotlib the figure would fail after all was played.
    if options.plot:
        load_pyplot("--plot")
    import_modules(options, search=True)
    # Named twice is played once; the order stays.
    options.envs = list(dict.fromkeys(options.envs))
    options.planners = list(dict.fromkeys(options.planners))
    # At equal cost, whatever else a text says of it.
    planners = {
        spec: NamedPlayer(spec, "--planners", max_model_steps=options.model_steps)
        for spec in options.planners
    }
    # Each of two commands in one folder would write the file without the other's episodes.
    with FolderLock(options.out, [_FILE, *["compare.png"] * options.plot]):
        check_kind(options.out, _FILE)
        return _compare(planners, options)


def _compare(planners: dict[str, NamedPlayer], options: argparse.Namespace) -> int:
    """Play in a folder that is held."""
    results = _Results(options)
    _check_pairs(planners, options, results)
    print(results.heading(), file=sys.stderr)
    try:
        for name in options.envs:
            with _env(name, options) as env:
                for spec, planner in planners.items():
                    _play_cell(env, name, spec, planner.made_for(env), options, results)
    # Nothing is saved here: every episode was written as it ended, and one that is cut short would
    # not be comparable.
    except KeyboardInterrupt:
        print(
            f"\ninterrupted: {len(results.rows)} episodes are kept in {results.path}. Go on with "
            f"the same command.",
            file=sys.stderr,
        )
        return INTERRUPTED
    print(results.table())
    for row in results.summary():
        if row["model_steps_per_move"] > options.model_steps:  # by a planner of the user's own
            print(
                f"{row['planner']} took {row['model_steps_per_move']:.0f} model steps a move in "
                f"{row['env']}, and --model-steps allows {options.model_steps}: have it heed "
                f"max_model_steps",
                file=sys.stderr,
            )
    # Even if nothing was missing: the summary in the file is then of another command's envs,
    # planners and seeds.
    results.write()
    print(f"wrote {as_typed(results.path)}")
    if options.plot:
        target = options.out / "compare.png"
        with styled():
            _plot(results.summary(), target)
        print(f"wrote {as_typed(target)}")
    return 0


class _Results:
    """Finished episodes by env, planner and seed, and their file."""

    def __init__(self, options: argparse.Namespace) -> None:
        import plangym_ext

        self._options = options
        self.path: Path = options.out / _FILE
        # What an episode depends on. Envs, planners and seeds are left out, as they are in the keys
        # of episodes and may be added later, and so are workers, which change no result.
        keys = ("model_steps", "max_steps", "frameskip")
        self._settings = {key: getattr(options, key) for key in keys}
        self._settings["version"] = plangym_ext.__version__
        arguments = env_arguments(options)
        if arguments:
            self._settings["env_arguments"] = arguments
        self.rows: dict[str, dict[str, Any]] = self._kept()

    def _kept(self) -> dict[str, Any]:
        """Return the episodes that are there already."""
        if not self.path.exists():
            return {}
        try:
            kept = read_json(self.path, "finished episodes")
            episodes, there = dict(kept["episodes"]), dict(kept["settings"])
        # Refused and not begun anew: it may be a file of the user's with the same name.
        except (ValueError, KeyError, TypeError) as error:
            raise FolderTaken(
                f"{self.path} is no file of finished episodes ({error}). Remove it, or name "
                f"another folder with --out."
            ) from None
        differing = [
            # Keys of both: env arguments are in one of them alone if only one command named any.
            f"{key}: {there.get(key)} there, {self._settings.get(key)} here"
            for key in dict.fromkeys([*self._settings, *there])
            if there.get(key) != self._settings.get(key)
        ]
        if differing:
            raise FolderTaken(
                f"{self.path} holds episodes of other settings ({', '.join(differing)}). Name "
                f"another folder with --out, so that they are not lost."
            )
        return episodes

    def key(self, env: str, spec: str, seed: int) -> str:
        # One text, as it is the key of a JSON object: read back, it has to be the same.
        return f"{env} {spec} {seed}"

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Take in a finished episode and write the file."""
        # The whole file each time: a JSON object cannot be appended to.
        self.rows[key] = row
        self.write()

    def write(self) -> None:
        content = {"settings": self._settings, "episodes": self.rows, "summary": self.summary()}
        write_json(self.path, content)

    def summary(self) -> list[dict[str, Any]]:
        """Return one entry per env and planner, of the episodes that are there."""
        from plangym_ext.run.bootstrap import known_interval

        found = []
        for env in self._options.envs:
            for spec in self._options.planners:
                keys = [self.key(env, spec, seed) for seed in range(self._options.seeds)]
                rows = [self.rows[key] for key in keys if key in self.rows]
                if not rows:
                    continue
                # Over episodes, which are independent: moves of one episode are not.
                mean, low, high = known_interval([row["return"] for row in rows])
                # Sums of both, and not a mean of ratios: every move counts alike, in whatever
                # episode.
                steps = sum(row["model_steps"] for row in rows)
                moves = sum(row["length"] for row in rows)
                found.append(
                    {
                        "env": env,
                        "planner": spec,
                        "episodes": len(rows),
                        "mean": mean,
                        "low": low,
                        "high": high,
                        "model_steps_per_move": steps / moves,
                    }
                )
        return found

    def heading(self) -> str:
        """Return the names of the columns of the table."""
        env, planner = self._widths
        return (
            f"{'env':<{env}} {'planner':<{planner}} {'episodes':>8} {'mean':>10} "
            f"{'95 % interval':>21} {'steps/move':>10}"
        )

    def table(self) -> str:
        """Return the summary as text."""
        return "\n".join([self.heading(), *map(self._line, self.summary())])

    def line_of(self, env: str, spec: str) -> str:
        """Return the row of an env and planner that have played."""
        # Just one: envs and planners were freed of repetitions, in `run`.
        (row,) = (r for r in self.summary() if (r["env"], r["planner"]) == (env, spec))
        return self._line(row)

    def _line(self, row: dict[str, Any]) -> str:
        env, planner = self._widths
        one = row["low"] is None
        interval = "-" if one else f"[{row['low']:.1f}, {row['high']:.1f}]"
        return (
            f"{row['env']:<{env}} {row['planner']:<{planner}} {row['episodes']:>8} "
            f"{row['mean']:>10.2f} {interval:>21} {row['model_steps_per_move']:>10.0f}"
        )

    @property
    def _widths(self) -> tuple[int, int]:
        """Of the first two columns: what rows are to come is known, so that all stand in line."""
        envs, planners = self._options.envs, self._options.planners
        return max(map(len, ["env", *envs])), max(map(len, ["planner", *planners]))


def _check_pairs(
    planners: dict[str, NamedPlayer], options: argparse.Namespace, results: _Results
) -> None:
    """Plan one move with every planner in every env, before the episodes."""
    if len(planners) * len(options.envs) == 1:
        return  # playing says it as soon
    line = ProgressLine()
    for name in options.envs:
        missing = [
            planner
            for spec, planner in planners.items()
            if any(results.key(name, spec, k) not in results.rows for k in range(options.seeds))
        ]
        if not missing:
            continue
        with _env(name, options, shown=False) as env:
            state, obs, info = env.reset(seed=0)
            for planner in (player.made_for(env) for player in missing):
                with line.passing(f"checking {type(planner).__name__} in {name}"):
                    legal = checked_mask(info.get(MASK), env.action_space, "compare", choices_of)
                    planner.plan(env, state, rng=0, obs=obs, legal=legal)
                # What it keeps from move to move must not reach into the first episode.
                planner.reset()


def _play_cell(
    env: Any, name: str, spec: str, planner: Any, options: argparse.Namespace, results: _Results
) -> None:
    """Play the seeds that are missing, one after the other, each kept as it ends."""
    from plangym_ext.planners import play

    line = ProgressLine()
    for seed in range(options.seeds):
        # One by one and not in lockstep, so that each is kept when an interrupt comes.
        key = results.key(name, spec, seed)
        if key in results.rows:
            continue
        started = time.monotonic()
        episode = play(
            env,
            planner,
            seed=seed,
            max_steps=options.max_steps,
            callback=lambda move, seed=seed: line.update(  # type: ignore[misc]
                f"{name} {spec} seed {seed}: step {move.step + 1}/{options.max_steps}, "
                f"return {move.total:g}"
            ),
        )
        results.add(
            key,
            {
                "return": episode.return_,
                "length": episode.length,
                "model_steps": episode.budget.model_steps,
                "seconds": round(time.monotonic() - started, 3),
            },
        )
        line.end(results.line_of(name, spec))


def _env(name: str, options: argparse.Namespace, *, shown: bool = True) -> Any:
    """Make the env; print why it runs where it runs, if `shown`."""
    import plangym_ext

    arguments = {"frameskip": options.frameskip, **env_arguments(options)}
    env = plangym_ext.make(name, n_workers=options.n_workers, **arguments)
    if env.backend_note and shown:
        print(f"{env.name}: {env.backend_note}", file=sys.stderr)
    return env


def _plot(rows: list[dict[str, Any]], target: Path) -> None:
    """Draw a panel per env: the mean of every planner with its interval."""
    pyplot = load_pyplot("--plot")
    envs = list(dict.fromkeys(row["env"] for row in rows))
    figure, axes = pyplot.subplots(1, len(envs), figsize=(5 * len(envs), 4), squeeze=False)
    for axis, env in zip(axes[0], envs, strict=True):
        own = [row for row in rows if row["env"] == env]
        means = [row["mean"] for row in own]
        # Lengths of the two arms, as matplotlib takes them, and not their ends.
        arms = [
            (0.0, 0.0)  # a single episode has no interval
            if row["low"] is None
            else (row["mean"] - row["low"], row["high"] - row["mean"])
            for row in own
        ]
        axis.errorbar(means, range(len(own)), xerr=[*zip(*arms, strict=True)], fmt="o", capsize=4)
        axis.set_yticks(range(len(own)), [row["planner"] for row in own])
        axis.set(title=env, xlabel="return, mean and 95 % interval")
        # Matplotlib counts upwards: the first planner is to stand on top, as in the table.
        axis.invert_yaxis()
    save(figure, target)
