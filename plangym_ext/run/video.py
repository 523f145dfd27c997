"""Video writer (ffmpeg) and filming of episodes."""

from __future__ import annotations

import contextlib
import math
import subprocess
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.core.drawing import picture, rgb_frame
from plangym_ext.errors import CannotDraw, InvalidOption, MissingExtra, PlangymExtError, installing
from plangym_ext.run.viewer import frame_grid

#: Most frames a second: what ordinary players and screens show.
_MOST_FPS = 60.0
#: Ending of a file -> how its frames are coded.
_CODED = {
    # Half-resolution colour is what every player decodes; it needs even sizes.
    ".mp4": ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart"),
    # 256 colours for each frame: those of the whole film would have all of it wait in memory.
    ".gif": (
        "-filter_complex",
        "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1",
    ),
}
#: Pictures smaller than this are enlarged by a whole factor until they reach it.
_MIN_HEIGHT = 360


class VideoWriter:
    """Pipes RGB frames into ffmpeg; the file appears under its name once it is whole.

    Raises:
        InvalidOption: its name ends otherwise.
        MissingExtra: the `cli` extra is not installed.
    """

    def __init__(self, path: Path, fps: float) -> None:
        if path.suffix not in _CODED:
            raise InvalidOption(
                f"video: a film's name must end in {' or '.join(_CODED)}; got {str(path)!r}."
            )
        self._program = ffmpeg("Leave out --video.")
        self._path, self._fps = path.absolute(), fps
        # The same ending, by which ffmpeg chooses the format.
        self._partial = self._path.with_name(f".{path.stem}.partial{path.suffix}")
        self._process: subprocess.Popen[bytes] | None = None
        self._size: tuple[int, ...] | None = None
        self._finished = False

    def _start(self, height: int, width: int) -> subprocess.Popen[bytes]:
        source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
        # Of a run that was killed: ffmpeg would ask about it.
        self._partial.unlink(missing_ok=True)
        quiet = ["-loglevel", "error"]
        return subprocess.Popen(
            [
                self._program,
                *quiet,
                *source,
                "-r",
                str(self._fps),
                "-i",
                "-",
                *_CODED[self._path.suffix],
                self._partial,
            ],
            stdin=subprocess.PIPE,
            # Ctrl-C is for us: we tell ffmpeg to end by closing its input.
            process_group=0,
        )

    def add(self, frame: Any) -> None:
        """Append a frame, as `rgb_frame` takes it; all must have one size.

        Raises:
            CannotDraw: it is no picture, or has another size than the first one.
        """
        frame = rgb_frame(frame, "video")
        self._size = self._size or frame.shape
        if frame.shape != self._size:
            (height, width, _), (first, across, _) = frame.shape, self._size
            raise CannotDraw(
                f"video: all frames must be as large as the first, {first} by {across} pixels; "
                f"got one of {height} by {width}. Have the env draw in one size."
            )
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
        """Complete the file beside its place; `close` then replaces the old one.

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
        """Delete the unfinished file."""
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
    """Return the picture `[H, W, 3]` uint8 that a seed's episode begins with; the env is reset.

    Raises:
        CannotDraw: it renders none.
    """
    env.reset(seed=seed)
    return rgb_frame(env.render(), str(getattr(env, "name", env)))


class EnvFilm:
    """Takes a picture after each env step, or after each frame of an emulator.

    Then a film of `fps` frames a second lasts as long as what it shows.

    Args:
        env: made with `render_mode="rgb_array"`.

    Attributes:
        on: whether a step is being played; see `Film`.
        fps: frames a second: of those that are taken.
    """

    def __init__(self, env: Any) -> None:
        self.on = False
        self._local = getattr(env, "plan_env", env)  # which plays what other backends step
        self._simulator, self._name = self._local.gym_env.unwrapped, env.name
        from plangym_ext.states.families import family_of

        family = family_of(self._simulator)
        self._frames = None if family is None else family.load("frames")
        fps, self._within = _rate(env.metadata), False
        if self._frames is not None:
            fps, self._within = self._frames(self._simulator, None)
        #: One of so many frames is taken.
        self._every = max(1, math.ceil(fps / _MOST_FPS))
        self._seen = 0
        self.fps = fps / self._every

    @contextlib.contextmanager
    def taken(self, add: Callable[[Any], None]) -> Iterator[None]:
        """Pass the pictures `[H, W, 3]` uint8 of all steps in the block to `add`."""
        self._add, self._local.film = add, self
        if self._frames is not None:
            self._frames(self._simulator, self._take)
        try:
            yield
        finally:
            self._local.film = None
            if self._frames is not None:
                self._frames(self._simulator, None)

    def after_step(self) -> None:
        """Take a picture, unless the simulator reports frames within the step."""
        if not self._within:
            self._take()

    def _take(self) -> None:
        if not self.on:
            return
        self._seen += 1
        if self._seen % self._every == 0:
            self._add(picture(self._local.gym_env, self._name))


@contextlib.contextmanager
def recorded(
    path: Path | None, env: Any, seed: int, show: Callable[[Any, float], None] | None = None
) -> Iterator[VideoWriter | None]:
    """Film an episode: its first frame, and all steps of `env.step` in a block.

    Args:
        path: the .mp4 or .gif to write; None: nothing is, and there is no writer.
        env: its first frame is the one after a reset.
        seed: of the episode.
        show: also called with each frame, and how many there are a second.
    """
    if path is None and show is None:
        yield None
        return
    film = EnvFilm(env)
    with contextlib.ExitStack() as stack:
        writer = None if path is None else stack.enter_context(_written(path, film.fps))

        def add(frame: Any) -> None:
            if writer is not None:
                writer.add(frame)
            if show is not None:
                show(frame, film.fps)

        add(first_frame(env, seed))
        with film.taken(add):
            yield writer


def film_grid(path: Path, env: Any, seeds: Sequence[int], play: Callable[[int], Any]) -> None:
    """Film episodes side by side; the last frame of each is shown until all have ended.

    Args:
        path: the .mp4 or .gif to write.
        env: as of `EnvFilm`.
        seeds: of the episodes.
        play: plays that of a seed.
    """
    film = EnvFilm(env)
    shown: list[list[bytes]] = []
    for seed in seeds:
        first = first_frame(env, seed)
        # A thousand frames of a large picture would fill the memory.
        shown.append([_packed(first)])
        with film.taken(lambda frame: shown[-1].append(_packed(frame))):
            play(seed)
    with _written(path, film.fps) as writer:
        for t in range(max(map(len, shown))):
            packed = [zlib.decompress(kept[min(t, len(kept) - 1)]) for kept in shown]
            writer.add(
                frame_grid([np.frombuffer(p, np.uint8).reshape(first.shape) for p in packed])
            )


def _packed(frame: Any) -> bytes:
    return zlib.compress(rgb_frame(frame, "video").tobytes(), level=1)


@contextlib.contextmanager
def _written(path: Path, fps: float) -> Iterator[VideoWriter]:
    writer = VideoWriter(path, fps)
    try:
        yield writer
        writer.close()  # may be interrupted too
    except BaseException:
        writer.discard()
        raise


def _rate(metadata: Any) -> float:
    """Return the frames a second of an env, 30 where it says no number above 0."""
    rate = metadata.get("render_fps")
    known = isinstance(rate, int | float | np.number) and 0 < rate < np.inf
    return float(rate) if known else 30.0
