"""TargetNetwork: a copy of a network for bootstrap targets, updated by copying or averaging."""

from __future__ import annotations

import copy
from typing import Any, final

from plangym_ext.learn.torch_extra import nn, torch
from plangym_ext.learn.transforms.observations import ObservationNormalizer


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
        # What is no weight is never averaged.
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
