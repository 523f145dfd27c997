"""WindowReplay: replay of steps that are drawn with those that followed them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.algorithms.learned.unrolled import SCALARS, masks, rewards, value_targets
from plangym_ext.learn.replay.base import Batch, Samples
from plangym_ext.learn.replay.uniform import RowReplay


@final
class WindowReplay:
    """Draws steps of a replay, each with its K actions and what they are to teach.

    Args:
        steps: of rows as `rows_of_episode` makes them, whole episodes one after the other.
        unroll: K.
        n_steps: of the values' targets.
        discount: gamma.
        first_action: the action that has number 0.
        endings: see `masks`.
    """

    def __init__(
        self,
        steps: RowReplay,
        *,
        unroll: int,
        n_steps: int,
        discount: float,
        first_action: int,
        endings: bool,
    ) -> None:
        self.steps = steps
        self._unroll, self._n_steps, self.discount = unroll, n_steps, discount
        self._first_action, self._endings = first_action, endings

    def __len__(self) -> int:
        """Return the steps that are there."""
        return len(self.steps)

    def add(self, samples: Samples) -> None:
        """Copy the rows of a whole episode in."""
        self.steps.add(samples)

    def sample(self, batch_size: int) -> Batch:
        """Draw windows, `[B, ...]`.

        `obs`; `action` `[B, K]` numbers of actions; `policy` `[B, K + 1, A]`, `value` `[B, K + 1]`,
        `reward` `[B, K]`; and what `masks` returns. Fresh arrays.
        """
        batch, unroll = self.steps.sample(batch_size), self._unroll
        scalars = self._following(batch.indices, unroll + self._n_steps + 1, SCALARS)
        played = self._following(batch.indices, unroll + 1, ("action", "policy"))
        samples = {
            "obs": batch.samples["obs"],
            "action": played["action"][:, :-1] - self._first_action,
            "policy": played["policy"],
            "reward": rewards(scalars, unroll),
            "value": value_targets(scalars, unroll, self._n_steps, self.discount),
            **masks(scalars, unroll, endings=self._endings),
        }
        return batch._replace(samples=samples)

    def _following(
        self, indices: npt.NDArray[np.int64], count: int, names: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return `[B, count, ...]` of rows and those that were added after them."""
        # Modulo those that are there: what follows the newest row is masked, as it ends an episode.
        return self.steps.rows((indices[:, None] + np.arange(count)) % len(self), names)

    def update_priorities(self, indices: npt.ArrayLike, priorities: npt.ArrayLike) -> None:
        """Set the priorities of rows; see `Replay.update_priorities`."""
        self.steps.update_priorities(indices, priorities)

    def state_dict(self) -> dict[str, Any]:
        """Return the complete content; see `Replay.state_dict`."""
        return self.steps.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the content by a saved one; see `Replay.load_state_dict`."""
        self.steps.load_state_dict(state)
