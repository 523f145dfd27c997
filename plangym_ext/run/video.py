"""Writing frames to an .mp4 that ordinary players play."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.errors import MissingExtra, PlangymExtError, installing

#: Pictures smaller than this are enlarged by a whole factor until they reach it.
_MIN_HEIGHT = 360


class VideoWriter:
    """Pipes RGB frames into ffmpeg; the file appears under its name once it is whole.

    Args:
        path: the .mp4 to write.
        fps: frames a second.

    Raises:
        MissingExtra: the `cli` extra is not installed.
    """

    def __init__(self, path: Path, fps: float) -> None:
        self._program = ffmpeg("Leave out --video.")
        self._path, self._fps = path, fps
        # The same ending, by which ffmpeg chooses the format.
        self._partial = path.with_name(f".{path.stem}.partial{path.suffix}")
        self._process: subprocess.Popen[bytes] | None = None
        self._finished = False

    def _start(self, height: int, width: int) -> subprocess.Popen[bytes]:
        source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
        # Half-resolution colour is what every player decodes; it needs even sizes.
        coded = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
        # A run that was killed may have left its partial file, and ffmpeg would ask about it.
        quiet = ["-y", "-loglevel", "error"]
        return subprocess.Popen(
            [
                self._program,
                *quiet,
                *source,
                "-r",
                str(self._fps),
                "-i",
                "-",
                *coded,
                self._partial,
            ],
            stdin=subprocess.PIPE,
            # Ctrl-C is for us: we tell ffmpeg to end by closing its input.
            process_group=0,
        )

    def add(self, frame: np.ndarray) -> None:
        """Append an `[H, W, 3]` uint8 frame; all must have one size."""
        factor = max(1, -(-_MIN_HEIGHT // frame.shape[0]))
        # Whole pixels: a smoother enlargement would blur the sprites of small screens.
        big = frame.repeat(factor, axis=0).repeat(factor, axis=1)
        even = np.ascontiguousarray(big[: big.shape[0] // 2 * 2, : big.shape[1] // 2 * 2])
        if self._process is None:
            self._process = self._start(*even.shape[:2])
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(even.data)
        except BrokenPipeError as error:
            # It has stopped by itself; its status says how.
            raise self._stopped(self._process.wait()) from error

    def finish(self) -> None:
        """Write the file to its end, beside its place; what is there stays until `close`.

        Raises:
            PlangymExtError: it could not be written.
        """
        if self._finished:
            return
        status = self._end()
        if status:
            raise self._stopped(status)
        self._finished = True

    def close(self) -> None:
        """Finish the file and put it in place; nothing is written if there was no frame.

        Raises:
            PlangymExtError: it could not be written.
        """
        self.finish()
        if self._process is not None:
            self._partial.replace(self._path)

    def discard(self) -> None:
        """Drop what was written."""
        if self._process is not None:
            # What it was sent may end within a frame, of which it would complain.
            self._process.kill()
            with contextlib.suppress(BrokenPipeError):
                self._process.communicate()
        self._partial.unlink(missing_ok=True)

    def _stopped(self, status: int) -> PlangymExtError:
        return PlangymExtError(
            f"video: ffmpeg stopped with status {status} while writing {self._path}; its own "
            f"message is above"
        )

    def _end(self) -> int | None:
        """Close ffmpeg's input and wait for it; its exit status, None if never started."""
        if self._process is None:
            return None
        try:
            self._process.communicate()
        except BrokenPipeError:
            self._process.wait()
        return self._process.returncode


def ffmpeg(instead: str) -> str:
    """Return the program that writes videos.

    Args:
        instead: what else can be done, for the message.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise MissingExtra(
            f"video: writing needs imageio-ffmpeg, which is not installed. {instead} "
            + installing("cli")
        ) from error
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def first_frame(env: Any, seed: int) -> Any:
    """Return the picture that the episode of a seed begins with; the env is reset."""
    env.reset(seed=seed)
    return env.render()


@contextlib.contextmanager
def recorded(path: Path | None, env: Any, seed: int) -> Iterator[VideoWriter | None]:
    """Open a writer for an episode's frames, finished if all goes well.

    Args:
        path: the .mp4 to write; None: nothing is, and there is no writer.
        env: its first frame is the one after a reset.
        seed: of the episode.
    """
    if path is None:
        yield None
        return
    # At most 30: a game that says 60 shows every fourth frame, which is hard to follow.
    writer = VideoWriter(path, min(30, env.metadata.get("render_fps", 30)))
    try:
        writer.add(first_frame(env, seed))
        yield writer
        writer.close()  # may be interrupted too
    except BaseException:
        writer.discard()
        raise
