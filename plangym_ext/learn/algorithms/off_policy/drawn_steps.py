"""Replay batches as tensors on the network's device (StepTensors); TargetNetwork."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar, final

import numpy as np

from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.learn.replay.base import Batch
from plangym_ext.learn.torch_extra import device_of, nn, torch
from plangym_ext.learn.transforms.observations import ObservationNormalizer

#: A NamedTuple of rows.
Drawn = TypeVar("Drawn", bound=tuple[Any, ...])


class Steps(NamedTuple):
    """A batch of replayed steps, tensors `[N, ...]` on the network's device."""

    obs: Any  # nested as the space
    action: Any  # nested as the space
    reward: Any  # float32, summed over up to n steps
    discount: Any  # float32, of the value of next_obs; 0 after a termination
    next_obs: Any  # nested as the space
    weight: Any  # float32, importance weights; None: all are 1
    indices: Any = None  # int64 array, of the replay
    legal: Any = None  # bool [N, A], which actions could be played at obs; None: all
    next_legal: Any = None  # likewise at next_obs
    target: Any = None  # float32 [N], what critics learn; None: not worked out yet


class StepTensors:
    """Converts replay batches to tensors on the device of a network.

    On a CPU they are views of its arrays.

    Attributes:
        device: of the network.
        obs_bytes: of one observation; None: the network does not say what they are.
    """

    def __init__(self, network: nn.Module) -> None:
        self.device = device_of(network)
        spaces = (getattr(network, name, None) for name in ("observation_space", "action_space"))
        self._obs, self._action = (None if one is None else SpaceLayout(one) for one in spaces)
        self.obs_bytes: int | None = None
        if self._obs is not None:
            sizes = (math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in self._obs.leaves)
            self.obs_bytes = sum(sizes)

    def steps(self, batch: Batch, *, weighted: bool) -> Steps:
        """Return a batch of single steps; `weighted`: with the weights that they have."""
        samples = batch.samples
        return Steps(
            self.obs(samples["obs"]),
            self.action(samples["action"]),
            self.array(samples["reward"]),
            self.array(samples["discount"]),
            self.obs(samples["next_obs"]),
            self.array(batch.weights) if weighted else None,
            batch.indices,
            *(self.array(samples[name]) for name in ("legal", "next_legal") if name in samples),
        )

    def obs(self, value: Any) -> Any:
        """Return observations `[..., *obs]`, nested as their space."""
        return self._nested(value, self._obs)

    def action(self, value: Any) -> Any:
        """Return actions `[..., *act]`, nested as their space."""
        return self._nested(value, self._action)

    def array(self, array: Any) -> Any:
        """Return an array as a tensor."""
        tensor = torch.from_numpy(array)
        return tensor if self.device.type == "cpu" else tensor.to(self.device)

    def _nested(self, value: Any, layout: SpaceLayout | None) -> Any:
        if isinstance(value, np.ndarray):
            return self.array(value)
        if layout is None:
            return mapped(self.array, value)
        return layout.join(tuple(self.array(leaf) for leaf in leaves(value)))


def parts(drawn: Drawn, count: int, size: int) -> Iterator[Drawn]:
    """Yield `count` parts of `size` rows of one large batch, as views.

    Args:
        drawn: its fields are `[count * size, ...]`, nested as a space, or None.
        count: of the parts.
        size: of each.
    """
    for begin in range(0, count * size, size):
        yield part(drawn, begin, size)


def part(drawn: Drawn, begin: int, size: int) -> Drawn:
    """Return rows `begin` to `begin + size` of one large batch, as views."""
    rows = operator.itemgetter(slice(begin, begin + size))
    fields = (None if field is None else mapped(rows, field) for field in drawn)
    return drawn._make(fields)  # type: ignore[attr-defined]


# TargetNetwork ----------------------------------------------------------------


@final
class TargetNetwork:
    """A copy of a network that gets no gradient, equal to it at first.

    Args:
        network: that is followed; its tensors may change, but not be replaced.

    Attributes:
        module: the copy, in evaluation mode, with the network's own normaliser of observations.
    """

    def __init__(self, network: nn.Module) -> None:
        # Observations are normalised as they are for the network that is followed, from the first
        # update on; a normaliser has no weights that could hold still.
        shared = {id(m): m for m in network.modules() if isinstance(m, ObservationNormalizer)}
        self.module: Any = copy.deepcopy(network, dict(shared)).requires_grad_(False).eval()
        for part in self.module.modules():
            if isinstance(part, nn.RNNBase):
                # A copy's weights lie apart, and on a GPU would be joined anew at each call.
                part.flatten_parameters()
        self._mine: list[Any] = list(self.module.parameters())
        self._theirs = [parameter.detach() for parameter in network.parameters()]
        # Buffers are no weights, so they are never averaged.
        self._my_rest, self._their_rest = list(self.module.buffers()), list(network.buffers())

    @torch.no_grad()
    def follow(self, rate: float = 1.0) -> None:
        """Move by `rate` of the difference, all weights in one call; 1 makes a copy.

        Source: Mnih et al. 2015, "Human-level control through deep reinforcement learning"
        (copies); Lillicrap et al. 2016, "Continuous control with deep reinforcement learning"
        (averages).
        """
        if rate == 1.0:
            # Not lerp with 1, which computes mine + (theirs - mine) and rounds.
            torch._foreach_copy_(self._mine, self._theirs)
        else:
            torch._foreach_lerp_(self._mine, self._theirs, rate)
        if self._my_rest:
            torch._foreach_copy_(self._my_rest, self._their_rest)
