"""GoExplore: return to a cell by restoring its state, then explore from it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.numbers import at_least, check_kind, finite_between
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.errors import InvalidAnswer, InvalidOption, NotExact, WrongKind
from plangym_ext.explore.archive import Archive
from plangym_ext.explore.cells import Cells, cells_for, cells_named
from plangym_ext.explore.entries import NO_KEYS, Arrived
from plangym_ext.explore.explore_file import load, save
from plangym_ext.explore.paths import ROOT, Paths
from plangym_ext.explore.rows import Places, Rows


def check_actions(space: Any) -> None:
    """Refuse an action space that `random_actions` does not support.

    Raises:
        InvalidOption: it is none of Discrete, MultiDiscrete, MultiBinary and bounded Box.
    """
    bounded = hasattr(space, "low") and bool(
        np.isfinite(space.low).all() and np.isfinite(space.high).all()
    )
    if not (hasattr(space, "n") or hasattr(space, "nvec") or bounded):
        raise InvalidOption(
            f"GoExplore: actions must be Discrete, MultiDiscrete, MultiBinary or a bounded Box; "
            f"got {space}. Wrap the env so that they are."
        )


def random_actions(
    space: Any, rng: np.random.Generator, steps: int, rows: int, repeat: float
) -> npt.NDArray[Any]:
    """Return random actions `[steps, rows, *act]`, fresh, which may repeat the previous ones.

    Args:
        space: of actions.
        rng: draws them.
        steps: H.
        rows: B.
        repeat: probability that the action before is played again.
    """
    drawn = _drawn(space, rng, (steps, rows))
    new = rng.random((steps, rows)) >= repeat
    # Nothing comes before the first.
    new[0] = True
    # Of each step, the last one at or before it whose action is new.
    since = np.maximum.accumulate(np.where(new, np.arange(steps)[:, None], 0), axis=0)
    found: npt.NDArray[Any] = drawn[since, np.arange(rows)]
    return found


def _drawn(space: Any, rng: np.random.Generator, size: tuple[int, int]) -> npt.NDArray[Any]:
    # In this order: MultiDiscrete has a `start`, too, and MultiBinary an `n`.
    shape = (*size, *space.shape)
    if hasattr(space, "nvec"):
        return (space.start + rng.integers(0, space.nvec, shape)).astype(space.dtype)
    if hasattr(space, "start"):
        return (space.start + rng.integers(0, space.n, shape)).astype(space.dtype)
    if hasattr(space, "n"):
        return rng.integers(0, 2, shape).astype(space.dtype)
    if np.issubdtype(space.dtype, np.integer):
        return rng.integers(space.low, space.high, shape, space.dtype, endpoint=True)
    found = space.low + rng.random(shape) * (space.high.astype(np.float64) - space.low)
    # Rounding to the space's own type may step over its edge.
    return np.clip(found.astype(space.dtype), space.low, space.high)


def seen_weights(seen: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return relative weights of cells `[N]`: 1 / sqrt(seen + 1).

    Args:
        seen: `[N]` how many steps ended in each.

    Source: Ecoffet et al. 2021, "First return, then explore", Methods, without domain knowledge.
    """
    return 1.0 / np.sqrt(seen + 1.0)


def checked_weights(weights: Any, count: int) -> npt.NDArray[np.float64]:
    """Return the weights `[N]` of a user's function after a check.

    Raises:
        InvalidAnswer: they are other than `[N]` finite numbers, not negative and not all 0.
    """
    found = np.asarray(weights, np.float64)
    if found.shape != (count,) or not (np.isfinite(found) & (found >= 0)).all() or not found.any():
        raise InvalidAnswer(
            f"weights: must return {(count,)} finite numbers >= 0, not all 0, one per cell; got "
            f"shape {found.shape}, {found.ravel()[:3]}..."
        )
    return found


def drawn_by(
    weights: npt.NDArray[np.float64], count: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return `[count]` indices, sampled by the weights `[N]`, which are not all 0."""
    table = np.cumsum(weights)
    found = np.searchsorted(table, rng.random(count) * table[-1], side="right")
    # Rounding may reach the last sum itself, past the last entry that has a weight.
    return np.minimum(found, np.flatnonzero(weights)[-1]).astype(np.int64)


def resampled(weights: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return indices `[B]` of particles, resampled by weights that are not all 0.

    Systematic: particle i has floor or ceil of B * weight / sum followers.

    Source: Kitagawa 1996, "Monte Carlo filter and smoother for non-Gaussian nonlinear state
    space models", of the three schemes that with the least variance.
    """
    count = len(weights)
    table = np.cumsum(weights)
    at = (np.arange(count) + rng.random()) / count * table[-1]
    found = np.searchsorted(table, at, side="right")
    return np.minimum(found, np.flatnonzero(weights)[-1]).astype(np.int64)


Kind = Literal["archive", "particles"]
Weights = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float64]]


class Progress(NamedTuple):
    """The progress of an exploration after a round."""

    steps: int  # control steps taken in all
    rounds: int
    cells: int
    score: float  # the best of the archive
    length: int  # steps of that trajectory
    seconds: float  # since `run` was called


class GoExplore:
    """Go-Explore: fills an archive with cells, round by round.

    In a round B rows are restored, each to a state of its own, and play H random actions; every
    step of every row is looked up in the archive. A row whose episode ends goes on from another
    place at once, so that batches are always whole. What rows are restored to is the kind:

    * "archive": cells drawn by how seldom they were seen, as in Go-Explore.
    * "particles": where the B rows were when the last round ended, drawn by how seldom their
      cells were seen, so that those that come upon new cells are multiplied; those whose episode
      is over are replaced by others in the same manner. If all are over, cells are drawn.

    An exploration depends on the env, the cells, the settings and the seed alone: not on the
    number of workers, nor on whether it was saved and loaded between two rounds.

    Args:
        env: from `make`, whose states are exact. It begins one episode, by `reset(seed=seed)`.
        cell: a function of a batch's observations and infos (see `Cells`), or its name (see
            `cells_named`); None: small screens where screens are seen, else all numbers.
        kind: "archive" or "particles".
        rows: B.
        horizon: H.
        repeat: probability that a row plays its last action again.
        weights: how likely cells are chosen, from how many steps ended in each, `[N]`.
        seed: of the episode and, independently, of all that is drawn.

    Attributes:
        archive: the cells.
        steps_taken: control steps in all rows, over all calls of `run`.
        rounds: that were played.

    Raises:
        NotExact: states of the env are not exact, so nothing found could be found again.
        InvalidOption: an option is out of range, or random actions cannot be drawn.

    Source: Ecoffet et al. 2021, "First return, then explore": cells, weights and updates as in the
    exploration phase that restores states. The particles are after Aldous & Vazirani 1994, "Go
    with the winners algorithms", with how new a cell is for the fitness; Mhammedi & Cohan 2026,
    "Uncertainty guided tree search for hard exploration" (arXiv 2603.22273), take a learned
    measure instead.
    """

    def __init__(
        self,
        env: PlanEnv,
        cell: Cells | str | None = None,
        *,
        kind: Kind = "archive",
        rows: int = 64,
        horizon: int = 100,
        repeat: float = 0.95,
        weights: Weights = seen_weights,
        seed: int = 0,
    ) -> None:
        check_kind("GoExplore", env, PlanEnv, "an env of plangym_ext.make")
        if env.exact is False:
            raise NotExact(
                f"GoExplore: states of {env.name} are approximate, so its trajectories could not "
                f"be replayed. Make the env with exact states."
            )
        if (env.metadata or {}).get("num_players", 1) != 1:
            raise WrongKind(
                f"GoExplore: the env must have one player, whose rewards are added up; got "
                f"{env.name}. Have it play the other's moves within step, such as a wrapper does."
            )
        if kind not in get_args(Kind):
            raise InvalidOption(f"GoExplore: kind must be one of {get_args(Kind)}; got {kind!r}.")
        check_actions(env.action_space)
        self.env, self.kind, self.seed = env, kind, at_least("GoExplore: seed", seed, 0)
        if cell is None:
            cell = cells_for(env.observation_space)
        self.cell: Cells = cells_named(cell) if isinstance(cell, str) else cell
        self.num_rows = at_least("GoExplore: rows", rows, 1)
        self.horizon = at_least("GoExplore: horizon", horizon, 1)
        self.repeat = finite_between("GoExplore: repeat", repeat, 0.0, 1.0)
        self._weights = weights
        # Independent of the env's draws from the same seed.
        self.rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
        self.steps_taken = self.rounds = 0
        self.particles: Places | None = None
        self.archive = self._with_root()

    def run(
        self,
        max_steps: int,
        *,
        max_seconds: float | None = None,
        callback: Callable[[Progress], bool | None] | None = None,
    ) -> Archive:
        """Explore until a total number of control steps is reached; return the archive.

        After an error within a round the exploration cannot go on: load what was saved before.

        Args:
            max_steps: control steps of all rows, over all calls: a run that is resumed is given
                the same number again. The last round is played to its end.
            max_seconds: of this call, after which no round begins.
            callback: called after each round; true to stop.
        """
        began = time.monotonic()
        while self.steps_taken < max_steps:
            self._round()
            best = self.archive.best
            progress = Progress(
                self.steps_taken,
                self.rounds,
                len(self.archive),
                float(self.archive.scores[best]),
                int(self.archive.steps[best]),
                time.monotonic() - began,
            )
            if callback is not None and callback(progress):
                break
            if max_seconds is not None and progress.seconds >= max_seconds:
                break
        return self.archive

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the exploration to one file; see `explore_file`."""
        save(path, self)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        env: PlanEnv,
        cell: Cells | None = None,
        weights: Weights = seen_weights,
    ) -> Self:
        """Load a saved exploration, to be continued.

        Args:
            path: of the file.
            env: as the one that was explored.
            cell: the function, if it is not one of the library's.
            weights: as they were.

        Raises:
            DamagedState: the file is damaged.
            ForeignState: it is of another env.
            InvalidOption: the cells are of a function that is not given.
        """
        found: Self = load(cls, path, env, cell, weights)
        return found

    def cells_of(self, obs: Any, info: Any) -> npt.NDArray[Any]:
        """Return the cell of one observation and info, `[K]`, fresh."""
        # As batches have them: what envs return may have another dtype, or another order.
        batch = SpaceLayout(self.env.observation_space, objects=True).stack([obs])
        return self._cells(batch, {k: np.asarray(v)[None] for k, v in info.items()}, 1)[0]

    def empty_archive(self) -> Archive:
        """Return an archive without cells; resets the env to learn the form of a cell."""
        return self._reset()[0]

    # A round -----------------------------------------------------------------------------

    def _reset(self) -> tuple[Archive, npt.NDArray[np.uint8], npt.NDArray[Any]]:
        """Return an archive without cells, the state in which episodes begin, and its cell."""
        state, obs, info = self.env.reset(seed=self.seed)
        cell = self.cells_of(obs, info)
        space = self.env.action_space
        paths = Paths(space.shape or (), np.dtype(space.dtype))
        return Archive(paths, cell.dtype, len(cell), len(state)), state, cell

    def _with_root(self) -> Archive:
        """Return an archive of one cell, in which episodes begin."""
        archive, state, cell = self._reset()
        none = np.zeros(1, np.int64)
        root = Arrived(NO_KEYS, state[None], np.zeros(1), none, none > 0, none + ROOT, none)
        archive.arrive(cell[None], root)
        return archive

    def _round(self) -> None:
        """Play H steps of B rows."""
        actions = random_actions(
            self.env.action_space, self.rng, self.horizon, self.num_rows, self.repeat
        )
        rows = Rows.begun(self._beginning())
        for i, move in enumerate(actions):
            out = self.env.step_batch(move, states=rows.states)
            ended = out.terminateds | out.truncateds
            rows.move(out.states, out.rewards, ended)
            cells = self._cells(out.obs, out.infos, self.num_rows)
            rows.cell, better = self.archive.arrive(cells, rows.arrived())
            rows.note(better)
            # Not after the last step: the next round begins all rows anew.
            if ended.any() and i + 1 < self.horizon:
                rows.begin_again(np.flatnonzero(ended), self._replaced(rows, ended))
        numbers = rows.store(self.archive.paths, actions, every=self.kind == "particles")
        self.archive.name_segments(numbers)
        self.particles = rows.places(numbers) if self.kind == "particles" else None
        self.steps_taken += actions.shape[0] * actions.shape[1]
        self.rounds += 1

    def _beginning(self) -> Places:
        """Return where the rows of the next round go on from."""
        particles = self.particles
        if particles is None or particles.ended.all():
            return self._from_cells(self.num_rows)
        return particles[resampled(self._fitness(particles), self.rng)]

    def _replaced(self, rows: Rows, ended: npt.NDArray[np.bool_]) -> Places:
        """Return where rows go on from whose episodes have ended, `[L]` for `[B]` ended."""
        count = int(ended.sum())
        if self.kind == "archive" or ended.all():
            return self._from_cells(count)
        places = rows.places()
        return places[drawn_by(self._fitness(places), count, self.rng)]

    def _fitness(self, places: Places) -> npt.NDArray[np.float64]:
        """Return how likely particles are multiplied, `[B]`."""
        return self._likely(self.archive.seen[places.cell], places.ended)

    def _likely(
        self, seen: npt.NDArray[np.int64], ended: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float64]:
        """Return the weights of what was seen so often, `[N]`; nothing begins where one ended."""
        weights = checked_weights(self._weights(seen), len(seen))
        found: npt.NDArray[np.float64] = np.where(ended, 0.0, weights)
        if not found.any():
            raise InvalidAnswer(
                f"weights: must not be 0 for all {np.count_nonzero(~ended)} cells whose episode "
                "can continue; got positive ones only for ended episodes."
            )
        return found

    def _from_cells(self, count: int) -> Places:
        """Return places of cells that are drawn."""
        weights = self._likely(self.archive.seen, self.archive.ended)
        cells = drawn_by(weights, count, self.rng)
        self.archive.choose(cells)
        return self.archive.places(cells)

    def _cells(self, obs: Any, infos: Any, count: int) -> npt.NDArray[Any]:
        """Return the cells of rows, `[count, K]`."""
        found = np.asarray(self.cell(obs, infos))
        if found.shape[:1] != (count,) or found.ndim != 2 or found.dtype.kind not in "iu":
            raise InvalidOption(
                f"GoExplore: cells must be whole numbers [{count}, K], one row for each of the "
                f"batch; {self.cell!r} returned {found.shape} {found.dtype}."
            )
        return found
