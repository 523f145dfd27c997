"""Critics: an ensemble of Q networks evaluated in one batched pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.networks.agent_config import AgentConfig
from plangym_ext.learn.networks.dense_product import dense_layers_product
from plangym_ext.learn.networks.inputs import ActionEncoder, ObservationParts
from plangym_ext.learn.torch_extra import functional, nn, torch
from plangym_ext.learn.transforms.observations import ObservationNormalizer


def normalised_layers(
    x: Any,
    weights: Sequence[Any],
    biases: Sequence[Any],
    scales: Sequence[Any],
    offsets: Sequence[Any],
    *,
    precision: str,
) -> Any:
    """Return the outputs of E dense stacks with layer normalisation for the same rows.

    All layers but the last are normalised over their outputs, scaled, and rectified.

    Args:
        x: `[N, F]` float32.
        weights: of each layer, `[E, out, in]` float32.
        biases: of each layer, `[E, out]`.
        scales: of each layer but the last, `[E, out]`.
        offsets: likewise.
        precision: "float32" or "bfloat16", of what is multiplied; the rest is float32.

    Returns:
        `[E, N, out]` float32, fresh.

    Source: Ba et al. 2016, "Layer normalization".
    """
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    rows = x.expand(len(weights[0]), *x.shape)
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        product = torch.bmm(rows.to(dtype), weight.to(dtype).transpose(1, 2)).float()
        rows = product + bias[:, None]
        if i < len(scales):
            normal = functional.layer_norm(rows, rows.shape[-1:])
            rows = torch.addcmul(offsets[i][:, None], normal, scales[i][:, None]).relu()
    return rows


@final
class Critics(nn.Module):
    """E critics with dense layers and rectifiers, whose weights are stacked.

    Convolutions of images come before and are the same for all of them.

    Args:
        observation_space: of one row, as in `make_agent_network`.
        action_space: Discrete: a critic says what each action is worth; else it is shown the
            action.
        count: E.
        hidden: widths of the dense layers.
        layer_norm: whether these are normalised before their rectifiers.
        precision: see `dense_layers_product`.
        normalizer: of observations, a part of the policy's network; None: they are taken as
            they are.
        images: what convolutions of images are made of; None: as they are by default.

    Attributes:
        weights: of each layer, `[E, out, in]`.
        biases: of each layer, `[E, out]`.
        scales: of each layer that is normalised, `[E, out]`.
        offsets: likewise.
        by_action: whether they put out a number per action.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        count: int,
        hidden: tuple[int, ...],
        layer_norm: bool = False,
        precision: str = "float32",
        normalizer: ObservationNormalizer | None = None,
        images: AgentConfig | None = None,
    ) -> None:
        super().__init__()
        self.precision, self.normalizer = precision, normalizer
        self.parts = ObservationParts(observation_space, images or AgentConfig())
        self.by_action = isinstance(action_space, spaces.Discrete)
        width, out = self.parts.width, 1
        self.action: ActionEncoder | None = None
        if isinstance(action_space, spaces.Discrete):
            out = int(action_space.n)
        else:
            self.action = ActionEncoder(action_space)
            width += self.action.width
        # Stacked, so that the first layers of all critics are one product.
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inputs, outputs in zip([width, *hidden], [*hidden, out], strict=True):
            # As torch begins a linear layer.
            most = 1 / math.sqrt(inputs)
            self.weights.append(
                torch.empty(count, outputs, inputs, dtype=torch.float32).uniform_(-most, most)
            )
            self.biases.append(
                torch.empty(count, outputs, dtype=torch.float32).uniform_(-most, most)
            )
        normalised = hidden if layer_norm else ()
        self.scales = nn.ParameterList(
            torch.ones(count, size, dtype=torch.float32) for size in normalised
        )
        self.offsets = nn.ParameterList(
            torch.zeros(count, size, dtype=torch.float32) for size in normalised
        )

    def forward(
        self, obs: Any, action: Any = None, *, frozen: bool = False, first: int | None = None
    ) -> torch.Tensor:
        """Return the values of actions.

        Args:
            obs: `[N, *obs]`, nested as the space.
            action: `[N, *act]`; None where `by_action`.
            frozen: whether gradients reach the action alone, and none the weights.
            first: how many of the critics are asked; None: all.

        Returns:
            `[E, N]`; `[E, N, A]` where `by_action`.
        """
        if self.normalizer is not None:
            obs = self.normalizer(obs)
        # The encoders are shared by all critics, and are weights as well.
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            rows = self.parts(obs)
        if self.action is not None:
            rows.append(self.action(action))
        x = torch.cat(rows, dim=1) if len(rows) > 1 else rows[0]
        # Gradients of frozen critics reach the action alone: those of the weights would be computed
        # and thrown away.
        weights, biases, scales, offsets = (
            [p[:first].detach() if frozen else p[:first] for p in part]
            for part in (self.weights, self.biases, self.scales, self.offsets)
        )
        if scales:
            q = normalised_layers(x, weights, biases, scales, offsets, precision=self.precision)
        else:
            q = dense_layers_product(
                x, weights, biases, precision=self.precision, rectify_last=False
            )
        return q if self.by_action else q[..., 0]


def make_critics(
    network: Any, *, count: int, hidden: tuple[int, ...], precision: str, layer_norm: bool = False
) -> Critics:
    """Return critics of the actions of a policy network, with weights that torch draws.

    If it normalises observations, they see the same ones; convolutions of images are like its own.

    Args:
        network: such as `make_agent_network` makes.
        count: how many.
        hidden: widths of the dense layers of each.
        precision: of products: "float32" or "bfloat16".
        layer_norm: whether these layers are normalised before their rectifiers.

    Raises:
        InvalidOption: the network does not say what spaces it is for, or is recurrent.
    """
    found: list[Any] = [
        getattr(network, name, None) for name in ("observation_space", "action_space")
    ]
    if None in found or network.initial_carry(1) is not None:
        raise InvalidOption(
            "make_critics: the network must have the attributes observation_space and "
            "action_space, and no carry; make it with make_agent_network and recurrent='none'."
        )
    normalizer = getattr(network, "normalizer", None)
    return Critics(
        *found,
        count=count,
        hidden=hidden,
        layer_norm=layer_norm,
        precision=precision,
        normalizer=normalizer,
        # A network of one's own does not say.
        images=getattr(network, "config", None),
    )
