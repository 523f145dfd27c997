"""Samplers in this process: SerialSampler, and AlternatingSampler over two halves of the envs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from plangym_ext.arrays import ArrayDict
from plangym_ext.core.numbers import at_least
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.sampling.actors.actor import Actor
from plangym_ext.learn.sampling.actors.opponent_rows import OpponentRows
from plangym_ext.learn.sampling.actors.venv_rows import VenvRows, venv_rows
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.sampling.episode_statistics import merged_episodes
from plangym_ext.learn.sampling.options import SamplerOptions, check_vector_env, no_opponents
from plangym_ext.learn.sampling.past import (
    Past,
    PastSampler,
    collected,
    joined_states,
    split_state,
    whole_fragment,
)
from plangym_ext.learn.sampling.tree import build_sample_tree, mask_array, tree_memory
from plangym_ext.planners.players import PLAYER, TO_PLAY
from plangym_ext.vector.vector_env import PlanVectorEnv


class LocalSampler(PastSampler):
    """Abstract; the agent acts in this process, for one range of rows after the other."""

    def __init__(
        self,
        venv: PlanVectorEnv,
        agent: Agent,
        num_steps: int,
        options: SamplerOptions,
        ranges: Sequence[range],
    ) -> None:
        where = type(self).__name__
        self.num_steps = at_least(f"{where}: num_steps", num_steps, 1)
        self._venv, self._agent, self._ranges = venv, agent, ranges
        self.num_envs = venv.num_envs
        # Workers write there themselves.
        self._storage: Literal["local", "shared"] = "shared" if venv.worker_pids else "local"
        self.tree: ArrayDict = build_sample_tree(
            venv, agent, num_steps, self.num_envs, storage=self._storage, env_info=options.env_info
        )
        venvs = [_rows_of(venv, rows, options) for rows in ranges]
        # To bring a row to a stored state, what other halves have in flight is waited for.
        for one in venvs:
            one.others = [other for other in venvs if other is not one]
        self._actors = [
            Actor(one, agent, self.tree, rows, options)
            for one, rows in zip(venvs, ranges, strict=True)
        ]
        self._options, self._past = options, Past.of(options)
        #: Where the actors were when the fragment began that is being played, or that failed.
        self._saved: list[dict[str, Any]] | None = None

    def collect(
        self, n: int | None = None, version: int = 0, progress: Progress | None = None
    ) -> Collected:
        """Play T steps in every env, continuing after the last call.

        A call that fails (an env raises, Ctrl-C comes) has not happened: the next one plays
        the same fragment, or begins new episodes where states of envs were not kept.

        Args:
            n: T, if it is given.
            version: of the weights.
            progress: called after each step with how many steps of all envs are done.

        Returns:
            `data` is the sample tree, which the next call overwrites; a row for each episode
            that ended, with "step" and "row" where it did.
        """
        whole_fragment(type(self).__name__, n, self.num_steps)
        began = time.perf_counter()
        self._agent.set_mode("sample")
        self._settle(version)
        # Before the first step, and kept until the fragment is whole: a failed one is played again
        # from here.
        self._saved = [actor.state_dict(envs=self._options.recover) for actor in self._actors]
        for actor in self._actors:
            actor.begin_fragment(version, self._past.table())
        self._play(progress)
        episodes = merged_episodes([actor.end_fragment() for actor in self._actors])
        # At once, so that an interrupt finds the fragment played or not.
        self._past, self._saved = self._past.after(episodes, self.tree), None
        restored = sum(actor.restarts.restored for actor in self._actors)
        found = collected(self.tree, episodes, version, began, restored)
        opponents = self._options.opponents
        return found if opponents is None else found._replace(cost=found.cost + opponents.cost)

    def _settle(self, version: int = 0) -> None:
        """Restore the actors if the last fragment failed; begin the episodes of new ones."""
        if self._saved is not None:
            for actor, state in zip(self._actors, self._saved, strict=True):
                actor.load_state_dict(state)
            self._saved = None
        if self._options.opponents is not None and self._past.league is not None:
            self._options.opponents.begin(self._past.league, version)
        for actor in self._actors:  # states are captured of all envs together
            actor.begin_episodes()
        if any(actor.lacks_masks for actor in self._actors):
            self._add_masks()

    def _add_masks(self) -> None:
        """Make room for masks of actions: that envs have some is known from their first reset."""
        size = self.num_steps, self.num_envs
        self.tree["action_mask"] = mask_array(self._venv, *size, self._storage)
        for actor in self._actors:
            actor.find_masks()

    def _play(self, progress: Progress | None) -> None:
        """Play T steps: while the agent acts for one actor, the envs of the others step."""
        actors, last = self._actors, self.num_steps - 1
        for actor in actors:
            self._visit(actor, 0)
            actor.begin(0)
        for t in range(self.num_steps):
            for actor in actors:
                actor.finish(t)
                # The last step is not followed by a choice: the next fragment makes it, with the
                # weights of then.
                if t < last:
                    self._visit(actor, t + 1)
                    actor.begin(t + 1)
            if progress is not None:
                progress((t + 1) * self.num_envs)

    def _visit(self, actor: Actor, t: int) -> None:
        """Look at the envs of an actor before step t; nothing is looked at here."""

    def memory(self) -> dict[str, int]:
        """Return the memory use in bytes: arrays of the tree by name, and "envs".

        The latter are those of `PlanVectorEnv.nbytes`. Pages of memory that nothing was written
        to yet take no room.
        """
        return tree_memory(self.tree) | {"envs": self._venv.nbytes}

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state between two calls of `collect`, running episodes included.

        Any sampler of as many envs and an equal agent goes on from it. Where states of envs
        cannot be captured it begins new episodes.
        """
        self._settle()
        rows = joined_states([actor.state_dict() for actor in self._actors])
        return {"rows": rows, **self._past.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`, bit for bit."""
        parts = split_state(state["rows"], self._ranges)
        for actor, part in zip(self._actors, parts, strict=True):
            actor.load_state_dict(part)
        self._past, self._saved = Past.of(self._options, state), None

    def close(self) -> None:
        """Close the envs; safe to call twice. The tree stays valid."""
        with warnings.catch_warnings():
            # After a failure a step may be in flight. It is of no use to the sampler's user.
            warnings.filterwarnings("ignore", ".*while waiting for a pending call")
            self._venv.close()


def _rows_of(venv: PlanVectorEnv, rows: range, options: SamplerOptions) -> VenvRows:
    """Return some rows of a vector env, of two players with their opponents."""
    opponents = options.opponents
    if opponents is None:
        return venv_rows(venv, rows)
    return OpponentRows(venv, rows, options.numbers(rows), options.seed, opponents)


class SerialSampler(LocalSampler):
    """Play an agent in a vector env of any backend, T steps at a time.

    With envs in worker processes this is central inference: all envs step side by side, and
    the agent acts for all of them here.

    Args:
        venv: made with `autoreset_mode="same_step"`; it is closed with the sampler.
        agent: acts in mode "sample".
        num_steps: T.
        **options: of `SamplerOptions`.

    Attributes:
        num_steps, num_envs: T and B.
        tree: the memory of a fragment; see `build_sample_tree`.

    Raises:
        WrongKind: not a vector env, or not an agent.
        InvalidOption: T is below 1; the vector env resets in another way, or spaces of its
            envs differ; an option has a value that it cannot have.
        InvalidAnswer: what the agent returns does not fit the envs.
    """

    def __init__(self, venv: PlanVectorEnv, agent: Agent, num_steps: int, **options: Any) -> None:
        # With opponents the envs are of one player, as far as the agent is concerned.
        both = (PLAYER, TO_PLAY) if options.get("opponents") else options.get("env_info", ())
        check_vector_env(venv, "SerialSampler", both)
        rows = [range(venv.num_envs)]
        super().__init__(venv, agent, num_steps, SamplerOptions(**options), rows)


class AlternatingSampler(LocalSampler):
    """Play an agent alternately in the two halves of a vector env.

    Worth it where envs in worker processes take about as long as the agent; each half needs a
    worker of its own. What is sampled is what a `SerialSampler` samples.

    Args:
        venv: as of `SerialSampler`, with two envs or more; its first rows are one half.
        agent, num_steps, options: as of `SerialSampler`, and so are attributes and errors.
    """

    def __init__(self, venv: PlanVectorEnv, agent: Agent, num_steps: int, **options: Any) -> None:
        check_vector_env(venv, "AlternatingSampler", options.get("env_info", ()))
        count = venv.num_envs
        if count < 2:
            raise InvalidOption(
                "AlternatingSampler: the vector env must have two envs or more; it has one. Use "
                "a SerialSampler."
            )
        if hasattr(agent, "visit"):
            # What it keeps from step to step is by the number of a row, which both halves have.
            raise InvalidOption(
                f"AlternatingSampler: {type(agent).__name__} acts only in all rows of its vector "
                f"env at once, not in halves. Use a SerialSampler."
            )
        # Adjoining rows, so that the columns of a half are views of the tree.
        halves = [range(count // 2), range(count // 2, count)]
        chosen = SamplerOptions(**options)
        no_opponents("AlternatingSampler", chosen)
        super().__init__(venv, agent, num_steps, chosen, halves)
