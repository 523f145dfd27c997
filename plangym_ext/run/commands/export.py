"""`plangym-ext export PLAYER --out PATH`: write a trained policy for other programs or people.

PLAYER is a pretrained agent, a checkpoint, or the folder of a run. "onnx" and "torchscript" are a
function from observations `[B, *obs]` to the actions `[B, *act]` that the agent plays without
search. "folder" has the weights and a card, `README.md`; `plangym-ext play DIR` plays it, and any
program that copies folders publishes it, such as `hf upload USER/NAME DIR`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from plangym_ext.core.files.whole_file import replacing
from plangym_ext.core.options import OneOf
from plangym_ext.run.arguments import Argument, Option, add_import_option, as_typed, import_modules
from plangym_ext.run.commands.evaluate import existing
from plangym_ext.run.files import OutputFiles

FORMATS = ("onnx", "torchscript", "folder")


class Options:
    """Options of the command.

    Args:
        who: a pretrained agent, a run, or a file
        out: the file to write; of "folder", the folder
        overwrite: overwrite it
    """

    who: Annotated[str, Argument("PLAYER")]
    out: Annotated[Path, Option("PATH")]
    format: Annotated[str, OneOf(FORMATS), Option("", f"one of: {', '.join(FORMATS)}")] = "onnx"
    overwrite: bool = False
    besides = (add_import_option,)


def run(options: argparse.Namespace) -> int:
    """Write the file or the folder."""
    from plangym_ext.run.training.checkpoints import BEST

    import_modules(options, search=True)
    path, places = existing(options.who), [options.out]
    if options.format == "folder":
        places = [options.out / BEST, options.out / "README.md"]
    with OutputFiles(places, replace=options.overwrite):
        if options.format == "folder":
            _write_folder(path, *places)
        else:
            _write_function(path, options.out, options.format)
    for place in places:
        print(f"wrote {as_typed(place)}")
    return 0


def _write_function(checkpoint: Path, out: Path, kind: str) -> None:
    import numpy as np

    from plangym_ext.learn.networks.exported import GreedyPolicy, export_policy
    from plangym_ext.run.training.trained import Trained

    with Trained(checkpoint) as trained:
        env = trained.env
        policy = GreedyPolicy(trained.network, env.observation_space, env.action_space)
        _, obs, _ = env.reset(seed=0)
        # More than one row: torch takes the length of an axis that is 1 for fixed.
        export_policy(policy, np.stack([obs, obs]), out, kind)


def _write_folder(checkpoint: Path, weights: Path, card: Path) -> None:
    from plangym_ext.learn import tensor_file
    from plangym_ext.run.training.trained import playing_part

    content = playing_part(checkpoint)
    tensor_file.save(weights, content)
    with replacing(card) as file:
        file.write(_card(card.parent.name, content))


def _card(name: str, content: Mapping[str, Any]) -> str:
    """Return the text of the card; its head is what model hubs read."""
    config, best = content["config"], content["best"]
    env, algorithm = config["env"]["id"], config["algorithm"]["name"]
    earned = f" Best mean return of an evaluation: {best['return']:g}." if best else ""
    settings = json.dumps(config, indent=2)
    return (
        f"---\nlibrary_name: plangym-ext\ntags:\n- reinforcement-learning\n- {env}\n---\n\n"
        f"# {name}\n\n{algorithm} on {env}, after {content['steps']:,} steps.{earned}\n\n"
        f"```\nplangym-ext play {name}\n```\n\n## Settings\n\n```json\n{settings}\n```\n"
    )
