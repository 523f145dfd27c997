"""Input encoders of agent networks: observation parts, previous action, previous reward."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.distributions.box_units import BoxUnits
from plangym_ext.learn.networks.bodies import (
    DenseLayers,
    dense_layers,
    hidden_of,
    image_layers,
    kind_of,
)
from plangym_ext.learn.networks.config import AgentConfig, NetworkConfig
from plangym_ext.learn.networks.items import ItemsEncoder
from plangym_ext.learn.torch_extra import nn, torch


class ObservationParts(nn.ModuleList):
    """Encodes every part of an observation as a vector; images by convolutions.

    Args:
        observation_space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of them.
        config: what to make of them.

    Attributes:
        layout: of the space.
        kind: of the layers; see `NetworkConfig.kind`.
        width: features per row, of all parts together.
    """

    def __init__(self, observation_space: spaces.Space[Any], config: NetworkConfig) -> None:
        super().__init__()
        self.layout = SpaceLayout(observation_space, objects=True)
        encoders: list[Any] = [_encoder(leaf.space, config) for leaf in self.layout.leaves]
        images = [encoder.shape for encoder in encoders if len(encoder.shape) == 3]
        # One kind for all parts: a config that asks for convolutions gets them where images are.
        shape = images[0] if images else encoders[0].shape
        self.kind = kind_of(shape, config)
        if not images and self.kind != "mlp" and ":" not in self.kind:
            image_layers(shape, self.kind, config)  # which refuses vectors
        self.width = 0
        for encoder in encoders:
            part, features = _vector(encoder, self.kind, config)
            self.append(part)
            self.width += features

    def forward(self, obs: Any) -> list[torch.Tensor]:
        """Return `[N, F]` of each part of `[N, *obs]`."""
        return [part(rows) for part, rows in zip(self, self.layout.split(obs), strict=True)]

    def laid_out(self, obs: Any) -> Any:
        """Return `[N, *obs]` as each part has it in memory; see `ObservationEncoder`."""
        encoders: list[Any] = [p[0] if isinstance(p, nn.Sequential) else p for p in self]
        pairs = zip(encoders, self.layout.split(obs), strict=True)
        return self.layout.join(tuple(encoder.laid_out(rows) for encoder, rows in pairs))


class JoinedParts(ObservationParts):
    """The same, with the features of all parts side by side, `[N, width]`."""

    def forward(self, obs: Any) -> Any:
        """Return `[N, width]` of `[N, *obs]`."""
        # In samples a tuple is a dict of names, in the same order.
        pairs = zip(self, leaves(obs), strict=True)
        return torch.cat([part(rows) for part, rows in pairs], dim=1)


class InputBody(nn.Module):
    """Encodes every part of an observation, joins them, and adds dense layers.

    Images go through convolutions before; the previous action and reward are joined with
    what comes out of them.

    Args:
        observation_space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of
            them.
        action_space: of the previous action.
        config: what to make of them.
        without_last: whether to leave the last dense layer to the heads.
        core_size: width of a recurrent layer between what is joined and the dense layers; None:
            there is none.

    Attributes:
        joined_width: features per row before the dense layers.
        layout: of the observations.
        width: features per row.
        last_width: of the last dense layer, here or in the heads; None: there are no dense layers.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        config: AgentConfig,
        *,
        without_last: bool = False,
        core_size: int | None = None,
    ) -> None:
        super().__init__()
        self.parts = ObservationParts(observation_space, config)
        joined = self.parts.width
        self.layout = self.parts.layout
        self.previous = ActionEncoder(action_space) if config.previous_action else None
        joined += self.previous.width if self.previous else 0
        self._reward = config.previous_reward
        joined += int(self._reward)
        hidden = hidden_of(self.parts.kind, config)
        self.last_width = hidden[-1] if hidden else None
        self.joined_width = joined
        # The last layer of the body and the heads are then one product.
        sizes = hidden[:-1] if without_last else hidden
        layers, self.width = dense_layers(core_size or joined, sizes, config)
        self.dense = DenseLayers(*layers)

    def forward(self, inputs: Inputs) -> torch.Tensor:
        """Return `[N, width]` of inputs with one leading axis."""
        features: torch.Tensor = self.dense(self.joined(inputs))
        return features

    def image_carry(self) -> tuple[tuple[int, ...], int]:
        """Return the shape `(C, H, W)` that a recurrent layer over the image has, and its product.

        Raises:
            InvalidOption: observations are not one image, or more is joined with it.
        """
        layers: list[Any] = [*self.parts[0].children()]
        image: Any = torch.zeros(0)
        if len(self.parts) == 1 and len(layers) == 3 and self.joined_width == self.parts.width:
            with torch.no_grad():
                image = layers[1](torch.zeros(1, *layers[0].shape, dtype=torch.float32))
        if image.ndim != 4:
            raise InvalidOption(
                f"make_agent_network: recurrent='conv_gru' needs observations of one image in "
                f"convolutions, without previous actions and rewards; got {self.layout.space}. "
                f"Use recurrent='gru'."
            )
        return tuple(image.shape[1:]), self.joined_width

    def joined(self, inputs: Inputs) -> torch.Tensor:
        """Return the inputs of the dense layers, `[N, F]`, for inputs with one leading axis."""
        parts = self.parts(inputs.obs)
        if self.previous is not None:
            encoded = self.previous(inputs.action)
            # What was played before belongs to another episode where one begins. Samplers write
            # zeros there; other callers need not.
            parts.append(encoded.masked_fill(inputs.first[:, None], 0.0))
        if self._reward:
            parts.append(inputs.reward.to(torch.float32).masked_fill(inputs.first, 0.0)[:, None])
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _encoder(space: spaces.Space[Any], config: NetworkConfig) -> ObservationEncoder | ItemsEncoder:
    if isinstance(space, spaces.Sequence):
        return ItemsEncoder(ObservationEncoder(space.feature_space), config)
    if isinstance(space, spaces.Graph):
        edges = None if space.edge_space is None else ObservationEncoder(space.edge_space)
        return ItemsEncoder(ObservationEncoder(space.node_space), config, graph=True, edges=edges)
    if not isinstance(
        space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    ):
        raise InvalidOption(
            f"make_network: observations must be Box, Discrete, MultiDiscrete, MultiBinary, "
            f"or Dict and Tuple of them, for an agent also Sequence and Graph; got {space}. Leave "
            f"it out with gymnasium.wrappers.FilterObservation, or encode it with a "
            f"TransformObservation."
        )
    return ObservationEncoder(space, config.image_channels)


def _vector(encoder: Any, kind: str, config: NetworkConfig) -> tuple[nn.Module, int]:
    """Return an encoder of one part of an observation to a vector, and its width."""
    if len(encoder.shape) == 1 and ":" not in kind:
        return encoder, encoder.shape[0]
    if kind == "mlp":
        return nn.Sequential(encoder, nn.Flatten()), int(np.prod(encoder.shape))
    layers, features = image_layers(encoder.shape, kind, config)
    return nn.Sequential(encoder, layers, nn.Flatten()), features


class ActionEncoder(nn.Module):
    """Turns actions into vectors: one-hot where discrete, in units of the bounds where not.

    Attributes:
        width: numbers per action.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        super().__init__()
        self._layout = SpaceLayout(space)
        self._parts = [_ActionPart(leaf.space) for leaf in self._layout.leaves]
        self.width = sum(part.width for part in self._parts)

    def forward(self, actions: Any) -> torch.Tensor:
        """Return `[N, width]` float32 of `[N, *act]`; zeros for values outside the space."""
        pairs = zip(self._parts, self._layout.split(actions), strict=True)
        return torch.cat([part.encode(rows) for part, rows in pairs], dim=1)


class _ActionPart:
    """One leaf of an action space."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._units: BoxUnits | None = None
        self._counts, self._starts = [], np.zeros(0, np.int64)
        if isinstance(space, spaces.Discrete):
            self._counts, self._starts = [int(space.n)], np.array([space.start])
        elif isinstance(space, spaces.MultiDiscrete):
            self._counts, self._starts = space.nvec.ravel().tolist(), np.ravel(space.start)
        elif isinstance(space, spaces.Box):
            self._units = BoxUnits(space.low, space.high, space.dtype)
        self.width = sum(self._counts) or int(np.prod(space.shape or ()))

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        if self._units is not None:
            return self._units.scaled_tensor(rows)
        flat = rows.reshape(rows.shape[0], -1)
        # Of MultiBinary: zeros and ones as they are.
        if not self._counts:
            return flat.to(torch.float32)
        # Not functional.one_hot, which refuses the zeros that a first step has for an action.
        columns = [
            flat[:, i, None] == torch.arange(n, device=flat.device) + int(start)
            for i, (n, start) in enumerate(zip(self._counts, self._starts, strict=True))
        ]
        return torch.cat(columns, dim=1).to(torch.float32)


def flattened(inputs: Inputs) -> Inputs:
    """Return inputs `[T, B, ...]` with one leading axis, `[T * B, ...]`; None stays None."""
    return Inputs(
        *(
            None if part is None else mapped(lambda leaf: leaf.flatten(0, 1), part)
            # Not noise and masks: no network looks at them.
            for part in inputs[:4]
        )
    )


# ObservationEncoder -----------------------------------------------------------


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
        """Return memory for `scaled`; on the CPU, screens have their channels innermost.

        Convolutions then learn in two thirds of the time.
        """
        return torch.empty(
            obs.shape, device=obs.device, memory_format=self._form_of(obs), dtype=torch.float32
        )

    def laid_out(self, obs: torch.Tensor) -> torch.Tensor:
        """Return observations in the memory order of `memory_for`, for a faster `scaled`."""
        return obs.contiguous(memory_format=self._form_of(obs))

    def _form_of(self, obs: torch.Tensor) -> torch.memory_format:
        innermost = self.is_screen and obs.device.type == "cpu"
        return torch.channels_last if innermost else torch.contiguous_format

    def scaled(self, obs: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Encode observations that are not one-hot in memory `out` from `memory_for`."""
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
        """Whether `scaled` is the whole encoding."""
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
