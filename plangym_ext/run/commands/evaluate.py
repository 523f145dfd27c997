"""`plangym-ext eval PLAYER...`: play evaluation episodes, or compare several players.

PLAYER is a checkpoint, the folder of a run with its newest checkpoint, or a pretrained agent
(`plangym-ext list pretrained`). Arguments of the env and options of the planner can be changed:
`--env.num_boxes 3`, `--planner.num_simulations 64`.

Two or more players, some of them planners (`NAME:option=value,...`) or your own
(`module:Class:option=value,...`, `module:function`), play the same episodes: of equal seeds, or
from the states of a file (`--starts`). The result is each player's difference to the first one,
with the interval of the pairs. In an env of two players each two meet instead, once with either
side for each episode, and the result is their Elo ratings. What had ended before Ctrl-C, SIGTERM or
an error is kept in `eval.part.json` or `paired.part.json`; short episodes end first, so their mean
is not that of all.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from plangym_ext.core.options import Count, Whole
from plangym_ext.errors import DamagedCheckpoint, InvalidOption, suggestion
from plangym_ext.run.arguments import (
    Argument,
    Option,
    add_import_option,
    as_typed,
    import_modules,
    let_pass,
    typed_settings,
)
from plangym_ext.run.files import OutputFiles, remove_stale, write_json
from plangym_ext.run.pretrained import FOLDER, cards, checkpoint_path
from plangym_ext.run.progress import ProgressLine

if TYPE_CHECKING:  # they bring a compiler and simulators, which the help can do without
    from plangym_ext.core.files.state_set import StateSet
    from plangym_ext.planners.episode import Episode, Move

_CHANGED = ("env", "planner")
#: Played where nothing else is said, and random moves of a game's beginning.
_EPISODES, _OPENING = 20, 2


def add_changes(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    """Add `--import`, and `--env.NAME` and `--planner.NAME` as typed, which no help lists."""
    add_import_option(parser)
    let_pass(parser, filter(_is_change, typed_settings(given)))


def _is_change(key: str) -> bool:
    # With a dot: `--planner` alone names no option of one.
    return key.partition(".")[0] in _CHANGED and "." in key


class Options:
    """Options of the command.

    Args:
        players: a file, a run or a pretrained agent; of several, also planners
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
        max_steps: moves per episode (default: the first run's, or 1000)
        width: of several players: tell how many episodes make an interval of a difference W wide
        opening: of a game of two players: first moves that are drawn at random (default: 2)
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
    max_steps: Annotated[Count | None, Option("M")] = None
    width: Annotated[float | None, Option("W")] = None
    opening: Annotated[Whole | None, Option("N")] = None
    env_id: Annotated[str | None, Option("ID")] = None
    besides = (add_changes,)


def run(options: argparse.Namespace) -> int:
    """Play, print the results, write `eval.json` or `paired.json`."""
    from plangym_ext.planners.players import num_players
    from plangym_ext.run.evaluating.contest import Contest

    import_modules(options, search=True)
    changed = changes(options)
    alone = len(options.players) == 1
    if alone:
        # Also where a folder is named: a planner has no run whose env it could play in.
        path = existing(options.players[0])
        out = options.out or _folder(path)
        if options.width is not None:
            raise InvalidOption("--width is for differences between players; name two or more.")
    else:
        _check_several(options)
        out = options.out or Path("runs/eval")
    # Those of one player are of its run, and renewed with it.
    replace = options.overwrite or (alone and options.out is None)
    path = out / ("eval.json" if alone else "paired.json")
    with (
        OutputFiles([path], replace=replace),
        Contest(
            options.players, env_id=options.env_id, changed=changed, max_steps=options.max_steps
        ) as contest,
    ):
        if not alone and num_players(contest.env) == 2:
            _rate(path, contest, options)
        else:
            if options.opening is not None:
                raise InvalidOption(
                    "--opening is for two or more players of a game of two players."
                )
            starts = None if options.starts is None else contest.starts(options.starts)
            episodes = _played(path, contest, options, starts)
            (_write_one if alone else _write_paired)(path, contest, options, episodes)
        remove_stale(out, [_part(path).name])
    return 0


def _part(path: Path) -> Path:
    """Return the file of what was played until something ended the command early."""
    return path.with_suffix(".part.json")


@contextlib.contextmanager
def _kept(path: Path, about: Mapping[str, Any], ended: Sequence[Any], what: str) -> Iterator[None]:
    """Write what has ended in a block that is left early: by Ctrl-C, SIGTERM or an error.

    Args:
        path: of the whole result, which stays as it is.
        about: how it was played.
        ended: rows for the file, added to while the block runs.
        what: they are, for the message.
    """
    try:
        yield
    except BaseException as error:
        if not ended:
            raise
        write_json(_part(path), {**about, what: list(ended)})
        told = f"what had ended is kept in {as_typed(_part(path))} ({what}: {len(ended)})"
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(told) from None
        print(f"\n{told}", file=sys.stderr)
        raise


def existing(name: str) -> Path:
    """Return the path of a checkpoint, run or pretrained agent that plays alone."""
    path = checkpoint_path(name)
    if not path.exists():
        raise DamagedCheckpoint(
            f"{name}: there is no such checkpoint{suggestion(name, cards())}. Name a file, the "
            f"folder of a run, or an agent of `plangym-ext list pretrained`. A planner alone plays "
            f"by `plangym-ext plan`."
        )
    return path


def _check_several(options: argparse.Namespace) -> None:
    """Refuse what means nothing for several players, before anything is played."""
    if options.width is not None and not options.width > 0:
        raise InvalidOption(f"--width must be a number > 0; got {options.width:g}.")
    if len(set(options.players)) < len(options.players):
        raise InvalidOption(f"eval: name each player once; got {' '.join(options.players)}.")
    if options.episodes == 1:
        raise InvalidOption("--episodes must be 2 or more for an interval of differences; got 1.")


def _played(
    path: Path, contest: Any, options: argparse.Namespace, starts: StateSet | None
) -> dict[str, list[Episode]]:
    """Play the episodes with every player."""
    from plangym_ext.run.evaluating.contest import told

    count = options.episodes or (_EPISODES if starts is None else len(starts))
    if count == 1 and len(contest.players) > 1:
        raise InvalidOption(
            f"{options.starts}: it holds one state; an interval of differences needs 2 or more."
        )
    found, line = {}, ProgressLine()
    ended: list[dict[str, Any]] = []

    def note(name: str, move: Move) -> None:
        line.update(told(name, move))
        if move.terminated or move.truncated or move.step + 1 == contest.max_steps:
            row = {"player": name, "episode": move.episode, "return": move.total}
            ended.append({**row, "length": move.step + 1, "terminated": move.terminated})

    if len(contest.players) > 1:
        # Before the episodes of any: they may take hours.
        for name in contest.players:
            line.update(f"{name}: a first move")
            contest.try_out(name)
    asked = {**_about(contest, options), "asked": count}
    with _kept(path, asked, ended, "episodes"):
        for name in contest.players:
            callback = functools.partial(note, name)
            found[name] = contest.play(
                name, count, seed=options.seed, starts=starts, callback=callback
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
    path: Path, contest: Any, options: argparse.Namespace, played: dict[str, list[Episode]]
) -> None:
    """Write `eval.json` of one player, and print its mean."""
    from plangym_ext.run.training.evaluation import summary

    ((name, episodes),) = played.items()
    trained, values = contest.trained[name], summary(episodes)
    how = _how(trained)
    about = {**how, **_about(contest, options)}
    write_json(path, {**about, **_of_each(episodes), **values})
    drawn = ", actions drawn" if how["sample"] else ""
    print(
        f"{trained.config.env.id}, {how['player']}{drawn}: mean return "
        f"{values['eval/return']:g} (lowest {values['eval/return_min']:g}) and "
        f"{values['eval/length']:g} moves, over {len(episodes)} episodes"
    )
    print(f"wrote {as_typed(path)}")


def _write_paired(
    path: Path, contest: Any, options: argparse.Namespace, played: dict[str, list[Episode]]
) -> None:
    """Write `paired.json` of several players, and print their differences."""
    from plangym_ext.run.evaluating.contest import paired_summary, table

    found = paired_summary(played, options.width)
    # Of planners the name says all.
    trained = {name: _how(one) for name, one in contest.trained.items()}
    episodes = {name: _of_each(one) for name, one in played.items()}
    about = {**_about(contest, options), "trained": trained}
    write_json(path, {**about, **found, "episodes": episodes})
    count = len(next(iter(played.values())))
    print(f"{contest.env.name}: {count} episodes of each player\n{table(found)}")
    print(f"wrote {as_typed(path)}")


def _rate(path: Path, contest: Any, options: argparse.Namespace) -> None:
    """Let each two players of a game meet, write `paired.json`, and print their ratings."""
    from plangym_ext.run.evaluating.elo import match, ratings, table

    if options.starts is not None or options.width is not None:
        raise InvalidOption(
            "--starts and --width are not for games of two players: states do not say who is to "
            "move, and ratings have no width. Leave them out."
        )
    line = ProgressLine()
    about = _about(contest, options)
    opening = _OPENING if options.opening is None else options.opening

    def play(first: str, second: str) -> Any:
        return match(
            contest.env,
            contest.players[first],
            contest.players[second],
            games=options.episodes or _EPISODES,
            seed=about["seed"],
            max_steps=contest.max_steps,
            opening=opening,
            callback=lambda move: line.update(f"{first} and {second}: move {move + 1}"),
        )

    scores: dict[Any, Any] = {}
    games: list[Any] = []
    with _kept(path, {**about, "opening": opening}, games, "matches"):
        for pair in itertools.combinations(contest.players, 2):
            scores[pair] = play(*pair)
            games.append({"players": pair, "scores": scores[pair].tolist()})
    line.leave()
    rated = ratings(list(contest.players), scores)
    trained = {name: _how(one) for name, one in contest.trained.items()}
    write_json(
        path, {**about, "trained": trained, "opening": opening, "ratings": rated, "games": games}
    )
    count = next(iter(scores.values())).size
    print(f"{contest.env.name}: each two players met {count} times\n{table(rated)}")
    print(f"wrote {as_typed(path)}")


def _folder(checkpoint: Path) -> Path:
    """Return the folder for results, unless one is given."""
    if checkpoint.parent == FOLDER:
        return Path("runs/eval")
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
