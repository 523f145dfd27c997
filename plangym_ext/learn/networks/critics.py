"""Critics: an ensemble of Q networks in one batched pass; batch renormalisation (CrossQ)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

from gymnasium import spaces

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.distributions.base import Distribution
from plangym_ext.learn.networks.config import AgentConfig
from plangym_ext.learn.networks.dense_product import dense_layers_product
from plangym_ext.learn.networks.inputs import ActionEncoder, ObservationParts
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.learn.networks.quick_forward import OfObservations
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
        batch_renorm: whether the inputs of all layers are renormalised over rows; `layer_norm`
            is False then.
        outputs: numbers per action, such as quantiles.
        precision: see `dense_layers_product`.
        normalizer: of observations, a part of the policy's network; None: they are taken as
            they are.
        images: what convolutions of images are made of; None: as they are by default.

    Attributes:
        weights: of each layer, `[E, out, in]`.
        biases: of each layer, `[E, out]`.
        scales: of each layer that is normalised, `[E, out]`.
        offsets: likewise.
        renorms: of each layer, `BatchRenorm`; none without `batch_renorm`.
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
        batch_renorm: bool = False,
        outputs: int = 1,
        precision: str = "float32",
        normalizer: ObservationNormalizer | None = None,
        images: AgentConfig | None = None,
    ) -> None:
        super().__init__()
        self.precision, self.normalizer = precision, normalizer
        self.parts = ObservationParts(observation_space, images or AgentConfig())
        self.by_action = isinstance(action_space, spaces.Discrete)
        width, out = self.parts.width, outputs
        self.action: ActionEncoder | None = None
        if isinstance(action_space, spaces.Discrete):
            out = int(action_space.n)
        else:
            self.action = ActionEncoder(action_space)
            width += self.action.width
        # Stacked, so that the first layers of all critics are one product.
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for before, after in zip([width, *hidden], [*hidden, out], strict=True):
            # As torch begins a linear layer.
            most = 1 / math.sqrt(before)
            self.weights.append(
                torch.empty(count, after, before, dtype=torch.float32).uniform_(-most, most)
            )
            self.biases.append(torch.empty(count, after, dtype=torch.float32).uniform_(-most, most))
        normalised = hidden if layer_norm else ()
        self.scales = nn.ParameterList(
            torch.ones(count, size, dtype=torch.float32) for size in normalised
        )
        self.offsets = nn.ParameterList(
            torch.zeros(count, size, dtype=torch.float32) for size in normalised
        )
        self.renorms = nn.ModuleList()
        if batch_renorm:
            self.renorms.extend(BatchRenorm(count, size) for size in (width, *hidden))

    def forward(
        self,
        obs: Any,
        action: Any = None,
        *,
        scaled: bool = False,
        frozen: bool = False,
        first: int | None = None,
    ) -> torch.Tensor:
        """Return the values of actions.

        Args:
            obs: `[N, *obs]`, nested as the space.
            action: `[N, *act]`; None where `by_action`.
            scaled: whether actions are `[N, D]` already, in units of their bounds.
            frozen: whether gradients reach only the action, not the weights.
            first: how many of the critics are asked; None: all.

        Returns:
            `[E, N]`; `[E, N, A]` where `by_action`, `[E, N, outputs]` where there are several.
        """
        if self.action is None:
            action = None
        elif not scaled:
            action = self.action(action)
        x = self.rows(obs, action, frozen=frozen)
        # Gradients of frozen critics reach the action alone: those of the weights would be computed
        # and thrown away.
        weights, biases, scales, offsets = (
            [p[:first].detach() if frozen else p[:first] for p in part]
            for part in (self.weights, self.biases, self.scales, self.offsets)
        )
        if self.renorms:
            q = self._renormalised(x, weights, biases, frozen=frozen)
        elif scales:
            q = normalised_layers(x, weights, biases, scales, offsets, precision=self.precision)
        else:
            q = dense_layers_product(
                x, weights, biases, precision=self.precision, rectify_last=False
            )
        return q if self.by_action or q.shape[2] > 1 else q[..., 0]

    def _renormalised(self, x: Any, weights: Any, biases: Any, *, frozen: bool) -> Any:
        """Return `[E, N, out]`, with the inputs of all layers renormalised."""
        dtype = torch.bfloat16 if self.precision == "bfloat16" else torch.float32
        rows = x.expand(len(weights[0]), *x.shape)
        for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            rows = self.renorms[i](rows if i == 0 else rows.relu(), frozen=frozen)
            product = torch.bmm(rows.to(dtype), weight.to(dtype).transpose(1, 2)).float()
            rows = product + bias[:, None]
        return rows

    def rows(self, obs: Any, action: Any = None, *, frozen: bool = False) -> torch.Tensor:
        """Return `[N, F]`, the inputs of the first layers; `action` is `[N, D]`, scaled."""
        if self.normalizer is not None:
            obs = self.normalizer(obs)
        # The encoders are shared by all critics, and are weights as well.
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            rows = self.parts(obs)
        if action is not None:
            rows.append(action)
        return torch.cat(rows, dim=1) if len(rows) > 1 else rows[0]


def make_critics(network: Any, *, precision: str, **layers: Any) -> Critics:
    """Return critics of the actions of a policy network, with weights that torch draws.

    If it normalises observations, they see the same ones; convolutions of images are like its own.

    Args:
        network: such as `make_agent_network` makes.
        precision: of products: "float32" or "bfloat16".
        **layers: of `Critics`: count, hidden, and how they are normalised.

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
        **layers,
        precision=precision,
        normalizer=normalizer,
        # A network of one's own does not say.
        images=getattr(network, "config", None),
    )


#: Added to variances, and how fast running means move: those of CrossQ's authors.
_EPSILON, _RATE = 1e-3, 0.01
#: Most that running means correct the deviation (as a factor) and the mean (in deviations).
_MOST_SCALE, _MOST_SHIFT = 3.0, 5.0


@final
class BatchRenorm(nn.Module):
    """Normalises the inputs `[E, N, F]` of a layer of E stacks over N rows, and scales them.

    In training mode the statistics are those of the rows, and running means follow them; once
    there were `warm_up` batches they are corrected to the running means, through which no
    gradient passes. In evaluation mode the running means are the statistics.

    Args:
        count: E.
        width: F.
        warm_up: batches that are not corrected.

    Attributes:
        scales: `[E, F]`, learned.
        offsets: likewise.
        mean: `[E, F]`, the running mean.
        variance: likewise.
        batches: how many there were in training mode.

    Source: Ioffe 2017, "Batch renormalization: towards reducing minibatch dependence in
    batch-normalized models"; constants as in Bhatt et al. 2024 ("CrossQ").
    """

    mean: torch.Tensor
    variance: torch.Tensor
    batches: torch.Tensor

    def __init__(self, count: int, width: int, *, warm_up: int = 100_000) -> None:
        super().__init__()
        shape = count, width
        self.warm_up = warm_up
        self.scales = nn.Parameter(torch.ones(shape, dtype=torch.float32))
        self.offsets = nn.Parameter(torch.zeros(shape, dtype=torch.float32))
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float32))
        self.register_buffer("variance", torch.ones(shape, dtype=torch.float32))
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor, *, frozen: bool = False) -> torch.Tensor:
        """Return `[E, N, F]`; x may be of the first stacks alone, in evaluation mode.

        Args:
            x: `[E, N, F]`.
            frozen: whether no gradient reaches the scales and offsets.
        """
        here = slice(len(x))
        scales, offsets = self.scales[here], self.offsets[here]
        if frozen:
            scales, offsets = scales.detach(), offsets.detach()
        if self.training:
            mean, variance = x.mean(dim=1), x.var(dim=1, correction=0)
            factor, shift = self._corrections(mean.detach(), variance.detach())
            scales, offsets = scales * factor, offsets + scales * shift
        else:
            mean, variance = self.mean[here], self.variance[here]
        normal = (x - mean[:, None]) * (variance + _EPSILON).rsqrt()[:, None]
        return torch.addcmul(offsets[:, None], normal, scales[:, None])

    @torch.no_grad()
    def _corrections(self, mean: torch.Tensor, variance: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return factor and shift `[E, F]` of what is normalised, and count the batch."""
        deviation = (self.variance + _EPSILON).sqrt()
        factor = (variance + _EPSILON).sqrt() / deviation
        shift = (mean - self.mean) / deviation
        # On the device, so that an update can be recorded.
        late = self.batches > self.warm_up
        factor = torch.where(late, factor.clamp(1 / _MOST_SCALE, _MOST_SCALE), 1.0)
        shift = torch.where(late, shift.clamp(-_MOST_SHIFT, _MOST_SHIFT), 0.0)
        self.mean.lerp_(mean, _RATE)
        self.variance.lerp_(variance, _RATE)
        self.batches += 1
        return factor, shift


@final
class OfCritics(nn.Module):
    """Evaluates observations by the lowest critic's value of the policy's action.

    Of Discrete actions it is the mean over the policy. The lowest, as that is what they learned
    from: each alone is too high where little was played.

    Args:
        network: of the policy; it looks at observations alone, see `OfObservations`.
        critics: of its actions.

    Attributes:
        distribution: what the policy's numbers are of.
    """

    def __init__(self, network: nn.Module, critics: Critics) -> None:
        super().__init__()
        self.policy, self.critics = OfObservations(network), critics
        self.distribution: Distribution = self.policy.distribution

    def forward(self, obs: Any) -> NetworkOutput:
        """Evaluate tensors `[N, *obs]`, nested as the space."""
        params = self.policy(obs).policy_logits
        if self.critics.by_action:
            value = (torch.softmax(params, dim=1) * self.critics(obs).amin(dim=0)).sum(dim=1)
            return NetworkOutput(params, value, None)
        played = self.distribution.greedy(params.detach().cpu().numpy())
        action = mapped(lambda part: torch.from_numpy(part).to(params.device), played)
        q = self.critics(obs, action)
        # Of quantiles the mean is what an action is worth.
        return NetworkOutput(params, (q if q.ndim == 2 else q.mean(dim=2)).amin(dim=0), None)
