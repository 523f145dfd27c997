"""Contest: players (checkpoints, planners) of one evaluation command, on equal episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.files.state_set import StateSet
from plangym_ext.errors import ForeignCheckpoint, IncompleteState, InvalidOption, UnknownName
from plangym_ext.planners.episode import Episode, Move
from plangym_ext.run.bootstrap import episodes_for, mean_interval, unpaired_interval
from plangym_ext.run.named_player import NamedPlayer
from plangym_ext.run.pretrained import checkpoint_path

#: Moves after which episodes are cut where no run says so.
_MAX_STEPS = 1000


class Contest(Closing):
    """The players named on the command line, ready to play in one env.

    Args:
        names: of checkpoints and folders of runs, which must exist, and of planners and
            players of one's own; see `NamedPlayer`.
        env_id: what is played if there is no checkpoint among them.
        changed: keyword arguments for `Trained`, of all checkpoints.
        max_steps: moves after which an episode is cut; None: as the first run has it.

    Attributes:
        env: where all of them play: that of the first checkpoint.
        players: a planner by name.
        trained: what was opened of the checkpoints, by name.
        max_steps: moves after which an episode is cut.
        seed: of the first run's evaluation; 0 where there is none.

    Raises:
        InvalidOption: nothing says which env is played.
        ForeignCheckpoint: two checkpoints are of different envs.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        env_id: str | None = None,
        changed: Mapping[str, Any] | None = None,
        max_steps: int | None = None,
    ) -> None:
        self._open = ExitStack()
        self.players: dict[str, Any] = {}
        self.trained: dict[str, Any] = {}
        self.seed, self.max_steps = 0, _MAX_STEPS
        self.env: Any = None
        # Before the first env is made, which may change the current folder.
        paths = {name: checkpoint_path(name) for name in names}
        # What exists counts first; a planner of the same name can be written as `NAME:`.
        self._paths = {name: path for name, path in paths.items() if path.exists()}
        try:
            # Checkpoints first, wherever they are named: the first one brings the env, in which
            # planners are then made. A name twice is one player.
            for name in dict.fromkeys(names):
                if name in self._paths:
                    self.players[name] = self._trained(name, changed or {})
            self._check_named(env_id)
            self._check_used(changed or {})
            if self.env is None:
                self.env = self._registered(env_id, dict((changed or {}).get("env", {})))
            for name in dict.fromkeys(names):
                if name not in self.players:
                    self.players[name] = _planner(name, self.env)
            # In the order in which they were named: the first one is what the others are compared
            # with.
            self.players = {name: self.players[name] for name in dict.fromkeys(names)}
        except BaseException:  # Ctrl-C too: envs that were opened have workers
            self._open.close()
            raise
        if max_steps is not None:
            self.max_steps = max_steps

    def _trained(self, name: str, changed: Mapping[str, Any]) -> Any:
        """Return the player of a checkpoint; the first one brings the env."""
        from plangym_ext.run.training.trained import Trained

        trained = self._open.enter_context(Trained(self._paths[name], **changed))
        self.trained[name] = trained
        if self.env is None:
            self.env, self.max_steps = trained.env, trained.max_steps
            self.seed = trained.config.evaluation.seed
        elif _identity(trained.env) != _identity(self.env):
            raise ForeignCheckpoint(
                f"{name} plays in another env than {next(iter(self.players))}: "
                f"{_identity(trained.env)} and {_identity(self.env)}. Set the differing arguments "
                f"for all players by --env.KEY."
            )
        return trained.player

    def _check_named(self, env_id: str | None) -> None:
        """Refuse an id that is not what a checkpoint plays."""
        for name, trained in self.trained.items():
            plays = trained.config.env.id
            if env_id not in (None, plays):
                raise InvalidOption(
                    f"--env-id is only for planners: {name} plays {plays}; got {env_id}. Leave it "
                    "out."
                )

    def _check_used(self, changed: Mapping[str, Any]) -> None:
        """Refuse what is for checkpoints alone where there is none."""
        for name in ("planner", "player", "sample"):
            if changed.get(name) and not self.trained:
                raise InvalidOption(
                    f"--{name} is for checkpoints, and none is named. Options of a planner follow "
                    f"its name, as in mcts:num_simulations=50."
                )

    def _registered(self, env_id: str | None, arguments: dict[str, Any]) -> Any:
        import plangym_ext
        from plangym_ext.run.settings.settings import free

        if env_id is None:
            raise InvalidOption(
                "none of the players is a checkpoint, so there is no env to play in. Name one "
                "with --env-id."
            )
        return self._open.enter_context(plangym_ext.make(env_id, **free(arguments)))

    def starts(self, path: Path) -> StateSet:
        """Return the states of a file of `StateSet.save`.

        Raises:
            IncompleteState: states of the env are not exact.
        """
        if self.env.exact is False:
            raise IncompleteState(
                f"{path}: episodes cannot begin from stored states of {self.env.name}, which are "
                f"not exact. Leave out --starts: then they begin by reset, with equal seeds."
            )
        return StateSet.load(path, self.env)

    def try_out(self, name: str) -> None:
        """Let a player make one move, to raise incompatibilities early."""
        self._play(name, self.seed, max_steps=1, num_episodes=1)

    def play(
        self,
        name: str,
        episodes: int,
        *,
        seed: int | None = None,
        starts: StateSet | None = None,
        callback: Any = None,
    ) -> list[Episode]:
        """Play the episodes with one of the players: episode k is the same for all of them.

        Args:
            name: of the player.
            episodes: how many.
            seed: of the first one; None: see `seed`.
            starts: states to begin from; see `plangym_ext.planners.play`.
            callback: called with every `Move`.
        """
        return self._play(
            name,
            self.seed if seed is None else seed,
            max_steps=self.max_steps,
            num_episodes=episodes,
            callback=callback,
            starts=starts,
        )

    def _play(self, name: str, seed: int, **options: Any) -> list[Episode]:
        from plangym_ext.run.training.evaluation import played

        return played(self.env, self.players[name], seed=seed, **options)

    def close(self) -> None:
        self._open.close()


def told(name: str, move: Move) -> str:
    """Return a progress line of a player."""
    return f"{name}: step {move.step + 1}, episode {move.episode + 1}, return {move.total:g}"


def _planner(name: str, env: Any) -> Any:
    """Make a planner of its name and options, or what is named of the user's own."""
    try:
        return NamedPlayer(name, "eval").made_for(env)
    except UnknownName as error:
        raise UnknownName(f"{name} is no checkpoint or run that exists, and {error}") from None


def _identity(env: Any) -> Any:
    """Return the properties that envs of comparable episodes share."""
    envelope = getattr(env, "envelope", None)
    # A plain env captures no states, and so has no fingerprint.
    return env.name if envelope is None else envelope.identity


# Paired comparison of players on equal episodes -------------------------------


def paired_summary(
    played: Mapping[str, Sequence[Episode]], width: float | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Return every player's results, and the differences to the first one.

    Args:
        played: episodes by player, at least two of each; the k-th of all of them began alike.
        width: of an interval, for which the episodes needed are told.

    Returns:
        "players": mean return with its interval and mean length of each; "differences": of each
        player but the first, the mean difference with the interval of pairs ("low", "high"), and
        with that of the same returns as if they were not pairs.
    """
    returns = {name: [one.return_ for one in episodes] for name, episodes in played.items()}
    players = []
    for name, episodes in played.items():
        mean, low, high = mean_interval(returns[name])
        length = float(np.mean([one.length for one in episodes]))
        players.append({"player": name, "mean": mean, "low": low, "high": high, "length": length})
    first, *others = returns
    return {
        "players": players,
        "differences": [
            {"player": name, "to": first, **difference(returns[first], returns[name], width)}
            for name in others
        ],
    }


def difference(
    first: Sequence[float], second: Sequence[float], width: float | None = None
) -> dict[str, Any]:
    """Return the mean difference of two players, paired and unpaired; see `paired_summary`."""
    # Episode by episode: what both have in common, such as a hard start, cancels.
    pairs = (np.asarray(second) - np.asarray(first)).tolist()
    # The same returns both ways: what the narrower interval shows is what pairing saves.
    mean, low, high = mean_interval(pairs)
    _, low_unpaired, high_unpaired = unpaired_interval(first, second)
    found = {
        "mean": mean,
        "low": low,
        "high": high,
        "unpaired_low": low_unpaired,
        "unpaired_high": high_unpaired,
    }
    if width is not None:
        found |= {"width": width, "episodes_needed": episodes_for(pairs, width)}
    return found


def table(summary: Mapping[str, list[dict[str, Any]]]) -> str:
    """Return the summary as text."""
    wide = max(len(row["player"]) for row in [*summary["players"], {"player": "player"}])
    lines = [f"{'player':<{wide}} {'mean':>10} {'95 % interval':>23} {'length':>8}"]
    for row in summary["players"]:
        lines.append(
            f"{row['player']:<{wide}} {row['mean']:>10.2f} {_interval(row):>23} "
            f"{row['length']:>8.1f}"
        )
    to = summary["differences"][0]["to"]
    lines += [
        "",
        f"differences to {to}",
        f"{'player':<{wide}} {'mean':>10} {'paired interval':>23} {'unpaired interval':>23}",
    ]
    for row in summary["differences"]:
        unpaired = _interval({"low": row["unpaired_low"], "high": row["unpaired_high"]})
        lines.append(
            f"{row['player']:<{wide}} {row['mean']:>+10.2f} {_interval(row):>23} {unpaired:>23}"
        )
        if "episodes_needed" in row:
            lines.append(
                f"{'':<{wide}} an interval {row['width']:g} wide takes "
                f"{row['episodes_needed']:,} such episodes"
            )
    return "\n".join(lines)


def _interval(row: Mapping[str, Any]) -> str:
    return f"[{row['low']:.2f}, {row['high']:.2f}]"
