"""Paired comparison of players on equal episodes, with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plangym_ext.planners.episode import Episode
from plangym_ext.run.bootstrap import episodes_for, mean_interval, unpaired_interval


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
        f"{'player':<{wide}} {'mean':>10} {'interval of pairs':>23} {'as if no pairs':>23}",
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
