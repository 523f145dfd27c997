"""TreeRecorder: collects the moves of an episode and writes the tree page."""

from __future__ import annotations

import base64
import importlib.resources
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.core.files.whole_file import replacing
from plangym_ext.run.tree_page.drawn import columns, one_step_tree, rounded
from plangym_ext.run.tree_page.png import png, reduced

#: Pixels of the longer side of a frame; larger ones are reduced by a whole factor.
LARGEST_FRAME = 320
#: Moves that a page holds; what comes after is only counted.
MOST_MOVES = 2000
_PLACEHOLDER = "/*DATA*/"


class TreeRecorder:
    """Collects moves, each with its tree as compressed columns, some 1 to 10 kB.

    Args:
        title: what the page is of, such as "ALE/Pong-v5".
        subtitle: who plays, and how.
        names: of the actions.
        first_action: `action_space.start`.
        most_nodes: nodes that are drawn of each tree; see `drawn_nodes`. The best line
            is drawn besides.
    """

    def __init__(
        self, title: str, subtitle: str, names: list[str], first_action: int, most_nodes: int
    ) -> None:
        self._about = {"title": title, "subtitle": subtitle, "names": names}
        self._first, self._most = first_action, most_nodes
        self._moves: list[str] = []
        self._summary: list[list[float]] = []
        self._frames: list[str] = []
        self._played = 0

    def add(self, move: Any, frame: Any | None) -> None:
        """Take in a move.

        Args:
            move: as `play` hands it to its callback.
            frame: `[H, W, 3]` what was seen before it; None where nothing is drawn.
        """
        self._played += 1
        if self._played > MOST_MOVES:
            return
        plan, budget = move.plan, move.plan.budget
        tree = plan.tree
        if tree is None:
            tree = one_step_tree(plan, len(self._about["names"]))
        content = {
            "action": int(move.action) - self._first,
            "reward": _number(move.reward),
            "total": _number(move.total),
            "ended": "terminated" if move.terminated else "truncated" if move.truncated else "",
            "value": _number(plan.value),
            "full": plan.full,
            "budget": {
                "model steps": budget.model_steps,
                "expansions": budget.expansions,
                "evaluator rows": budget.evaluator_rows,
                "restores": budget.restores,
                "ms": round(1000 * budget.seconds, 2),
            },
            "visits": None if plan.visits is None else plan.visits.tolist(),
            "q": None if plan.q is None else rounded(plan.q),
            "weights": None if plan.weights is None else rounded(plan.weights),
            "tree": columns(tree, plan, self._first, self._most),
        }
        # Move by move: the page unpacks the one that is shown, and none of the others.
        self._moves.append(_packed(content))
        self._summary.append([content["reward"] or 0.0, content["total"] or 0.0])
        self._frames.append("" if frame is None else _base64(png(reduced(frame, LARGEST_FRAME))))

    def write(self, path: Path) -> None:
        """Write the page: it appears whole or not at all, and needs no network."""
        template = importlib.resources.files(__package__).joinpath("page.html").read_text("utf-8")
        data = self._about | {
            "played": self._played,
            "summary": self._summary,
            "moves": self._moves,
            "frames": self._frames,
        }
        # "</" would end the script in which the data lie.
        text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
        before, after = template.split(_PLACEHOLDER)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(before + text + after)


def _number(value: Any) -> float | None:
    return rounded([value])[0]


def _packed(content: dict[str, Any]) -> str:
    return _base64(zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9))


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def action_names(env: Any) -> list[str]:
    """Return the simulator's names of its actions, or their numbers."""
    space = env.action_space
    inner = getattr(getattr(env, "plan_env", env), "gym_env", None)
    meanings = getattr(getattr(inner, "unwrapped", None), "get_action_meanings", None)
    if meanings is not None:
        found = [str(name) for name in meanings()]
        # A wrapper may take other actions than those that the simulator has names for.
        if len(found) == int(space.n):
            return found
    return [str(int(np.int64(space.start)) + i) for i in range(int(space.n))]
