"""Actor: steps an agent and its envs, and writes their columns of the fragment arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import ArrayDict, JaggedArray
from plangym_ext.arrays.items import item_objects
from plangym_ext.arrays.nested import leaves
from plangym_ext.core.compiling.jit import kernel
from plangym_ext.core.masks import MASK
from plangym_ext.errors import (
    DamagedCheckpoint,
    IncompleteState,
    InvalidAnswer,
    InvalidObservation,
    InvalidSamples,
)
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.sampling.actors.beginning import STREAM, Restarts, Waiting, begin_episodes
from plangym_ext.learn.sampling.actors.columns import Columns, Following, Nest, legal_actions
from plangym_ext.learn.sampling.actors.endings import Endings, EnvSteps, ItemSteps, Limit, Stepped
from plangym_ext.learn.sampling.actors.venv_rows import ItemRows, VenvRows
from plangym_ext.learn.sampling.episode_statistics import EpisodeSums
from plangym_ext.learn.sampling.noise import RowNoise
from plangym_ext.learn.sampling.options import RowSpaces, SamplerOptions

Ndarray = npt.NDArray[Any]
_ALL = Agent.looks_at


class Actor:
    """Steps an agent and b rows of envs, and writes their columns.

    `begin` asks the agent and has the envs begin a step, `finish` waits for it. After a step
    that failed `load_state_dict` brings the rows back to where they were.

    Args:
        venv: the envs of these rows, which reset in the step that ends an episode.
        agent: chooses the actions.
        tree: of `build_sample_tree`, for all rows.
        rows: numbers of these rows, and their columns in the tree.
        options: of the sampler.
    """

    def __init__(
        self, venv: VenvRows, agent: Agent, tree: ArrayDict, rows: range, options: SamplerOptions
    ) -> None:
        self._venv, self._agent, self._rows, self._options = venv, agent, rows, options
        spaces = RowSpaces(venv)
        self._columns = Columns(tree, spaces, rows)
        self._spaces = spaces
        self._info_nest: Nest | None = None
        names = tuple(options.env_info), options.told
        steps_of = ItemSteps if isinstance(venv, ItemRows) else EnvSteps
        self._steps = steps_of(venv, self._columns, spaces.obs, *names)
        self._noise = RowNoise(options.seed, options.numbers(rows))
        added = {name: self._columns.infos[name] for name in options.episode_sums}
        self._sums = EpisodeSums(len(rows), options.discount, added)
        self._endings = Endings(self._columns, options)
        self._waiting: Waiting | None = None
        if options.on_end != "reset":
            self._waiting = Waiting(self._columns, sticky=options.on_end == "sticky")
        self.restarts = _restarts(venv, self._columns, spaces, rows, options)
        #: Whether what an action answers to beside the observation is written once a fragment,
        #: for an agent that does not look at it.
        # Once a fragment costs one call of a kernel in place of T; with rows that wait it cannot
        # be, as `first` of the next row decides which rows are stepped.
        self._late = self._waiting is None and not getattr(agent, "looks_at", _ALL)
        self._inputs = self._built_inputs()
        #: `[b, A]` bool, what may be played first, if the envs have said so.
        self._first_legal: Ndarray | None = None
        self._carry: Any = None
        self._begun = False
        #: Steps `[b]` that were played before this fragment, and before each of its steps.
        self._before = np.zeros(len(rows), np.uint64)
        self._steps_of_rows: list[Ndarray] = []
        #: Whether the agent takes the states of the envs before each step.
        self._visits = hasattr(agent, "visit")
        self._limit: Limit | None = None
        if options.max_steps is not None:
            self._limit = Limit(venv, self._columns, options, options.numbers(rows))

    def _built_inputs(self) -> list[Inputs]:
        """Return the agent's inputs of each step, as views of the columns."""
        columns = self._columns
        legal = [None] * (columns.num_steps + 1) if columns.legal is None else columns.legal
        shown = columns.obs, columns.prev_action, columns.prev_reward, columns.first
        return [
            Inputs(obs, action, reward, first, self._noise, mask)
            for obs, action, reward, first, mask in zip(*shown, legal, strict=True)
        ]

    @property
    def lacks_masks(self) -> bool:
        """Whether the envs have action masks but the tree has no array for them."""
        return self._first_legal is not None and self._columns.legal is None

    def find_masks(self) -> None:
        """Use the tree's array of masks, which was added after this actor was made."""
        self._columns.find_legal()
        self._inputs = self._built_inputs()
        self._show_first_legal()

    def _show_first_legal(self) -> None:
        legal = self._columns.legal
        if legal is not None:
            first = np.bool_(True) if self._first_legal is None else self._first_legal
            if first.shape not in ((), legal[-1].shape):
                raise DamagedCheckpoint(
                    f"the first masks must be {legal[-1].shape}; got {first.shape}. Load an "
                    "unchanged checkpoint."
                )
            # Row T, which is the first one of the next fragment.
            legal[-1] = first

    # A fragment -------------------------------------------------------------------------

    def begin_fragment(self, version: int, table: Ndarray | None = None) -> None:
        """Copy the last row of the columns to the first."""
        self.begin_episodes()
        self.restarts.begin_fragment(table)
        columns = self._columns
        # Row T of the last fragment is row 0 of this one.
        for array in columns.going_on:
            array[0] = array[-1]
        for nested in (columns.obs, columns.prev_action):
            _copy(leaves(nested[0]), leaves(nested[-1]))
        # Before the first step: learners of recurrent networks begin from it.
        _copy(columns.carry, self._carry_leaves())
        columns.version[:] = version
        if self._visits:
            # A planner is not told otherwise how much was learned.
            self._agent.version = version
        steps = np.arange(columns.num_steps, dtype=np.uint64)
        # Counted by row and not by call: noise is the same however rows are shared out among
        # actors.
        self._steps_of_rows = list(self._before + steps[:, None])
        self._endings.clear()
        if self._limit is not None:
            self._limit.begin(self._sums.sums[1])
        if self._waiting is not None:
            self._waiting.begin()

    def begin(self, t: int) -> None:
        """Select the actions of step t, and begin the envs' step."""
        columns, noise = self._columns, self._noise
        # Before the agent: it draws from here, and a step that is repeated after a failure draws
        # the same.
        noise.move_to(self._steps_of_rows[t])
        if self._visits:
            self._agent.visit(self.env_states())  # type: ignore[attr-defined]
        action, info, self._carry = self._agent.step(self._inputs[t], self._carry)
        parts = self._spaces.action.split(action)
        for target, part in zip(columns.played[t], parts, strict=True):
            _write(target, part)
        if self._info_nest is None:
            self._info_nest = Nest(info)
        for target, part in zip(columns.agent_info[t], self._info_nest.split(info), strict=True):
            _write(target, part)
        rows = None
        if self._waiting is not None:
            # After the agent: what it has chosen for rows that wait is not played.
            self._waiting.clear(t)
            rows = self._waiting.stepped
        self._steps.begin(t, rows)

    def finish(self, t: int) -> None:
        """Wait for step t; write its results and the next action's inputs."""
        columns = self._columns
        stepped = self._steps.finish(t)
        if columns.legal is not None:
            self._show_legal(columns.legal[t + 1], stepped)
        elif MASK in stepped.infos and self._options.action_mask:
            self._check_late_mask(stepped)
        cut = None if self._limit is None else self._limit.cut(t, stepped, self._steps_of_rows[t])
        if not self._late:
            show_after(columns.following[t])
        if self._endings.needs(stepped):
            (rows,) = (columns.terminated[t] | columns.truncated[t]).nonzero()
            self._endings.add(t, rows, stepped, cut)
        if self._limit is not None:
            self._limit.leave(t, self._endings.going_on[t])
        self.restarts.add(t, self._endings.going_on[t], self._steps_of_rows[t])
        if self._waiting is not None:
            # `first` of the row after says which episodes have just ended.
            self._waiting.add(t, columns.first[t + 1].nonzero()[0])
            self._waiting.show(t + 1)

    def _show_legal(self, legal: Ndarray, stepped: Stepped) -> None:
        """Write what the rows that were stepped may play next."""
        rows = slice(None) if stepped.rows is None else stepped.rows
        count = len(legal) if stepped.rows is None else len(stepped.rows)
        told = legal_actions(stepped.infos, self._spaces.single_action_space, count)
        legal[rows] = True if told is None else told

    def _check_late_mask(self, stepped: Stepped) -> None:
        """Refuse a mask that comes when the tree was made without room for any."""
        count = len(self._rows) if stepped.rows is None else len(stepped.rows)
        if legal_actions(stepped.infos, self._spaces.single_action_space, count) is not None:
            raise InvalidObservation(
                f"sampler: envs with the info {MASK!r} must return it in their first reset, when "
                f"memory for it is allocated; it first came in a step. Return it in reset, also "
                f"where all actions are legal, or ignore masks: action_mask=False."
            )

    def end_fragment(self) -> dict[str, Ndarray]:
        """Return the table of the episodes that ended, in the order of (step, row)."""
        columns = self._columns
        columns.reward[...] = columns.earned
        if self._late:
            show_after(columns.all_following)
        _copy(columns.next_carry, self._carry_leaves())
        self._before = self._before + np.uint64(columns.num_steps)
        table = self._sums.add(*columns.steps, self._endings.going_on)
        # Sums know the rows of this actor alone, from 0 on.
        table["row"] += self._rows.start
        return table | self._endings.fields(len(table["row"])) | self.restarts.fields()

    def inputs(self, t: int) -> Inputs:
        """Return the agent's inputs of step t, as views of the columns."""
        return self._inputs[t]

    def steps_before(self, t: int) -> Ndarray:
        """Return `[b]` uint64, the steps that each row had taken before step t, ever."""
        return self._steps_of_rows[t]

    def env_states(self) -> Ndarray:
        """Return `[b, S]` uint8, fresh; none of the envs is in flight.

        Raises:
            IncompleteState: they cannot be captured.
        """
        return self._venv.get_states()

    def _carry_leaves(self) -> list[Ndarray]:
        return Nest(self._carry).split(self._carry)

    # Between fragments ------------------------------------------------------------------

    def begin_episodes(self) -> None:
        """Reset every row, and play random steps if the options say so; called once."""
        if not self._begun:
            where = self._venv, self._columns, self._options.numbers(self._rows)
            self._first_legal = begin_episodes(
                *where, self._options, self._sums, self._before, self.restarts
            )
            self._show_first_legal()
            self._carry = self._agent.initial_carry(len(self._rows))
            self._begun = True

    def state_dict(self, *, envs: bool = True) -> dict[str, Any]:
        """Return the state of these rows: arrays `[b, ...]`, or lists of them, by name.

        Args:
            envs: whether to capture states of the envs; "envs" is None without, and where
                they cannot be captured.
        """
        self.begin_episodes()
        columns = self._columns
        return {
            "envs": self._states_or_none() if envs else None,
            "obs": [
                item_objects(leaf) if isinstance(leaf, JaggedArray) else leaf.copy()
                for leaf in leaves(columns.obs[-1])
            ],
            "prev_action": [leaf.copy() for leaf in leaves(columns.prev_action[-1])],
            "prev_reward": columns.prev_reward[-1].copy(),
            "first": columns.first[-1].copy(),
            "legal": None if columns.legal is None else columns.legal[-1].copy(),
            "carry": [leaf.copy() for leaf in self._carry_leaves()],
            "noise": self._before.copy(),
            # `[b, 4 + C]`: states are joined and split along their first axis.
            "sums": self._sums.sums.T.copy(),
            **self.restarts.state_dict(),
            **self._venv.state_dict(),
        }

    def _states_or_none(self) -> Ndarray | None:
        try:
            return self.env_states()
        except IncompleteState:
            return None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`; without states of envs, with new episodes."""
        columns = self._columns
        # First: a step that was in flight would write to the columns after they were brought back.
        self._venv.settle()
        self._before = np.array(state["noise"], np.uint64)
        self._endings.clear()
        if state["envs"] is None:
            self._begun = False
            return
        self._venv.set_states(np.asarray(state["envs"]))
        self._venv.load_state_dict(state)
        for name in ("obs", "prev_action"):
            targets = [*leaves(getattr(columns, name)[-1])]
            # Items were saved as objects, which a jagged array takes as a list.
            jagged = [isinstance(target, JaggedArray) for target in targets]
            pairs = zip(jagged, state[name], strict=True)
            _copy(targets, [list(part) if items else part for items, part in pairs])
        columns.prev_reward[-1], columns.first[-1] = state["prev_reward"], state["first"]
        legal = state.get("legal") if self._options.action_mask else None
        self._first_legal = None if legal is None else np.array(legal, bool)
        self._show_first_legal()
        first = self._agent.initial_carry(len(self._rows))
        form, saved = Nest(first), [np.array(leaf) for leaf in state["carry"]]
        wanted, found = (
            [(leaf.shape, leaf.dtype) for leaf in parts] for parts in (form.split(first), saved)
        )
        if found != wanted:
            raise InvalidSamples(f"the saved recurrent carry must be {wanted}; got {found}.")
        self._carry = form.join(saved)
        self._sums.sums[:] = np.asarray(state["sums"]).T
        self.restarts.load_state_dict(state)
        self._begun = True


def show_after(following: Following) -> None:
    """Write the next step's previous actions, rewards and `first` flags."""
    ended = follow(*following.results)
    for action, shown in following.actions:
        shown[...] = action
        if ended:
            # The fourth is `first`, which `follow` has just written.
            shown[following.results[3]] = 0


@kernel
def follow(terminated: Any, truncated: Any, reward: Any, first: Any, prev_reward: Any) -> int:
    """Write the inputs that follow k steps.

    Args:
        terminated: `[k, b]` bool.
        truncated: `[k, b]` bool.
        reward: `[k, b]`.
        first: `[k, b]` bool, written: whether the episode ended, so that another one begins.
        prev_reward: `[k, b]`, written: the reward, 0 where an episode begins.

    Returns:
        How many episodes ended.
    """
    ended = 0
    for t in range(reward.shape[0]):
        for row in range(reward.shape[1]):
            first[t, row] = terminated[t, row] or truncated[t, row]
            prev_reward[t, row] = 0 if first[t, row] else reward[t, row]
            ended += first[t, row]
    return ended


def _restarts(
    venv: VenvRows, columns: Columns, spaces: RowSpaces, rows: range, options: SamplerOptions
) -> Restarts:
    """Return the `Restarts` of stored states, if there are any."""
    noise = RowNoise(options.seed, options.numbers(rows), STREAM)
    if options.starts is None:
        return Restarts(venv, columns, None, spaces.obs, noise)
    found = Restarts(venv, columns, options.starts.states, spaces.obs, noise)
    found.begin_fragment(options.starts.table())
    return found


def _copy(targets: Iterable[Ndarray], sources: Iterable[Any]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target[...] = source


def _write(target: Ndarray, source: Any) -> None:
    """Write what the agent gave for b rows; nothing is broadcast."""
    if source.dtype is target.dtype and source.shape == target.shape:
        target[...] = source  # which takes half as long
        return
    if source.shape != target.shape:
        raise InvalidAnswer(
            f"sampler: the agent must return arrays of one shape in every step, here "
            f"{target.shape}; got {source.shape}."
        )
    np.copyto(target, source)  # which does not cast to another kind of number
