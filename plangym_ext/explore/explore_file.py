"""Saving and loading a Go-Explore run as one `.npz` file.

It is a state file (see `core/files/state_file.py`) of the cells' states, with the archive, the
paths and the particles beside them, and the settings and the generator as JSON text. So
`load_states` reads the states of an archive, and a file of another env is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from plangym_ext.core.files.state_file import checked_file, read_arrays, write_arrays
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.errors import DamagedState, InvalidOption, PlangymExtError
from plangym_ext.explore.archive import check_counts
from plangym_ext.explore.cells import FrameCells, InfoCells, ObsCells
from plangym_ext.explore.rows import Places
from plangym_ext.states import plain
from plangym_ext.states.randomness import random_state

_ARCHIVE = ("key", "score", "steps", "seen", "chosen", "ended", "segment", "taken")
_PATHS = ("path_actions", "path_start", "path_parent", "path_taken")
_PARTICLES = tuple(
    f"particle_{name}"
    for name in ("states", "scores", "steps", "segment", "taken", "cell", "ended")
)
#: Control steps of all rows in one round.
_MOST_OF_ROUND = 1 << 28
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
    """Return the exploration that was saved; see `GoExplore.load`."""
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
        _check_counts(explorer)
        # JSON keeps whole numbers of any size, so also the 128 bits of the generator.
        explorer.rng = random_state.generator(settings["rng"])
        explorer.particles = _particles(found, explorer)
    # ValueErrors, too, but they say more than what follows.
    except PlangymExtError:
        raise
    except plain.MALFORMED as error:
        raise DamagedState(
            f"{where}: {path} is no file of an exploration, or it is damaged: "
            f"{str(error) or type(error).__name__}"
        ) from error
    return explorer


def _check_counts(explorer: Any) -> None:
    """Refuse what rounds of that many rows and steps could not have come to."""
    of_round = explorer.num_rows * explorer.horizon
    counts = explorer.rounds, explorer.steps_taken
    if not all(type(count) is int and count >= 0 for count in counts):
        raise ValueError(f"rounds and steps must be whole numbers; got {counts}")
    if explorer.steps_taken != explorer.rounds * of_round or of_round > _MOST_OF_ROUND:
        raise ValueError(f"{counts[0]} rounds of {of_round} steps are not {counts[1]}")


def _particles(found: Mapping[str, Any], explorer: Any) -> Places | None:
    if "particle_states" not in found:
        return None
    states = found["particle_states"]
    if states.ndim != 2 or states.dtype != np.uint8:
        raise ValueError(f"particle_states must be [L, S] uint8; got {states.shape} {states.dtype}")
    states = explorer.env.checked_states(states, "GoExplore.load: particles")
    rest = {name.removeprefix("particle_"): found[name] for name in _PARTICLES[1:]}
    places, count = Places(states, **rest), explorer.num_rows
    dtypes = {"scores": np.float64, "ended": np.bool_}
    for name, array in vars(places).items():
        dtype = np.dtype(dtypes.get(name, np.uint8 if name == "states" else np.int64))
        if array.shape[:1] != (count,) or array.dtype != dtype or array.ndim != 1 + (dtype == "u1"):
            raise ValueError(f"particle_{name} must be of {count} rows, {dtype}; got {array.dtype}")
    check_counts(steps=places.steps, cell=places.cell)
    archive = explorer.archive
    if not (places.cell < len(archive)).all() or np.isnan(places.scores).any():
        raise ValueError("its particles are in cells that are not there, or have no scores")
    if not archive.paths.hold(places.segment, places.taken):
        raise ValueError("its particles are on segments that are not there")
    return places


def _described(cell: Any) -> dict[str, Any]:
    """Return a cell function's saved form: complete for the library's own, else its name."""
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
