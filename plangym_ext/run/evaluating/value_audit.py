"""Value audit: a critic's estimates for stored states against returns of rollouts from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import num_rows
from plangym_ext.core.state_set import StateSet
from plangym_ext.planners.episode import Move, play
from plangym_ext.planners.simulator import stacked_obs

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ValueAudit:
    """Values of N states: the critic's, and the returns of rollouts.

    Attributes:
        states: the set.
        said: `[N]` what the critic says.
        returned: `[N, K]` discounted returns of the rollouts from each.
        rest: `[N, K]` how much of each return is what the critic says of the state in which its
            rollout was cut: the discount there; 0 where it came to an end.
        steps: of the env, of all rollouts.
    """

    states: StateSet
    said: Floats
    returned: Floats
    rest: Floats
    steps: int

    @property
    def means(self) -> Floats:
        """`[N]` mean return from each state."""
        found: Floats = self.returned.mean(axis=1)
        return found

    @property
    def deviations(self) -> Floats:
        """`[N]` standard error of each mean; NaN for a single rollout."""
        count = self.returned.shape[1]
        # Of one value `std` with ddof=1 is 0 / 0.
        if count == 1:
            return np.full(len(self.said), np.nan)
        found: Floats = self.returned.std(axis=1, ddof=1) / np.sqrt(count)
        return found

    def worst(self, count: int) -> npt.NDArray[np.intp]:
        """Return the states with the largest errors of the critic, worst first."""
        found: npt.NDArray[np.intp] = np.argsort(-abs(self.said - self.means), kind="stable")
        return found[:count]

    def summary(self) -> dict[str, float]:
        """Return the numbers of the audit.

        "noise" is the deviation of the mean returns that is left because only K rollouts were
        played; no critic could have a smaller "rmse" but by chance. "rank_correlation" is
        Spearman's; NaN where all values, or all returns, are the same.
        """
        errors = self.said - self.means
        # Explained variance divides by it: 0 where all states are worth the same.
        spread = float(np.var(self.means))
        return {
            "rank_correlation": rank_correlation(self.said, self.means),
            "explained_variance": 1 - float(np.var(errors)) / spread if spread else float("nan"),
            "bias": float(errors.mean()),
            "rmse": float(np.sqrt((errors**2).mean())),
            "noise": float(np.sqrt((self.deviations**2).mean())),
            "critic_in_returns": float(self.rest.mean()),
        }


def audit_values(
    env: Any,
    player: Any,
    value: Any,
    states: StateSet,
    *,
    discount: float,
    rollouts: int = 8,
    max_steps: int = 1000,
    seed: int = 0,
) -> ValueAudit:
    """Play rollouts from every state, and compare their returns with a critic.

    The env draws the same in all rollouts from a state, as its generator is part of the state:
    they differ by what the player draws. A rollout that is cut, by the env or after `max_steps`,
    goes on with the critic's value of the state that it came to.

    Args:
        env: that the states belong to.
        player: a planner or an agent, whose values the critic has learned.
        value: what the critic says of observations `[n, *obs]`: `[n]`.
        states: of episodes that go on.
        discount: of the critic's values.
        rollouts: K, from each state.
        max_steps: of a rollout.
        seed: of the player's draws.
    """
    # The last move of each rollout, by its number: where a cut one came to.
    lasts: dict[int, Move] = {}

    def keep(move: Move) -> None:
        lasts[move.episode] = move

    # The K rollouts of a state side by side: row i * K + k.
    again = states[np.repeat(np.arange(len(states)), rollouts)]
    episodes = play(
        env,
        player,
        seed=seed,
        max_steps=max_steps,
        num_episodes=len(again),
        callback=keep,
        starts=again,
    )
    returned = np.array([_discounted(one.rewards, discount) for one in episodes])
    # Zero where an episode has terminated: nothing follows. A cut one goes on with the critic's
    # value.
    rest = np.array([0.0 if one.terminated else discount**one.length for one in episodes])
    cut = np.flatnonzero(rest)
    if len(cut):
        after = stacked_obs(env, [lasts[i].obs for i in cut.tolist()])
        # All at once, in one batch: a network is slow in single rows.
        returned[cut] += rest[cut] * _asked(value, after)
    shape = len(states), rollouts
    steps = sum(one.length for one in episodes)
    said = _asked(value, states.obs)
    return ValueAudit(states, said, returned.reshape(shape), rest.reshape(shape), steps)


def rank_correlation(first: Any, second: Any) -> float:
    """Return Spearman's rank correlation of two `[n]` arrays; equal values share their rank."""
    ranks = [_ranks(np.asarray(one, np.float64)) for one in (first, second)]
    if min(np.ptp(one) for one in ranks) == 0:
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    # The mean of the ranks that equal values take up.
    found: Floats = (last - (counts - 1) / 2)[inverse]
    return found


def _discounted(rewards: Floats, discount: float) -> float:
    # With a discount of 0 the first reward counts in full: numpy has 0 ** 0 = 1.
    return float(rewards @ discount ** np.arange(len(rewards)))


def _asked(value: Any, obs: Any) -> Floats:
    found = np.asarray(value(obs), np.float64)
    assert found.shape == (num_rows(obs),)
    return found
