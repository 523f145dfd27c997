"""RingReplay: base class of replays of env steps (ring buffer, priorities, saving)."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import ArrayDict
from plangym_ext.core.inherited_options import InheritedOptions
from plangym_ext.core.numbers import at_least, finite_between
from plangym_ext.errors import InvalidOption, InvalidSamples, ReplayEmpty
from plangym_ext.learn.replay.base import (
    Batch,
    Capacity,
    check_saved,
    checked_capacity,
    saved_generator,
)
from plangym_ext.learn.replay.frame_obs import StepForm
from plangym_ext.learn.replay.priorities import PLACE_BYTES, Places, Priorities
from plangym_ext.learn.replay.sequence_kernel import n_step_returns
from plangym_ext.learn.replay.step_ring import RingOptions, StepRing


class RingReplay(InheritedOptions, ABC):
    """Abstract; the newest steps of B envs, filled from sampler trees.

    Every observation is kept once: what follows a step is that of the next one. The last
    observations of episodes are kept beside them. Memory is taken as steps come. The first
    `add` decides on B, names, shapes and dtypes. The same calls with the same seed give the
    same batches; what was saved goes on bit for bit.

    Args:
        capacity: steps of all envs, at least a fragment; or bytes, such as "2GB", to which
            the last observations of episodes, and masks of what may be played, come on top.
        n_steps: most rewards that are summed.
        discount: gamma, per step.
        alpha: draw in proportion to priorities to the power of this, see `Priorities`;
            None: draw uniformly.
        beta: 0 to 1, how far the weights of a batch undo priorities.
        seed: of the draws.
        storage: "local" memory, or "shared" with other processes.
        frames: whether observations of three axes and more are stacks of frames, the oldest
            first, of which each frame is to be kept once: a quarter of the memory for stacks
            of four. What is drawn is what was added all the same; stacks that do not continue
            the one before come on top.
        clip_reward: rewards are clipped to [-clip_reward, clip_reward]; None: they are not.

    Attributes:
        beta: see `Args`; assign it at any time.

    Raises:
        InvalidOption: an option has a value that it cannot have.
    """

    def __init__(
        self,
        capacity: Capacity,
        *,
        n_steps: int = 1,
        discount: float = 0.99,
        alpha: float | None = None,
        beta: float = 0.4,
        seed: int = 0,
        storage: Literal["local", "shared"] = "local",
        frames: bool = False,
        clip_reward: float | None = None,
    ) -> None:
        name = type(self).__name__
        self.capacity = checked_capacity(f"{name}: capacity", capacity)
        self.n_steps = at_least(f"{name}: n_steps", n_steps, 1)
        self.discount = finite_between(f"{name}: discount", discount, 0.0, 1.0)
        self.alpha = None if alpha is None else finite_between(f"{name}: alpha", alpha, 0.0, 1.0)
        self.beta = finite_between(f"{name}: beta", beta, 0.0, 1.0)
        if storage not in ("local", "shared"):
            raise InvalidOption(f"{name}: storage must be local or shared; got {storage!r}.")
        if clip_reward is not None:
            clip_reward = finite_between(f"{name}: clip_reward", clip_reward, 0.0, np.inf)
        self._name, self._options = name, RingOptions(storage, frames, clip_reward)
        self._rng = np.random.default_rng(seed)
        self._ring: StepRing | None = None
        self._priorities: Priorities | None = None

    def __len__(self) -> int:
        """Return the steps that may be drawn."""
        return 0 if self._ring is None else self._ring.num_valid

    @property
    def num_envs(self) -> int:
        """B; 0 until the first `add`."""
        return 0 if self._ring is None else self._ring.envs

    @abstractmethod
    def add(self, tree: ArrayDict) -> None:
        """Copy a fragment in; the oldest steps make room.

        Steps that were not played (`valid` is false) are never drawn. New steps have the highest
        priority that was ever set.

        Args:
            tree: of a sampler, `[T, B]`; see `plangym_ext.learn.build_sample_tree`.

        Raises:
            InvalidSamples: it differs from the first one, or does not fit into the capacity.
                Nothing has been added.
        """

    @abstractmethod
    def sample(self, batch_size: int) -> Batch:
        """Draw with replacement; fresh arrays, see `Batch`.

        Raises:
            ReplayEmpty: there is nothing to draw.
        """

    @property
    def is_ready(self) -> bool:
        """Whether there are steps to draw."""
        return len(self) > 0

    @abstractmethod
    def _may_be_drawn(self, ring: StepRing, places: Places) -> npt.NDArray[np.bool_]:
        """Return `[N]` bool, which places are of what may be drawn now."""

    def _filled(self) -> StepRing:
        if self._ring is None or not self._ring.num_valid:
            raise ReplayEmpty(
                f"{self._name}: there must be steps to draw from; none were added. Collect first."
            )
        return self._ring

    def update_priorities(self, indices: Places, priorities: Any) -> None:
        """Draw steps by new priorities from now on; nothing to do if draws are uniform.

        Args:
            indices: `[N]` of a `Batch`, drawn since the last `add`.
            priorities: `[N]`, finite and not negative, such as absolute errors.

        Raises:
            InvalidSamples: a priority cannot be, or nothing may be drawn at an index.
        """
        if self._priorities is None:
            return
        places = np.asarray(indices, np.int64)
        known = (places >= 0) & (places < self._priorities.count)
        if known.all():
            known = self._may_be_drawn(self._filled(), places)
        if not known.all():
            raise InvalidSamples(
                f"{self._name}: indices must be those of a batch that was drawn since the last "
                f"add; got {places[~known][:8]}."
            )
        self._priorities.update(places, priorities)

    # Saving ---------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return all there is to save: nested dicts of arrays, ints, floats and strings.

        The arrays are views of the replay's own memory: save or copy them before the next
        `add`, `update_priorities` or `load_state_dict`.
        """
        found: dict[str, Any] = {
            "kind": self._name,
            "capacity": self.capacity,
            "beta": self.beta,
            "rng": json.dumps(self._rng.bit_generator.state),  # its numbers have 128 bits
        }
        # Before the first `add`, which decides on names and shapes, there are options alone.
        if self._ring is not None:
            found["form"] = self._ring.form.to_text()
            found["ring"] = self._ring.state_dict()
        if self._priorities is not None:
            found["priorities"] = {"alpha": self.alpha, **self._priorities.state_dict()}
        return found | self._contents()

    def _contents(self) -> dict[str, Any]:
        """Return further contents to save."""
        return {}

    @abstractmethod
    def _remake(
        self, form: StepForm, state: Mapping[str, Any]
    ) -> tuple[StepRing, Priorities | None]:
        """Make ring and priorities for what was saved; nothing here changes."""

    def _restore(self, state: Mapping[str, Any], ring: StepRing) -> None:
        """Become what `_contents` returned, before anything else here changes.

        Raises:
            KeyError: it is not in the state; nothing has changed.
        """

    def _check_alpha(self, state: Mapping[str, Any]) -> None:
        """Refuse what was saved by a replay that draws otherwise."""
        saved = state.get("priorities")
        # Older states do not say by which power they were drawn.
        theirs = None if saved is None else saved.get("alpha", self.alpha)
        if "ring" in state and (theirs != self.alpha or (saved is None) != (self.alpha is None)):
            raise InvalidSamples(
                f"{self._name}.load_state_dict: alpha must be {self.alpha}; got {theirs}. Make "
                f"the replay with the options that it had."
            )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the content by a saved one.

        Raises:
            InvalidSamples: the state is of another kind of replay, of another capacity or alpha,
                or incomplete. Nothing has changed.
        """
        check_saved(self._name, self.capacity, state)
        self._check_alpha(state)
        ring: StepRing | None = None
        priorities: Priorities | None = None
        try:
            rng = saved_generator(self._name, state["rng"])
            beta = float(state.get("beta", self.beta))
            if "ring" in state:
                # New ones: what is here may be of other shapes, and stays if the state is refused.
                ring, priorities = self._remake(StepForm.from_text(state["form"]), state)
                ring.load_state_dict(state["ring"])
                if priorities is not None:
                    priorities.load_state_dict(state["priorities"])
                self._restore(state, ring)
        except KeyError as error:
            raise InvalidSamples(
                f"{self._name}.load_state_dict: the state must have {error}; got {sorted(state)}. "
                f"Make the replay with the options that it had."
            ) from error
        # Last: a state that is refused leaves everything as it was.
        self._rng, self.beta = rng, beta
        self._ring, self._priorities = ring, priorities


# StepReplay -------------------------------------------------------------------


@final
class StepReplay(RingReplay):
    """Samples single steps with their n-step returns; see `RingReplay` for the rest.

    Every step may be drawn at once; the sum of rewards ends with the newest step that there is.
    """

    def add(self, tree: ArrayDict) -> None:
        ring, priorities = self._ring, self._priorities
        if ring is None:
            ring, priorities = self._make(StepForm.of(tree))
        places, drawn = ring.add(tree)
        # Only now: a first fragment that is refused leaves the replay as if it had not come.
        self._ring, self._priorities = ring, priorities
        if self._priorities is not None:
            self._priorities.begin(places, drawn)

    def _may_be_drawn(self, ring: StepRing, places: Places) -> npt.NDArray[np.bool_]:
        return ring.valid_at(places)

    def _remake(
        self,
        form: StepForm,
        state: Mapping[str, Any],  # noqa: ARG002
    ) -> tuple[StepRing, Priorities | None]:
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
