"""TaskReplay: replays of steps for each task, one for updates and one of recent context."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from plangym_ext.errors import InvalidSamples
from plangym_ext.learn.replay.base import Batch, Replay
from plangym_ext.learn.replay.uniform import BalancedReplay

_INFOS = ("task", "episode", "over")


@final
class TaskReplay(Replay):
    """Steps of `Trials` by task: a replay for updates, and the newest steps for contexts.

    Contexts are as an agent has them when it has to adapt: of first episodes of trials, which are
    played without knowledge of the task, and consecutive. Single steps of many episodes would tell
    more, and an encoder that learned by them alone would not know what to make of one.

    Steps whose next observation is of another episode are context and no others: what would have
    followed is not known. Where the env's episode terminated, nothing did.

    Args:
        capacity: steps of each task.
        recent: newest steps of each task, of first episodes, that contexts are drawn of.
        steps: N, drawn of each task.
        context: C, likewise.
        fields: names of what contexts have of a step; with "next_obs" last steps of episodes are
            no context.
        discount: gamma.
        seed: of the draws.

    Attributes:
        tasks: numbers of those that there are steps of.
    """

    def __init__(
        self,
        capacity: int,
        *,
        recent: int,
        steps: int,
        context: int,
        fields: tuple[str, ...] = ("obs", "action", "reward"),
        discount: float,
        seed: int,
    ) -> None:
        super().__init__(capacity, seed=seed)
        self._sizes, self.discount, self._fields = (steps, context), discount, fields
        seeds = self._rng.integers(2**63, size=2).tolist()
        self._steps = BalancedReplay(capacity, seed=seeds[0])
        self._recent = BalancedReplay(recent, seed=seeds[1])
        self.tasks: list[int] = []

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def is_ready(self) -> bool:
        """Whether there are steps to draw."""
        return bool(self.tasks)

    def add(self, tree: Mapping[str, Any]) -> None:
        """Copy a fragment in.

        Args:
            tree: of a sampler, `[T, B]`, with the infos "task", "episode" and "over" of `Trials`.

        Raises:
            InvalidSamples: it lacks them.
        """
        told: Any = tree.get("env_info", {})
        if any(name not in told for name in _INFOS):
            raise InvalidSamples(
                f"TaskReplay.add: the fragment must have the infos {', '.join(_INFOS)}; got "
                f"{sorted(told)}. Play plangym_ext.envs.Trials, with env_info=agent.env_info."
            )
        steps = tree["reward"].shape[0]

        def flat(array: Any) -> Any:
            # Row by row, so that a row's steps are consecutive.
            return array.swapaxes(0, 1).reshape(-1, *array.shape[2:])

        def read(array: Any) -> Any:
            return flat(array[0:steps].to_ndarray(copy=False))

        obs = tree["obs"][0 : steps + 1].to_ndarray(copy=False)
        ended = read(tree["truncated"]) | read(tree["terminated"])
        following = np.where(ended[:, None], read(tree["final_obs"]), flat(obs[1:]))
        over = read(told["over"]).astype(bool)
        rows = {
            "obs": flat(obs[:-1]),
            "action": read(tree["action"]),
            "reward": read(tree["reward"]),
            "next_obs": following,
            "discount": (self.discount * ~over).astype(np.float32),
        }
        tasks, valid = read(told["task"]), read(tree["valid"])
        begun, within = valid & (read(told["episode"]) == 0), following[:, -1] == 0
        if "next_obs" in self._fields:
            begun &= within
        _add(self._recent, {name: rows[name] for name in self._fields}, tasks, begun)
        _add(self._steps, rows, tasks, valid & (over | within))
        self.tasks = _tasks(self._steps, self._recent)

    def sample(self, batch_size: int) -> Batch:
        """Draw steps of M tasks, none twice unless there are too few, and a context of each.

        Args:
            batch_size: M.

        Returns:
            Samples "steps", arrays `[M * N, ...]` by name, task by task; "context", `[M, C, ...]`;
            and "task" `[M]`.
        """
        chosen = self._rng.choice(self.tasks, batch_size, replace=batch_size > len(self.tasks))
        steps, context = self._sizes
        drawn = self._recent.sample_runs(chosen.tolist(), context)
        shaped = {
            name: part.reshape(batch_size, context, *part.shape[1:]) for name, part in drawn.items()
        }
        samples = {
            "steps": self._steps.sample_groups(chosen.tolist(), steps),
            "context": shaped,
            "task": chosen,
        }
        return Batch(samples, chosen, np.ones(batch_size, np.float32))

    def all(self) -> dict[str, Any]:
        return self._steps.all()

    def _contents(self) -> dict[str, Any]:
        parts = {"steps": self._steps.state_dict(), "recent": self._recent.state_dict()}
        return {**parts, "tasks": np.array(self.tasks, np.int64)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        # Of copies, which share no more with the parts once they are loaded: a state of which the
        # last part is refused leaves all as it was.
        steps, recent = copy.copy(self._steps), copy.copy(self._recent)
        steps.load_state_dict(state["steps"])
        recent.load_state_dict(state["recent"])
        tasks, known = state["tasks"].tolist(), _tasks(steps, recent)
        if tasks != known:
            raise InvalidSamples(
                f"{self._name}.load_state_dict: tasks must be those of its steps, {known}; got "
                f"{tasks!r:.80}. Take a state as it was saved."
            )
        self._steps, self._recent, self.tasks = steps, recent, tasks


def _tasks(steps: BalancedReplay, recent: BalancedReplay) -> list[int]:
    # In their own order: which one is drawn does not depend on which came first.
    return sorted({*steps.groups} & {*recent.groups})


def _add(replay: BalancedReplay, rows: Mapping[str, Any], tasks: Any, which: Any) -> None:
    if which.any():
        replay.add({name: part[which] for name, part in rows.items()}, tasks[which])
