"""`show_episode`: play of an episode with a live view, a film, and a page of its search trees."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plangym_ext.planners.episode import Episode, Move, play
from plangym_ext.planners.pages.tree import TreeRecorder
from plangym_ext.run.video import first_frame, recorded
from plangym_ext.run.viewer import Viewer

if TYPE_CHECKING:
    from plangym_ext.core.files.state_set import StateSet


def show_episode(
    env: Any,
    player: Any,
    *,
    seed: int,
    max_steps: int,
    video: Path | None = None,
    tree: tuple[Path, TreeRecorder] | None = None,
    viewer: Viewer | None = None,
    callback: Callable[[Move], None] | None = None,
    starts: StateSet | None = None,
) -> Episode:
    """Play an episode, and show it.

    Args:
        env: made with `render_mode="rgb_array"`, if anything is to be drawn.
        player: a planner.
        seed: of the episode.
        max_steps: moves after which it is cut.
        video: the .mp4 or .gif to write.
        tree: the page to write, and who collects the trees of the player.
        viewer: shows all frames, no faster than the env's own rate.
        callback: called after each move.
        starts: states to begin from.

    Raises:
        CannotDraw: the env renders no picture.
        MissingExtra: what draws, or writes films, is not installed.
    """
    if tree is not None and hasattr(player, "return_tree"):
        player.return_tree = True
    draws = tree is not None and "rgb_array" in env.metadata.get("render_modes", ())
    with recorded(video, env, seed, None if viewer is None else _in_time(viewer)):
        frame = first_frame(env, seed) if draws else None

        def step(move: Move) -> None:
            nonlocal frame
            if tree is not None:
                tree[1].add(move, frame)
                frame = env.render() if draws else None
            if callback is not None:
                callback(move)

        episode = play(env, player, seed=seed, max_steps=max_steps, callback=step, starts=starts)
    if tree is not None:
        tree[1].write(tree[0])
    return episode


def _in_time(viewer: Viewer) -> Callable[[Any, float], None]:
    """Return a function that shows a frame, at most so many a second."""
    due = time.monotonic()

    def show(frame: Any, fps: float) -> None:
        nonlocal due
        time.sleep(max(0.0, due - time.monotonic()))
        viewer.show([frame])
        # A slow move is not made up for: those after it would be shown in a rush.
        due = max(due, time.monotonic() - 1 / fps) + 1 / fps

    return show
