"""How well does a run that only plays itself play Connect Four?

    python tests/benchmarks/selfplay.py --page docs/benchmarks_learning.md

Trains a preset until its seconds of wall time are spent, and judges it now and then: games with
players that look some moves ahead, and the share of moves that are right by a perfect solver. A
run goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from connect_four.alpha_beta import AlphaBeta
from connect_four.solver import bits_of, move_values, new_table
from table.sections import write_section

import plangym_ext
from plangym_ext.run.evaluating.elo import match
from plangym_ext.run.files import write_json
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

#: Stones on the boards of the judge: with fewer a board takes seconds to solve, and with more few
#: moves are left.
STONES = range(10, 27, 2)
_HEADING = """## Connect Four by self-play

`tests/benchmarks/selfplay.py`: a run that plays itself, on two processors. Scores of {games} games
with alpha-beta players of depth 4 and 6, each opening of {opening} random moves from both sides;
and the share of right moves on {boards} random boards, by a perfect solver, on which some move is
wrong: those of the search, and those that the policy alone likes best."""


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", default="selfplay_connect4")
    parser.add_argument("--minutes", type=float, nargs="+", default=[5, 15, 30, 45, 60])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--games", type=int, default=100, help="with each opponent")
    parser.add_argument("--opening", type=int, default=2, help="random moves of each game")
    parser.add_argument("--boards", type=int, default=60, help="of each number of stones")
    parser.add_argument("--simulations", type=int, default=400, help="of each judged move")
    parser.add_argument("--out", type=Path, default=Path("runs/selfplay"), help="folder of the run")
    parser.add_argument("--page", type=Path, help="docs/benchmarks_learning.md, to write its part")
    return parser.parse_args()


class Boards:
    """Boards that were drawn at random, on which some move is wrong and some is right.

    Attributes:
        states: `[B, S]`.
        obs: `[B, 2, 6, 7]`.
        legal: `[B, 7]` bool.
        right: `[B, 7]` bool, the moves that keep the board's value.
    """

    def __init__(self, env: Any, each: int) -> None:
        rng, table = np.random.default_rng(0), new_table()
        rows: list[tuple[Any, Any, Any, Any]] = []
        for stones in STONES:
            until = len(rows) + each
            while len(rows) < until:
                state, obs, info = env.reset(seed=0)
                ended = False
                while not ended and int(obs.sum()) < stones:
                    action = int(rng.choice(np.flatnonzero(info["action_mask"])))
                    state, obs, _, ended, _, info = env.step(action, state)
                legal = np.asarray(info["action_mask"], bool)
                if ended:
                    continue
                values = move_values(*bits_of(obs), table)
                right = values == values.max()
                if (right != legal).any():
                    rows.append((state, obs, legal, right))
        self.states, self.obs, self.legal, self.right = map(np.stack, zip(*rows, strict=True))

    def share_right(self, env: Any, planner: Any) -> float:
        """Return the share of boards on which a planner's move is right."""
        planner.reset()
        rngs = [np.random.default_rng(k) for k in range(len(self.obs))]
        plans = planner.plan_batch(env, self.states, rngs=rngs, obs=self.obs, legal=self.legal)
        return float(np.mean([row[p.action] for row, p in zip(self.right, plans, strict=True)]))


def trained(options: argparse.Namespace, spent: float, minutes: float) -> tuple[float, int]:
    """Train the run until so many minutes are spent; return the seconds, and its steps."""
    limits = {"rounds": None, "seed": options.seed, "max_seconds": 60 * minutes - spent}
    with Runner(compose([options.preset, limits]), options.out / "run", resume=True) as runner:
        began = time.monotonic()
        runner.run()
        return spent + time.monotonic() - began, runner.steps


def judged(options: argparse.Namespace, boards: Boards) -> dict[str, float]:
    """Return scores against the opponents, and the shares of right moves."""
    search = {"num_simulations": options.simulations}
    found: dict[str, float] = {}
    with Trained(options.out / "run", planner=search, player="planner", sample=False) as one:
        for depth in (4, 6):
            scores = match(
                one.env,
                one.player,
                AlphaBeta(1, depth=depth),
                games=options.games // 2,
                seed=1_000,
                max_steps=42,
                opening=options.opening,
            )
            found[f"depth {depth}"] = float(scores.mean())
            found[f"won of depth {depth}"] = float((scores == 1).mean())
        found["search"] = boards.share_right(one.env, one.player)
    with Trained(options.out / "run", player="network", sample=False) as one:
        found["policy"] = boards.share_right(one.env, one.player)
    return found


def table(options: argparse.Namespace, rows: list[dict[str, float]]) -> str:
    """Return the table of what was judged."""
    boards = len(STONES) * options.boards
    heading = _HEADING.format(games=options.games, opening=options.opening, boards=boards)
    lines = [
        heading,
        "",
        f"| minutes | moves played | depth 4: score (won) | depth 6 | right moves, "
        f"{options.simulations} simulations | policy alone |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        games = " | ".join(
            f"{row[f'depth {depth}']:.2f} ({row[f'won of depth {depth}']:.0%})" for depth in (4, 6)
        )
        lines.append(
            f"| {row['minutes']:.0f} | {row['steps']:,.0f} | {games} | {row['search']:.1%} | "
            f"{row['policy']:.1%} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Train, judge and write the table."""
    options = parsed()
    results = options.out / "judged.json"
    rows: list[dict[str, float]] = json.loads(results.read_text()) if results.exists() else []
    with plangym_ext.make("plangym_ext/ConnectFour-v0") as env:
        boards = Boards(env, options.boards)
    for minutes in sorted(options.minutes):
        if any(row["minutes"] >= minutes for row in rows):
            continue
        spent, steps = trained(options, rows[-1]["seconds"] if rows else 0.0, minutes)
        found = judged(options, boards)
        load = os.getloadavg()[0]
        rows.append({"minutes": minutes, "seconds": spent, "steps": steps, "load": load, **found})
        write_json(results, rows)
        print(table(options, rows), flush=True)
    if options.page is not None:
        write_section(options.page, "selfplay", table(options, rows))


if __name__ == "__main__":
    main()
