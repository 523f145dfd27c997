"""What is said of an episode before and after it is played, and what is written of it."""

from __future__ import annotations

import argparse
from typing import Any

from plangym_ext.run.env_options import env_arguments
from plangym_ext.run.files import write_json
from plangym_ext.run.planned_episode.shown import Shown


def tell_tuned(env: str, planner: str, chosen: dict[str, Any]) -> None:
    """Say which options are those that were tuned for the env."""
    from plangym_ext.planners.tuned import tuned_options

    tuned = tuned_options(env, planner)
    # Those that hold: what was typed counts before them.
    held = [f"{name} {value}" for name, value in tuned.items() if chosen[name] == value]
    if held:
        print(f"{planner}: options tuned for {env}: {', '.join(held)}")


def tell_trained(options: argparse.Namespace) -> None:
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


def tell_played(options: argparse.Namespace, shown: Shown, seconds: float) -> None:
    """Say what was played and written."""
    if shown.interrupted:
        print(f"interrupted after {shown.moves} moves, which are kept")
    compiling = f", {shown.compile_seconds:.1f} s of it compiling, or loading what was compiled"
    # Said where it explains the time; a second run loads what this one has compiled, which the
    # clock counts too.
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


def write_episode(
    options: argparse.Namespace, chosen: dict[str, Any], planner: Any, shown: Shown, seconds: float
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
