"""Recording: callback that films evaluation episodes and writes their search trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plangym_ext.arrays.closing import Closing
from plangym_ext.planners.episode import play
from plangym_ext.run.run_page.content import EPISODES
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.tree_page.recorder import TreeRecorder, action_names
from plangym_ext.run.video import ffmpeg, first_frame, recorded

#: Nodes that are drawn of each tree.
_NODES = 200


class Recording(Closing, Callback):
    """Plays an evaluation's first episode again, alone, and films it.

    It has an env and a player of its own, so a run that is filmed learns what one that is not
    learns. Films are `episodes/round-00000010.mp4` in the folder of the run; the trees of a planner
    that grows some are a page of that name, `.html`.

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
        self._max_steps = parts.config.env.max_steps
        self._name = parts.config.env.id
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
        """Film one, if it is its turn."""
        # By what the log counts: a run that was resumed films the same ones.
        number = -(-runner.round // runner.config.evaluation.every)
        # `StopAt` comes before: it has looked at these episodes, too.
        is_last = runner.stopped or runner.round >= runner.config.rounds
        if number % self._every and not is_last:
            return
        self._film(runner.folder / EPISODES / f"round-{runner.round:08}.mp4")

    def _film(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        seed, env = self._settings.seed, self._env
        page = self._page(path.stem)
        with recorded(path, env, seed):
            frame = env.render()

            def step(move: Any) -> None:
                nonlocal frame
                if page is not None:
                    page.add(move, frame)
                    frame = env.render()

            play(env, self._player, seed=seed, max_steps=self._max_steps, callback=step)
        if page is not None:
            page.write(path.with_suffix(".html"))

    def _page(self, name: str) -> TreeRecorder | None:
        """Return the recorder of trees; None if there are none."""
        space = self._env.action_space
        # MultiBinary has an `n`, too.
        if not (self._grows and hasattr(space, "n") and hasattr(space, "start")):
            return None
        first = int(getattr(space, "start", 0))
        return TreeRecorder(self._name, name, action_names(self._env), first, _NODES)

    def close(self) -> None:
        """Close the env."""
        self._env.close()
