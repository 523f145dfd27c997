"""Network parts: QHead for Q values or return distributions, and recurrent layers (LSTM, GRU)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, final

from plangym_ext.learn.networks.bodies import ACTIVATION_LAYERS, NoisyLinear
from plangym_ext.learn.networks.config import QAgentConfig
from plangym_ext.learn.networks.image_layers import ConvGRU
from plangym_ext.learn.torch_extra import nn, torch


@final
class QHead(nn.Module):
    """From features to Q values, by one stream of layers or, if dueling, by two.

    Args:
        width: features.
        hidden: width of a layer in each stream; None: there is none.
        num_actions: A.
        config: what to put out.

    Attributes:
        support: `[K]` returns that the atoms stand for; None: the head has no atoms.

    Source: Wang et al. 2016, "Dueling network architectures for deep reinforcement learning",
    equation 9; Bellemare et al. 2017, "A distributional perspective on reinforcement learning"
    (atoms); Dabney et al. 2018, "Distributional reinforcement learning with quantile
    regression" (quantiles).
    """

    support: Any

    def __init__(
        self, width: int, hidden: int | None, num_actions: int, config: QAgentConfig
    ) -> None:
        super().__init__()
        self._kind, self._scale = config.returns, float(config.value_scale)
        self._shape = num_actions, 1 if config.returns == "mean" else config.atoms

        def stream(outputs: int) -> nn.Sequential:
            layer = NoisyLinear if config.noisy else nn.Linear
            if hidden is None:
                return nn.Sequential(layer(width, outputs))
            between = ACTIVATION_LAYERS[config.activation]()
            return nn.Sequential(layer(width, hidden), between, layer(hidden, outputs))

        self.advantage = stream(num_actions * self._shape[1])
        self.value = stream(self._shape[1]) if config.dueling else None
        support = torch.linspace(
            config.return_range[0], config.return_range[1], config.atoms, dtype=torch.float32
        )
        has_atoms = config.returns == "atoms"
        self.register_buffer("support", support if has_atoms else None, persistent=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return Q values `[N, A]`, and the logits of atoms or the quantiles `[N, A, K]`."""
        numbers = self.advantage(x).unflatten(1, self._shape)
        if self.value is not None:
            # Without the mean a constant could move between the streams: neither would be defined.
            advantage = numbers - numbers.mean(dim=1, keepdim=True)
            numbers = self.value(x)[:, None] + advantage
        if self._kind == "atoms":
            return numbers.softmax(dim=2) @ self.support, numbers
        # Not for atoms, whose support is in returns already.
        if self._scale != 1.0:
            numbers = numbers * self._scale
        if self._kind == "quantiles":
            return numbers.mean(dim=2), numbers
        return numbers[:, :, 0], None

    def zero(self) -> None:
        """Set equal Q values for all actions; deviations of noisy layers stay."""
        for stream in (self.advantage, self.value):
            if stream is not None:
                last: Any = stream[-1]
                # The mean weights of a noisy layer have this name, too.
                nn.init.zeros_(last.weight)
                nn.init.zeros_(last.bias)


_LAYERS = {"lstm": nn.LSTM, "gru": nn.GRU}
#: Names of the parts of a carry, each `[B, H]`.
PARTS = {"lstm": ("h", "c"), "gru": ("h",), "conv_gru": ("h",)}


class Recurrent(nn.Module):
    """One LSTM or GRU layer.

    Args:
        kind: "lstm", "gru" or "conv_gru".
        width: features per step that come in; of "conv_gru" the shape of an image of them.
        size: features per step that go out, H.
    """

    def __init__(self, kind: str, width: Any, size: int) -> None:
        super().__init__()
        self.parts, self.size = PARTS[kind], size
        self.layer: Any = (
            ConvGRU(width)
            if kind == "conv_gru"
            else _LAYERS[kind](width, size, dtype=torch.float32)
        )

    def initial_carry(self, num_rows: int) -> dict[str, torch.Tensor]:
        """Return zeros `[B, H]` by name, on the CPU."""
        return {name: torch.zeros(num_rows, self.size, dtype=torch.float32) for name in self.parts}

    def forward(
        self, x: torch.Tensor, carry: Mapping[str, torch.Tensor], first: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Go through T steps.

        Args:
            x: `[T, B, width]`.
            carry: before the first of them; not changed.
            first: `[T, B]` bool, where the carry is reset before the step.

        Returns:
            `[T, B, H]`, and the carry after the last step.
        """
        parts = tuple(carry[name] for name in self.parts)
        outs = []
        # Torch's layer cannot reset a row in the middle of a sequence: it is called for each piece
        # between two beginnings.
        for start, end in pairwise(_cuts(first)):
            # Only the rows that begin; the others go on. A new tensor: the caller's carry is not
            # changed.
            parts = tuple(part.masked_fill(first[start][:, None], 0.0) for part in parts)
            out, parts = self._segment(x[start:end], parts)
            outs.append(out)
        whole = outs[0] if len(outs) == 1 else torch.cat(outs)
        return whole, dict(zip(self.parts, parts, strict=True))

    def _segment(
        self, x: torch.Tensor, parts: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """Go through steps in which no episode begins: one call of torch's layer."""
        layered = tuple(part[None] for part in parts)
        out, after = self.layer(x, layered if len(layered) > 1 else layered[0])
        after = after if isinstance(after, tuple) else (after,)
        return out, tuple(part[0] for part in after)


def _cuts(first: torch.Tensor) -> list[int]:
    """Return the steps at which some row begins an episode, between 0 and T."""
    steps = len(first)
    if steps == 1:
        return [0, 1]
    begins: Any = first.any(dim=1).tolist()
    return [0, *(t for t in range(1, steps) if begins[t]), steps]
