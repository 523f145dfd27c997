"""Neural network of planners: policy, value and Q heads for given spaces."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from plangym_ext.arrays.items import has_items
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.distributions.base import Distribution
from plangym_ext.learn.distributions.make import distribution_of
from plangym_ext.learn.networks.bodies import ResidualBlock, hidden_of, make_body
from plangym_ext.learn.networks.config import HEADS, NetworkConfig
from plangym_ext.learn.networks.inputs import JoinedParts, ObservationEncoder
from plangym_ext.learn.repeatable import seeded
from plangym_ext.learn.torch_extra import nn, torch


class NetworkOutput(NamedTuple):
    """The outputs of a network's heads for B observations; None for missing heads."""

    policy_logits: Any  # [B, P] float32, numbers of the action distribution
    value: Any  # [B] float32
    q: Any  # [B, A] float32
    returns: Any = None  # [B, A, K] float32, logits of atoms or quantiles; of a `QHead`


class Network(nn.Module):
    """Encoder, body and heads; all heads are one layer.

    A network of your own is any module whose `forward` takes `[B, *obs]` and returns a
    `NetworkOutput`, and that has these attributes.

    Attributes:
        distribution: what `policy_logits` are numbers of.
        value_scale: see `NetworkConfig`; losses are measured in this unit.
    """

    def __init__(self, observation_space: Any, action_space: Any, config: NetworkConfig) -> None:
        super().__init__()
        self.distribution: Distribution = distribution_of(action_space)
        self.value_scale = float(config.value_scale)
        self.encoder, self.body, width = self._layers(observation_space, config)
        if "q" in config.heads and self.distribution.num_actions is None:
            raise InvalidOption(
                f"make_network: a Q head needs a Discrete action space; got {action_space}."
            )
        widths = {
            "policy": self.distribution.width,
            "value": 1,
            "q": self.distribution.num_actions or 0,
        }
        # In the order of NetworkOutput, whatever the order in the config.
        self._widths = [widths[head] if head in config.heads else 0 for head in widths]
        self.heads = nn.Linear(width, sum(self._widths), dtype=torch.float32)
        _initialize(self)

    def _layers(self, observation_space: Any, config: NetworkConfig) -> tuple[Any, nn.Module, int]:
        """Return encoder and body, and how many features the body puts out."""
        encoder = ObservationEncoder(observation_space, config.image_channels)
        return encoder, *make_body(encoder.shape, config)

    def forward(self, obs: Any) -> NetworkOutput:
        """Evaluate `[B, *obs]`."""
        return self.output_of(self.heads(self.body(self.encoder(obs))))

    def output_of(self, out: torch.Tensor) -> NetworkOutput:
        """Split the joint output `[B, W]` of the heads into `NetworkOutput`."""
        # Heads that are left out have a width of 0: a slice of nothing.
        policy, value, q = torch.split(out, self._widths, dim=1)
        return NetworkOutput(
            policy if self._widths[0] else None,
            self._scaled(value[:, 0]) if self._widths[1] else None,
            self._scaled(q) if self._widths[2] else None,
        )

    def _scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.value_scale == 1.0 else x * self.value_scale


class NestedNetwork(Network):
    """Network of Dict and Tuple observations: an encoder for each part, joined before the body."""

    def _layers(self, observation_space: Any, config: NetworkConfig) -> tuple[Any, nn.Module, int]:
        encoder = JoinedParts(observation_space, config)
        # Parts that are images have been through their convolutions.
        hidden = hidden_of(encoder.kind, config)
        dense = dataclasses.replace(config, kind="mlp", hidden=hidden)
        return encoder, *make_body((encoder.width,), dense)


class UnionNetwork(nn.Module):
    """Networks that are evaluated and trained as one, each with a head of its own.

    They see the same observations and may differ in all else, also in whether their parameters
    are trained (`requires_grad_(False)`). An optimiser of the union makes the steps that one of
    each would, but that `max_grad_norm` is of all gradients together.

    Args:
        networks: head, "policy", "value" or "q", -> what answers it: a `Network`, or a module like
            it. Of its other heads nothing is seen.

    Attributes:
        networks: as given.
        distribution: of the policy's network, if there is one.
        value_scale: of the value's network, if there is one, or else the one of Q values.

    Raises:
        InvalidOption: there is none, or a head is not known.
    """

    @checking_arguments
    def __init__(self, networks: Mapping[str, nn.Module]) -> None:
        super().__init__()
        if not networks or not {*networks} <= {*HEADS}:
            raise InvalidOption(
                f"UnionNetwork: networks must be by head, of {', '.join(HEADS)}; got "
                f"{sorted(networks)}."
            )
        self.networks = nn.ModuleDict(networks)
        known: list[Any] = [networks[h] for h in ("value", "q", "policy") if h in networks]
        self.value_scale = float(getattr(known[0], "value_scale", 1.0))
        self.distribution: Distribution = known[-1].distribution

    def forward(self, obs: Any) -> NetworkOutput:
        """Evaluate `[B, *obs]` by each network."""
        fields = zip(HEADS, NetworkOutput._fields, strict=False)
        asked = self.networks
        parts = [getattr(asked[h](obs), field) if h in asked else None for h, field in fields]
        return NetworkOutput(*parts)


def make_network(
    observation_space: Any, action_space: Any, config: NetworkConfig | None = None, *, seed: int
) -> Network | UnionNetwork:
    """Make a network for an observation and an action space.

    Args:
        observation_space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of them.
        action_space: Discrete, MultiDiscrete or Box.
        config: what it is made of.
        seed: of the weights; torch's own generator is left as it was.

    Raises:
        InvalidOption: the spaces and the config do not go together.
    """
    if has_items(observation_space):
        raise InvalidOption(
            f"make_network: observations of a Sequence or a Graph need an agent's network, of "
            f"make_agent_network; got {observation_space}. Flatten it with a wrapper for a planner."
        )
    config = config or NetworkConfig()
    kind = NestedNetwork if hasattr(observation_space, "spaces") else Network
    with seeded(seed):
        if config.shared_body or len(config.heads) == 1:
            return kind(observation_space, action_space, config)
        each = {head: dataclasses.replace(config, heads=(head,)) for head in config.heads}
        made = {head: kind(observation_space, action_space, own) for head, own in each.items()}
        return UnionNetwork(made)


def _initialize(network: Network) -> None:
    """Leave layers as torch makes them; heads and the ends of residual blocks begin at zero.

    So a fresh network has a uniform policy and values everything 0. Larger weights, such
    as orthogonal ones of gain sqrt(2), learned about half as fast from Sokoban's searches
    (one seed each).
    """
    zero_residual_ends(network)
    nn.init.zeros_(network.heads.weight)
    nn.init.zeros_(network.heads.bias)


def zero_residual_ends(network: nn.Module) -> None:
    """Begin residual blocks as the identity."""
    for module in network.modules():
        if isinstance(module, ResidualBlock):
            nn.init.zeros_(module.second.weight)
            if module.second.bias is not None:
                nn.init.zeros_(module.second.bias)
