"""Writing frames to an .mp4 that ordinary players play."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.errors import MissingExtra

#: Pictures smaller than this are enlarged by whole factors until they reach it.
_MIN_HEIGHT = 360


class VideoWriter:
    """Collects RGB frames into one file; nothing is left under `path` unless closed well.

    Args:
        path: the .mp4 to write.
        fps: frames a second.

    Raises:
        MissingExtra: the `cli` extra is not installed.
    """

    def __init__(self, path: Path, fps: float) -> None:
        try:
            import imageio.v2 as imageio
            import imageio_ffmpeg  # noqa: F401 - imageio finds ffmpeg through it
        except ImportError as error:
            raise MissingExtra(
                "video: writing needs imageio and ffmpeg; install them with "
                "pip install 'plangym-ext[cli]', or leave out --video"
            ) from error
        self._path = path
        self._partial = path.with_name(f".{path.stem}.partial{path.suffix}")
        # Even sizes are all that the encoder needs; `add` sees to them.
        self._writer: Any = imageio.get_writer(
            self._partial, fps=fps, codec="libx264", macro_block_size=2, quality=8
        )

    def add(self, frame: np.ndarray) -> None:
        """Append an `[H, W, 3]` uint8 frame."""
        factor = max(1, -(-_MIN_HEIGHT // frame.shape[0]))
        big = frame.repeat(factor, axis=0).repeat(factor, axis=1)
        self._writer.append_data(big[: big.shape[0] // 2 * 2, : big.shape[1] // 2 * 2])

    def close(self) -> None:
        """Finish the file and put it in place."""
        self._writer.close()
        if self._partial.exists():
            self._partial.replace(self._path)

    def discard(self) -> None:
        """Drop what was written."""
        self._writer.close()
        self._partial.unlink(missing_ok=True)
