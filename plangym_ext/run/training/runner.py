"""Runner: the training loop of collection, learning, evaluation and checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import DamagedCheckpoint, FolderTaken, NotWritten, PlangymExtError
from plangym_ext.learn.sampling.collected import Algorithm, Sampler
from plangym_ext.run.files import CONFIG, FolderLock, versions, write_json
from plangym_ext.run.logs.logger import FILES
from plangym_ext.run.run_page.content import ShownRun
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.settings import plain
from plangym_ext.run.training import checkpoints
from plangym_ext.run.training.callbacks import (
    Callback,
    RecentEpisodes,
    Recording,
    load_callbacks,
    own_callbacks,
    played_row,
    run_log,
    saved_callbacks,
    timed,
)
from plangym_ext.run.training.evaluation import Evaluation
from plangym_ext.run.training.interrupts import Interrupts
from plangym_ext.run.training.learners import Learners
from plangym_ext.run.training.own_parts import OWN_STATE, Actors, OwnParts, check_own_parts
from plangym_ext.run.training.parts import MakeEnv, MakeNetwork, Parts
from plangym_ext.run.training.solutions import make_sampler
from plangym_ext.run.training.trained import checked_best, load_weights, to_play

_INTERRUPTED = "interrupted"
_TIME = "max_seconds are over"


class Runner(ShownRun, Closing):
    """The training loop: a sampler plays and an algorithm learns, round after round.

    A round is `collector.moves` steps in every env, the updates that the algorithm makes of
    them, now and then an evaluation, a row in the log, and now and then a checkpoint. A killed run
    that resumes from its last checkpoint ends with the weights and the log of an uninterrupted run,
    bit for bit.

        with Runner(compose(["cartpole"]), "runs/cartpole") as runner:
            runner.run()

    Args:
        config: the settings.
        folder: where to write `config.json`, the log and the checkpoints.
        resume: go on from the newest checkpoint in the folder, if there is one.
        init_from: a checkpoint, or the folder of a run, with whose weights this one begins; all
            else, the critics of `SAC`, `TD3` and `DDPG` among it, begins anew.
        callbacks: called at the joints of the run.
        make_env: makes the env, if it is your own; see `Parts`.
        make_network: makes the network, if it is your own; see `Parts`.
        show: how much of the log, see `Logger`.
        actors: that play, on a Ray cluster for example; None for this process, or its workers.
        trust: open pickles in the states of the checkpoint, for envs that have any; they can run
            any code.

    Attributes:
        config: the settings.
        network: what learns.
        agent: plays the network.
        sampler: plays; see `plangym_ext.learn.sampling.collected.Sampler`.
        algorithm: learns from what was played; see `Algorithm` there.
        evaluation: plays the first evaluation's episodes, whenever it is asked.
        round: rounds that are done.
        steps: moves that were played in them.
        stopped: why the run ended before its last round; empty if it did not.
        best: "round" and "return" of the last of the best evaluations: `best.pt` has its weights.
        note: what is to be known of the run, in a line; empty if there is nothing.

    Raises:
        FolderTaken: the folder holds another run, and `resume` is False.
        FolderBusy: another process is writing in the folder.
        InvalidOption: the folder cannot be made, or written to.
        ForeignCheckpoint: the checkpoint is of other settings, another env or network.
        DamagedCheckpoint: the checkpoint cannot be read.
        LearnerLost: one of several learners could not be made.
        IncompleteState: the env's states are not exact, and a planner is to play.
    """

    @checking_arguments
    def __init__(
        self,
        config: RunConfig,
        folder: Path | str,
        *,
        resume: bool = False,
        init_from: Path | str | None = None,
        callbacks: Sequence[Callback] = (),
        make_env: MakeEnv | None = None,
        make_network: MakeNetwork | None = None,
        show: int | bool = 1,
        actors: Actors | None = None,
        trust: bool = False,
    ) -> None:
        from plangym_ext.learn.repeatable import THREADS, keep_freed_memory

        # At once: the env may work in a folder of its own (`os.chdir`).
        config.check_discounts()
        self.config, self.folder = config, Path(folder).absolute()
        self.round = self.steps = 0
        self.stopped = ""
        self.best: dict[str, float] = {}
        self._parts = Parts(config, make_env, make_network, trust=trust)
        self._checkpoints = checkpoints.Checkpoints(self.folder)
        self._recent = RecentEpisodes(config.recent_episodes)
        self._threads_held = False
        self._closers: list[Any] = []
        try:
            # Everything is checked before anything is written, and while no other run writes there.
            # First of all that is made: it is released last.
            self._closed_later(FolderLock(self.folder, FILES))
            path = self._checkpoints.latest() if resume else None
            saved = None if path is None else self._checkpoints.read(path, config)
            if saved is None:
                self._checkpoints.check_unused()
            else:
                check_own_parts(str(path), saved, self._parts.own)
                way = saved.get("captured_by", "auto")  # older ones do not say
                self._parts = Parts(config, make_env, make_network, trust=trust, capture=way)
            self._goes_on = saved is not None
            # Before the network is made: sums over another number of threads round otherwise.
            THREADS.hold(config.threads)
            self._threads_held = True
            keep_freed_memory()
            self._env = self._closed_later(self._parts.env())
            self._parts = self._parts.of_run(self._env)
            self.network = self._parts.network(self._env)
            # Before the algorithm is made, which copies the network and may have its weights moved.
            if init_from is not None and saved is None:
                load_weights(self.network, self._env, init_from)
            self.agent = self._parts.agent(self.network)
            self.algorithm: Algorithm = self._parts.algorithm(self.network)
            made = self._parts, self._env, self.agent, self.algorithm
            self._own = OwnParts(*made)
            self.sampler: Sampler = self._closed_later(
                make_sampler(self._parts, self._env, self.network, self.agent, actors)
            )
            if config.learners > 1:
                self.sampler = self._closed_later(
                    Learners(self._parts, self.folder, self.sampler, self.algorithm)
                )
            self._evaluations: list[Evaluation] = [
                self._closed_later(Evaluation(*made, one)) for one in config.all_evaluations
            ]
            self.evaluation = self._evaluations[0]
            own = own_callbacks(self._parts, self.agent)
            self._closers += [callback for callback in own if isinstance(callback, Recording)]
            self._callbacks: list[Callback] = [*own, *callbacks]
            # With all parts there: what does not fit is refused before the folder is written to.
            if saved is not None:
                self._load(path, saved)
            with self._writing():
                self._log = self._closed_later(
                    run_log(self.folder, config, resume, show, init_from)
                )
                if resume:
                    # Rounds that were logged after the checkpoint are played, and logged, again.
                    self._log.truncate_after(self.steps)
                write_json(self.folder / CONFIG, plain(config))
        except BaseException:
            self.close()
            raise

    def _closed_later(self, part: Any) -> Any:
        self._closers.append(part)
        return part

    @property
    def note(self) -> str:
        """Warning, in one line, that the env's states are not exact; empty if they are."""
        if self._env.exact is not False:
            return ""
        return (
            f"{self._env.name}: its states are not exact, so a run that is resumed begins new "
            f"episodes; plangym-ext doctor {self.config.env.id} says why"
        )

    # Running --------------------------------------------------------------------

    def run(self) -> None:
        """Run the remaining rounds.

        Ctrl-C ends the run after the round, with a checkpoint, and raises
        KeyboardInterrupt then; a second one raises it at once.

        Raises:
            LossNotFinite: a loss was not finite; the last checkpoint is as it was.
            NotWritten: the disk is full, or gone; the same.
            LearnerLost: one of several learners has ended, failed or hung; the same.
        """
        last, seconds = self.config.last_round, self.config.max_seconds or math.inf
        ends = time.monotonic() + seconds
        with Interrupts() as interrupts, ExitStack() as at_end:
            at_end.callback(self._log.leave)  # whatever is said next begins a line
            self._call("on_start")
            # A run that is killed in its first round goes on with these weights and seeds.
            if self.round == 0 and not self._goes_on:
                self.checkpoint()
            while self.round < last and not self.stopped:
                self._run_round()
                # Between rounds: a checkpoint within one would have to hold half-made batches.
                if interrupts.seen and not self.stopped:
                    self.stop(_INTERRUPTED)
                if time.monotonic() >= ends and not self.stopped:
                    self.stop(_TIME)
                is_last = self.stopped or self.round >= last
                every = self.config.checkpoint_every
                if is_last or (every and self.round % every == 0):
                    self.checkpoint()
                if self.config.weights_every and self.round % self.config.weights_every == 0:
                    self.save_weights(self._checkpoints.weights_path(self.round))
            self._call("on_end")
        if interrupts.seen:
            raise KeyboardInterrupt

    def stop(self, reason: str) -> None:
        """End the run after this round, with a checkpoint.

        Args:
            reason: in a few words; a run that is resumed with the same settings stays ended.
        """
        self.stopped = reason

    @property
    def newest_checkpoint(self) -> Path | None:
        """The newest checkpoint in the folder; None if there is none."""
        return self._checkpoints.latest()

    def _run_round(self) -> None:
        seconds: dict[str, float] = {}
        with timed(seconds, "collect"):
            self._show("playing")
            self._call("on_collect")
            # Each round: how much an agent explores depends on the updates that were made.
            self.algorithm.prepare(self.agent)
            collected = self.sampler.collect(
                # The updates so far are the version of the weights that play.
                self.config.collector.moves,
                self.algorithm.updates,
                lambda done: self._show("playing", done),
            )
            # Before `take`: callbacks see what was played as it was played.
            self._call("on_episodes", collected.data)
            self.algorithm.take(collected)
        with timed(seconds, "train"):
            metrics = self.algorithm.train(lambda _: self._show("training", collected.steps))
            self._call("on_update", metrics)
        # Before callbacks, log and checkpoint, which speak of rounds that are done.
        self.round, self.steps = self.round + 1, self.steps + collected.steps
        self._recent.take(collected.episodes)
        played = {**played_row(collected, self.algorithm), **self._recent.statistics}
        if league := getattr(self.sampler, "league", None):
            played |= league.told
        values = {"round": self.round, **played, **metrics}
        if due := [one for one in self._evaluations if one.is_due(self.round)]:
            values |= self._evaluate(due, seconds)
        with self._writing():
            self._log.log(self.steps, values, timings=seconds)
        # As soon as something was learned, and not at the last checkpoint of a long run.
        self._own.check(self.algorithm)
        # Last: a callback may stop the run, or write a checkpoint of this round.
        self._call("on_round", values)

    def _evaluate(self, due: list[Evaluation], seconds: dict[str, float]) -> dict[str, float]:
        """Evaluate, and return what is logged of it."""
        with timed(seconds, "evaluate"):
            played = [one.episodes(callback=lambda _: self._show("evaluating")) for one in due]
        found = [one.summary(own) for one, own in zip(due, played, strict=True)]
        if due[0] is self.evaluation:
            mean = next(iter(found[0].values()))
            if mean >= self.best.get("return", -math.inf):
                self.best = {"round": self.round, "return": mean}
                self.save_weights(self.folder / checkpoints.BEST)
            self._call("on_evaluation", played[0])
        return {name: value for one in found for name, value in one.items()}

    def _show(self, doing: str, moves: int = 0) -> None:
        """Move the progress bar within a round: rounds can take minutes."""
        self._log.progress(self.steps + moves, doing)

    def _call(self, name: str, *arguments: Any) -> None:
        for callback in self._callbacks:
            getattr(callback, name)(self, *arguments)

    # Saving ---------------------------------------------------------------------

    def checkpoint(self) -> Path:
        """Write a checkpoint; only between two rounds."""
        learned = self.algorithm.state_dict()
        content = {
            **self._about(),
            # When resumed, an interrupted run goes on; one that has reached its goal does not.
            "stopped": "" if self.stopped in (_INTERRUPTED, _TIME) else self.stopped,
            "collector": self.sampler.state_dict(),
            "recent": self._recent.state_dict(),
            **learned,
            OWN_STATE: self._own.state_dict(learned),
            "callbacks": saved_callbacks(self._callbacks),
        }
        with self._writing():
            # The log first: a checkpoint promises the rows up to it.
            self._log.flush()
            path = self._checkpoints.save(self.round, content)
        self._call("on_checkpoint", path)
        return path

    def _about(self) -> dict[str, Any]:
        """Return which run this is, and where in it."""
        return {
            "config": plain(self.config),
            "versions": versions(),
            **checkpoints.spaces_of(self._env),
            "own": self._parts.own,
            "captured_by": self._parts.capture,
            "round": self.round,
            "steps": self.steps,
            "best": self.best,
        }

    def save_weights(self, path: Path) -> None:
        """Write the present playing weights, for `eval`, `audit` and planners."""
        with self._writing():
            trainer = to_play(self.algorithm.trainer_dict())
            content = {**self._about(), "trainer": trainer, OWN_STATE: self._own.agent_state()}
            checkpoints.save_weights(path, content)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Explain a failed write of a file in one line."""
        try:
            yield
        except FolderTaken:  # which is no fault of the disk
            raise
        except OSError as error:
            found = self._checkpoints.latest()
            kept = "There is no checkpoint yet" if found is None else f"{found} is as it was"
            raise NotWritten(
                f"{self.folder}: round {self.round} could not be written: "
                f"{error.strerror or error}. {kept}: make room, and go on with --resume "
                f"(resume=True)."
            ) from error

    def _load(self, path: Path | None, saved: Mapping[str, Any]) -> None:
        # Before anything is loaded: what does not fit would fail in the middle of a network.
        try:
            checkpoints.check_counts(saved)
            checkpoints.check_same_spaces(str(path), saved, self._env)
            self.algorithm.load_state_dict(saved)
            # Before the sampler, whose copies of the agent are made of it.
            self._own.load_state_dict(saved.get(OWN_STATE, {}))
            self.sampler.load_state_dict(saved["collector"])
            self._recent.load_state_dict(saved.get("recent", {}))  # there is none in older ones
            self.best = checked_best(saved)
            load_callbacks(self._callbacks, saved.get("callbacks", {}))
            self.round, self.steps = (
                checkpoints.checked_count(saved, name) for name in ("round", "steps")
            )
            # A run that was over stays so, unless the settings ask for more now.
            if not checkpoints.asks_for_more(saved["config"], plain(self.config)):
                self.stopped = str(saved["stopped"])
        except PlangymExtError:
            raise
        # Its seal is right, so another program wrote it, or changed it with care.
        except Exception as error:
            raise DamagedCheckpoint(
                f"{path}: a run cannot resume from its content ({type(error).__name__}: "
                f"{str(error)[:200]}). Use an unchanged checkpoint of this library."
            ) from error

    # Life -----------------------------------------------------------------------

    def close(self) -> None:
        from plangym_ext.learn.repeatable import THREADS

        with ExitStack() as stack:  # one that fails keeps none of the others from being closed
            for part in self._closers:
                stack.callback(part.close)
            self._closers = []
        # Of the whole process, which may have other uses of torch after this run.
        if self._threads_held:
            self._threads_held = False
            THREADS.release(self.config.threads)
