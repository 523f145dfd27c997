"""`plangym-ext play PLAYER`: watch a trained agent play an episode.

PLAYER is a pretrained agent (`plangym-ext list pretrained`), the folder of a run, or a checkpoint.
The episode is shown in a window, or as coloured blocks in a terminal without a display, and can be
kept: `plangym-ext play cartpole --tree tree.html --video cartpole.mp4`. It is the first episode of
`eval`. Arguments of the env and options of the planner can be changed, as with `eval`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from plangym_ext.core.options import Count, Whole
from plangym_ext.errors import plural
from plangym_ext.run.arguments import Argument, Option, as_typed, import_modules, render_modes
from plangym_ext.run.commands.evaluate import add_changes, changes, existing
from plangym_ext.run.files import OutputFiles
from plangym_ext.run.progress import ProgressLine

if TYPE_CHECKING:
    from plangym_ext.planners.episode import Move


class Options:
    """Options of the command.

    Args:
        who: a pretrained agent, a run, or a file
        starts: states of which the episode begins from the first, written by `states`
        player: "network" alone, or the search of the "planner", or module:Class of a planner of
            your own (default: as the run was evaluated; with --tree the planner, if there is one)
        sample: whether an agent draws its actions from its policy (default: as the run was
            evaluated)
        seed: of the episode (default: the run's)
        max_steps: moves after which it is cut (default: the run's)
        show: show the episode while it is played (default: if there is a display or a terminal)
        video: also write a film, .mp4 or .gif
        tree: also write one page that shows the tree of every move; no network needed
        tree_nodes: nodes that the page draws of each tree, the most visited
        overwrite: overwrite these files
    """

    who: Annotated[str, Argument("PLAYER")]
    starts: Annotated[Path | None, Option("FILE")] = None
    player: Annotated[str | None, Option("NAME")] = None
    sample: bool | None = None
    seed: Whole | None = None
    max_steps: Annotated[Count | None, Option("M")] = None
    show: bool | None = None
    video: Annotated[Path | None, Option("FILE")] = None
    tree: Annotated[Path | None, Option("FILE.html")] = None
    tree_nodes: Annotated[Count, Option("N")] = 400
    overwrite: bool = False
    besides = (add_changes,)


def run(options: argparse.Namespace) -> int:
    """Play, show, write the film and the page, print the return."""
    from plangym_ext.planners.pages.tree import recorder_in
    from plangym_ext.run.evaluating.contest import Contest
    from plangym_ext.run.shown_episode import show_episode
    from plangym_ext.run.training.trained import settings_of
    from plangym_ext.run.viewer import Viewer

    import_modules(options, search=True)
    path, changed = str(existing(options.who)), changes(options)
    config, _ = settings_of(path)
    if options.tree and options.player is None and config.planner is not None:
        changed["player"] = "planner"
    modes = render_modes(config.env.id)
    shows = Viewer.can_show() if options.show is None else options.show
    texts = shows and "rgb_array" not in modes and "ansi" in modes
    shows = shows and not texts
    if options.video or ((shows or options.tree) and "rgb_array" in modes):
        changed["env"] = {**changed["env"], "render_mode": "rgb_array"}
    elif texts:
        changed["env"] = {**changed["env"], "render_mode": "ansi"}
    places = [one for one in (options.video, options.tree) if one]
    line = ProgressLine()
    with (
        OutputFiles(places, "--video, --tree", replace=options.overwrite),
        Contest([path], changed=changed, max_steps=options.max_steps) as contest,
        Viewer(title=options.who) as viewer,
    ):
        seed = contest.seed if options.seed is None else options.seed
        page = None
        if options.tree:
            subtitle = f"{options.who}, seed {seed}"
            recorder = recorder_in(contest.env, contest.env.name, subtitle, options.tree_nodes)
            page = options.tree, recorder

        def told(move: Move) -> None:
            if texts:
                print(contest.env.render(), end="\n\n", flush=True)
            elif not shows:
                line.update(f"step {move.step + 1}/{contest.max_steps}  return {move.total:g}")

        episode = show_episode(
            contest.env,
            contest.players[path],
            seed=seed,
            max_steps=contest.max_steps,
            video=options.video,
            tree=page,
            viewer=viewer if shows else None,
            callback=told,
            starts=None if options.starts is None else contest.starts(options.starts),
        )
        line.leave()
        print(
            f"{contest.env.name}: {options.who} earned {episode.return_:g} in {episode.length} "
            f"{plural('move', episode.length)}, seed {seed}"
        )
    for place in places:
        print(f"wrote {as_typed(place)}")
    return 0
