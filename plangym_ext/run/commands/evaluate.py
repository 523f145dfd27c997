"""`plangym-ext eval PLAYER...`: play evaluation episodes, or compare several players.

PLAYER is a checkpoint, or the folder of a run with its newest checkpoint. Arguments of
the env and options of the planner can be changed: `--env.num_boxes 3`,
`--planner.num_simulations 64`.

Two or more players, some of them planners (`NAME:option=value,...`) or your own
(`module:Class:option=value,...`, `module:function`), play the same episodes: of equal seeds, or
from the states of a file (`--starts`). The result is each player's difference to the first one,
with the interval of the pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from plangym_ext.core.inherited_options import search_current_folder
from plangym_ext.core.options import Count, Whole
from plangym_ext.errors import DamagedCheckpoint, InvalidOption
from plangym_ext.run.arguments import (
    Argument,
    Option,
    add_import_option,
    add_options,
    as_typed,
    import_modules,
    let_pass,
    typed_settings,
)
from plangym_ext.run.files import OutputFiles, write_json
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.training.interrupts import closing_when_terminated
from plangym_ext.run.video import recorded

if TYPE_CHECKING:  # they bring a compiler and simulators, which the help can do without
    from plangym_ext.core.state_set import StateSet
    from plangym_ext.planners.episode import Episode

_CHANGED = ("env", "planner")
#: Played where nothing else is said.
_EPISODES = 20


class Options:
    """Options of the command.

    Args:
        players: a file or a run; of several, also planners
        episodes: played side by side (default: 20, or one from every state of --starts)
        starts: states to begin from, written by `states`
        player: "network" alone, or the search of the "planner", or module:Class of a planner of
            your own (default: as the run was evaluated)
        sample: whether an agent draws its actions from its policy, as while it learned (default:
            as the run was evaluated)
        seed: of the first episode (default: the run's)
        out: where to write (default: the folder of the run, or that of the file; of several
            players, runs/eval)
        overwrite: overwrite the results in DIR
        video: also write DIR/episode.mp4
        max_steps: moves per episode (default: the first run's, or 1000)
        width: of several players: tell how many episodes make an interval of a difference W wide
        env_id: env, if all players are planners
    """

    players: Annotated[tuple[str, ...], Argument("PLAYER")]
    episodes: Annotated[Count | None, Option("K")] = None
    starts: Annotated[Path | None, Option("FILE")] = None
    player: Annotated[str | None, Option("NAME")] = None
    sample: bool | None = None
    seed: Whole | None = None
    out: Annotated[Path | None, Option("DIR")] = None
    overwrite: bool = False
    video: bool = False
    max_steps: Annotated[Count | None, Option("M")] = None
    width: Annotated[float | None, Option("W")] = None
    env_id: Annotated[str | None, Option("ID")] = None


def add_arguments(parser: argparse.ArgumentParser, given: Sequence[str] = ()) -> None:
    """Add the options of the command, some of which depend on what was typed."""
    add_options(parser, Options)
    add_import_option(parser)
    add_changes(parser, given)


def add_changes(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    """Add `--env.NAME` and `--planner.NAME` as they were typed; the help does not list them."""
    let_pass(parser, filter(_is_change, typed_settings(given)))


def _is_change(key: str) -> bool:
    # With a dot: `--planner` alone names no option of one.
    return key.partition(".")[0] in _CHANGED and "." in key


def run(options: argparse.Namespace) -> int:
    """Play, print the means, write `eval.json` or `paired.json`, and perhaps `episode.mp4`."""
    from plangym_ext.run.evaluating.contest import Contest

    search_current_folder()  # the checkpoint may name an env of a module there
    import_modules(options)
    changed = changes(options)
    alone = len(options.players) == 1
    if alone:
        # Also where a folder is named: a planner has no run whose env it could play in.
        options.players = [str(_existing(options.players[0]))]
        out = options.out or _folder(Path(options.players[0]))
        if options.width is not None:
            raise InvalidOption("--width is of differences between players; name two or more.")
    else:
        _check_several(options)
        out = options.out or Path("runs/eval")
    # Those of one player are of its run, and renewed with it.
    replace = options.overwrite or (alone and options.out is None)
    with closing_when_terminated(), OutputFiles(_files(out, alone, options), replace=replace):
        with Contest(
            options.players, env_id=options.env_id, changed=changed, max_steps=options.max_steps
        ) as contest:
            starts = None if options.starts is None else contest.starts(options.starts)
            episodes = _played(contest, options, starts)
            (_write_one if alone else _write_paired)(out, contest, options, episodes)
        # Last: a film that fails leaves the results, and the envs of the contest are closed by
        # now.
        if options.video:
            _write_video(options, changed, starts, out / "episode.mp4")
            print(f"wrote {as_typed(out / 'episode.mp4')}")
    return 0


def _files(out: Path, alone: bool, options: argparse.Namespace) -> list[Path]:
    """Return the paths of what will be written."""
    names = ["eval.json" if alone else "paired.json", *["episode.mp4"] * options.video]
    return [out / name for name in names]


def _existing(name: str) -> Path:
    """Return the path of a checkpoint or run that is evaluated alone."""
    if not Path(name).exists():
        raise DamagedCheckpoint(
            f"{name}: there is no such checkpoint. Name a file, or the folder of a run. A planner "
            f"alone plays by `plangym-ext plan`, or beside others here."
        )
    return Path(name).absolute()


def _check_several(options: argparse.Namespace) -> None:
    """Refuse what means nothing for several players, before anything is played."""
    if options.video:
        raise InvalidOption("--video films one player. Leave it out, or name one player alone.")
    if options.width is not None and not options.width > 0:
        raise InvalidOption(f"--width must be a number > 0; got {options.width:g}.")
    if len(set(options.players)) < len(options.players):
        raise InvalidOption(f"eval: each player once; got {' '.join(options.players)}.")
    if options.episodes == 1:
        raise InvalidOption("--episodes must be 2 or more for an interval of differences; got 1.")


def _played(
    contest: Any, options: argparse.Namespace, starts: StateSet | None
) -> dict[str, list[Episode]]:
    """Play the episodes with every player."""
    from plangym_ext.run.evaluating.contest import told

    count = options.episodes or (_EPISODES if starts is None else len(starts))
    if count == 1 and len(contest.players) > 1:
        raise InvalidOption(
            f"{options.starts}: it holds one state; an interval of differences needs 2 or more."
        )
    found, line = {}, ProgressLine()
    if len(contest.players) > 1:
        # Before the episodes of any: they may take hours.
        for name in contest.players:
            line.update(f"{name}: a first move")
            contest.try_out(name)
    for name in contest.players:
        found[name] = contest.play(
            name,
            count,
            seed=options.seed,
            starts=starts,
            callback=lambda move, name=name: line.update(told(name, move)),
        )
    line.leave()
    return found


def _about(contest: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Return data on how the episodes were played."""
    import plangym_ext

    return {
        "env": contest.env.name,
        "seed": contest.seed if options.seed is None else options.seed,
        "starts": None if options.starts is None else str(as_typed(options.starts)),
        "max_steps": contest.max_steps,
        "version": plangym_ext.__version__,
    }


def _how(trained: Any) -> dict[str, Any]:
    """Return the weights' origin and the player of an evaluation."""
    evaluation = trained.config.evaluation
    return {
        "checkpoint": trained.path.name,
        "player": evaluation.player,
        "sample": evaluation.sample,
    }


def _of_each(episodes: Sequence[Episode]) -> dict[str, list[Any]]:
    return {
        "returns": [episode.return_ for episode in episodes],
        "lengths": [episode.length for episode in episodes],
        "terminated": [episode.terminated for episode in episodes],
    }


def _write_one(
    out: Path, contest: Any, options: argparse.Namespace, played: dict[str, list[Episode]]
) -> None:
    """Write `eval.json` of one player, and print its mean."""
    from plangym_ext.run.training.evaluation import summary

    ((name, episodes),) = played.items()
    trained, values = contest.trained[name], summary(episodes)
    how = _how(trained)
    about = {**how, **_about(contest, options)}
    write_json(out / "eval.json", {**about, **_of_each(episodes), **values})
    drawn = ", actions drawn" if how["sample"] else ""
    print(
        f"{trained.config.env.id}, {how['player']}{drawn}: mean return "
        f"{values['eval/return']:g} (lowest {values['eval/return_min']:g}) and "
        f"{values['eval/length']:g} moves, over {len(episodes)} episodes"
    )
    # Filming may follow and take minutes: a pipe shall not hold the line back so long.
    print(f"wrote {as_typed(out / 'eval.json')}", flush=True)


def _write_paired(
    out: Path, contest: Any, options: argparse.Namespace, played: dict[str, list[Episode]]
) -> None:
    """Write `paired.json` of several players, and print their differences."""
    from plangym_ext.run.evaluating.contest import paired_summary, table

    found = paired_summary(played, options.width)
    # Of planners the name says all.
    trained = {name: _how(one) for name, one in contest.trained.items()}
    episodes = {name: _of_each(one) for name, one in played.items()}
    about = {**_about(contest, options), "trained": trained}
    write_json(out / "paired.json", {**about, **found, "episodes": episodes})
    count = len(next(iter(played.values())))
    print(f"{contest.env.name}: {count} episodes of each player\n{table(found)}")
    print(f"wrote {as_typed(out / 'paired.json')}", flush=True)


def _folder(checkpoint: Path) -> Path:
    """Return the folder for results, unless one is given."""
    return checkpoint if checkpoint.is_dir() else checkpoint.parent


def changes(options: argparse.Namespace) -> dict[str, Any]:
    """Return the changes to the run's own settings."""
    from plangym_ext.run.settings.settings import Text, nested

    typed = {
        # Texts until the sections that they belong to are known, which say how to read them.
        key: Text(value)
        for key, value in vars(options).items()
        if _is_change(key)
    }
    found = {section: nested(typed).get(section, {}) for section in _CHANGED}
    # `states` and `audit` come here too, and have neither --player nor --sample.
    given = {name: getattr(options, name, None) for name in ("player", "sample", "seed")}
    return {**found, **{key: value for key, value in given.items() if value is not None}}


def _write_video(
    options: argparse.Namespace, changed: dict[str, Any], starts: StateSet | None, path: Path
) -> None:
    """Play the first episode again, alone, and film it."""
    from plangym_ext.planners.episode import play
    from plangym_ext.run.training.trained import Trained

    filmed = {**changed, "env": {**changed["env"], "render_mode": "rgb_array"}}
    # Opened anew, as an env draws only if it was made to.
    with Trained(options.players[0], **filmed) as trained:
        # As it was evaluated: what is typed counts before the run's.
        seed = trained.config.evaluation.seed if options.seed is None else options.seed
        env = trained.env
        most = options.max_steps or trained.max_steps
        line = ProgressLine()
        # The exception of SIGTERM passes through the writer, which drops a film that is half
        # there.
        with recorded(path, env, seed):

            def told(move: Any) -> None:
                line.update(f"filming: step {move.step + 1}, return {move.total:g}")

            play(env, trained.player, seed=seed, max_steps=most, callback=told, starts=starts)
        line.end("filmed")
