"""League of old versions of a learner, and Opponents, which play by them in games of two."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.options import CheckedOptions, Count, OneOf, Share, Whole
from plangym_ext.errors import DamagedCheckpoint, InvalidObservation, WrongKind
from plangym_ext.planners.plans import Budget
from plangym_ext.planners.players import check_players, num_players

if TYPE_CHECKING:  # planners bring numba, which settings do without
    from plangym_ext.planners.base import Planner

Ndarray = npt.NDArray[Any]
#: Number of the opponent that plays by the learner's present weights.
PRESENT = -1
#: Name of the info and of the column of episodes that says whom a game was against.
OPPONENT = "opponent"
PRIORITIES = ("hard", "even", "uniform")
#: How much a result counts once another game was played against the same version: about the last
#: fifty games tell the score.
_FADES = 0.98


class Version(NamedTuple):
    """Weights that the learner once had.

    Attributes:
        number: of the fragment after which they joined.
        weights: arrays by name, as of the network's `state_dict`.
        points: of the learner in games against it, 1 for a win and 0.5 for a draw; older games
            count less.
        games: likewise.
    """

    number: int
    weights: Mapping[str, Ndarray]
    points: float = 0.0
    games: float = 0.0

    @property
    def score(self) -> float:
        """Points of the learner per game; before any game 0.5."""
        return (self.points + 0.5) / (self.games + 1.0)


@dataclass(frozen=True, kw_only=True)
class LeagueConfig(CheckedOptions):
    """Settings of a league of old versions, for envs of two players.

    Args:
        every: rounds after which the learner's weights join the league; 0: there is none.
        capacity: most versions; one that is met least leaves for a new one.
        share: in [0, 1], how likely a game is against an old version, and not against the present
            weights.
        priority: "hard" weights a version by (1 - score)^2, "even" by score (1 - score), with the
            learner's score against it; "uniform" alike.
    """

    every: Whole = 0
    capacity: Count = 20
    share: Share = 0.5
    priority: Annotated[str, OneOf(PRIORITIES)] = "hard"

    _called = "settings: league."


@dataclass(frozen=True, eq=False)
class League:
    """Old versions of a network, each met the more often the less the learner beats it.

    Never changed: the games of a fragment lead to another one, as with `Starts`.

    Args:
        network: what learns: its weights join as they are then.
        config: when they do, and how likely a version is met.
        versions: in the order in which they joined.
        fragments: that were played.

    Source: prioritised fictitious self-play; Vinyals et al. 2019, "Grandmaster level in StarCraft
    II using multi-agent reinforcement learning", Methods.
    """

    network: Any
    config: LeagueConfig
    versions: tuple[Version, ...] = ()
    fragments: int = 0

    @property
    def priorities(self) -> npt.NDArray[np.float64]:
        """Relative probabilities of the versions, `[V]` > 0."""
        score = np.array([version.score for version in self.versions])
        # A score is never 0 or 1, so each version is met.
        found = {"hard": (1.0 - score) ** 2, "even": score * (1.0 - score)}
        return found.get(self.config.priority, np.ones_like(score))

    def drawn(self, uniform: Ndarray) -> npt.NDArray[np.int64]:
        """Return the numbers of the opponents of some games, `[k]`.

        Args:
            uniform: `[k]` of [0, 1).
        """
        found = np.full(len(uniform), PRESENT)
        if self.versions:
            sums = self.priorities.cumsum()
            old = uniform < self.config.share
            # Below `share` the numbers are uniform again.
            places = np.searchsorted(
                sums, uniform[old] / self.config.share * sums[-1], side="right"
            )
            numbers = np.array([version.number for version in self.versions])
            found[old] = numbers[np.minimum(places, len(numbers) - 1)]
        return found

    def weights(self, number: int) -> Mapping[str, Ndarray] | None:
        """Return the weights of a version; None of the present ones, and of one that has left."""
        return next((one.weights for one in self.versions if one.number == number), None)

    def after(self, episodes: Mapping[str, Ndarray]) -> League:
        """Return the league after another fragment.

        Args:
            episodes: that ended in it, with `OPPONENT` and "return" `[E]`.

        Raises:
            InvalidObservation: a return is NaN, by which no player has won.
        """
        if (lost := np.isnan(episodes["return"])).any():
            raise InvalidObservation(
                f"league: the return of a game must be a number, by which it was won or lost; got "
                f"NaN in {lost.sum()} of {len(lost)} games. Correct the env's rewards."
            )
        points = 0.5 + 0.5 * np.sign(episodes["return"])
        versions = [
            _played(version, points[episodes[OPPONENT] == version.number])
            for version in self.versions
        ]
        fragments = self.fragments + 1
        found = dataclasses.replace(self, versions=tuple(versions), fragments=fragments)
        if not self.config.every or fragments % self.config.every:
            return found
        # More than one may leave: what was saved may be of a larger capacity.
        while len(versions) >= self.config.capacity:
            found = dataclasses.replace(found, versions=tuple(versions))
            del versions[int(found.priorities.argmin())]
        versions.append(Version(fragments, _copied(self.network)))
        return dataclasses.replace(found, versions=tuple(versions))

    @property
    def told(self) -> dict[str, float]:
        """Numbers for the log: how many versions there are, and the mean score against them."""
        score = np.mean([version.score for version in self.versions]) if self.versions else 0.5
        return {"league/versions": len(self.versions), "league/score": float(score)}

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the settings and the network: arrays and numbers by name."""
        fields = zip(*self.versions, strict=True) if self.versions else ((), (), (), ())
        numbers, weights, points, games = fields
        return {
            "fragments": self.fragments,
            "numbers": np.array(numbers, np.int64),
            "weights": [dict(one) for one in weights],
            "points": np.array(points, np.float64),
            "games": np.array(games, np.float64),
        }

    def loaded(self, state: Mapping[str, Any]) -> League:
        """Return the league with the data of a `state_dict`.

        Raises:
            DamagedCheckpoint: it is of another network, or no such state.
        """
        columns = [np.asarray(state[name]) for name in ("numbers", "points", "games")]
        fragments = int(state["fragments"])
        if not _fit(columns, len(state["weights"]), fragments):
            told = [one.tolist() for one in columns]
            raise DamagedCheckpoint(
                f"league: {len(state['weights'])} versions of {fragments} fragments must have "
                f"ascending numbers, and points of at most their games; got {told!r:.80}. Load an "
                f"unchanged checkpoint."
            )
        wanted = _shapes(self.network.state_dict())
        for weights in state["weights"]:
            if _shapes(weights) != wanted:
                raise DamagedCheckpoint(
                    f"league: a version must have weights {wanted!r:.80}; got "
                    f"{_shapes(weights)!r:.80}. Load an unchanged checkpoint."
                )
        numbers, points, games = (one.tolist() for one in columns)
        versions = map(Version, numbers, state["weights"], points, games)
        return dataclasses.replace(self, versions=tuple(versions), fragments=fragments)


class Opponents:
    """Moves of the other player, by a planner with one version's weights after the other.

    Args:
        league: the versions.
        network: of the planner, whose weights are written over; not the learner's.
        planner: plays it, in sampling.
        env: the model that it searches in.

    Attributes:
        cost: of all moves since `begin`, with the steps of the env that they were.

    Raises:
        WrongKind: the env is not of two players, or the planner cannot move for either.
    """

    def __init__(self, league: League, network: Any, planner: Planner, env: Any) -> None:
        if num_players(env) != 2:
            raise WrongKind(
                f"league: the env must be of two players; got {num_players(env)} in {env}. Leave "
                f"league.every at 0."
            )
        check_players(planner, env)
        self.league, self.network, self.planner, self.env = league, network, planner, env
        self.cost = Budget()

    def begin(self, league: League, version: int) -> None:
        """Begin a fragment.

        Args:
            league: the versions.
            version: of the learner's weights, by which the planner's options follow schedules.
        """
        self.league, self.cost, self.planner.updates = league, Budget(), version
        # Of version 0 an agent may play anything, whatever its weights are.
        if (agent := getattr(self.planner, "agent", None)) is not None:
            agent.version = version

    def moves(
        self, numbers: Ndarray, states: Ndarray, obs: Any, legal: Any, seeds: Ndarray
    ) -> list[Any]:
        """Return a move for each of k games.

        Args:
            numbers: `[k]`, whose moves they are; see `League.drawn`.
            states: `[k, S]`.
            obs: `[k, *obs]`.
            legal: `[k, A]` bool; None: all.
            seeds: `[k]` of what is drawn.
        """
        found: list[Any] = [None] * len(numbers)
        for number in np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            self._load(number)
            # Trees that it keeps are of the rows of another call.
            self.planner.reset()
            plans = self.planner.plan_batch(
                self.env,
                states[rows],
                rngs=[np.random.default_rng(seed) for seed in seeds[rows].tolist()],
                obs=rows_of(obs, rows),
                legal=None if legal is None else legal[rows],
            )
            for row, plan in zip(rows.tolist(), plans, strict=True):
                found[row] = plan.action
                # Seconds are the sampler's, which waits for it.
                self.cost += dataclasses.replace(plan.budget, seconds=0.0)
        self.cost += Budget(model_steps=len(numbers))
        return found

    def _load(self, number: int) -> None:
        weights, own = self.league.weights(number), self.network.state_dict()
        present = self.league.network.state_dict()
        for name, part in own.items():
            # In place: what evaluates the network has its tensors.
            part.copy_(present[name] if weights is None else part.new_tensor(weights[name]))


def _played(version: Version, points: Ndarray) -> Version:
    """Return a version after games in which the learner earned points `[g]`."""
    before, games = version.points, version.games
    for one in points.tolist():
        before, games = _FADES * before + one, _FADES * games + 1.0
    return version._replace(points=before, games=games)


def _fit(columns: list[Ndarray], count: int, fragments: int) -> bool:
    """Return whether columns are those of so many versions, in the order in which they joined."""
    numbers, points, games = columns
    if any(one.shape != (count,) for one in columns) or numbers.dtype.kind not in "iu":
        return False
    joined = (np.diff(numbers, prepend=0, append=fragments + 1) > 0).all()
    return bool(joined and ((points >= 0) & (points <= games) & np.isfinite(games)).all())


def _shapes(weights: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(part.shape) for name, part in weights.items()}


def _copied(network: Any) -> dict[str, Ndarray]:
    """Return the weights of a network, fresh."""
    return {name: part.cpu().numpy().copy() for name, part in network.state_dict().items()}
