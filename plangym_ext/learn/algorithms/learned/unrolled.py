"""Training targets of a latent model that is unrolled over windows of replayed steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.targets import POLICY_TARGETS, root_value, value_after_last

#: Arrays of a row that windows are made of, beside the actions, policies and observations.
SCALARS = ("reward", "value", "left", "final", "terminated")


def rows_of_episode(record: EpisodeRecord, discount: float) -> dict[str, npt.NDArray[Any]]:
    """Return a row for each of the T steps of an episode, in their order.

    `obs` `[T, *obs]`, `action` `[T]`; float32 `policy` `[T, A]`, `reward`, `value` (of the search)
    and `final` (what followed the episode; 0 after a termination) `[T]`; bool `legal` `[T, A]` and
    `terminated` `[T]`; int32 `left` `[T]`, steps to the end, this one among them.
    """
    length = record.length
    policy = POLICY_TARGETS["weights"](record).astype(np.float32)
    legal = np.ones(policy.shape, np.bool_) if record.legal is None else record.legal
    return {
        "obs": record.observations[:-1],
        "action": np.asarray(record.actions, np.int64),
        "policy": policy,
        "legal": legal,
        "reward": record.rewards.astype(np.float32),
        "value": root_value(record, discount, 1).astype(np.float32),
        "left": np.arange(length, 0, -1, dtype=np.int32),
        "final": np.full(length, value_after_last(record, discount), np.float32),
        "terminated": np.full(length, record.terminated),
    }


def rewards(rows: Mapping[str, npt.NDArray[Any]], count: int) -> npt.NDArray[np.float32]:
    """Return the rewards of the first steps of windows, `[B, count]` float32, 0 after an end."""
    inside = np.arange(count) < rows["left"][:, :1]
    # Rows after the end belong to another episode.
    return np.where(inside, rows["reward"][:, :count], np.float32(0))


def value_targets(
    rows: Mapping[str, npt.NDArray[Any]], unroll: int, n_steps: int, discount: float
) -> npt.NDArray[np.float32]:
    """Return the value targets of the states of windows, `[B, K + 1]` float32, fresh.

    They are sums of n rewards and of the search's value after them. An episode that ends before
    is followed by `final`, and each state after its end is worth 0.

    Args:
        rows: `[B, K + n + 1]` of `SCALARS`, consecutive rows of a replay.
        unroll: K.
        n_steps: n.
        discount: gamma.
    """
    place = np.arange(unroll + n_steps + 1)
    left, final = rows["left"][:, :1], rows["final"][:, :1].astype(np.float64)
    reward = rewards(rows, unroll + n_steps)
    value = np.where(place < left, rows["value"], np.where(place == left, final, 0.0))
    powers = discount ** np.arange(n_steps)
    found = np.empty((len(left), unroll + 1))
    for k in range(unroll + 1):
        found[:, k] = (
            reward[:, k : k + n_steps] @ powers + discount**n_steps * value[:, k + n_steps]
        )
        # An end within the window: the value after the window is 0, and that of the end counts.
        ahead = left[:, 0] - k
        within = (ahead > 0) & (ahead < n_steps)
        found[:, k] += np.where(within, discount ** np.maximum(ahead, 0), 0.0) * final[:, 0]
        found[:, k] = np.where(ahead == 0, final[:, 0], np.where(ahead < 0, 0.0, found[:, k]))
    return found.astype(np.float32)


def masks(
    rows: Mapping[str, npt.NDArray[Any]], unroll: int, *, endings: bool
) -> dict[str, npt.NDArray[Any]]:
    """Return which targets of the states of windows count.

    Args:
        rows: `[B, N]` of `SCALARS`, N at least 1.
        unroll: K.
        endings: whether the model predicts endings. If not, what follows a termination is
            learned as well: a state that is worth nothing, and goes on for ever.

    Returns:
        Float32 0 or 1, of fresh memory: `policy_mask` and `value_mask` `[B, K + 1]`,
        `reward_mask`, `ending_mask` and `ending` `[B, K]`, of the steps that lead to states 1 to K.
    """
    left, terminated = rows["left"][:, :1], rows["terminated"][:, :1]
    place = np.arange(unroll + 1)
    absorbing = terminated & ~np.bool_(endings)
    last = (place == left) & ~terminated
    reached = place[1:] <= left
    found = {
        "policy_mask": place < left,
        "value_mask": (place < left) | last | absorbing,
        "reward_mask": reached | absorbing,
        "ending_mask": reached,
        "ending": (place[1:] == left) & terminated,
    }
    return {name: rows.astype(np.float32) for name, rows in found.items()}
