"""Value audit: a critic's estimates against returns of rollouts from the same states; its page."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import num_rows
from plangym_ext.core.files.state_set import StateSet
from plangym_ext.planners.episode import Move, play
from plangym_ext.planners.pages.tree import png, reduced
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


# HTML page of a value audit ---------------------------------------------------


#: Pixels of a frame's longer side, and of the plot.
_FRAME, _SIDE, _MARGIN = 240, 460, 76

_STYLE = """
:root { --ink: #1c2430; --soft: #66707f; --line: #dfe3e8; --paper: #fff; --mark: #d9480f;
  --dot: #2f6db3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #98a2b0; --line: #303844;
  --paper: #12161c; --mark: #ff8c4b; --dot: #6aa5e8; } }
body { margin: 24px auto; max-width: 980px; padding: 0 16px; background: var(--paper);
  color: var(--ink); font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 20px; } h2 { font-size: 15px; margin-top: 28px; }
p, figcaption, th { color: var(--soft); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { font-weight: 400; text-align: left; } td, th { padding: 2px 18px 2px 0; }
.worst { display: grid; grid-template-columns: repeat(auto-fill, minmax(180px, 1fr)); gap: 16px; }
figure { margin: 0; } figure img { width: 100%; image-rendering: pixelated; border-radius: 4px; }
svg text { fill: var(--soft); font-size: 12px; } svg .axis { stroke: var(--line); }
svg .same { stroke: var(--soft); stroke-dasharray: 4 4; } svg .bar { stroke: var(--dot);
  opacity: .45; } svg circle { fill: var(--dot); } svg .worst-dot { fill: var(--mark); }
"""

_MEANINGS = {
    "rank_correlation": "of the critic's values and the mean returns (Spearman): 1 if the states "
    "are in the right order",
    "explained_variance": "share of the variance of the mean returns that the values explain",
    "bias": "mean of the critic's value minus the mean return",
    "rmse": "root of the mean squared difference",
    "noise": "the part of the rmse that is due to the finite number of rollouts",
    "critic_in_returns": "share of the return that is the critic's own bootstrap, where "
    "rollouts were cut",
}


def audit_page(
    audit: ValueAudit,
    title: str,
    notes: Sequence[str],
    worst: Sequence[int],
    frames: Mapping[int, Any],
) -> str:
    """Return the page.

    Args:
        audit: what was found.
        title: what was audited.
        notes: sentences on how.
        worst: states to show, worst first.
        frames: `[H, W, 3]` uint8 of some of them, by state.
    """
    numbers = "".join(
        f"<tr><th>{name.replace('_', ' ')}</th><td>{value:.4g}</td><td>{_MEANINGS[name]}</td></tr>"
        for name, value in audit.summary().items()
    )
    said = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    shown = "".join(_figure(audit, state, frames.get(state)) for state in worst)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>'
        f'{html.escape(title)}</title><link rel="icon" href="data:,"><style>{_STYLE}</style></head>'
        f"<body><h1>{html.escape(title)}</h1>{said}<table>{numbers}</table>"
        f"<h2>Values and returns</h2>{_plot(audit, set(worst))}"
        f"<p>Right: the critic's value of a state. Up: the mean return from it, with its standard "
        f"error. Dashed: where both agree.</p>"
        f'<h2>Largest errors</h2><div class="worst">{shown}</div></body></html>\n'
    )


def _figure(audit: ValueAudit, state: int, frame: Any) -> str:
    """Return one of the worst states, with its frame if there is one."""
    image = ""
    if frame is not None:
        data = base64.b64encode(png(reduced(frame, _FRAME))).decode("ascii")
        image = f'<img alt="state {state}" src="data:image/png;base64,{data}">'
    mean, deviation = audit.means[state], audit.deviations[state]
    off = "" if np.isnan(deviation) else f" &plusmn; {deviation:.2g}"
    return (
        f"<figure>{image}<figcaption>state {state}: says {audit.said[state]:.4g}, returned "
        f"{mean:.4g}{off}</figcaption></figure>"
    )


def _plot(audit: ValueAudit, worst: set[int]) -> str:
    """Return the calibration plot: a point for each state, with the deviation of its return."""
    # A bar of no length where a single rollout does not say how far others would lie.
    means, deviations = audit.means, np.nan_to_num(audit.deviations)
    # One scale for both axes, bars included: points that agree lie on the diagonal.
    low = float(min(audit.said.min(), (means - deviations).min()))
    high = float(max(audit.said.max(), (means + deviations).max()))
    # Where all values are one, but for rounding, there is no span to divide by.
    span = high - low
    span = span if span > 1e-6 * max(abs(high), abs(low)) else 1.0
    # As many as tell lines apart that lie a quarter of the span from each other.
    decimals = max(0, 1 - math.floor(math.log10(span)))

    def x(value: float) -> float:
        return _MARGIN + (value - low) / span * _SIDE

    def y(value: float) -> float:
        # SVG counts downwards.
        return 10 + (high - value) / span * _SIDE

    parts = [
        f'<line class="same" x1="{x(low):.1f}" y1="{y(low):.1f}" x2="{x(high):.1f}" '
        f'y2="{y(high):.1f}"/>'
    ]
    for step in range(5):
        value = low + span * step / 4
        written = f"{value:.{decimals}f}"
        parts.append(
            f'<line class="axis" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="10" '
            f'y2="{10 + _SIDE}"/>'
            f'<text x="{x(value):.1f}" y="{28 + _SIDE}" text-anchor="middle">{written}</text>'
            f'<text x="{_MARGIN - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{written}</text>'
        )
    for state, (said, mean, deviation) in enumerate(
        zip(audit.said, means, deviations, strict=True)
    ):
        kind = ' class="worst-dot"' if state in worst else ""
        parts.append(
            f'<line class="bar" x1="{x(said):.1f}" x2="{x(said):.1f}" '
            f'y1="{y(mean - deviation):.1f}" y2="{y(mean + deviation):.1f}"/>'
            f'<circle{kind} cx="{x(said):.1f}" cy="{y(mean):.1f}" r="3"><title>state {state}'
            f"</title></circle>"
        )
    width, height = _MARGIN + _SIDE + 36, _SIDE + 36
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">'
        f"{''.join(parts)}</svg>"
    )
