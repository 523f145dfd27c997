"""AtariScreens: wrapper with grey, resized, stacked frames as Atari observations.

What gymnasium's `AtariPreprocessing` and `FrameStackObservation` make of a game, bit for bit:
the emulator gives the colours of the two frames that count, and compiled code shrinks their changed
bands in grey.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.core.compiling.jit import allocating_kernel, kernel
from plangym_ext.core.numbers import at_least
from plangym_ext.errors import InvalidOption
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
        InvalidOption: the number of frames a step is drawn at random, actions are continuous, or
            `size` is larger than the game's screen.

    Source: Mnih et al. 2015; Machado et al. 2018.
    """

    def __init__(
        self, env: gym.Env[Any, Any], *, noop_max: int = 30, size: int = 84, stack: int = 4
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, noop_max=noop_max, size=size, stack=stack)
        super().__init__(env)
        game: Any = env.unwrapped
        if not isinstance(game._frameskip, int):
            raise InvalidOption(
                "make: preprocessing=True needs a fixed frameskip, a whole number; got "
                f"frameskip={game._frameskip!r}. Use frameskip=4."
            )
        if game.continuous:
            raise InvalidOption(
                "make: preprocessing=True begins games with discrete no-ops; got continuous=True. "
                "Leave out one of them."
            )
        shape = game.ale.getScreenDims()
        self._noop_max = at_least("AtariScreens: noop_max", noop_max, 0)
        if at_least("AtariScreens: size", size, 1) > min(shape):
            raise InvalidOption(
                f"AtariScreens: size must be at most {min(shape)}, as wide as the game's screen; "
                f"got {size}. Enlarge observations with gymnasium's ResizeObservation."
            )
        self._screen = Shrinking(shape, size)
        at_least("AtariScreens: stack", stack, 1)
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
        # The first screen of a game is shown as it is, without the last game's.
        self._screen.show_first(ale, self._stack[-1])
        self._stack[:-1] = self._stack[-1]
        return self._stack.copy(), info

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Hold an action for some frames."""
        game: Any = self.unwrapped
        screen, stack = self._screen, self._stack
        ale, held, count = game.ale, game._action_set[action], game._frameskip
        reward, terminated, truncated, looked = 0.0, False, False, 0
        for frame in range(count):
            reward += ale.act(held, 1.0)
            terminated, truncated = ale.game_over(with_truncation=False), ale.game_truncated()
            if terminated or truncated:
                break  # what is not drawn any more is shown as it was
            if frame >= count - 2:
                screen.look(ale, count - 1 - frame)
                looked += 1
        older = stack.data.cast("B")  # moved in place, where numpy would copy what overlaps
        older[: -stack[0].nbytes] = older[stack[0].nbytes :]
        if looked == min(count, 2):
            screen.show(stack[-1], looked)
        elif looked:
            screen.show_before(stack[-1])
        return stack.copy(), reward, terminated, truncated, game._get_info()

    def pictures(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the brighter of the last two frames, `[H, W]`, and the stack; both live uint8."""
        return self._screen.grey, self._stack

    def restored(self) -> None:
        """Take `pictures` as they are now for the last ones."""
        self._screen.forget()

    def state_part(self) -> StatePart:
        """Return the codec of the frames."""
        return AtariScreensPart(self)


class Shrinking:
    """Makes grey screens small in place, band by band, only where the emulator's screen changed.

    A screen of 210 rows becomes 42 bands, each of 5 rows that 2 rows of the small screen are the
    means of: OpenCV's `INTER_AREA`, whose sums of float32 are added in the same order here.

    The emulator tells a colour of the palette in a tenth of the time that it needs for its grey;
    the grey of a colour is asked of it where the colour is seen first.

    Args:
        shape: rows and columns of the emulator's screens.
        size: rows and columns of small screens, neither larger than that of `shape`.
    """

    def __init__(self, shape: tuple[int, int], size: int) -> None:
        bands = math.gcd(shape[0], size)
        #: The brighter of the last two frames in grey.
        self.grey = np.zeros(shape, np.uint8)
        # A known colour's grey, and which are known: black is, which memory begins with.
        self._greys, self._seen = np.zeros(256, np.uint8), np.arange(256) == 0
        # Colours of the last frame and of the one before it, each as read and as known.
        self._colours = np.zeros((2, 2, *shape), np.uint8)
        self._changed = np.ones(bands, np.bool_)
        self._rows = _means(shape[0] // bands, size // bands)
        left, wide = _means(shape[1], size)
        self._columns = left, np.ascontiguousarray(wide.T)
        self._area = np.float32(1)
        if shape[0] % size == shape[1] % size == 0:
            # Whole pixels alone: OpenCV divides their sum.
            self._area = np.float32(1 / (shape[0] // size * (shape[1] // size)))
            self._rows[1][:], self._columns[1][:] = 1, 1

    def look(self, ale: Any, which: int) -> None:
        """Take in the emulator's screen as the last frame, 0, or as the one before, 1."""
        both = self._colours[which]
        screen = both[0]
        ale.getScreen(screen)
        # No attribute: a copy of one would be no view of the copied colours.
        eights = both.reshape(2, len(self._changed), -1).view(np.uint64)
        if mark_changes(eights[0], eights[1], self._seen, self._changed):
            self._greys[screen], self._seen[screen] = ale.getScreenGrayscale(), True

    def show(self, small: np.ndarray, frames: int) -> None:
        """Shrink the brighter of the last frames that were looked at.

        Args:
            small: `[size, size]` uint8: holds the last small screen, and is changed.
            frames: 2, or 1 for the last frame alone.
        """
        last, before = self._colours[0, 1], self._colours[frames - 1, 1]
        brighten(last, before, self._greys, self._changed, self.grey)
        self._shrink(small)

    def show_first(self, ale: Any, small: np.ndarray) -> None:
        """Shrink the emulator's screen, without any before it."""
        ale.getScreenGrayscale(self.grey)
        self.forget()
        self._shrink(small)
        self.forget()

    def show_before(self, small: np.ndarray) -> None:
        """Shrink the brighter of the grey as it is and the frame before the last."""
        np.maximum(self.grey, self._greys[self._colours[1, 1]], out=self.grey)
        self.forget()
        self._shrink(small)
        self.forget()

    def forget(self) -> None:
        """Make every band anew next time: `grey` is not of the frames that were looked at."""
        self._changed.fill(True)

    def _shrink(self, small: np.ndarray) -> None:
        shrink_bands(self.grey, self._changed, *self._rows, *self._columns, self._area, small)


def _means(length: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which of `length` pixels each of `size` is the mean of.

    Returns:
        The first of them, `[size]` int64, and the share of each from there on, `[size, most]`
        float32, with zeros after the last.

    Source: OpenCV's tables of `INTER_AREA`, in double precision until they are rounded.
    """
    scale = 1.0 / (size / length)
    first, shares = np.zeros(size, np.int64), np.zeros((size, math.ceil(scale) + 2), np.float32)
    for k in range(size):
        begin, end = k * scale, k * scale + scale
        width = min(scale, length - begin)
        whole, last = math.ceil(begin), min(math.floor(end), length - 1)
        whole = min(whole, last)
        parts = [1.0 / width] * (last - whole)
        first[k] = whole
        if whole - begin > _NOTHING:
            first[k], parts = whole - 1, [(whole - begin) / width, *parts]
        if end - last > _NOTHING:
            parts.append(min(end - last, 1.0, width) / width)
        shares[k, : len(parts)] = parts
    return first, np.ascontiguousarray(shares[:, shares.any(axis=0)])


_NOTHING = 1e-3  # what OpenCV takes for no part of a pixel


@kernel
def mark_changes(screen: Any, known: Any, seen: Any, changed: Any) -> bool:
    """Copy a screen to what is known of it; mark bands that differ.

    Args:
        screen: `[bands, words]` uint64, eight colours each.
        known: the same, written.
        seen: `[256]` bool, of colours.
        changed: `[bands]` bool, written; bands that do not differ stay as they are.

    Returns:
        Whether a colour was not seen yet.
    """
    is_new = False
    for band in range(len(screen)):
        old, new = known[band], screen[band]
        differs = np.uint64(0)
        # Without a branch, so that it is compiled to vectors.
        for k in range(len(new)):
            differs |= new[k] ^ old[k]
        if differs:
            changed[band] = True
            for k in range(len(new)):
                word = new[k]
                if word != old[k]:
                    old[k] = word
                    for _ in range(8):
                        is_new |= not seen[word & np.uint64(255)]
                        word >>= np.uint64(8)
    return is_new


@kernel
def brighten(last: Any, before: Any, greys: Any, changed: Any, grey: Any) -> None:
    """Write the brighter of two frames in grey where bands have changed; all `[H, W]` uint8."""
    tall = len(last) // len(changed)
    for band in range(len(changed)):
        if changed[band]:
            for y in range(band * tall, (band + 1) * tall):
                for x in range(last.shape[1]):
                    grey[y, x] = max(greys[last[y, x]], greys[before[y, x]])


@allocating_kernel
def shrink_bands(
    grey: Any, changed: Any, top: Any, tall: Any, left: Any, wide: Any, area: Any, small: Any
) -> None:
    """Write the means of bands that have changed, and take their marks away.

    Args:
        grey: `[H, W]` uint8.
        changed: `[bands]` bool.
        top: rows of a band that its means begin with, see `_means`.
        tall: shares of these rows and those below, `[h / bands, most]` float32.
        left: pixels that means of columns begin with.
        wide: shares of these pixels and those to their right, `[most, w]` float32.
        area: what sums are multiplied by.
        small: `[h, w]` uint8, written.
    """
    rows, columns = len(grey) // len(changed), small.shape[1]
    # Zeros after the pixels of a row and the rows of a band, for shares of zero there.
    pixels = np.zeros(grey.shape[1] + len(wide), np.float32)
    means = np.zeros((rows + tall.shape[1], columns), np.float32)
    total = np.empty(columns, np.float32)
    for band in range(len(changed)):
        if not changed[band]:
            continue
        changed[band] = False
        # Loops over columns are innermost: they are compiled to vectors.
        for y in range(rows):
            for x in range(grey.shape[1]):
                pixels[x] = np.float32(grey[band * rows + y, x])
            row = means[y]
            row[:] = np.float32(0)
            for i in range(len(wide)):
                shares = wide[i]
                for x in range(columns):
                    row[x] += pixels[left[x] + i] * shares[x]
        for k in range(len(top)):
            total[:] = np.float32(0)
            for j in range(tall.shape[1]):
                row, share = means[top[k] + j], tall[k, j]
                for x in range(columns):
                    total[x] += share * row[x]
            for x in range(columns):
                small[band * len(top) + k, x] = np.uint8(np.rint(total[x] * area))


class AtariScreensPart(StatePart):
    """`AtariScreens`: the brighter of the last two frames, and the stack."""

    def __init__(self, layer: AtariScreens) -> None:
        self._layer = layer
        self.width = sum(picture.nbytes for picture in layer.pictures())

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        grey, stack = self._layer.pictures()
        middle, stop = offset + grey.nbytes, offset + self.width
        buffer[offset:middle] = grey.data.cast("B")
        buffer[middle:stop] = stack.data.cast("B")
        return stop

    def restore(self, buffer: memoryview, offset: int) -> int:
        grey, stack = self._layer.pictures()
        middle, stop = offset + grey.nbytes, offset + self.width
        grey.data.cast("B")[:] = buffer[offset:middle]
        stack.data.cast("B")[:] = buffer[middle:stop]
        self._layer.restored()
        return stop

    def identity(self) -> dict[str, Any]:
        """Return the wrapper's arguments."""
        return dict(self._layer._saved_kwargs)
