"""AutoEncoder: a variational auto-encoder of observations."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

from plangym_ext.core.numbers import at_least
from plangym_ext.learn.networks.bodies import dense_layers, hidden_of, make_body
from plangym_ext.learn.networks.config import NetworkConfig
from plangym_ext.learn.networks.inputs import ObservationEncoder
from plangym_ext.learn.repeatable import seeded
from plangym_ext.learn.torch_extra import nn, torch


class Encoded(NamedTuple):
    """Normal distributions of latents."""

    mean: Any  # [N, L]
    log_std: Any  # [N, L]


@final
class AutoEncoder(nn.Module):
    """A variational auto-encoder of Box observations, whose `encode` gives features.

    Args:
        space: a Box of vectors or images.
        latents: L.
        config: layers of the encoder; the decoder has its dense layers in reverse.
        weight: of the divergence from the prior in the loss, 1 for a bound of the likelihood.
        seed: of the weights.

    Source: Kingma and Welling 2014, "Auto-encoding variational Bayes"; Higgins et al. 2017,
    "beta-VAE" (the weight).
    """

    def __init__(
        self,
        space: Any,
        latents: int,
        config: NetworkConfig | None = None,
        *,
        weight: float = 1.0,
        seed: int,
    ) -> None:
        super().__init__()
        config, latents = config or NetworkConfig(), at_least("AutoEncoder: latents", latents, 1)
        with seeded(seed):
            self.scaled = ObservationEncoder(space, config.image_channels)
            shape = self.scaled.shape
            self.body, width = make_body(shape, config)
            self.head = nn.Linear(width, 2 * latents, dtype=torch.float32)
            kind = "mlp" if len(shape) == 1 else "conv"
            hidden = hidden_of(kind, config)[::-1]
            layers, width = dense_layers(latents, hidden, config)
            out = nn.Linear(width, math.prod(shape), dtype=torch.float32)
            self.decoder = nn.Sequential(*layers, out, nn.Unflatten(1, shape))
        self.weight = weight

    def encode(self, obs: torch.Tensor) -> Encoded:
        """Return the latents of observations `[N, *obs]`."""
        return Encoded(*self.head(self.body(self.scaled(obs))).chunk(2, dim=1))

    def decode(self, latent: torch.Tensor) -> torch.Tensor:
        """Return observations `[N, ...]` of `[N, L]`, scaled as `ObservationEncoder` has them."""
        found: torch.Tensor = self.decoder(latent)
        return found

    def loss(self, obs: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        """Return the negative evidence bound of rows, its mean over N, up to a constant.

        Args:
            obs: `[N, *obs]`.
            noise: `[N, L]` normal numbers; None: drawn from torch's generator.
        """
        mean, log_std = self.encode(obs)
        noise = torch.randn_like(mean) if noise is None else noise
        # The Gaussian of a unit deviation: squared errors.
        error = self.decode(mean + log_std.exp() * noise) - self.scaled(obs)
        divergence = 0.5 * ((2 * log_std).exp() + mean.square() - 1.0) - log_std
        bound = 0.5 * error.square().flatten(1).sum(1) + self.weight * divergence.sum(1)
        return bound.mean()
