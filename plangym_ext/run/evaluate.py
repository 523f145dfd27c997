"""`plangym-ext eval CHECKPOINT`: play episodes with what was trained.

CHECKPOINT is a file, or the folder of a run, of which the newest one is taken. Arguments of
the env and options of the planner can be changed: `--env.num_boxes 3`,
`--planner.num_simulations 64`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plangym_ext.run.arguments import at_least
from plangym_ext.run.env_options import add_import_option, import_modules, search_current_folder
from plangym_ext.run.files import make_folder, write_json
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.video import recorded

_CHANGED = ("env", "planner")


def add_arguments(parser: argparse.ArgumentParser, given: Sequence[str] = ()) -> None:
    """Add the options of the command.

    Args:
        parser: of this command.
        given: what was typed; `--env.NAME` and `--planner.NAME` have any names.
    """
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="a file or a run")
    parser.add_argument(
        "--episodes", type=at_least(1), default=20, metavar="K", help="played side by side"
    )
    parser.add_argument(
        "--player",
        metavar="NAME",
        help='"network" alone, or the search of the "planner", or module:Class of a planner of '
        "your own (default: as the run was evaluated)",
    )
    parser.add_argument(
        "--seed", type=at_least(0), help="of the first episode (default: the run's)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where to write (default: the folder of the run, or that of the file)",
    )
    parser.add_argument("--video", action="store_true", help="also write DIR/episode.mp4")
    add_import_option(parser)
    from plangym_ext.run.setting_options import typed_settings

    for key in typed_settings(given):
        if key.partition(".")[0] in _CHANGED and "." in key:
            parser.add_argument(f"--{key}", dest=key, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Play, print the mean, write `eval.json` and perhaps `episode.mp4`."""
    import plangym_ext
    from plangym_ext.run.training.evaluation import summary
    from plangym_ext.run.training.trained import Trained

    search_current_folder()  # the checkpoint may name an env of a module there
    import_modules(options)
    changed = _changed(options)
    with Trained(options.checkpoint, **changed) as trained:
        out = options.out or _folder(options.checkpoint)
        make_folder(out)
        line = ProgressLine()
        episodes = trained.play(options.episodes, lambda move: line.update(_playing(move)))
        line.leave()
        values = summary(episodes)
        write_json(
            out / "eval.json",
            {
                "checkpoint": trained.path.name,
                "env": trained.config.env.id,
                "player": trained.config.evaluation.player,
                "seed": trained.config.evaluation.seed,
                "returns": [episode.return_ for episode in episodes],
                "lengths": [episode.length for episode in episodes],
                "terminated": [episode.terminated for episode in episodes],
                **values,
                "version": plangym_ext.__version__,
            },
        )
    print(
        f"{trained.config.env.id}, {trained.config.evaluation.player}: mean return "
        f"{values['eval/return']:g} (lowest {values['eval/return_min']:g}) and "
        f"{values['eval/length']:g} moves, over {len(episodes)} episodes"
    )
    print(f"wrote {out / 'eval.json'}", flush=True)
    if options.video:
        _write_video(options, changed, out / "episode.mp4")
        print(f"wrote {out / 'episode.mp4'}")
    return 0


def _folder(checkpoint: Path) -> Path:
    """Return the folder for results, unless one is given."""
    return checkpoint if checkpoint.is_dir() else checkpoint.parent


def _playing(move: Any) -> str:
    return f"playing: step {move.step + 1}, episode {move.episode + 1}, return {move.total:g}"


def _changed(options: argparse.Namespace) -> dict[str, Any]:
    """Return what is to differ from the run's own settings."""
    from plangym_ext.run.settings.settings import Text, nested

    typed = {
        key: Text(value)
        for key, value in vars(options).items()
        if key.partition(".")[0] in _CHANGED and "." in key
    }
    found = {section: nested(typed).get(section, {}) for section in _CHANGED}
    given = {"player": options.player, "seed": options.seed}
    return {**found, **{key: value for key, value in given.items() if value is not None}}


def _write_video(options: argparse.Namespace, changed: dict[str, Any], path: Path) -> None:
    """Play the first episode again, alone, and film it."""
    from plangym_ext.planners.episode import play
    from plangym_ext.run.training.trained import Trained

    filmed = {**changed, "env": {**changed["env"], "render_mode": "rgb_array"}}
    with Trained(options.checkpoint, **filmed) as trained:
        seed, env = trained.config.evaluation.seed, trained.env
        line = ProgressLine()
        with recorded(path, env, seed) as video:
            assert video is not None

            def film(move: Any) -> None:
                video.add(env.render())
                line.update(f"filming: step {move.step + 1}, return {move.total:g}")

            play(env, trained.player, seed=seed, max_steps=trained.max_steps, callback=film)
        line.end("filmed")
