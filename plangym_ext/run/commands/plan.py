"""`plangym-ext plan ENV_ID`: play one episode with a planner.

`plangym-ext plan --planner NAME --help` lists the options of that planner.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from plangym_ext.core.inherited_options import search_current_folder
from plangym_ext.core.options import Count, Whole
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.pages.tree import recorder_in
from plangym_ext.planners.registry import PLANNERS
from plangym_ext.run.arguments import (
    INTERRUPTED,
    Argument,
    Option,
    add_env_options,
    import_modules,
    made_env,
    render_modes,
)
from plangym_ext.run.files import FolderLock, OutputFiles, check_vacant, remove_stale
from plangym_ext.run.named_player import NamedPlayer, is_function, value_parser
from plangym_ext.run.planned_episode import (
    Shown,
    Stopped,
    tell_played,
    tell_trained,
    tell_tuned,
    write_episode,
)
from plangym_ext.run.pretrained import checkpoint_path
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.training.interrupts import Interrupts
from plangym_ext.run.video import recorded

_NAMED = (
    f"one of: {', '.join(PLANNERS)}; or of your own: module:Class, a planner, or "
    f"module:function, which takes the env and returns a planner or an agent"
)


def add_planner_options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    """Add the options of the planner that `given` names with `--planner`.

    Their defaults are the planner's own, or those that were tuned for the env or its family.

    If help is asked for without naming one, none is loaded: that would take a
    compiler with it.

    Raises:
        UnknownName: there is no such planner.
    """
    name = _named(given)
    if name is None and (not given or "--help" in given or "-h" in given):
        return
    name = name or "mcts"
    if ":" in name:
        search_current_folder()
        if is_function(name):
            return
    from plangym_ext.planners import load_planner, options_of
    from plangym_ext.planners.options import is_tuned, tuned_options

    # Nothing is parsed yet: one of these ids among the words is the env.
    env = next((word for word in given if is_tuned(word)), "")
    tuned = tuned_options(env, name)
    group = parser.add_argument_group(f"options of {name}")
    planner = load_planner(name)
    # What bounds a plan, which is set most often, before what shapes it.
    for option in sorted(options_of(planner), key=lambda one: one.name not in _LIMITS):
        if option.kind is None:
            continue
        flag = "--" + option.name.replace("_", "-")
        target = _PREFIX + option.name
        # A percent sign is a placeholder to argparse.
        text = option.help.replace("%", "%%").replace("`", "")
        value: Any = tuned.get(option.name, option.default)
        if option.name in tuned:
            text += f" (default in {env}: {value})"
        elif option.name == "num_simulations":
            text += f" (default: {planner.default_simulations}, unless another limit is given)"
        if option.kind is bool:
            # With `--no-NAME`: what is on by default could not be turned off otherwise.
            kind: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        else:
            kind = {"type": value_parser(option.kind, option.optional), "metavar": "X"}
        if value is inspect.Parameter.empty:
            kind["required"] = True
            value = None
        group.add_argument(flag, dest=target, default=value, help=text, **kind)


class Options:
    """Options of the command.

    Args:
        env: a gymnasium id, such as ALE/MsPacman-v5
        network: network of the planner: a checkpoint of `train`, the folder of a run, or a
            pretrained agent
        opponent: who makes the moves of player 1 of two, such as mcts:num_simulations=50,
            module:Class:option=value or module:function (default: the planner makes those of both)
        max_steps: maximum number of moves
        n_workers: worker processes; 0 plans in this process (default: the fastest way for this
            env)
        seed: seed of the env and the planner
        frameskip: env steps per move
        out: where to write
        overwrite: overwrite the episode in DIR
        video: also write DIR/episode.mp4
        tree: also write one page that shows the tree of every move; no network needed
        tree_nodes: nodes that the page draws of each tree, the most visited
    """

    env: Annotated[str, Argument("ENV_ID")]
    planner: Annotated[str, Option("NAME", _NAMED)] = "mcts"
    network: Annotated[str | None, Option("RUN")] = None
    opponent: Annotated[str | None, Option("SPEC")] = None
    max_steps: Annotated[Count, Option("M")] = 1000
    n_workers: Annotated[Whole | None, Option("W")] = None
    seed: Whole = 0
    frameskip: Annotated[Count | None, Option("K")] = None
    out: Annotated[Path, Option("DIR")] = Path("runs/plan")
    overwrite: bool = False
    video: bool = False
    tree: Annotated[Path | None, Option("FILE.html")] = None
    tree_nodes: Annotated[Count, Option("N")] = 400
    besides = (add_env_options, add_planner_options)


def run(options: argparse.Namespace) -> int:
    """Play, show progress, write `episode.json` and perhaps `episode.mp4`.

    Ctrl-C ends the episode after the move; what was played until then is kept.
    """
    from plangym_ext.planners import play

    import_modules(options, search=True)
    # Before the env is made, which may change the current folder.
    options.network = options.network and checkpoint_path(options.network)
    chosen, planner = _named_planner(options)
    opponent = NamedPlayer(options.opponent, "--opponent") if options.opponent else None
    # Before the env is made: that and compiling are a part of what the user waits for.
    started = time.monotonic()
    target = options.out / "episode.mp4" if options.video else None
    line = ProgressLine()
    draws = bool(options.video or (options.tree and "rgb_array" in render_modes(options.env)))
    with (
        _places(options),
        made_env(options, line, draws=draws) as env,
        # Once the env is made: until then there is nothing to save, and Ctrl-C ends at once.
        Interrupts("ending the move and saving") as interrupts,
        # Last, so that the film is closed and whole before workers end.
        recorded(target, env, options.seed) as video,
    ):
        # Not before: the env may not exist.
        tell_tuned(options.env, options.planner, chosen)
        planner = _made_for(env, options, chosen, planner)
        page = _recorder_of(options, env, planner)
        shown = Shown(options, line, env, page, interrupts)
        line.update(f"{env.name}: searching the first move", force=True)
        with contextlib.suppress(Stopped):
            play(
                env,
                planner,
                opponent=None if opponent is None else opponent.made_for(env),
                seed=options.seed,
                max_steps=options.max_steps,
                callback=shown.step,
            )
        seconds = time.monotonic() - started
        line.end(shown.text(seconds))
        # Whole by now: the film takes its place when the block ends, after the episode that it
        # shows. Until then both of an episode that was there are kept.
        if video is not None:
            video.finish()
        write_episode(options, chosen, planner, shown, seconds)
        if video is None:
            remove_stale(options.out, ["episode.mp4"])
        # Pages, too, hold what was played until an interrupt; last, as the episode is worth more.
        if page is not None:
            page.write(options.tree)
    tell_played(options, shown, seconds)
    return INTERRUPTED if shown.interrupted else 0


@contextlib.contextmanager
def _places(options: argparse.Namespace) -> Iterator[None]:
    """Hold what will be written to; refuse, before the env is made, what could not be."""
    films = ["episode.mp4"] * options.video
    with FolderLock(options.out, ["episode.json", *films]):
        check_vacant(options.out, "episode.json", overwrite=options.overwrite)
        trees = [options.tree] if options.tree else []
        with OutputFiles(trees, "--tree", replace=options.overwrite):
            yield


def _named_planner(options: argparse.Namespace) -> tuple[dict[str, Any], Any]:
    """Return the options and the planner; no planner yet if it is made for the env."""
    from plangym_ext.planners import load_planner

    if is_function(options.planner):
        if options.network:
            _check_asks(options, None)  # the function may load any
        # Without options: those of a command line are of a class.
        return {}, None
    planner: Any = load_planner(options.planner)
    if options.network:
        _check_asks(options, planner)
    chosen = chosen_options(options)
    if options.tree:
        # Before the planner is made: by default trees are dropped after each plan.
        chosen |= _tree_options(options.planner, planner)
    return chosen, planner(**chosen)


def _made_for(env: Any, options: argparse.Namespace, chosen: dict[str, Any], planner: Any) -> Any:
    """Return the planner, of which what the env decides on is settled now."""
    if planner is None:  # of a function of the user's own
        planner = NamedPlayer(options.planner, "--planner").made_for(env)
    if options.network:
        from plangym_ext.run.training.trained import asking

        # Only now, as the network is checked against the spaces of the env.
        planner = asking(type(planner), options.network, env, chosen)
        tell_trained(options)
    return planner


def _check_asks(options: argparse.Namespace, planner: Any) -> None:
    """Refuse a network that the planner would not ask."""
    from plangym_ext.planners import PLANNERS, load_planner, options_of

    def asks(one: Any) -> bool:
        return any(option.name == "evaluator" for option in options_of(one))

    if planner is None or not asks(planner):
        raise InvalidOption(
            f"--network needs a planner with an evaluator: "
            f"{', '.join(name for name in PLANNERS if asks(load_planner(name)))}; got "
            f"{options.planner!r}."
        )


# Of the attributes that options are kept in, to tell them from those of the command.
_PREFIX = "planner_"
#: Options that bound a plan.
_LIMITS = ("num_simulations", "max_model_steps", "max_seconds")


def chosen_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keywords for the planner's constructor."""
    found = vars(options).items()
    return {key.removeprefix(_PREFIX): value for key, value in found if key.startswith(_PREFIX)}


def _named(given: Sequence[str]) -> str | None:
    """Return the value of `--planner`, if it was typed."""
    for position, word in enumerate(given):
        if word.startswith("--planner="):
            return word.partition("=")[2]
        if word == "--planner" and position + 1 < len(given):
            return given[position + 1]
    return None


def _tree_options(name: str, planner: Any) -> dict[str, Any]:
    """Return the options that make a planner's plans include trees.

    Raises:
        InvalidOption: it is one of the library's, and grows none.
    """
    from plangym_ext.planners import load_planner, options_of

    def grows(one: Any) -> bool:
        return any(option.name == "return_tree" for option in options_of(one))

    if grows(planner):
        return {"return_tree": True}
    if name in PLANNERS:
        growing = [other for other in PLANNERS if grows(load_planner(other))]
        raise InvalidOption(
            f"--tree needs a planner that grows a tree: {', '.join(growing)}; got {name!r}."
        )
    return {}  # of one's own: without a tree in its plans, their actions are drawn


def _recorder_of(options: argparse.Namespace, env: Any, planner: Any) -> Any:
    """Return the recorder of the tree page; None without the option."""
    if not options.tree:
        return None
    limits = [
        f"{value:,} {unit}"
        for value, unit in (
            (planner.num_simulations, "simulations"),
            (planner.max_model_steps, "model steps"),
            (planner.max_seconds, "s"),
        )
        if value is not None
    ]
    searched = f", {' or '.join(limits)} a move" if limits else ""
    subtitle = f"{options.planner}{searched}, seed {options.seed}"
    return recorder_in(env, options.env, subtitle, options.tree_nodes)
