"""SampledModel: K actions that are drawn in every state, by number.

The k-th action of a state depends on the state's bytes and k alone. So a node of a tree needs no
table of its own, equal states have equal actions, and a tree can be kept.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.action_parts import Floats, Parts
from plangym_ext.arrays.nested import rows_of
from plangym_ext.planners.adapted_model import AdaptedModel, Proposal, told_plan
from plangym_ext.planners.numbered_model import Numbers
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.simulator import SearchModel, States
from plangym_ext.states.envelope import state_content

Keys = npt.NDArray[np.uint64]


class SampledModel(AdaptedModel):
    """A model whose actions are the numbers 0, ..., K - 1 of actions drawn in each state.

    Args:
        model: the env.
        parts: of its actions.
        num_candidates: K.
        proposal: what they are drawn from; None: evenly.
        by_sequence: whether the actions depend on the numbers that were played before, and not
            on the state: for sequences that are played again with other chances.
    """

    samples_actions = True

    def __init__(
        self,
        model: SearchModel,
        parts: Parts,
        num_candidates: int,
        proposal: Proposal | None = None,
        *,
        by_sequence: bool = False,
    ) -> None:
        super().__init__(model, parts, proposal)
        self.action_space = Numbers(num_candidates)
        self._by_sequence = by_sequence

    def rollout_batch(self, actions: npt.NDArray[Any], states: States) -> Any:
        """Play numbers `[B, H]` from `states`; see `SearchModel.rollout_batch`.

        The first action is that of the state. Where states do not differ in what they allow, the
        others depend on the numbers before them, so that one batch is enough.
        """
        numbers = np.asarray(actions)
        if self._differs and not self._by_sequence:
            return self._one_by_one(numbers, states)
        keys, found = self._keys([state_content(state) for state in states]), []
        for t in range(numbers.shape[1]):
            found.append(self._parts.drawn(self._uniforms(keys, numbers[:, t]), None))
            keys = _mixed(keys + _mixed(numbers[:, t].astype(np.uint64) + np.uint64(1)))
        rows = self._parts.joined(np.stack(found, axis=1))
        return self._model.rollout_batch(rows, states=states)

    def planned(self, planner: Any, states: States, rngs: Any, obs: Any, legal: Any) -> list[Plan]:
        """Return what a planner plans over the sampled actions; see `AdaptedModel.planned`.

        Entries of `[K]` arrays of the plans are about their `candidates`.
        """
        self._begin(planner, states, obs, legal)
        contents = [state_content(state) for state in states]
        told = self._recalled(contents)
        playable = None if told is None else self._masks(self._parts.playable(told))
        # Where all can be played nothing is said, so that trees are kept.
        masks = None if playable is None or playable.all() else playable
        plans = planner.plan_batch(self, states, rngs=rngs, obs=obs, legal=masks)
        count = self.action_space.n
        values = [self._values([content] * count, np.arange(count)) for content in contents]
        return [self._told_plan(*pair) for pair in zip(plans, values, strict=True)]

    def _told_plan(self, plan: Plan, values: Floats) -> Plan:
        candidates = self._parts.joined(values)
        # What follows the first action was drawn in states that are gone.
        return told_plan(
            plan, rows_of(candidates, int(plan.action)), actions=None, candidates=candidates
        )

    def _step(self, actions: npt.NDArray[Any], states: States) -> Any:
        values = self._values([state_content(state) for state in states], np.asarray(actions))
        return self._model.step_batch(self._parts.joined(values), states=states)

    def _values(self, contents: list[bytes], numbers: npt.NDArray[Any]) -> Floats:
        """Return the parts `[L, P]` of the actions with numbers `[L]` in L states."""
        uniforms = self._uniforms(self._keys(contents), numbers)
        return self._parts.drawn(uniforms, self._recalled(contents))

    def _masks(self, playable: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        # What is drawn is legal: a state allows all or nothing.
        return np.repeat(playable[:, None], self.action_space.n, axis=1)

    def _keys(self, contents: list[bytes]) -> Keys:
        """Return what the actions of states are drawn from, `[L]`."""
        if self._by_sequence:
            return np.zeros(len(contents), np.uint64)
        digests = [hashlib.blake2b(content, digest_size=8).digest() for content in contents]
        return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)

    def _uniforms(self, keys: Keys, numbers: npt.NDArray[Any]) -> Floats:
        """Return `[L, P, 2]` numbers in [0, 1) for the actions with numbers `[L]`."""
        count = len(self._parts.counts)
        own = _mixed(keys ^ _mixed(numbers.astype(np.uint64)))
        offsets: Keys = np.arange(2 * count, dtype=np.uint64)
        words = _mixed(np.add(own[:, None], offsets)) >> np.uint64(11)
        found: Floats = words.astype(np.float64) * 2.0**-53
        return found.reshape(len(keys), count, 2)


def _mixed(words: Keys) -> Keys:
    """Return the next output of splitmix64 at each word (Steele, Lea and Flood 2014)."""
    z = words + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
