"""QHead: network head for Q values or return distributions, optionally dueling."""

from __future__ import annotations

from typing import Any, final

from plangym_ext.learn.networks.agent_config import QAgentConfig
from plangym_ext.learn.networks.bodies import activation_of
from plangym_ext.learn.networks.noisy import NoisyLinear
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
            between = activation_of(config)
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
