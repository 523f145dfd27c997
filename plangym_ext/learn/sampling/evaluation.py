"""EvaluationSampler: a fixed number of seeded evaluation episodes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.closing import Closing
from plangym_ext.arrays.items import item_rows
from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.core.numbers import at_least
from plangym_ext.learn.agents.agent import Agent, check_agent
from plangym_ext.learn.agents.inputs import Inputs, example_inputs
from plangym_ext.learn.sampling.actors.columns import (
    check_numbers,
    info_column,
    legal_actions,
    missing_info,
)
from plangym_ext.learn.sampling.actors.endings import games_going_on
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.sampling.noise import RowNoise, row_seeds
from plangym_ext.learn.sampling.options import RowSpaces, check_vector_env
from plangym_ext.planners.plans import Budget
from plangym_ext.vector.vector_env import PlanVectorEnv

Ndarray = npt.NDArray[Any]


class EvaluationSampler(Closing):
    """Play whole evaluation episodes with an agent in mode "eval", in envs of its own.

    Which episodes are played is fixed before the first one begins: episode k depends only on the
    seed, k and the agent, not on the number of envs or the lengths of other episodes. So short
    episodes count no more than long ones.

    Args:
        venv: made with `autoreset_mode="same_step"`; it is closed with the sampler.
        agent: its mode is put back afterwards.
        num_episodes: how many.
        seed: of the episodes.
        max_steps: after which an episode is cut off; None for none.
        episode_fields: as of `SamplerOptions`.

    Raises:
        WrongKind, InvalidOption, InvalidAnswer: as `SerialSampler`.
    """

    def __init__(
        self,
        venv: PlanVectorEnv,
        agent: Agent,
        num_episodes: int,
        *,
        seed: int = 0,
        max_steps: int | None = None,
        episode_fields: Sequence[str] = (),
    ) -> None:
        where = "EvaluationSampler"
        check_vector_env(venv, where)
        self.num_episodes = at_least(f"{where}: num_episodes", num_episodes, 1)
        self.seed = at_least(f"{where}: seed", seed, 0)
        self._limit = None if max_steps is None else at_least(f"{where}: max_steps", max_steps, 1)
        check_agent(agent, venv, venv.num_envs, RowNoise(0, range(venv.num_envs)))
        self._venv, self._agent, self._fields = venv, agent, tuple(episode_fields)

    def evaluate(
        self, *, seed: int | None = None, version: int = 0, progress: Progress | None = None
    ) -> Collected:
        """Play the episodes.

        Args:
            seed: of the episodes; None for that of the sampler.
            version: of the weights.
            progress: called after each step with how many steps of all envs are done.

        Returns:
            `data` is None; a row for each episode, in the order of their numbers: "return"
            float64, "length" int64, "terminated" bool, and the fields that were asked for.
        """
        began, mode = time.perf_counter(), self._agent.mode
        run = _Evaluation(self._venv, self.num_episodes, self.seed if seed is None else seed)
        # Before the carry, and put back whatever happens: the agent goes on learning after this.
        self._agent.set_mode("eval")
        asked = searched = 0
        try:
            carry = self._agent.initial_carry(self._venv.num_envs)
            visit = getattr(self._agent, "visit", None)
            while len(run.live):
                if visit is not None:
                    visit(self._venv.get_states())
                action, told, carry = self._agent.step(run.inputs, carry)
                # Of all rows, as a planner searches in those that are through, too.
                searched += int(np.sum(told.get("model_steps", 0)))
                run.step(action, self._limit, self._fields)
                # Rows that are through are asked as well: the agent's batch keeps its shape, and so
                # its rounding.
                asked += self._venv.num_envs
                if progress is not None:
                    progress(run.steps)
        finally:
            self._agent.set_mode(mode)
        cost = Budget(
            model_steps=run.steps + searched,
            evaluator_rows=asked,
            seconds=time.perf_counter() - began,
        )
        return Collected(None, run.table, cost, version, played=run.steps)

    def memory(self) -> dict[str, int]:
        """Return the memory use in bytes by part; see `SerialSampler.memory`.

        An evaluation's memory of each row, "inputs", is released when it ends.
        """
        space, rows = RowSpaces(self._venv), self._venv.num_envs
        leaves_of = (*space.obs.leaves, *space.action.leaves)
        row = sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves_of)
        return {"inputs": rows * row, "envs": self._venv.nbytes}

    def close(self) -> None:
        self._venv.close()


class _Evaluation:
    """The episodes of one evaluation.

    Attributes:
        live: rows in which an episode is being played.
        inputs: what the agent is shown, all rows.
        table: columns `[E]` by name.
        steps: of all envs.
    """

    def __init__(self, venv: PlanVectorEnv, num_episodes: int, seed: int) -> None:
        self._venv, self._seed, self._count = venv, seed, num_episodes
        spaces = RowSpaces(venv)
        self._spaces = spaces
        rows = venv.num_envs
        # Rows are assigned episodes as these begin: noise goes by the episode's number, not by the
        # row that happens to play it.
        self._noise = RowNoise(seed, np.zeros(rows))
        space = spaces.single_observation_space
        self.inputs: Inputs = example_inputs(space, spaces.single_action_space, rows, self._noise)
        self._episode = np.zeros(rows, np.int64)
        self.table: dict[str, Ndarray] = {
            "return": np.zeros(num_episodes),
            "length": np.zeros(num_episodes, np.int64),
            "terminated": np.zeros(num_episodes, bool),
        }
        self._begun = self.steps = 0
        self.live = np.arange(min(rows, num_episodes))
        spare = np.arange(len(self.live), rows)
        if len(spare):
            # Never played, but there, for an agent that looks at the states of all rows.
            obs, _ = venv.reset_some(spare, seed=row_seeds(seed, spare))
            self._show(spare, obs)
        self._begin(self.live)

    def _begin(self, rows: Ndarray) -> None:
        """Begin the next episodes in some rows."""
        episodes = self._begun + np.arange(len(rows))
        self._begun += len(rows)
        obs, infos = self._venv.reset_some(rows, seed=row_seeds(self._seed, episodes))
        self._show(rows, obs)
        self._allow(rows, infos)
        self._episode[rows] = episodes
        for row, episode in zip(rows.tolist(), episodes.tolist(), strict=True):
            self._noise.assign(row, episode)
        self._forget(rows)

    def _show(self, rows: Ndarray, obs: Any) -> None:
        obs = item_rows(self._spaces.single_observation_space, obs)
        for target, source in zip(
            leaves(self.inputs.obs), self._spaces.obs.split(obs), strict=True
        ):
            target[rows] = source

    def _allow(self, rows: Ndarray, infos: Any) -> None:
        """Set the rows' legal actions."""
        space: Any = self._spaces.single_action_space
        told = legal_actions(infos, space, len(rows))
        if told is not None and self.inputs.legal is None:
            everything = np.ones((self._venv.num_envs, told.shape[1]), bool)
            self.inputs = self.inputs._replace(legal=everything)
        if self.inputs.legal is not None:
            self.inputs.legal[rows] = True if told is None else told

    def _forget(self, rows: Ndarray) -> None:
        """Set rows to the first step of an episode, for the agent."""
        self.inputs.first[rows], self.inputs.reward[rows] = True, 0
        for leaf in leaves(self.inputs.action):
            leaf[rows] = 0

    def step(self, action: Any, limit: int | None, fields: tuple[str, ...]) -> None:
        """Step the rows that are live, and begin the next episodes where some have ended."""
        live, table = self.live, self.table
        taken = mapped(lambda leaf: leaf[live], action)
        obs, reward, terminated, truncated, infos = self._venv.step(taken, live)
        self.steps += len(live)
        self._noise.advance()
        episodes = self._episode[live]
        # Each live row plays another episode, so no entry comes twice in one statement.
        table["return"][episodes] += reward
        table["length"][episodes] += 1
        self._show(live, obs)
        self._allow(live, infos)
        self.inputs.first[live], self.inputs.reward[live] = False, reward
        for target, source in zip(leaves(self.inputs.action), leaves(taken), strict=True):
            target[live] = source
        ended = terminated | truncated
        # Also where a game goes on after a life: the env was reset within the step, which the agent
        # is to know.
        self._forget(live[ended])
        cut = np.zeros_like(ended) if limit is None else table["length"][episodes] >= limit
        goes_on = games_going_on(infos, ended)
        over = (ended & ~goes_on) | cut
        if not over.any():
            return
        # An episode that was cut here was not terminated, whatever the limit was; nor is one that
        # has lost a life with its last step.
        table["terminated"][episodes[over]] = (terminated & ~goes_on)[over]
        self._note(fields, infos, over, ended)
        free = live[over]
        # Of the free rows the first ones go on with what is left of the episodes; the others are
        # through.
        self.live = np.setdiff1d(live, free[self._count - self._begun :])
        self._begin(free[: self._count - self._begun])

    def _note(self, fields: tuple[str, ...], infos: Any, over: Ndarray, ended: Ndarray) -> None:
        """Put infos of the last steps of episodes in the table."""
        for name in fields:
            for entry in np.flatnonzero(over):
                # Cut by the limit, the env was not reset, and its infos are its own.
                last = infos.get("final_info", {}) if ended[entry] else infos
                values, known = info_column(last, name)
                if values is None or not known[entry]:
                    raise missing_info(name, last, "episode_fields")
                check_numbers(name, values, "episode_fields")
                column = self.table.get(name, np.zeros(self._count, values.dtype))
                # Whole numbers may be followed by fractions.
                both = np.promote_types(column.dtype, values.dtype)
                self.table[name] = column = column.astype(both, copy=False)
                column[self._episode[self.live[entry]]] = values[entry]
