"""TreeRecorder: the tree page of an episode (node selection, PNG frames)."""

from __future__ import annotations

import base64
import importlib.resources
import json
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.drawing import rgb_frame
from plangym_ext.core.files.whole_file import replacing
from plangym_ext.errors import InvalidOption

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
        """Add a move.

        Args:
            move: as `play` hands it to its callback.
            frame: `[H, W, 3]` what was seen before it; None where nothing is drawn.
        """
        self._played += 1
        if self._played > MOST_MOVES:
            return
        content = self._content(move.plan, move.action) | {
            "reward": _number(move.reward),
            "total": _number(move.total),
            "ended": "terminated" if move.terminated else "truncated" if move.truncated else "",
        }
        # Move by move: the page unpacks the one that is shown, and none of the others.
        self._moves.append(_packed(content))
        self._summary.append([content["reward"] or 0.0, content["total"] or 0.0])
        self._frames.append("" if frame is None else as_base64(png(reduced(frame, LARGEST_FRAME))))

    def add_plan(self, plan: Any) -> None:
        """Take in a plan that was not played; the page is then of it alone."""
        self._played += 1
        self._moves.append(_packed(self._content(plan, plan.action)))

    def _content(self, plan: Any, action: Any) -> dict[str, Any]:
        budget, tree = plan.budget, plan.tree
        if tree is None:
            tree = one_step_tree(plan, len(self._about["names"]))
        return {
            "action": int(action) - self._first,
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

    def page(self) -> str:
        """Return the page, which needs no network."""
        data = self._about | {
            "played": self._played,
            "summary": self._summary,
            "moves": self._moves,
            "frames": self._frames,
        }
        return filled("tree.html", data)

    def write(self, path: Path) -> None:
        """Write the page: it appears whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(self.page())


def filled(name: str, data: Any) -> str:
    """Return a page of this folder with its data."""
    template = importlib.resources.files(__package__).joinpath(name).read_text("utf-8")
    # "</" would end the script in which the data lie.
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    before, after = template.split(_PLACEHOLDER)
    return before + text + after


def _number(value: Any) -> float | None:
    return rounded([value])[0]


def _packed(content: dict[str, Any]) -> str:
    return as_base64(zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9))


def as_base64(content: bytes) -> str:
    """Return bytes as text for a page."""
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


def has_discrete_actions(env: Any) -> bool:
    """Return whether trees of an env can be drawn."""
    # Known only of the env itself: a wrapper may have changed the actions of its class.
    # MultiBinary has an `n`, too.
    return hasattr(env.action_space, "n") and hasattr(env.action_space, "start")


def recorder_in(env: Any, title: str, subtitle: str, most_nodes: int) -> TreeRecorder:
    """Return the recorder of an episode in an env; arguments as of `TreeRecorder`.

    Raises:
        InvalidOption: its actions are not discrete.
    """
    if not has_discrete_actions(env):
        raise InvalidOption(f"--tree needs discrete actions; {title} has {env.action_space}.")
    # Edges are numbered from 0, actions from here.
    first = int(getattr(env.action_space, "start", 0))
    return TreeRecorder(title, subtitle, action_names(env), first, most_nodes)


def one_step_tree(plan: Any, num_actions: int) -> Any:
    """Return a plan without a tree as a one-step tree: the root, and a node for every action.

    For agents, which do not search; the root alone where the plan knows nothing of the actions.
    """
    known = plan.q is not None or plan.weights is not None
    count = 1 + (num_actions if known else 0)
    nan = np.full(count - 1, np.nan)
    node = np.arange(count, dtype=np.int32)
    q = np.append(plan.value, nan if plan.q is None else plan.q)
    return SimpleNamespace(
        parent=np.where(node == 0, -1, 0).astype(np.int32),
        action=node - 1,
        visits=np.ones(count, np.int32),
        q=q.astype(np.float32),
        reward=np.where(node == 0, 0.0, np.nan),
        value=np.append(plan.value, nan),
        prior=np.append(1.0, nan if plan.weights is None else plan.weights).astype(np.float32),
        ended=np.zeros(count, np.bool_),
    )


def drawn_nodes(tree: Any, most: int) -> npt.NDArray[np.intp]:
    """Return `[K]` rows to draw, ascending and fresh: the most visited whose parents are drawn.

    Among equals the older node. At most `most`; the root is always one of them.
    """
    # Nodes are numbered from the root, which is left out here: hence 1 more.
    order = np.argsort(-tree.visits[1:].astype(np.int64), kind="stable") + 1
    chosen = np.zeros(len(tree.parent), np.bool_)
    chosen[0] = True
    # One less, as the root is drawn anyhow.
    chosen[order[: most - 1]] = True
    for node in np.flatnonzero(chosen)[1:]:
        # Parents come before their children, so theirs is settled.
        chosen[node] = chosen[tree.parent[node]]
    return np.flatnonzero(chosen)


def best_line(tree: Any, plan: Any, first: int) -> list[int]:
    """Return the rows of the best line: the plan's actions, else the most visited nodes.

    Args:
        tree: of the plan.
        plan: what was played is the first step of the line.
        first: `action_space.start`.
    """
    below: dict[int, list[int]] = {}
    for node in range(1, len(tree.parent)):
        below.setdefault(int(tree.parent[node]), []).append(node)
    said = [plan.action] if plan.actions is None else list(plan.actions)
    line, node = [0], 0
    while node in below:
        step = len(line) - 1
        if step < len(said):
            wanted = int(said[step]) - first
            found = [child for child in below[node] if tree.action[child] == wanted]
        elif plan.actions is None:
            found = below[node]
        else:
            break
        if not found:
            break
        node = max(found, key=lambda child: (tree.visits[child], tree.q[child]))
        line.append(node)
    return line


def columns(tree: Any, plan: Any, first: int, most: int) -> dict[str, Any]:
    """Return the drawn nodes as columns of numbers with three or four digits."""
    line = best_line(tree, plan, first)
    # Ascending, so that parents still come before their children.
    rows = np.union1d(drawn_nodes(tree, most), line).astype(np.intp)
    place = np.full(len(tree.parent), -1)
    place[rows] = np.arange(len(rows))
    parent = tree.parent[rows]
    return {
        "nodes": len(tree.parent),
        "parent": np.where(parent < 0, -1, place[parent]).tolist(),
        "action": tree.action[rows].tolist(),
        "visits": tree.visits[rows].tolist(),
        "q": rounded(tree.q[rows]),
        "reward": rounded(tree.reward[rows]),
        "value": rounded(tree.value[rows]),
        "prior": rounded(tree.prior[rows]),
        "ended": tree.ended[rows].astype(int).tolist(),
        "line": place[line].tolist(),
    }


def rounded(values: Any) -> list[float | None]:
    """Return numbers with four digits; None for numbers that are not finite."""
    return [
        None if not np.isfinite(x) else float(f"{x:.4g}")
        for x in np.asarray(values, float).tolist()
    ]


_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGB, _INDEXED = 2, 3


def png(frame: npt.NDArray[np.uint8]) -> bytes:
    """Return an `[H, W, 3]` uint8 frame as PNG, with a palette if it has at most 256 colours.

    Source: W3C, "Portable Network Graphics Specification", third edition.
    """
    height, width, _ = frame.shape
    # One number for each colour, so that equal ones are found along one axis.
    packed = frame.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    colours, index = np.unique(packed, return_inverse=True)
    if len(colours) <= 256:
        rows = index.reshape(height, width).astype(np.uint8)
        palette = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)
        kind, extra = _INDEXED, _chunk(b"PLTE", palette.astype(np.uint8).tobytes())
        # Unfiltered: indices of neighbours have nothing to do with each other.
        filtered = np.pad(rows, ((0, 0), (1, 0)))
    else:
        rows, kind, extra = frame.reshape(height, -1), _RGB, b""
        # Filter 2, "up": differences to the row above, which wrap in uint8 as the format has it.
        above = np.vstack([np.zeros_like(rows[:1]), rows[:-1]])
        filtered = np.pad(rows - above, ((0, 0), (1, 0)), constant_values=2)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"".join(
        [
            _SIGNATURE,
            _chunk(b"IHDR", header),
            extra,
            _chunk(b"IDAT", zlib.compress(filtered.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


def reduced(frame: Any, largest: int) -> npt.NDArray[np.uint8]:
    """Return a frame as `[h, w, 3]` uint8, with sides of at most `largest`, by averaging.

    Args:
        frame: as `rgb_frame` takes it.
        largest: pixels.

    Raises:
        CannotDraw: it is no picture.
    """
    found = rgb_frame(frame, "page")
    factor = -(-max(found.shape[:2]) // largest)
    if factor <= 1:
        return found
    height, width = found.shape[0] // factor, found.shape[1] // factor
    # What does not fill a block, at the right and below, is left out.
    cut = found[: height * factor, : width * factor]
    # Pixel by pixel of a block: numpy's mean over two axes takes ten times as long.
    total = np.zeros((height, width, 3), np.uint32)
    for row in range(factor):
        for column in range(factor):
            total += cut[row::factor, column::factor]
    return np.rint(total / factor**2).astype(np.uint8)
