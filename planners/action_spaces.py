"""Models with adapted actions for planners: numbered, as vectors, or sampled per state."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.action_parts import Floats, Parts, parts_of
from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.masks import MASK
from plangym_ext.planners.adapted_model import AdaptedModel, Proposal, mask_of, masks_in, told_plan
from plangym_ext.planners.kept import NothingKept
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.simulator import SearchModel, States
from plangym_ext.planners.watched import WatchedModel
from plangym_ext.states.envelope import state_content

#: So many joint actions at most are numbered: nodes of trees have an entry for each.
MOST_JOINT_ACTIONS = 4096


class Numbers(NamedTuple):
    """Space of action numbers, with the interface of `Discrete`."""

    n: int
    start: int = 0


class NumberedModel(AdaptedModel):
    """A model whose joint actions are numbered 0, ..., N - 1; the last part changes fastest.

    Attributes:
        actions: `[N, *act]`, the joint actions, nested as the space.
        choices: `[N, P]`, the choice of each part in them, from 0.
    """

    def __init__(self, model: SearchModel, parts: Parts) -> None:
        super().__init__(model, parts)
        self.choices = np.stack(
            [part.ravel() for part in np.indices(tuple(parts.counts.tolist()))], axis=1
        )
        self.action_space = Numbers(len(self.choices))
        self.actions = parts.joined(self.choices)

    def rollout_batch(self, actions: npt.NDArray[Any], states: States) -> Any:
        """Play numbers `[B, H]` from `states`; see `SearchModel.rollout_batch`."""
        rows = rows_of(self.actions, np.asarray(actions))
        return self._told(self._model.rollout_batch(rows, states=states))

    def masks(self, legal: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return `[L, N]` bool, the legal joint actions, from masks `[L, C]` of all parts."""
        found: npt.NDArray[np.bool_] = np.all(
            legal[:, self.choices + self._parts.begins[:-1]], axis=2
        )
        return found

    def planned(self, planner: Any, states: States, rngs: Any, obs: Any, legal: Any) -> list[Plan]:
        """Return a planner's plans over numbers; see `AdaptedModel.planned`."""
        masks = None
        if legal is not None:
            masks = self.masks(np.stack([mask_of(self._parts, row) for row in legal]))
        plans = planner.plan_batch(self, states, rngs=rngs, obs=obs, legal=masks)
        return [self._told_plan(plan) for plan in plans]

    def _told_plan(self, plan: Plan) -> Plan:
        later = None if plan.actions is None else rows_of(self.actions, plan.actions)
        return told_plan(plan, rows_of(self.actions, plan.action), actions=later)

    def _step(self, actions: npt.NDArray[Any], states: States) -> Any:
        return self._model.step_batch(rows_of(self.actions, np.asarray(actions)), states=states)

    def _told(self, result: Any) -> Any:
        """Return a result with masks of joint actions."""
        legal = masks_in(self._parts, getattr(result, "infos", None), len(result.terminateds))
        if legal is None:
            return result
        columns = {name: result.infos[name] for name in result.infos.keys()}  # noqa: SIM118
        return result._replace(infos={**columns, MASK: self.masks(legal)})


class Vectors:
    """Space of action vectors, with the interface of `Box`.

    Args:
        parts: of the actions.
        space: which the vectors stand for.

    Attributes:
        low: `[D]` float64, the lower bounds.
        high: `[D]` float64, the upper ones.
    """

    def __init__(self, parts: Parts, space: Any) -> None:
        widths = np.maximum(parts.counts, 1)
        choices = parts.counts > 0
        self.low = np.repeat(np.where(choices, -1.0, parts.low), widths)
        self.high = np.repeat(np.where(choices, 1.0, parts.high), widths)
        self._space = space

    def __str__(self) -> str:
        return str(self._space)


class VectorModel(AdaptedModel):
    """A model whose actions are vectors `[D]`: a score for each choice, and the numbers.

    Of each part the legal choice with the highest score is played.
    """

    def __init__(self, model: SearchModel, parts: Parts) -> None:
        super().__init__(model, parts)
        self.action_space = Vectors(parts, model.action_space)

    def rollout_batch(self, actions: npt.NDArray[Any], states: States) -> Any:
        """Play vectors `[B, H, D]` from `states`; see `SearchModel.rollout_batch`."""
        if self._differs:
            return self._one_by_one(actions, states)
        rows = self._parts.joined(self._values(actions, None))
        return self._model.rollout_batch(rows, states=states)

    def planned(self, planner: Any, states: States, rngs: Any, obs: Any, legal: Any) -> list[Plan]:
        """Return a planner's plans over vectors; see `AdaptedModel.planned`."""
        self._begin(planner, states, obs, legal)
        told = self._recalled([state_content(state) for state in states])
        plans = planner.plan_batch(self, states, rngs=rngs, obs=obs)
        return [
            self._told_plan(plan, None if told is None else told[i : i + 1])
            for i, plan in enumerate(plans)
        ]

    def _told_plan(self, plan: Plan, told: Floats | None) -> Plan:
        action = self._parts.joined(self._values(plan.action[None], told)[0])
        # What later states allow is known while they are planned in.
        later = None if self._differs else self._parts.joined(self._values(plan.actions, None))
        return told_plan(plan, action, actions=later)

    def _step(self, actions: npt.NDArray[Any], states: States) -> Any:
        told = self._recalled([state_content(state) for state in states])
        return self._model.step_batch(self._parts.joined(self._values(actions, told)), states)

    def _values(self, vectors: Any, told: Floats | None) -> Floats:
        """Return the parts `[..., P]` of vectors `[..., D]` where choices are weighted so."""
        counts, begins = self._parts.counts, self._parts.begins
        found, at = np.zeros((*vectors.shape[:-1], len(counts))), 0
        for part, count in enumerate(counts.tolist()):
            scores = vectors[..., at : at + max(count, 1)]
            if count and told is not None:
                legal = told[:, begins[part] : begins[part + 1]] > 0.0
                scores = np.where(legal, scores, -np.inf)
            found[..., part] = scores.argmax(axis=-1) if count else scores[..., 0]
            at += max(count, 1)
        return found


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

        The first action is that of the state. Where all states allow the same actions, a later
        action depends only on the numbers before it, so that one batch is enough.
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
        """Return a planner's plans over the sampled actions; see `AdaptedModel.planned`.

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
        # Later actions were drawn in states that no longer exist.
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


#: What planners plan over: numbers of actions, or vectors.
NUMBERS, VECTORS = "numbers", "vectors"


def adapted(model: SearchModel, planner: Any) -> AdaptedModel | None:
    """Return a model with the planner's kind of actions; None if the env has it already.

    An env whose actions have parts of other kinds is returned to the planner, which refuses it.

    Args:
        model: the env.
        planner: says by `plans_over` what it plans over, and how actions are sampled.
    """
    space: Any = getattr(model, "action_space", None)
    kind = planner.plans_over
    # Of its own kind of space nothing is adapted, and gymnasium is not imported.
    discrete = hasattr(space, "n") and hasattr(space, "start") and not hasattr(space, "nvec")
    if discrete if kind == NUMBERS else hasattr(space, "low"):
        return None
    parts = parts_of(space)
    if parts is None:
        return None
    if kind == VECTORS:
        return VectorModel(model, parts)
    if parts.total is not None and parts.total <= MOST_JOINT_ACTIONS:
        return NumberedModel(model, parts)
    by_sequence = getattr(planner, "resample", None) is not None
    how = planner.num_candidates, planner.proposal
    return SampledModel(model, parts, *how, by_sequence=by_sequence)


class KeptModel(NothingKept):
    """The adapted model of the last planned env; pickles and copies have none.

    Attributes:
        plain: the last env that needs none.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drop it."""
        self.plain: Any = None
        self._made_for: tuple[Any, ...] = ()
        self._found: AdaptedModel | WatchedModel | None = None

    def of(self, env: SearchModel, planner: Any) -> AdaptedModel | WatchedModel | None:
        """Return `adapted(env, planner)`, watched: one model while env and options are the same."""
        # A model that is asked to plan by a planner that it has adapted itself for.
        if isinstance(env, AdaptedModel | WatchedModel):
            return None
        names = "num_candidates", "proposal", "resample", "callback"
        now = env, *(getattr(planner, name, None) for name in names)
        same = len(now) == len(self._made_for)
        # A search that is kept between moves belongs to the model that it has stepped.
        if not same or any(a is not b for a, b in zip(now, self._made_for, strict=True)):
            watched = planner.callback is not None
            seen: Any = WatchedModel(env, planner.callback) if watched else None
            found = (adapted(seen or env, planner) if planner.plans_over else None) or seen
            if found is None:
                self.plain = env
                return None
            self._made_for, self._found = now, found
        return self._found
