"""StepReplay: replay buffer of single steps, with n-step returns computed at sampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import ArrayDict
from plangym_ext.core.numbers import at_least
from plangym_ext.learn.replay.base import Batch
from plangym_ext.learn.replay.frame_obs import StepForm
from plangym_ext.learn.replay.priorities import PLACE_BYTES, Places, Priorities
from plangym_ext.learn.replay.ring_replay import RingReplay
from plangym_ext.learn.replay.sequence_kernel import n_step_returns
from plangym_ext.learn.replay.step_ring import StepRing


@final
class StepReplay(RingReplay):
    """Samples single steps with their n-step returns; see `RingReplay` for the rest.

    Every step may be drawn at once; the sum of rewards ends with the newest step that there is.
    """

    def add(self, tree: ArrayDict) -> None:
        """Copy a fragment in; see `RingReplay.add`."""
        ring, priorities = self._ring, self._priorities
        if ring is None:
            ring, priorities = self._make(StepForm.of(tree))
        places, drawn = ring.add(tree)
        # Only now: a first fragment that is refused leaves the replay as if it had not come.
        self._ring, self._priorities = ring, priorities
        if self._priorities is not None:
            self._priorities.begin(places, drawn)

    def _may_be_drawn(self, ring: StepRing, places: Places) -> npt.NDArray[np.bool_]:
        """See `RingReplay`."""
        return ring.valid_at(places)

    def _remake(
        self,
        form: StepForm,
        state: Mapping[str, Any],  # noqa: ARG002
    ) -> tuple[StepRing, Priorities | None]:
        """See `RingReplay`."""
        return self._make(form)

    def _make(self, form: StepForm) -> tuple[StepRing, Priorities | None]:
        besides = 0 if self.alpha is None else PLACE_BYTES
        options = self._options._replace(besides=besides)
        ring = StepRing(form, self.capacity, self._name, options)
        if self.alpha is None:
            return ring, None
        return ring, Priorities(ring.slots * ring.envs, self.alpha, self._name)

    def sample(self, batch_size: int) -> Batch:
        """Draw steps, with replacement.

        Returns:
            Fresh arrays; `indices` for `update_priorities`, `weights` of 1 where draws are
            uniform. The samples are, `[N, ...]` each:

            * obs, action: nested as in the tree.
            * reward: float32, the discounted sum of up to n rewards: those until the episode
              ended, and those that there are.
            * discount: float32, of the value of what follows: gamma to the power of how many
              were summed; 0 after a termination.
            * next_obs: what follows; the last observation of an episode that has ended, so
              that values of truncated ones are those of where they stopped.
            * legal, next_legal: `[N, A]` bool, which actions could be played there; only where
              fragments told. After the last step of an episode it is everything.

        Raises:
            ReplayEmpty: there is no step to draw.
        """
        at_least(f"{self._name}: batch_size", batch_size, 1)
        ring, priorities = self._filled(), self._priorities
        if priorities is None:
            places = self._uniform(ring, batch_size)
            weights = np.ones(batch_size, np.float32)
        else:
            places = priorities.draw(batch_size, self._rng)
            weights = priorities.weights(places, self.beta)
        # Worked out when drawn: what follows a step may have come after it was added.
        found = n_step_returns(ring.steps, places, self.n_steps, self.discount, ring.cursor)
        samples = {
            "obs": ring.obs_at(places),
            "action": ring.action_at(places),
            "reward": found.reward,
            "discount": found.discount,
            "next_obs": ring.obs_after(found.place, found.final),
        }
        next_legal = ring.legal_after(found.place, found.final)
        if next_legal is not None:
            # No step begins with the last observation of an episode.
            samples["legal"] = ring.legal_after(places, np.full(len(places), -1))
            samples["next_legal"] = next_legal
        return Batch(samples, places, weights)

    def _uniform(self, ring: StepRing, count: int) -> Places:
        """Return `[count]` places of steps that were played."""
        num = ring.num_steps * ring.envs
        places = ring.place_of(self._rng.integers(num, size=count))
        # What was not played is drawn again, so that all that was is as likely as before.
        if ring.num_valid < num:
            while len(again := np.flatnonzero(~ring.valid_at(places))):
                places[again] = ring.place_of(self._rng.integers(num, size=len(again)))
        return places
