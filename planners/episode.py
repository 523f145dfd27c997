"""`play`: episodes with a planner or an agent, one or many in lockstep.

The file is not called `play`: importing a submodule of that name would replace
the function `plangym_ext.planners.play` by the module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.numbers import at_least, framed, html_table, one_line
from plangym_ext.errors import InvalidOption, PlangymExtError, WrongKind
from plangym_ext.planners.base import Planner, as_planner
from plangym_ext.planners.games import Game, Sides, Step, game_rng, step_games
from plangym_ext.planners.masks import told_mask
from plangym_ext.planners.pages.film import Film, film_of
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.players import earned, next_player, num_players, who_moved
from plangym_ext.planners.simulator import SearchModel, States, stacked_actions

if TYPE_CHECKING:  # it brings gymnasium, which models of one's own can do without
    from plangym_ext.core.files.state_set import StateSet


class Playable(Protocol):
    """Protocol of an agent, which `play` converts to a planner."""

    def as_planner(self) -> Planner:
        """Return the planner that plays it."""


class PlayableEnv(SearchModel, Protocol):
    """Protocol of a model in which an episode can be played."""

    def reset(self, *, seed: int | None = None) -> tuple[States, Any, dict[str, Any]]:
        """Begin an episode: state `[S]`, obs, info."""

    def step(
        self, action: Any, state: States
    ) -> tuple[States, Any, float, bool, bool, dict[str, Any]]:
        """Restore `state` `[S]` and step: state, obs, reward, terminated, truncated, info."""


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """One step of an episode, as a callback sees it.

    Attributes:
        step: 0 for the first.
        episode: which of the episodes played side by side; 0 for one alone.
        action: what was played.
        reward: what it earned.
        total: what was earned so far, this reward included; of two players: by player 0.
        terminated: the episode has ended.
        truncated: the episode was cut.
        state: `[S]` uint8 after the step.
        obs: `[*obs]` after the step.
        plan: why this action was played, and what that cost.
        legal: `[A]`, what may be played next; None: the env does not say.
        player: who played, 0 or 1, and earned the reward, which the other lost; None: the env has
            one player.
    """

    step: int
    action: Any
    reward: float
    total: float
    terminated: bool
    truncated: bool
    state: States
    obs: Any
    plan: Plan
    episode: int = 0
    legal: npt.NDArray[Any] | None = None
    player: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """The record of a played episode.

    Attributes:
        seed: what the episode was played with.
        actions: `[T, *act]`, elements of the action space, nested as it is.
        rewards: `[T]` float64, each of the player who moved.
        terminated: it came to an end.
        truncated: the env cut it. If neither, `max_steps` was reached.
        budget: what all plans cost together.
        players: `[T]` int8, who moved, 0 or 1; None: the env has one player.
        film: draws it for a notebook; None of an env that draws no pictures.
    """

    seed: int
    actions: Any
    rewards: npt.NDArray[np.float64]
    terminated: bool
    truncated: bool
    budget: Budget
    players: npt.NDArray[np.int8] | None = None
    film: Film | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return one_line("Episode", self._shown())

    def _repr_html_(self) -> str:
        """Return the notebook view: a table and, while the env is open, a film."""
        shown, page = self._shown(), None
        try:
            page = None if self.film is None else self.film.page(self.actions, self._earned())
        # A notebook shows the rest: the env was closed, or is used by another thread.
        except PlangymExtError as error:
            shown["film"] = error
        table = html_table("Episode", list(shown.items()))
        return table if page is None else table + framed(page, 340)

    def _shown(self) -> dict[str, Any]:
        ended = "terminated" if self.terminated else "truncated" if self.truncated else "cut"
        shown = {"seed": self.seed, "return_": self.return_, "length": self.length, "ended": ended}
        return {**shown, "model_steps": self.budget.model_steps}

    @property
    def length(self) -> int:
        """Number of steps taken."""
        return len(self.rewards)

    @property
    def return_(self) -> float:
        """Undiscounted return; of player 0 in a two-player game."""
        return float(sum(self._earned().tolist()))

    def _earned(self) -> npt.NDArray[np.float64]:
        """Return the rewards `[T]` of player 0."""
        if self.players is None:
            return self.rewards
        return np.where(self.players == 1, -self.rewards, self.rewards)


@overload
def play(
    env: PlayableEnv,
    planner: Planner | Playable,
    *,
    opponent: Planner | Playable | None = None,
    seed: int,
    max_steps: int,
    num_episodes: None = None,
    callback: Callable[[Move], None] | None = None,
    starts: StateSet | None = None,
) -> Episode: ...
@overload
def play(
    env: PlayableEnv,
    planner: Planner | Playable,
    *,
    opponent: Planner | Playable | None = None,
    seed: int,
    max_steps: int,
    num_episodes: int,
    callback: Callable[[Move], None] | None = None,
    starts: StateSet | None = None,
) -> list[Episode]: ...
def play(
    env: PlayableEnv,
    planner: Planner | Playable,
    *,
    opponent: Planner | Playable | None = None,
    seed: int,
    max_steps: int,
    num_episodes: int | None = None,
    callback: Callable[[Move], None] | None = None,
    starts: StateSet | None = None,
) -> Episode | list[Episode]:
    """Play one episode, or many in lockstep; equal seeds give equal episodes, byte for byte.

    In lockstep all episodes that go on are planned for at once, so that each wave
    is one batch for all of them. Episode i is what `seed + i` would give alone.

    Args:
        env: where to play, and the model to plan over. One episode alone moves it, so
            that it can be rendered; many are played from their states.
        planner: forgets what it kept before it begins. An agent is played as
            `AgentPlanner(agent)` plays it.
        opponent: makes the moves of player 1 of an env with two players, in which `planner`
            then makes those of player 0 alone, and neither keeps a tree from one move to the
            next; None: `planner` makes the moves of both.
        seed: of the env's reset and, independently, of the planner's choices.
        max_steps: most steps to take, at least 1.
        num_episodes: how many; None: one, returned as it is.
        callback: called after every step; what it raises ends all episodes.
        starts: states to begin from instead of a reset: episode i begins at the i-th, a single
            episode at the first, and the seed decides only the planner's choices. What the env
            itself will draw, and when it will cut the episode, is part of the state.

    Returns:
        The episode, ended or cut at `max_steps`, or the list of them.

    Raises:
        InvalidOption: there are fewer `starts` than episodes, or starts with an opponent: states
            do not say who is to move.
        WrongKind: there is an opponent, and the env does not have two players.
    """
    player: Planner = as_planner(planner)
    _check_kinds(env, player, "planner")
    other: Planner | None = None
    if opponent is not None:
        other = as_planner(opponent)
        _check_kinds(env, other, "opponent")
        _check_opponent(env, starts)
    seed = at_least("play: seed", seed, 0)
    max_steps = at_least("play: max_steps", max_steps, 1)
    count = 1 if num_episodes is None else at_least("play: num_episodes", num_episodes, 1)
    _check_starts(starts, count)
    # What was kept of an earlier call would make the episodes depend on more than the seed.
    sides = Sides(player, other)
    sides.reset()
    # The games share one env: each goes on from the state that was captured at its reset.
    records = [_Record(_game(env, seed, i, starts), i) for i in range(count)]
    going = records
    while going:
        games = [record.game for record in going]
        plans = sides.plan(env, games)
        if num_episodes is None:
            steps = [_step_alone(env, games[0], plans[0].action)]
        else:
            steps, _ = step_games(env, games, plans)
        for record, plan, step in zip(going, plans, steps, strict=True):
            move = record.take(plan, step)
            if callback is not None:
                callback(move)
        # Before `keep_rows`: one reward per row of the last plans, also of those that end here.
        sides.take_rewards(np.array([step.reward for step in steps]))
        stay = np.array([record.goes_on(max_steps) for record in going])
        if not stay.all():
            sides.keep_rows(np.flatnonzero(stay))
            going = [record for record, on in zip(going, stay, strict=True) if on]
    episodes = [record.episode(env) for record in records]
    return episodes[0] if num_episodes is None else episodes


def _check_kinds(env: Any, planner: Any, name: str) -> None:
    """Refuse a plain gymnasium env, and the class of a planner."""
    # Kinds are checked first: without it the first error would come out of the middle of a plan.
    if not hasattr(env, "step_batch"):
        raise WrongKind(
            f"play: env must step batches from states, as envs of plangym_ext.make do; got "
            f"{env}. Make it with plangym_ext.make."
        )
    if isinstance(planner, str):
        raise WrongKind(
            f"play: {name} must be a planner with its options, such as MCTS(num_simulations=64); "
            f"got the name {planner!r}. plangym_ext.planners.load_planner returns its class."
        )
    # `as_planner` returns classes and names as they are, so that they end here.
    if isinstance(planner, type):
        raise WrongKind(
            f"play: {name} must be an instance, with its options; got the class "
            f"{planner.__name__}. Write {planner.__name__}(...)."
        )
    if not hasattr(planner, "plan_batch"):
        raise WrongKind(
            f"play: {name} must be a planner, or an agent of plangym_ext.learn; got a "
            f"{type(planner).__name__}. A function of observations can be an agent's step."
        )


def _check_opponent(env: PlayableEnv, starts: StateSet | None) -> None:
    """Refuse an opponent where there is no second player, and where it is not known who moves."""
    if num_players(env) != 2:
        raise WrongKind(
            f"play: opponent needs an env with two players; got {num_players(env)} in {env}. "
            f"Leave it out."
        )
    if starts is not None:
        raise InvalidOption(
            "play: starts must be None with an opponent, as states do not say who is to move; "
            f"got {len(starts)} states."
        )


def _check_starts(starts: StateSet | None, num_episodes: int) -> None:
    """Refuse to begin more episodes than there are states for."""
    if starts is not None and num_episodes > len(starts):
        raise InvalidOption(
            f"play: num_episodes must be one of 1 to {len(starts)}, as many as there are states "
            f"in starts; got {num_episodes}. Another episode from the same state would be drawn "
            f"by the same generator of the env."
        )


def _game(env: PlayableEnv, seed: int, index: int, starts: StateSet | None) -> Game:
    """Begin episode `index`."""
    seed += index
    if starts is None:
        return Game(env, seed)
    legal = None if starts.legal is None else starts.legal[index]
    return Game.resumed(
        seed, game_rng(seed), starts.states[index], rows_of(starts.obs, index), legal
    )


class _Record:
    """An episode in progress, with the steps so far."""

    def __init__(self, game: Game, index: int) -> None:
        self.game, self.index, self._began = game, index, game.state
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self.players: list[int | None] = []
        self.budget, self.total = Budget(), 0.0
        self.terminated = self.truncated = False

    def take(self, plan: Plan, step: Step) -> Move:
        """Move on by the action of a plan; return the move, as callbacks see it."""
        self.game.take(step)
        self.terminated, self.truncated = step.terminated, step.truncated
        self.actions.append(plan.action)
        self.rewards.append(step.reward)
        self.players.append(step.player)
        self.total += earned(step.reward, step.player)
        self.budget += plan.budget
        return Move(
            step=len(self.actions) - 1,
            action=plan.action,
            reward=step.reward,
            total=self.total,
            terminated=step.terminated,
            truncated=step.truncated,
            state=step.state,
            obs=step.obs,
            plan=plan,
            episode=self.index,
            legal=step.legal,
            player=step.player,
        )

    def goes_on(self, max_steps: int) -> bool:
        return not self.game.ended and len(self.actions) < max_steps

    def episode(self, env: PlayableEnv) -> Episode:
        # The first row tells of all: an env has one player or two throughout.
        two = bool(self.players) and self.players[0] is not None
        return Episode(
            seed=self.game.seed,
            actions=stacked_actions(env, self.actions),
            rewards=np.array(self.rewards, np.float64),
            terminated=self.terminated,
            truncated=self.truncated,
            budget=self.budget,
            players=np.array(self.players, np.int8) if two else None,
            film=film_of(env, self._began),
        )


def _step_alone(env: PlayableEnv, game: Game, action: Any) -> Step:
    """Play an action in the env itself, which can be rendered then."""
    state, obs, reward, over, cut, info = env.step(action, state=game.state)
    # After an ending there is no next move.
    following = None if over or cut else next_player(info, env)
    mask = told_mask(info, env)
    player = who_moved(info, env)
    return Step(state, obs, float(reward), bool(over), bool(cut), mask, player, following)
