"""A training run: collect, add, train, evaluate, checkpoint, round after round."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.arrays.closing import Closing
from plangym_ext.planners.plans import Budget
from plangym_ext.run.files import write_json
from plangym_ext.run.folder_lock import FolderLock
from plangym_ext.run.logs.logger import Logger
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.settings import plain
from plangym_ext.run.training.callbacks import Callback, StopAt
from plangym_ext.run.training.checkpoints import (
    Checkpoints,
    check_same_run,
    check_same_spaces,
    read_checkpoint,
    spaces_of,
)
from plangym_ext.run.training.evaluation import Evaluation, summary
from plangym_ext.run.training.interrupts import Interrupts
from plangym_ext.run.training.learning import Learning
from plangym_ext.run.training.parts import MakeEnv, MakeNetwork, Parts
from plangym_ext.run.training.slot import Finished
from plangym_ext.run.training.versions import versions
from plangym_ext.run.training.worker_collector import WorkerCollector

_INTERRUPTED = "interrupted"
#: Columns of the table.
_SHOWN = ("round", "episodes", "return", "length", "train/loss", "eval/return", "eval/length")


class Runner(Closing):
    """Trains a network from planning.

    A round is `collector.moves` moves in every game, the episodes that ended added to the
    replay, `updates` updates, now and then an evaluation, a row in the log, and now and
    then a checkpoint. A run that was killed, and goes on from its last checkpoint, ends with
    the weights and the log of one that was not, bit for bit.

        with Runner(compose(["cartpole"]), "runs/cartpole") as runner:
            runner.run()

    Args:
        config: the settings.
        folder: where to write `config.json`, the log and the checkpoints.
        resume: go on from the newest checkpoint in the folder, if there is one.
        callbacks: called at the joints of the run.
        make_env: makes the env, if it is your own; see `Parts`.
        make_network: makes the network, if it is your own; see `Parts`.
        show: whether to show a table of the log.

    Attributes:
        config: the settings.
        network: what learns.
        evaluator: asks the network.
        trainer: teaches it.
        replay: what is remembered.
        round: rounds that are done.
        steps: moves that were played in them.
        stopped: why the run ended before its last round; empty if it did not.

    Raises:
        FolderTaken: the folder holds another run, and `resume` is False.
        FolderBusy: another process is writing in the folder.
        ForeignCheckpoint: the checkpoint is of other settings, another env or network.
        DamagedCheckpoint: the checkpoint cannot be read.
        IncompleteState: the env's states are not exact.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: Path | str,
        *,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
        make_env: MakeEnv | None = None,
        make_network: MakeNetwork | None = None,
        show: bool = False,
    ) -> None:
        from plangym_ext.learn.repeatable import fix_threads

        self.config, self.folder = config, Path(folder)
        self.round = self.steps = 0
        self.stopped = ""
        self._parts = Parts(config, make_env, make_network)
        self._checkpoints = Checkpoints(self.folder)
        self._threads_before = 0
        self._closers: list[Any] = []
        try:
            # Everything is checked before anything is written.
            if self.folder.is_dir():
                self._closed_later(FolderLock(self.folder))
            path = self._checkpoints.latest() if resume else None
            saved = None if path is None else self._read(path)
            self._threads_before = fix_threads(config.threads)
            self._env = self._closed_later(self._parts.env())
            self.network = self._parts.network(self._env)
            self.evaluator = self._parts.evaluator(self.network)
            self.trainer = self._parts.trainer(self.network)
            self.replay = self._parts.replay()
            self._learning = Learning(config, self.trainer, self.replay)
            self._collector = self._closed_later(self._make_collector())
            self._evaluation = self._closed_later(
                Evaluation(self._parts, self._env, self.evaluator)
            )
            if saved is not None:
                self._load(path, saved)
            if not self.folder.is_dir():
                self.folder.mkdir(parents=True, exist_ok=True)
                # First of all that was made so far: it is released last.
                self._closers.insert(0, FolderLock(self.folder))
            self._log = self._closed_later(self._make_log(resume, show))
        except BaseException:
            self.close()
            raise
        write_json(self.folder / "config.json", plain(config))
        stop_at = config.evaluation.stop_at
        own = [] if stop_at is None else [StopAt(stop_at)]
        self._callbacks: list[Callback] = [*own, *callbacks]

    def _closed_later(self, part: Any) -> Any:
        self._closers.append(part)
        return part

    def _make_collector(self) -> Any:
        if self.config.collector.n_workers:
            return WorkerCollector(self._parts, self.network)
        return self._parts.collector(
            self._env, self.evaluator, range(self.config.collector.num_envs)
        )

    def _make_log(self, resume: bool, show: bool) -> Logger:
        params = {**plain(self.config), "versions": versions()}
        total = self.config.rounds * self.config.steps_per_round
        log = Logger(
            self.folder, params=params, resume=resume, total=total, show=show, columns=list(_SHOWN)
        )
        if resume:
            log.truncate_after(self.steps)
        return log

    # Running --------------------------------------------------------------------

    def run(self) -> None:
        """Run the rounds that are left.

        Ctrl-C ends the run after the round, with a checkpoint, and raises
        KeyboardInterrupt then; a second one raises it at once.

        Raises:
            LossNotFinite: a loss was not finite; the last checkpoint is as it was.
        """
        with Interrupts() as interrupts:
            self._call("on_start")
            if self._checkpoints.latest() is None:
                self.checkpoint()
            while self.round < self.config.rounds and not self.stopped:
                self._run_round()
                if interrupts.seen and not self.stopped:
                    self.stop(_INTERRUPTED)
                every = self.config.checkpoint_every
                if self._is_last or (every and self.round % every == 0):
                    self.checkpoint()
            self._call("on_end")
        if interrupts.seen:
            raise KeyboardInterrupt

    def stop(self, reason: str) -> None:
        """End the run after this round, with a checkpoint.

        Args:
            reason: in a few words; a run that is resumed with the same settings stays
                ended.
        """
        self.stopped = reason

    @property
    def newest_checkpoint(self) -> Path | None:
        """The newest checkpoint in the folder; None if there is none."""
        return self._checkpoints.latest()

    @property
    def _is_last(self) -> bool:
        return bool(self.stopped) or self.round >= self.config.rounds

    def _run_round(self) -> None:
        """Run one round and log it."""
        seconds: dict[str, float] = {}
        with _timed(seconds, "collect"):
            finished, cost = self._collect()
        with _timed(seconds, "train"):
            losses = self._learning.train(
                lambda: self._show("training", self.config.steps_per_round)
            )
        self.round += 1
        self.steps += self.config.steps_per_round
        values = {**self._collected(finished, cost), **losses}
        every = self.config.evaluation.every
        if every and (self.round % every == 0 or self.round == self.config.rounds):
            with _timed(seconds, "evaluate"):
                episodes = self._evaluation.episodes(callback=lambda _: self._show("evaluating"))
            values |= summary(episodes)
            self._call("on_evaluation", episodes)
        self._log.log(self.steps, values, timings=seconds)
        self._call("on_round", values)

    def _collect(self) -> tuple[list[Finished], Budget]:
        """Play, and add the episodes that ended to the replay."""
        moves = self.config.collector.moves
        self._show("playing")
        if isinstance(self._collector, WorkerCollector):
            finished, cost = self._collector.collect(moves, self.trainer.updates)
        else:
            finished, cost = self._collector.collect(
                moves, lambda done: self._show("playing", done)
            )
        records = [one.record for one in finished]
        self._call("on_episodes", records)
        for record in records:
            self._learning.add(record)
        return finished, cost

    def _collected(self, finished: list[Finished], cost: Budget) -> dict[str, float]:
        """Return what is logged of the episodes that ended."""
        records = [one.record for one in finished]
        values: dict[str, float] = {
            "round": self.round,
            "episodes": len(records),
            "replay_rows": len(self.replay),
            "updates": self.trainer.updates,
            "model_steps": cost.model_steps,
            "evaluator_rows": cost.evaluator_rows,
        }
        if records:
            values["return"] = float(np.mean([record.return_ for record in records]))
            values["length"] = float(np.mean([record.length for record in records]))
            values["terminated"] = float(np.mean([record.terminated for record in records]))
            for name in records[0].attributes:
                values[name] = float(np.mean([record.attributes[name] for record in records]))
        return values

    def _show(self, doing: str, moves: int = 0) -> None:
        """Move the progress bar within a round: rounds can take minutes."""
        self._log.progress(self.steps + moves, doing)

    def _call(self, name: str, *arguments: Any) -> None:
        for callback in self._callbacks:
            getattr(callback, name)(self, *arguments)

    # Saving ---------------------------------------------------------------------

    def checkpoint(self) -> Path:
        """Write a checkpoint of now; only between two rounds."""
        # The log first: a checkpoint promises the rows up to it.
        self._log.flush()
        path = self._checkpoints.save(
            self.round,
            {
                "config": plain(self.config),
                "versions": versions(),
                "spaces": spaces_of(self._env),
                "round": self.round,
                "steps": self.steps,
                "stopped": "" if self.stopped == _INTERRUPTED else self.stopped,
                "collector": self._collector.state_dict(),
                **self._learning.state_dict(),
            },
        )
        self._call("on_checkpoint", path)
        return path

    def _read(self, path: Path) -> dict[str, Any]:
        saved = read_checkpoint(path)
        check_same_run(str(path), saved["config"], plain(self.config))
        return saved

    def _load(self, path: Path | None, saved: Mapping[str, Any]) -> None:
        check_same_spaces(str(path), saved["spaces"], self._env)
        self._learning.load_state_dict(saved)
        self._collector.load_state_dict(saved["collector"])
        self.round, self.steps = saved["round"], saved["steps"]
        # A run that was over stays so, unless the settings ask for more now.
        if saved["config"] == plain(self.config):
            self.stopped = saved["stopped"]

    # Life -----------------------------------------------------------------------

    def close(self) -> None:
        """Close env, workers and log; safe to call twice."""
        from plangym_ext.learn.repeatable import fix_threads

        while self._closers:
            self._closers.pop().close()
        if self._threads_before:
            fix_threads(self._threads_before)
            self._threads_before = 0


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[f"seconds/{name}"] = time.perf_counter() - started
