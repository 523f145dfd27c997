"""`plangym-ext states PLAYER --out FILE`: sample states from a player's episodes.

PLAYER is a checkpoint, the folder of a run, or a planner, `NAME:option=value,...`. Evaluations
(`eval --starts FILE`), audits and samplers begin episodes from such states.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated

from plangym_ext.core.options import Count, Whole
from plangym_ext.run.arguments import Argument, Option, as_typed, import_modules
from plangym_ext.run.commands.evaluate import add_changes, changes
from plangym_ext.run.files import OutputFiles


class Options:
    """Options of the command.

    Args:
        who: a file, a run, or a planner
        out: where to write, such as s.npz; .npz is added to a name without an ending
        overwrite: overwrite FILE
        count: number of states
        episodes: played side by side
        seed: of the first episode
        max_steps: moves per episode (default: the run's, or 1000)
        env_id: env of a planner
    """

    who: Annotated[str, Argument("PLAYER")]
    out: Annotated[Path, Option("FILE")]
    overwrite: bool = False
    count: Annotated[Count, Option("N")] = 100
    episodes: Annotated[Count, Option("K")] = 20
    seed: Whole = 0
    max_steps: Annotated[Count | None, Option("M")] = None
    env_id: Annotated[str | None, Option("ID")] = None
    besides = (add_changes,)


def run(options: argparse.Namespace) -> int:
    """Play, draw states, write them."""
    from plangym_ext.planners import visited_states
    from plangym_ext.run.evaluating.contest import Contest

    import_modules(options, search=True)
    # As `save` adds it: what is looked for and told is the name of the file that is written.
    # "." and "/" have no name to which an ending could be added.
    folder = options.out.suffix or options.out.is_dir()
    out = options.out if folder else options.out.with_suffix(".npz")
    with (
        # First of all: what cannot be written need not be played.
        OutputFiles([out], replace=options.overwrite),
        # A contest of one: it opens a checkpoint or makes a planner, and brings the env of either.
        Contest(
            [options.who],
            env_id=options.env_id,
            changed=changes(options),
            max_steps=options.max_steps,
        ) as contest,
    ):
        found = visited_states(
            contest.env,
            contest.players[options.who],
            options.count,
            seed=options.seed,
            max_steps=contest.max_steps,
            num_episodes=options.episodes,
        )
        found.save(out, contest.env)
        print(f"wrote {len(found)} states of {contest.env.name} to {as_typed(out)}")
    return 0
