"""ObservationEncoder: observations of a space as float tensors (vectors, images)."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.torch_extra import nn, torch

#: Images with sides as long are screens; smaller ones are boards.
_SCREEN_SIDE = 36


class ObservationEncoder(nn.Module):
    """Turns `[B, *obs]` into `[B, F]` or `[B, C, H, W]` float32.

    Integers with finite bounds are brought to [0, 1], or are made one-hot where the
    space is Discrete or MultiDiscrete; other numbers stay as they are.

    Attributes:
        shape: `(F,)` or `(C, H, W)`.
        obs_shape: of one observation.
        only_casts: whether what comes out are the numbers that go in, as they lie.
        is_screen: whether they are images so large that they are worth another layout.
    """

    _origins: torch.Tensor

    def __init__(self, space: spaces.Space[Any], image_channels: str = "auto") -> None:
        super().__init__()
        self.obs_shape: tuple[int, ...] = tuple(space.shape or ())
        self._counts: list[int] = []
        self._axes: tuple[int, ...] = ()
        self._low, self._scale = 0.0, 1.0
        if isinstance(space, spaces.Discrete):
            self._one_hot([int(space.n)], [int(space.start)])
        elif isinstance(space, spaces.MultiDiscrete):
            self._one_hot(space.nvec.ravel().tolist(), np.ravel(space.start).tolist())
        elif isinstance(space, spaces.MultiBinary):
            self.shape: tuple[int, ...] = (int(np.prod(self.obs_shape)),)
        elif isinstance(space, spaces.Box):
            self._box(space, image_channels)
        else:
            raise InvalidOption(
                f"make_network: observations must be Box, Discrete, MultiDiscrete or "
                f"MultiBinary; got {space}. Flatten it with a wrapper such as "
                f"gymnasium.wrappers.FlattenObservation, or write a network of your own."
            )
        scaled = self._low != 0.0 or self._scale != 1.0
        moved = self._axes or self.shape != self.obs_shape
        self.is_screen = (
            not moved and len(self.obs_shape) == 3 and min(self.obs_shape[1:]) >= _SCREEN_SIDE
        )
        self.only_casts = not (scaled or moved or self._counts)

    def _one_hot(self, counts: list[int], origins: list[int]) -> None:
        self._counts = counts
        # Not persistent: they follow from the space, and no checkpoint has to hold them.
        self.register_buffer("_origins", torch.tensor(origins), persistent=False)
        self.shape = (sum(counts),)

    def _box(self, space: spaces.Box, image_channels: str) -> None:
        bounds = integer_range(space)
        if bounds is not None:
            self._low, self._scale = bounds[0], 1.0 / (bounds[1] - bounds[0])
        rank = len(self.obs_shape)
        # A narrow matrix is a table of numbers, and no image.
        if rank not in (2, 3, 4) or (rank == 2 and min(self.obs_shape) < 8):
            self.shape = (int(np.prod(self.obs_shape)),)
            return
        # A stack of images is one image with more channels.
        image = self.obs_shape[-3:] if rank > 2 else (1, *self.obs_shape)
        stack = self.obs_shape[0] if rank == 4 else 1
        first = image_channels == "first" or (
            image_channels == "auto" and _channels_come_first(image)
        )
        if rank == 2 or first:
            self.shape = (stack * image[0], image[1], image[2])
        else:
            self.shape = (stack * image[2], image[0], image[1])
            self._axes = (0, 3, 1, 2) if rank == 3 else (0, 1, 4, 2, 3)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Encode `[B, *obs]` of any dtype."""
        if self._counts:
            parts = obs.reshape(obs.shape[0], -1).long() - self._origins
            # Not functional.one_hot, which refuses the zeros of rows that are filled up or wait.
            encoded = [
                parts[:, i, None] == torch.arange(n, device=obs.device)
                for i, n in enumerate(self._counts)
            ]
            return torch.cat(encoded, dim=1).float()
        return self.scaled(obs, self.memory_for(obs))

    def memory_for(self, obs: torch.Tensor) -> torch.Tensor:
        """Return memory for `scaled`, of which screens have their channels innermost on the CPU.

        Convolutions then learn in two thirds of the time.
        """
        return torch.empty(
            obs.shape, device=obs.device, memory_format=self._form_of(obs), dtype=torch.float32
        )

    def laid_out(self, obs: torch.Tensor) -> torch.Tensor:
        """Return observations in the order of `memory_for`, of which `scaled` is quicker."""
        return obs.contiguous(memory_format=self._form_of(obs))

    def _form_of(self, obs: torch.Tensor) -> torch.memory_format:
        innermost = self.is_screen and obs.device.type == "cpu"
        return torch.channels_last if innermost else torch.contiguous_format

    def scaled(self, obs: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Encode what is not one-hot by means of memory `out`, such as `memory_for` returns."""
        as_it_is = obs.dtype is torch.float32 and self._low == 0.0 and self._scale == 1.0
        # In place: of pictures a fresh result takes longer to be given memory than to be computed.
        x = obs if as_it_is else out.copy_(obs)
        # Where the observations are used as they are, none of this changes them.
        if self._low != 0.0:
            x -= self._low
        if self._scale != 1.0:
            x *= self._scale
        if self._axes:
            x = x.permute(self._axes)
        return x.reshape(obs.shape[0], *self.shape)

    @property
    def is_scaled(self) -> bool:
        """Whether `scaled` does all."""
        return not self._counts


def integer_range(space: spaces.Box) -> tuple[float, float] | None:
    """Return the bounds for scaling integers to [0, 1]; None if they are not scaled."""
    if not np.issubdtype(space.dtype, np.integer):
        return None
    low, high = float(space.low.min()), float(space.high.max())
    # Beyond 16 bits bounds are those of the dtype and say nothing.
    return (low, high) if 0 < high - low < 2**16 else None


def _channels_come_first(image: tuple[int, ...]) -> bool:
    """Guess from the shape: two equal sides are height and width, else the shortest counts."""
    if image[0] == image[1]:
        return False
    return image[1] == image[2] or image[0] < image[2]
