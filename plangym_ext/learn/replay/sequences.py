"""SequenceReplay: replay buffer of sequences with their initial recurrent carry."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import ArrayDict
from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.core.numbers import at_least
from plangym_ext.errors import InvalidSamples, ReplayEmpty
from plangym_ext.learn.replay.base import Batch, Capacity
from plangym_ext.learn.replay.frame_obs import StepForm, leaves_of
from plangym_ext.learn.replay.priorities import PLACE_BYTES, Places, Priorities
from plangym_ext.learn.replay.ring_replay import RingReplay
from plangym_ext.learn.replay.sequence_kernel import Rows, new_rows, write_rows
from plangym_ext.learn.replay.step_ring import StepRing


@final
class SequenceReplay(RingReplay):
    """Samples sequences that begin at fragment starts, with the agent's carry of that step.

    The rest is as `RingReplay` says. All fragments must have the same number of steps.

    Args:
        burn_in: rows of a sequence that only bring the carry up to date.
        length: rows after these, to be learned from.
    """

    def __init__(self, capacity: Capacity, *, burn_in: int, length: int, **options: Any) -> None:
        super().__init__(capacity, **options)
        self.burn_in = at_least(f"{self._name}: burn_in", burn_in, 0)
        self.length = at_least(f"{self._name}: length", length, 1)
        self._fragment = 0  # steps of a fragment
        self._carries: list[Any] = []  # [fragments, B, ...] of every leaf

    @property
    def is_ready(self) -> bool:
        """Whether there is a fragment to sample from."""
        return self._ring is not None and len(self._starts(self._ring, self._fragment)) > 0

    def _may_be_drawn(self, ring: StepRing, places: Places) -> npt.NDArray[np.bool_]:
        there, rows = self._starts(ring, self._fragment), len(self._carries[0])
        return (places // ring.envs - there.start) % rows < len(there)

    def _make(self, form: StepForm, fragment: int) -> StepRing:
        """Make a ring, empty, for fragments of so many steps."""
        if form.carry is None:
            raise InvalidSamples(
                f"{self._name}: the agent must carry something from step to step, as an LSTM does; "
                f"the tree has no carry. Use a recurrent network, or a StepReplay."
            )
        each = sum(math.prod(shape) * dtype.itemsize for shape, dtype in form.parts("carry"))
        each += 0 if self.alpha is None else PLACE_BYTES
        # A fragment's, shared out among its steps.
        options = self._options._replace(besides=-(-each // fragment))
        ring = StepRing(form, self.capacity, self._name, options)
        # Whole fragments, from the beginning of one to the first row that is learned from.
        needed = -(-(self.burn_in + 1) // fragment)
        if ring.length // fragment < needed:
            raise InvalidSamples(
                f"{self._name}: capacity must hold a sequence: with burn_in {self.burn_in} and "
                f"fragments of {fragment} steps {needed * fragment} steps of {ring.envs} envs, "
                f"{needed * fragment * ring.envs} in all; it holds {ring.length * ring.envs}. "
                f"Raise it."
            )
        return ring

    @staticmethod
    def _num_carries(ring: StepRing, fragment: int) -> int:
        """Return of how many fragments, of so many steps, there is a carry at once."""
        # One that is partly overwritten at the old end, and one that has just begun at the new.
        return ring.length // fragment + 2

    def _make_carries(self, ring: StepRing, fragment: int) -> list[Any]:
        """Make room for a carry of each fragment that is there."""
        shape = self._num_carries(ring, fragment), ring.envs
        return [np.zeros((*shape, *s), d) for s, d in ring.form.parts("carry")]

    def _make_priorities(self, ring: StepRing, fragment: int) -> Priorities | None:
        """Make priorities of the fragments that are there; None if draws are uniform."""
        if self.alpha is None:
            return None
        return Priorities(self._num_carries(ring, fragment) * ring.envs, self.alpha, self._name)

    def add(self, tree: ArrayDict) -> None:
        """Copy a fragment in, and the carry that it began with; see `RingReplay.add`.

        Sequences that begin with it can be drawn once the burn-in is over.
        """
        ring, priorities, num = self._ring, self._priorities, tree["reward"].shape[0]
        carries = self._carries
        if ring is None:
            ring = self._make(StepForm.of(tree), num)
            carries = self._make_carries(ring, num)
            priorities = self._make_priorities(ring, num)
        elif num != self._fragment:
            raise InvalidSamples(
                f"{self._name}: all fragments must have as many steps as the first one, "
                f"{self._fragment}; got {num}."
            )
        # Before the ring changes: what may be drawn now and not after it is `gone`.
        before = self._starts(ring, num)
        number = ring.count // num
        ring.add(tree)
        for rows, leaf in zip(carries, leaves_of(tree["carry"]), strict=True):
            # After the ring has taken the fragment, which it may refuse.
            rows[number % len(rows)] = leaf.to_ndarray(copy=False)
        # Only now: a first fragment that is refused leaves the replay as if it had not come.
        self._ring, self._priorities = ring, priorities
        self._carries, self._fragment = carries, num
        if priorities is not None:
            after = self._starts(ring, num)
            gone = np.arange(before.start, max(before.start, after.start))
            new = np.arange(max(before.stop, after.start), after.stop)
            changed = self._places(np.concatenate([gone, new]), ring)
            priorities.begin(changed, np.arange(len(changed)) >= len(gone) * ring.envs)

    def _starts(self, ring: StepRing, fragment: int) -> range:
        """Return the numbers of the fragments, of so many steps, with which sequences may begin."""
        oldest = ring.count - ring.num_steps
        last = ring.count - self.burn_in - 1  # at least one step is left to learn from
        # Rounded up: a fragment whose beginning is overwritten has a carry, but not the steps after
        # it.
        return range(-(-oldest // fragment), max(0, last // fragment + 1))

    def _places(self, fragments: Any, ring: StepRing) -> Places:
        """Return what priorities call the sequences of some fragments, of all envs."""
        rows = fragments % len(self._carries[0])
        return (rows[:, None] * ring.envs + np.arange(ring.envs)).ravel()

    def sample(self, batch_size: int) -> Batch:
        """Draw sequences, with replacement.

        Returns:
            Fresh arrays; `indices` for `update_priorities`, `weights` `[N]`. The samples are
            `[R, N, ...]`, R = burn_in + length + n_steps:

            * obs, prev_action, prev_reward, first: what the agent was shown. After the last
              step of an episode there is a row with its last observation.
            * action, reward, discount: as of `StepReplay`, of the rows in which an action was
              played.
            * following: int64, the row of what follows after these rewards.
            * learned: bool, the rows to be learned from.
            * legal: `[R, N, A]` bool, which actions could be played; only where fragments told.
            * carry: `[N, ...]`, nested as the agent's, before the first row.

        Raises:
            ReplayEmpty: no fragment is old enough.
        """
        at_least(f"{self._name}: batch_size", batch_size, 1)
        ring = self._filled()
        fragments, envs, indices, weights = self._drawn(ring, batch_size)
        starts = (fragments * self._fragment) % ring.slots * ring.envs + envs
        rows = new_rows(self.burn_in + self.length + self.n_steps, batch_size)
        write_rows(ring.flags, starts, self.n_steps, self.discount, ring.cursor, rows)
        samples = self._samples(ring, rows)
        carry = [part[fragments % len(part), envs] for part in self._carries]
        samples["carry"] = ring.form.join("carry", carry)
        return Batch(samples, indices, weights)

    def _drawn(self, ring: StepRing, count: int) -> tuple[Any, Any, Places, Any]:
        """Return fragments and envs that were drawn, their places and weights, `[N]` each."""
        there = self._starts(ring, self._fragment)
        if not there:
            raise ReplayEmpty(
                f"{self._name}: a fragment must have {self.burn_in + 1} steps after its beginning; "
                f"none has. Collect more first."
            )
        rows = len(self._carries[0])
        if self._priorities is None:
            index = self._rng.integers(len(there) * ring.envs, size=count)
            fragments, envs = there.start + index // ring.envs, index % ring.envs
            places = fragments % rows * ring.envs + envs
            return fragments, envs, places, np.ones(count, np.float32)
        places = self._priorities.draw(count, self._rng)
        row, envs = places // ring.envs, places % ring.envs
        # The one fragment of those that are there which lies in that row of the ring of carries.
        fragments = there.start + (row - there.start) % rows
        return fragments, envs, places, self._priorities.weights(places, self.beta)

    def _samples(self, ring: StepRing, rows: Rows) -> dict[str, Any]:
        shape = rows.place.shape

        def sequences(found: Any) -> Any:
            return mapped(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), found)

        previous = rows.previous.ravel()
        begins = previous < 0
        action = ring.action_at(np.maximum(previous, 0))
        for leaf in leaves(action):
            leaf[begins] = 0
        reward = np.where(begins, np.float32(0), ring.steps.reward.ravel()[previous])
        number = np.arange(shape[0])[:, None]
        # Not the burn-in, which only brings the carry up to date, nor the rows after, which
        # bootstrap.
        learned = rows.step & (number >= self.burn_in) & (number < self.burn_in + self.length)
        legal = ring.legal_after(rows.place.ravel(), rows.final.ravel())
        return {
            "obs": sequences(ring.obs_after(rows.place.ravel(), rows.final.ravel())),
            "prev_action": sequences(action),
            "prev_reward": sequences(reward),
            "first": rows.first,
            "action": sequences(ring.action_at(rows.place.ravel())),
            "reward": rows.reward,
            "discount": rows.discount,
            "following": rows.following,
            "learned": learned,
            **({} if legal is None else {"legal": sequences(legal)}),
        }

    def _contents(self) -> dict[str, Any]:
        return {"fragment": self._fragment, "carries": dict(enumerate(self._carries))}

    def _remake(
        self, form: StepForm, state: Mapping[str, Any]
    ) -> tuple[StepRing, Priorities | None]:
        fragment = int(state["fragment"])
        ring = self._make(form, fragment)
        return ring, self._make_priorities(ring, fragment)

    def _restore(self, state: Mapping[str, Any], ring: StepRing) -> None:
        fragment = int(state["fragment"])
        carries = self._make_carries(ring, fragment)
        for number, part in enumerate(carries):
            part[:] = state["carries"][number]
        self._carries, self._fragment = carries, fragment
