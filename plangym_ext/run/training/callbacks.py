"""Callback: user hooks of a training run; films of evaluations; the end at a return."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.arrays import ArrayDict
from plangym_ext.arrays.closing import Closing
from plangym_ext.core.inherited_options import load_own_class
from plangym_ext.core.numbers import rounding_of
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.sampling.collected import Collected
from plangym_ext.learn.sampling.episode_statistics import PLACE, Window
from plangym_ext.planners.episode import Episode, play
from plangym_ext.planners.pages.tree import TreeRecorder, has_discrete_actions, recorder_in
from plangym_ext.run.files import versions
from plangym_ext.run.logs.logger import Logger
from plangym_ext.run.logs.table import STEP_RATE
from plangym_ext.run.run_page.content import EPISODES
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.settings import plain
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.video import ffmpeg, film_grid, first_frame, recorded


class Callback:
    """Base class of user hooks in a training run; override any of its methods.

    A callback may look at anything of the `Runner`, and end the run with `runner.stop`.
    A checkpoint holds only the result of its `state_dict`, not other changes that it makes.
    """

    def state_dict(self) -> dict[str, Any]:
        """Return the callback's state for resuming: plain data, arrays, tensors."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`; called before `on_start`."""

    def on_start(self, runner: Any) -> None:
        """Run before the first round, or the first after resuming."""

    def on_collect(self, runner: Any) -> None:
        """Run before collection."""

    def on_update(self, runner: Any, metrics: Mapping[str, float]) -> None:
        """Run after the updates of a round, with what they returned, before an evaluation."""

    def on_episodes(self, runner: Any, records: Any) -> None:
        """Run after collection, before the update of the network.

        `records` is the tree `[T, B]` of the sampler, which the next round overwrites; of
        `collector.kind` "solutions" it is a list of `EpisodeRecord`.
        """

    def on_evaluation(self, runner: Any, episodes: list[Episode]) -> None:
        """Run after an evaluation, the first of several."""

    def on_round(self, runner: Any, values: Mapping[str, float]) -> None:
        """Run at the end of a round, with its row of the log."""

    def on_checkpoint(self, runner: Any, path: Path) -> None:
        """Run after a checkpoint has been written."""

    def on_end(self, runner: Any) -> None:
        """Run after training, completed or stopped, but not after an error."""


class StopAt(Callback):
    """Ends the run once the evaluation's mean return reaches a threshold.

    Args:
        mean_return: how high.
    """

    def __init__(self, mean_return: float) -> None:
        self.mean_return = mean_return

    def on_evaluation(self, runner: Any, episodes: list[Episode]) -> None:
        """Stop the run if the mean return has reached the threshold."""
        mean = sum(episode.return_ for episode in episodes) / len(episodes)
        # Ten rewards of 0.1 are 1 - 1e-16.
        if mean >= self.mean_return - rounding_of(self.mean_return):
            runner.stop(f"the evaluation's mean return is {mean:g}")


class CuriousRewards(Callback):
    """Adds the bonus of a `Curiosity` to the rewards of the updates, not to those in the log.

    For runs of one process that learn from the sampler's tree. Its model is a part of checkpoints.

    Args:
        config: a `CuriosityConfig`; None: the defaults.
        network: layers of the features, an `AgentConfig`; None: the defaults.
        seed: of the weights.

    Attributes:
        metrics: means of the last round, see `Curiosity.reward`.
    """

    def __init__(self, config: Any = None, *, network: Any = None, seed: int = 0) -> None:
        self._arguments = {"config": config, "network": network, "seed": seed}
        self._model: Any = None
        self._saved: Mapping[str, Any] | None = None
        self.metrics: dict[str, float] = {}

    def state_dict(self) -> dict[str, Any]:
        """Return the model and its optimiser."""
        return {} if self._model is None else self._model.learner_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._saved = state

    def on_start(self, runner: Any) -> None:
        """Make the model for the spaces of the run, once."""
        from plangym_ext.learn.curiosity import Curiosity

        learners, kind = runner.config.learners, runner.config.collector.kind
        if learners > 1 or kind == "solutions":
            raise InvalidOption(
                f"CuriousRewards: a run must have one learner, and a collector.kind other than "
                f"'solutions'; got learners={learners}, collector.kind={kind!r}. Leave the "
                f"callback out."
            )
        if self._model is None:
            network = runner.network
            spaces = network.observation_space, network.action_space
            self._model = Curiosity(*spaces, **self._arguments)
            if self._saved:
                self._model.load_learner_dict(self._saved)

    def on_episodes(self, runner: Any, records: Any) -> None:  # noqa: ARG002
        """Add the bonus, and learn from what was played."""
        self.metrics = self._model.reward(records)


def saved_callbacks(callbacks: Sequence[Any]) -> dict[str, Any]:
    """Return the states of callbacks that have any, by class and number."""
    found: dict[str, Any] = {
        name: getattr(one, "state_dict", dict)() for name, one in _named(callbacks)
    }
    return {name: state for name, state in found.items() if state}


def load_callbacks(callbacks: Sequence[Any], saved: Mapping[str, Any]) -> None:
    """Load the states of present callbacks; others may be missing."""
    for name, one in _named(callbacks):
        if name in saved:
            one.load_state_dict(saved[name])


def _named(callbacks: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Name each by its class, and its number among those of that class."""
    seen: Counter[str] = Counter()
    for one in callbacks:
        kind = type(one).__qualname__
        yield f"{kind} {seen[kind]}", one
        seen[kind] += 1


#: Nodes that are drawn of each tree.
_NODES = 200


class Recording(Closing, Callback):
    """Plays an evaluation's first episodes again, each alone, and films them, side by side.

    It has an env and a player of its own, so a run that is filmed learns what one that is not
    learns. Films are `episodes/round-00000010.mp4` in the folder of the run; the trees that a
    planner grows in the first episode are a page of that name, `.html`.

    Args:
        parts: how things are made.
        agent: that plays the network.
        every: evaluations from one film to the next; the last one is filmed too.

    Raises:
        MissingExtra: the `cli` extra is not installed.
        CannotDraw: the env renders no picture.
    """

    def __init__(self, parts: Parts, agent: Any, every: int) -> None:
        ffmpeg("Leave evaluation.record at 0.")
        self._settings, self._every = parts.config.evaluation, every
        self._name, self._max_steps = parts.config.env.id, parts.config.env.max_steps
        self._env = parts.env({**self._settings.env, "render_mode": "rgb_array"})
        try:
            # Before anything is learned: what is no picture would end the run at its first film.
            first_frame(self._env, self._settings.seed)
        except BaseException:
            self._env.close()
            raise
        self._player = parts.player(agent)
        self._grows = hasattr(self._player, "return_tree")
        if self._grows:
            self._player.return_tree = True

    def on_evaluation(self, runner: Any, episodes: list[Any]) -> None:  # noqa: ARG002
        """Film the evaluation, if it is due."""
        # By what the log counts: a run that was resumed films the same ones.
        number = -(-runner.round // runner.config.evaluation.every)
        # `StopAt` comes before: it has looked at these episodes, too.
        is_last = runner.stopped or runner.round >= runner.config.last_round
        if number % self._every and not is_last:
            return
        self._player.updates = runner.algorithm.updates
        self._film(runner.folder / EPISODES / f"round-{runner.round:08}.mp4")

    def _film(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        first, env, tiles = self._settings.seed, self._env, self._settings.tiles
        page = self._page(path.stem)

        def episode(seed: int) -> None:
            frame = env.render()

            def step(move: Any) -> None:
                nonlocal frame
                if page is not None and seed == first:
                    page.add(move, frame)
                    frame = env.render()

            play(env, self._player, seed=seed, max_steps=self._max_steps, callback=step)

        if tiles > 1:
            film_grid(path, env, range(first, first + tiles), episode)
        else:
            with recorded(path, env, first):
                episode(first)
        if page is not None:
            page.write(path.with_suffix(".html"))

    def _page(self, name: str) -> TreeRecorder | None:
        """Return the recorder of trees; None if there are none."""
        if not (self._grows and has_discrete_actions(self._env)):
            return None
        return recorder_in(self._env, self._name, name, _NODES)

    def close(self) -> None:
        self._env.close()


def own_callbacks(parts: Parts, agent: Any) -> list[Callback]:
    """Return the callbacks of the settings; a `Recording` has to be closed."""
    settings = parts.config.evaluation
    found: list[Callback] = [] if settings.stop_at is None else [StopAt(settings.stop_at)]
    if settings.record and settings.every:
        found.append(Recording(parts, agent, settings.record))
    for name in parts.config.callbacks:
        found.append(load_own_class(name, "settings: callbacks", Callback)())
    return found


# Log of a run: its columns ----------------------------------------------------

_LOSSES = ("train/loss", "train/critic_loss", "train/policy_loss")
#: Columns of the table, as many as fit: with 80, all but the last two.
_SHOWN = ("round", "recent/return", "eval/return", _LOSSES, STEP_RATE, "episodes", "return")


def run_log(
    folder: Path, config: RunConfig, resume: bool, show: int, init_from: Path | str | None
) -> Logger:
    """Make the log of a run; arguments as of `Runner`."""
    params = {**plain(config), "versions": versions()}
    if init_from is not None:
        params["init_from"] = str(init_from)
    per_round, rounds = config.steps_per_round, config.rounds
    return Logger(
        folder,
        params=params,
        resume=resume,
        wandb=config.wandb,
        loggers=config.loggers,
        total=None if per_round is None or rounds is None else rounds * per_round,
        show=show,
        columns=list(_SHOWN),
    )


class RecentEpisodes:
    """Statistics of the last episodes, across rounds."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._window = Window(size)
        self.statistics: dict[str, float] = {}

    def take(self, episodes: Mapping[str, Any]) -> None:
        """Take the episodes that ended in a round; see `Collected.episodes`."""
        if len(episodes["return"]):  # most short rounds end none: nothing is computed again
            self._look_at(self._window.after({n: episodes[n] for n in ("return", "length")}))

    def _look_at(self, window: Window) -> None:
        self._window, columns = window, window.columns
        if not columns:
            return
        returns = columns["return"]
        self.statistics = {
            "recent/episodes": len(returns),
            "recent/return": float(returns.mean()),
            "recent/return_std": float(returns.std()),
            "recent/return_min": float(returns.min()),
            "recent/return_median": float(np.median(returns)),
            "recent/return_max": float(returns.max()),
            "recent/length": float(columns["length"].mean()),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the episodes: arrays `[E]` by name, not copied."""
        return dict(self._window.columns)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self._look_at(Window(self._size, state))


def played_row(collected: Collected, algorithm: Any) -> dict[str, float]:
    """Return the log numbers of a round's play, by column."""
    episodes, cost = collected.episodes, collected.cost
    count = len(episodes["return"])
    columns = [name for name in episodes if name not in PLACE] if count else []
    found = {
        "episodes": count,
        "model_steps": cost.model_steps,
        "evaluator_rows": cost.evaluator_rows,
        **{name: float(np.mean(episodes[name])) for name in columns},
    }
    if collected.forks is not None:  # what is played is a small part of what is stepped
        found["branch_steps"] = collected.forks.cost.model_steps
        found["total_steps"] = algorithm.steps
    if collected.again is not None:
        found["search_steps"] = cost.model_steps - collected.steps
        found["total_steps"] = algorithm.steps
    return found | search_row(collected.data)


#: Columns of searches, and the infos of a `PlannerAgent` that they are means of.
_SEARCHES = {
    "search/depth": ("depth",),
    "search/value": ("expert_value", "value"),
    "search/nodes": ("expansions",),
    "search/model_steps": ("model_steps",),
    "search/evaluator_rows": ("evaluator_rows",),
}


def search_row(data: Any) -> dict[str, float]:
    """Return means over the searches that a sampler collected, by column; none without any.

    "search/entropy" is that of the plans' weights, in nats; how far plans looked ahead, what
    they expect, how many nodes they added and what they asked for are the others.
    """
    if not isinstance(data, ArrayDict) or "depth" not in data.get("agent_info", {}):
        return {}
    valid = data["valid"].to_ndarray(copy=False)
    info = {name: rows.to_ndarray(copy=False)[valid] for name, rows in data["agent_info"].items()}
    found = {key: info[next(filter(info.__contains__, of))] for key, of in _SEARCHES.items()}
    weights = info.get("expert_policy", info.get("weights"))
    if weights is not None and weights.size and np.all(weights[~np.isnan(weights)] >= 0.0):
        logs = np.log(weights, where=weights > 0.0, out=np.zeros(weights.shape))
        found["search/entropy"] = -(weights * logs).sum(axis=-1)
    known = {key: rows[~np.isnan(rows)] for key, rows in found.items()}
    # Networks round by how many rows they get: logs do not depend on the number of workers.
    digits = {"search/value": ".4g"}
    means = {key: rows.mean() for key, rows in known.items() if rows.size}
    return {key: float(format(mean, digits.get(key, ".17g"))) for key, mean in means.items()}


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Write the wall time of a block into `seconds`, as the log names it."""
    started = time.perf_counter()
    yield
    seconds[f"seconds/{name}"] = time.perf_counter() - started
