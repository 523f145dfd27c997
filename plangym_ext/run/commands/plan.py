"""`plangym-ext plan ENV_ID`: a planner plays one episode.

`plangym-ext plan --planner NAME --help` lists the options of that planner.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plangym_ext.errors import InvalidOption, MissingExtra
from plangym_ext.run.arguments import INTERRUPTED, at_least
from plangym_ext.run.env_options import add_env_options, env_arguments, import_modules, made_env
from plangym_ext.run.files import make_folder, make_folder_of, make_vacant, write_json
from plangym_ext.run.own_player import is_own, make_own
from plangym_ext.run.planner_options import add_planner_options, chosen_options, planner_from
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.termination import closing_when_terminated
from plangym_ext.run.training.interrupts import Interrupts
from plangym_ext.run.video import first_frame, recorded


# Raised by the callback: `play` has no other way to end before the episode does.
class _Stopped(Exception):
    """The move that was played when Ctrl-C was pressed is over."""


def add_arguments(parser: argparse.ArgumentParser, given: Sequence[str] = ()) -> None:
    """Add the options of the command.

    Args:
        parser: of this command.
        given: what was typed; the planner named there brings its own options.
    """
    from plangym_ext.planners import PLANNERS

    parser.add_argument("env", metavar="ENV_ID", help="a gymnasium id, such as ALE/MsPacman-v5")
    parser.add_argument(
        "--planner",
        default="mcts",
        metavar="NAME",
        help=f"one of: {', '.join(PLANNERS)}; or module:function, which takes the env and "
        f"returns a planner or an agent of your own",
    )
    parser.add_argument(
        "--network",
        type=Path,
        metavar="RUN",
        help="what the planner asks: a checkpoint of `train`, or the folder of a run",
    )
    parser.add_argument(
        "--opponent",
        metavar="SPEC",
        help="who makes the moves of player 1 of two, such as mcts:num_simulations=50; or "
        "module:function (default: the planner makes those of both)",
    )
    parser.add_argument(
        "--max-steps",
        type=at_least(1),
        default=1000,
        metavar="M",
        help="moves after which to stop",
    )
    parser.add_argument(
        "--n-workers",
        type=at_least(0),
        default=None,
        metavar="W",
        help="worker processes; 0 plans in this process (default: the fastest way for this env)",
    )
    parser.add_argument(
        "--seed", type=at_least(0), default=0, help="seed of the env and the planner"
    )
    parser.add_argument(
        "--frameskip", type=at_least(1), default=None, metavar="K", help="env steps per move"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/plan"), metavar="DIR", help="where to write"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="write over the episode that is in DIR"
    )
    parser.add_argument("--video", action="store_true", help="also write DIR/episode.mp4")
    parser.add_argument(
        "--tree",
        type=Path,
        default=None,
        metavar="FILE.html",
        help="also write one page that shows the tree of every move; no network needed",
    )
    parser.add_argument(
        "--tree-nodes",
        type=at_least(1),
        default=400,
        metavar="N",
        help="nodes that the page draws of each tree, the most visited",
    )
    add_env_options(parser, given)
    add_planner_options(parser, given, default="mcts")


def run(options: argparse.Namespace) -> int:
    """Play, show progress, write `episode.json` and perhaps `episode.mp4`.

    Ctrl-C ends the episode after the move; what was played until then is kept.
    """
    from plangym_ext.planners import play

    import_modules(options, [options.env, options.planner, options.opponent or ""])
    chosen, planner = _named_planner(options)
    opponent = _named_opponent(options)
    _tell_tuned(options.env, options.planner, chosen)
    # Before the env is made: that and compiling are a part of what the user waits for.
    started = time.monotonic()
    target = options.out / "episode.mp4" if options.video else None
    make_folder(options.out)
    if options.tree:
        make_folder_of(options.tree, "--tree")
    # Refused before the env is made: nothing is played that could not be written.
    make_vacant(options.out, ("episode.json", "episode.mp4"), overwrite=options.overwrite)
    line = ProgressLine()
    draws = bool(options.video or (options.tree and _renders(options.env)))
    with (
        closing_when_terminated(),
        made_env(options, line, draws=draws) as env,
        # Once the env is made: until then there is nothing to save, and Ctrl-C ends at once.
        Interrupts("ending the move and saving") as interrupts,
        # Last, so that the film is closed and whole before workers end.
        recorded(target, env, options.seed) as video,
    ):
        # One of the user's own is made for the env, so after it.
        if planner is None:
            planner = make_own(options.planner, env)
        if options.network:
            from plangym_ext.run.training.trained import asking

            # Only now, as the network is checked against the spaces of the env.
            planner = asking(type(planner), options.network, env, chosen)
            _tell_trained(options)
        if options.opponent and opponent is None:
            opponent = make_own(options.opponent, env, "--opponent")
        page = _page(options, env, planner)
        shown = _Shown(options, line, env, video, page, interrupts)
        line.update(f"{env.name}: searching the first move", force=True)
        with contextlib.suppress(_Stopped):
            play(
                env,
                planner,
                opponent=opponent,
                seed=options.seed,
                max_steps=options.max_steps,
                callback=shown.step,
            )
        line.end(shown.text(time.monotonic() - started))
    # Pages, too, hold what was played until an interrupt.
    if page is not None:
        page.write(options.tree)
    seconds = time.monotonic() - started
    _write_episode(options, chosen, planner, shown, seconds)
    _tell(options, shown, seconds)
    return INTERRUPTED if shown.interrupted else 0


def _named_planner(options: argparse.Namespace) -> tuple[dict[str, Any], Any]:
    """Return the options and the planner; no planner yet if it is made for the env."""
    from plangym_ext.planners import load_planner

    # Its function may load any network: --network is refused for it.
    if is_own(options.planner):
        if options.network:
            _check_asks(options, None)
        # Without options: those of a command line are fields of a class, and this is a function.
        return {}, None
    planner: Any = load_planner(options.planner)
    if options.network:
        _check_asks(options, planner)
    chosen = chosen_options(options)
    if options.tree:
        _check_tree(options.planner, planner)
        # Before the planner is made: by default trees are dropped after each plan.
        chosen["return_tree"] = True
    return chosen, planner(**chosen)


def _named_opponent(options: argparse.Namespace) -> Any:
    """Return the opponent that is a planner; None if there is none yet."""
    from plangym_ext.planners import PLANNERS

    if not options.opponent:
        return None
    # Options follow a colon too: what comes before it tells a planner from a module.
    name = options.opponent.partition(":")[0]
    if name not in PLANNERS and is_own(options.opponent):
        return None
    return planner_from(options.opponent)


def _check_asks(options: argparse.Namespace, planner: Any) -> None:
    """Refuse a network that the planner would not ask."""
    from plangym_ext.planners import PLANNERS, load_planner, options_of

    def asks(one: Any) -> bool:
        return any(option.name == "evaluator" for option in options_of(one))

    if is_own(options.planner) or not asks(planner):
        raise InvalidOption(
            f"--network needs a planner that asks one: "
            f"{', '.join(name for name in PLANNERS if asks(load_planner(name)))}; got "
            f"{options.planner!r}."
        )


def _write_episode(
    options: argparse.Namespace, chosen: dict[str, Any], planner: Any, shown: _Shown, seconds: float
) -> None:
    """Write `episode.json`."""
    import numpy as np

    import plangym_ext

    write_json(
        options.out / "episode.json",
        {
            "env": options.env,
            "env_arguments": env_arguments(options),
            "frameskip": options.frameskip,
            "planner": options.planner,
            "num_simulations": planner.num_simulations,
            "options": chosen,
            "network": str(options.network) if options.network else None,
            "opponent": options.opponent,
            "seed": options.seed,
            "return": shown.return_,
            **({} if shown.scores is None else {"scores": shown.scores}),
            "length": shown.moves,
            # JSON knows no numbers of numpy, which actions are.
            "actions": np.asarray(shown.actions).tolist(),
            "terminated": shown.terminated,
            "truncated": shown.truncated,
            "interrupted": shown.interrupted,
            "model_steps": shown.model_steps,
            "full_moves": shown.full_moves,
            "seconds": round(seconds, 3),
            "compile_seconds": round(shown.compile_seconds, 3),
            "version": plangym_ext.__version__,
        },
    )


def _tell_tuned(env: str, planner: str, chosen: dict[str, Any]) -> None:
    """Say which options are those that were tuned for the env."""
    from plangym_ext.planners.tuned import tuned_options

    tuned = tuned_options(env, planner)
    # Those that hold: what was typed counts before them.
    held = [f"{name} {value}" for name, value in tuned.items() if chosen[name] == value]
    if held:
        print(f"{planner}: options tuned for {env}: {', '.join(held)}")


def _tell_trained(options: argparse.Namespace) -> None:
    """Say where the network has learned, if that is not where is planned."""
    from plangym_ext.run.training.trained import trained_in

    own = trained_in(options.network)
    # What else an env is made with may be for training alone, such as an end at a lost life.
    for name, typed, learned in (
        ("ENV_ID", options.env, own.id),
        ("--frameskip", options.frameskip, own.frameskip),
    ):
        if typed != learned:
            then, now = ("the env's own" if value is None else value for value in (learned, typed))
            print(f"{options.network}: trained with {name} {then}; this is with {now}")


def _tell(options: argparse.Namespace, shown: _Shown, seconds: float) -> None:
    """Say what was played and written."""
    if shown.interrupted:
        print(f"interrupted after {shown.moves} moves, which are kept")
    compiling = f", {shown.compile_seconds:.1f} s of it compiling"
    # Said where it explains the time; a second run loads what this one has compiled.
    if shown.compile_seconds < 0.1 * seconds:
        compiling = ""
    print(
        f"{options.env}: return {shown.return_:g} in {shown.moves} moves, "
        f"{shown.model_steps} model steps, {seconds:.1f} s{compiling}"
    )
    if shown.scores is not None:
        print(f"score of player 0: {shown.scores[0]:g}, of player 1: {shown.scores[1]:g}")
    if shown.full_moves:
        print(
            f"the tree was full at {shown.full_moves} of {shown.moves} moves, for which there "
            f"were fewer simulations than asked for; raise --capacity"
        )
    print(f"wrote {options.out / 'episode.json'}")
    if options.video:
        print(f"wrote {options.out / 'episode.mp4'}")
    if options.tree:
        print(f"wrote {options.tree}")


class _Shown:
    """What is shown of each move: the progress line, the frame, the tree."""

    def __init__(
        self,
        options: argparse.Namespace,
        line: ProgressLine,
        env: Any,
        video: Any,
        page: Any,
        interrupts: Interrupts,
    ) -> None:
        self._options, self._line, self._env, self._video = options, line, env, video
        self._page, self._interrupts = page, interrupts
        # The picture of a move was drawn after the move before it.
        self._draws = page is not None and "rgb_array" in env.metadata.get("render_modes", ())
        self._frame = self._first_frame() if self._draws else None
        self._started = time.monotonic()
        self.moves, self.return_, self.model_steps = 0, 0.0, 0
        self.compile_seconds = 0.0
        self.scores: tuple[float, float] | None = None  # of two players
        self.actions: list[Any] = []
        self.terminated = self.truncated = self.interrupted = False
        self.full_moves = 0  # whose tree ran out of room

    def step(self, move: Any) -> None:
        """Take one played move.

        Raises:
            _Stopped: Ctrl-C was pressed before the move was over.
        """
        self.moves, self.return_ = move.step + 1, move.total
        self.actions.append(move.action)
        if move.player is not None:
            # What one of them earns is the other's loss.
            self.scores = (move.total, -move.total)
        self.terminated, self.truncated = bool(move.terminated), bool(move.truncated)
        self.model_steps += move.plan.budget.model_steps
        self.compile_seconds += move.plan.budget.compile_seconds
        self.full_moves += move.plan.full
        self._line.update(self.text(time.monotonic() - self._started))
        # Drawn once for film and page: a render may take longer than the step.
        frame = self._env.render() if self._draws or self._video is not None else None
        if self._video is not None:
            self._video.add(frame)
        if self._page is not None:
            self._page.add(move, self._frame)
        self._frame = frame
        # An episode that has just ended is whole: nothing of it was interrupted.
        if self._interrupts.seen and not (self.terminated or self.truncated):
            self.interrupted = True
            raise _Stopped

    def _first_frame(self) -> Any:
        """Return what the page begins with; without a package to draw with it has no pictures."""
        try:
            # Its reset changes nothing: `play` resets with the same seed again.
            return first_frame(self._env, self._options.seed)
        except MissingExtra as error:
            self._draws = False
            self._line.above(f"the page of trees has no pictures: {error}")
            return None

    def text(self, seconds: float) -> str:
        """Return the progress line."""
        rate = self.model_steps / max(seconds, 1e-9)
        return (
            f"step {self.moves}/{self._options.max_steps}  return {self.return_:g}  "
            f"{rate:,.0f} model steps/s"
        )


def _renders(name: str) -> bool:
    """Return whether an env draws pictures, as its class says."""
    import gymnasium as gym

    from plangym_ext.registry import find_spec

    # Asked of the class: no env is made yet, and whether it draws decides how it is made.
    entry = find_spec(name).entry_point
    env: Any = gym.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
    return "rgb_array" in getattr(env, "metadata", {}).get("render_modes", ())


def _check_tree(name: str, planner: Any) -> None:
    """Refuse to show the trees of a planner that grows none."""
    from plangym_ext.planners import PLANNERS, load_planner, options_of

    if not any(option.name == "return_tree" for option in options_of(planner)):
        growing = [
            other
            for other in PLANNERS
            if any(option.name == "return_tree" for option in options_of(load_planner(other)))
        ]
        raise InvalidOption(
            f"--tree needs a planner that grows a tree: {', '.join(growing)}; got {name!r}."
        )


def _page(options: argparse.Namespace, env: Any, planner: Any) -> Any:
    """Return the recorder of the page of trees; None if not asked for."""
    if not options.tree:
        return None
    from plangym_ext.run.tree_page.recorder import TreeRecorder, action_names

    # Known only of the env itself: a wrapper may have changed the actions of its class.
    if not hasattr(env.action_space, "n"):
        raise InvalidOption(f"--tree needs discrete actions; {options.env} has {env.action_space}.")
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
    # Edges are numbered from 0, actions from here.
    first = int(getattr(env.action_space, "start", 0))
    return TreeRecorder(options.env, subtitle, action_names(env), first, options.tree_nodes)
