"""An exploration on disk: one `.npz` without pickles, of which nothing is lost.

It is a state file (see `core/state_file.py`) of the cells' states, with the archive, the paths and
the particles beside them, and the settings and the generator as JSON text. So `load_states`
reads the states of an archive, and a file of another env is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.core.state_file import checked_file, read_arrays, write_arrays
from plangym_ext.errors import DamagedState, InvalidOption
from plangym_ext.explore.cells import FrameCells, InfoCells, ObsCells
from plangym_ext.explore.rows import Places

_ARCHIVE = ("key", "score", "steps", "seen", "chosen", "ended", "segment", "taken")
_PATHS = ("path_actions", "path_start", "path_parent", "path_taken")
_PARTICLES = tuple(
    f"particle_{name}"
    for name in ("states", "scores", "steps", "segment", "taken", "cell", "ended")
)
_CELLS = {cells.__name__: cells for cells in (FrameCells, InfoCells, ObsCells)}


def save(path: str | os.PathLike[str], explorer: Any) -> None:
    """Write a `GoExplore`, between two rounds; an existing file is replaced as a whole."""
    settings = {
        "kind": explorer.kind,
        "rows": explorer.num_rows,
        "horizon": explorer.horizon,
        "repeat": explorer.repeat,
        "seed": explorer.seed,
        "steps_taken": explorer.steps_taken,
        "rounds": explorer.rounds,
        "rng": explorer.rng.bit_generator.state,
        "cell": _described(explorer.cell),
    }
    arrays = {**explorer.archive.arrays(), "settings": np.array(json.dumps(settings))}
    if explorer.particles is not None:
        arrays |= {f"particle_{k}": v for k, v in vars(explorer.particles).items()}
    write_arrays(path, explorer.archive.states, arrays, explorer.env, "GoExplore.save")


def load(
    made: Callable[..., Any], path: str | os.PathLike[str], env: PlanEnv, cell: Any, weights: Any
) -> Any:
    """Return the exploration that was saved; see `GoExplore.load`.

    Args:
        made: `GoExplore`.
        path: of the file.
        env: that was explored.
        cell: the function, or None.
        weights: as they were.
    """
    where = "GoExplore.load"
    found = read_arrays(path, (*_ARCHIVE, *_PATHS, "settings"), _PARTICLES, where)
    states = checked_file(path, found, env, where)
    try:
        settings = json.loads(str(found["settings"]))
        explorer = made(
            env,
            _known(settings["cell"], cell),
            kind=settings["kind"],
            rows=settings["rows"],
            horizon=settings["horizon"],
            repeat=settings["repeat"],
            weights=weights,
            seed=settings["seed"],
        )
        # `made` has put the root in, which is among the saved cells, too.
        explorer.archive = explorer.empty_archive()
        explorer.archive.load(states, found)
        explorer.steps_taken, explorer.rounds = settings["steps_taken"], settings["rounds"]
        # JSON keeps whole numbers of any size, so also the 128 bits of the generator.
        explorer.rng.bit_generator.state = settings["rng"]
        explorer.particles = _particles(found, env)
    # ValueErrors, too, but they say more than what follows.
    except (InvalidOption, DamagedState):
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedState(
            f"{where}: {path} is no file of an exploration, or it is damaged: "
            f"{str(error) or type(error).__name__}"
        ) from error
    return explorer


def _particles(found: Mapping[str, Any], env: PlanEnv) -> Places | None:
    if "particle_states" not in found:
        return None
    states = env.checked_states(found["particle_states"], "GoExplore.load: particles")
    rest = {name.removeprefix("particle_"): found[name] for name in _PARTICLES[1:]}
    return Places(states, **rest)


def _described(cell: Any) -> dict[str, Any]:
    """Return what is written of a cell function: all of one of the library's, else its name."""
    kind = type(cell).__name__
    if _CELLS.get(kind) is type(cell):
        return {"kind": kind, "options": vars(cell)}
    return {"name": getattr(cell, "__qualname__", kind)}


def _known(described: Mapping[str, Any], given: Any) -> Any:
    """Return the cell function that was described, or the one that is given."""
    if given is not None:
        # By way of JSON, as the other one came: tuples are lists there.
        if (own := json.loads(json.dumps(_described(given)))) != described:
            raise InvalidOption(
                f"GoExplore.load: the archive has the cells {dict(described)}; got {own}. Load it "
                "with the function that it was made with."
            )
        return given
    if "kind" not in described:
        raise InvalidOption(
            f"GoExplore.load: the archive has the cells of {described['name']}, a function of "
            "your own. Give it as `cell`."
        )
    options = dict(described["options"])
    if described["kind"] == InfoCells.__name__:
        # Tuples again, so that the cells equal those that were saved.
        options["fields"] = tuple((name, width) for name, width in options["fields"])
    return _CELLS[described["kind"]](**options)
