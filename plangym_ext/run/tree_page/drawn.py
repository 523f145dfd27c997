"""Selection of tree nodes for the tree page, and their columns of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.plans import Plan, SearchTree


def one_step_tree(plan: Plan, num_actions: int) -> SearchTree:
    """Return a plan without a tree as a one-step tree: the root, and a node for every action.

    For agents, which do not search; the root alone where the plan knows nothing of the actions.
    """
    known = plan.q is not None or plan.weights is not None
    count = 1 + (num_actions if known else 0)
    nan = np.full(count - 1, np.nan)
    node = np.arange(count, dtype=np.int32)
    q = np.append(plan.value, nan if plan.q is None else plan.q)
    return SearchTree(
        parent=np.where(node == 0, -1, 0).astype(np.int32),
        action=node - 1,
        visits=np.ones(count, np.int32),
        q=q.astype(np.float32),
        reward=np.where(node == 0, 0.0, np.nan),
        value=np.append(plan.value, nan),
        prior=np.append(1.0, nan if plan.weights is None else plan.weights).astype(np.float32),
        ended=np.zeros(count, np.bool_),
    )


def drawn_nodes(tree: SearchTree, most: int) -> npt.NDArray[np.intp]:
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


def best_line(tree: SearchTree, plan: Plan, first: int) -> list[int]:
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


def columns(tree: SearchTree, plan: Plan, first: int, most: int) -> dict[str, Any]:
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
