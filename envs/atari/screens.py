"""AtariScreens: wrapper with grey, resized, stacked frames as Atari observations.

What gymnasium's `AtariPreprocessing` and `FrameStackObservation` make of a game, bit for bit,
in two thirds of the time: the emulator is asked for a picture only where one is looked at, and
of a picture only what has changed is made smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.states.families import simulator
from plangym_ext.states.part import StatePart


class AtariScreens(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Shows the last few steps' screens: `[stack, size, size]` uint8.

    A step holds the action for as many frames as the game's `frameskip` and shows the
    brighter of the last two in grey. A game begins with 1 to `noop_max` no-ops and a stack of
    its first screen.

    Args:
        env: a game of `ale_py`, wrapped by nothing that frames would have to pass through.
        noop_max: most no-ops, of one frame each, after a reset; 0 for none.
        size: rows and columns of a screen.
        stack: screens that are shown.

    Raises:
        MissingExtra: OpenCV is not installed.
        ValueError: the number of frames a step is drawn at random, or actions are continuous.

    Source: Mnih et al. 2015; Machado et al. 2018.
    """

    def __init__(
        self, env: gym.Env[Any, Any], *, noop_max: int = 30, size: int = 84, stack: int = 4
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, noop_max=noop_max, size=size, stack=stack)
        super().__init__(env)
        game: Any = env.unwrapped
        if not isinstance(game._frameskip, int):
            raise ValueError(
                "make: preprocessing=True shows the last two of a fixed number of frames; got "
                f"frameskip={game._frameskip!r}. Use frameskip=4."
            )
        if game.continuous:
            raise ValueError(
                "make: preprocessing=True begins games with discrete no-ops; got continuous=True. "
                "Leave out one of them."
            )
        simulator("cv2", "atari", name="preprocessing=True")
        self._noop_max, self._size = noop_max, (size, size)
        #: The brighter of the last two frames, and the one before the last.
        self._frames = [np.zeros(game.ale.getScreenDims(), np.uint8) for _ in range(2)]
        self._shrunk = Shrunk(game.ale.getScreenDims(), (size, size))
        self._stack = np.zeros((stack, size, size), np.uint8)
        self.observation_space = gym.spaces.Box(0, 255, self._stack.shape, np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a game."""
        _, info = self.env.reset(seed=seed, options=options)
        game: Any = self.unwrapped
        rng, ale, noop = game.np_random, game.ale, game._action_set[0]
        # From the game's generator, which a state holds: a restored env begins the same next game.
        for _ in range(rng.integers(1, self._noop_max + 1) if self._noop_max else 0):
            ale.act(noop, 1.0)
            info.update(game._get_info())
            if ale.game_over(with_truncation=False) or ale.game_truncated():
                _, info = self.env.reset(seed=seed, options=options)
        ale.getScreenGrayscale(self._frames[0])
        # Black: the first screen of a game is shown as it is, without the last game's.
        self._frames[1].fill(0)
        self._stack[:] = self._shown(game._frameskip)
        return self._stack.copy(), info

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Hold an action for some frames."""
        game: Any = self.unwrapped
        frames, stack = self._frames, self._stack
        ale, held, count = game.ale, game._action_set[action], game._frameskip
        reward, terminated, truncated = 0.0, False, False
        for frame in range(count):
            reward += ale.act(held, 1.0)
            terminated, truncated = ale.game_over(with_truncation=False), ale.game_truncated()
            if terminated or truncated:
                break  # what is not drawn any more is shown as it was
            # The last frame goes to the first array, the one before to the second.
            if frame >= count - 2:
                ale.getScreenGrayscale(frames[count - 1 - frame])
        stack[:-1] = stack[1:]
        stack[-1] = self._shown(count)
        return stack.copy(), reward, terminated, truncated, game._get_info()

    def _shown(self, frameskip: int) -> np.ndarray:
        newest, before = self._frames
        if frameskip > 1:
            # In place: the brighter of both is all that a state has to hold.
            np.maximum(newest, before, out=newest)
        return self._shrunk.of(newest)

    def pictures(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the live frames, the brighter of the last two and the one before, and the stack.

        All uint8; the stack is `[stack, size, size]`. The next step changes them.
        """
        newest, before = self._frames
        return newest, before, self._stack

    def state_part(self) -> StatePart:
        """Return the codec of the frames."""
        return AtariScreensPart(self)


class Shrunk:
    """Resizes pictures band by band, only where they differ from the one before.

    A picture of 210 rows becomes 42 bands, each of 5 rows that 2 rows of the smaller picture
    are the means of. Only bands that differ from the last picture's are made smaller.

    Args:
        shape: rows and columns of the pictures.
        size: columns and rows of what they become.
    """

    def __init__(self, shape: tuple[int, int], size: tuple[int, int]) -> None:
        self._columns, rows = size
        self._num_bands = math.gcd(shape[0], rows)
        self._tall, self._short = shape[0] // self._num_bands, rows // self._num_bands
        # Of eight pixels in one comparison, where bands divide into eights.
        self._word = np.uint64 if self._tall * shape[1] % 8 == 0 else np.uint8
        self._picture = np.zeros(shape, np.uint8)
        # A black picture is black when it is small: both begin alike.
        self._small = np.zeros((rows, self._columns), np.uint8)

    def of(self, picture: np.ndarray) -> np.ndarray:
        """Return the smaller picture, uint8, in memory that the next call changes."""
        # No attribute: what a wrapper remembers is copied now and then.
        import cv2

        bands, known = self._bands(picture), self._bands(self._picture)
        changed = (bands != known).any(axis=1).nonzero()[0].tolist()
        for first, end in _runs(changed):
            cv2.resize(
                picture[first * self._tall : end * self._tall],
                (self._columns, (end - first) * self._short),
                dst=self._small[first * self._short : end * self._short],
                interpolation=cv2.INTER_AREA,
            )
        self._picture[:] = picture
        return self._small

    def _bands(self, picture: np.ndarray) -> np.ndarray:
        return picture.reshape(self._num_bands, -1).view(self._word)


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges that ascending numbers make up, each as first and one past the last."""
    first = 0
    for k, number in enumerate(numbers, 1):
        if k == len(numbers) or numbers[k] != number + 1:
            yield numbers[first], number + 1
            first = k


class AtariScreensPart(StatePart):
    """`AtariScreens`: the brighter of the last two frames, and the stack.

    The other frame adds nothing: the first is as bright as it in every pixel.
    """

    def __init__(self, layer: AtariScreens) -> None:
        self._layer = layer
        newest, _, stack = layer.pictures()
        self.width = newest.nbytes + stack.nbytes

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write both."""
        newest, _, stack = self._layer.pictures()
        middle, stop = offset + newest.nbytes, offset + self.width
        buffer[offset:middle] = newest.data.cast("B")
        buffer[middle:stop] = stack.data.cast("B")
        return stop

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set both; the other frame is black."""
        newest, before, stack = self._layer.pictures()
        middle, stop = offset + newest.nbytes, offset + self.width
        newest.data.cast("B")[:] = buffer[offset:middle]
        before.fill(0)
        stack.data.cast("B")[:] = buffer[middle:stop]
        return stop

    def identity(self) -> dict[str, Any]:
        """Return the wrapper's arguments."""
        return dict(self._layer._saved_kwargs)
