"""The network that every contestant acts by. Imported by peers' Pythons too: torch alone."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn

#: Steps of a fragment.
NUM_STEPS = 32


def body(sizes: list[int]) -> nn.Sequential:
    """Dense layers with tanh between them."""
    layers: list[nn.Module] = []
    for one, two in itertools.pairwise(sizes):
        layers += [nn.Linear(one, two), nn.Tanh()]
    return nn.Sequential(*layers)


class Nature(nn.Module):
    """The convolutions of the Nature DQN and a dense layer of 512."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(3136, 512),
            nn.ReLU(),
        )

    def forward(self, obs: torch.Tensor) -> Any:
        """Return features `[B, 512]`."""
        return self.layers(obs.float() / 255)


class ActorCritic(nn.Module):
    """A body for the policy and one for the value: 64-64; or one Nature body for both."""

    def __init__(self, obs_shape: tuple[int, ...], num_outputs: int) -> None:
        super().__init__()
        if len(obs_shape) == 1:
            sizes = [obs_shape[0], 64, 64]
            self.policy_body: nn.Module = body(sizes)
            self.value_body: nn.Module = body(sizes)
        else:
            self.policy_body = self.value_body = Nature()
        width = 64 if len(obs_shape) == 1 else 512
        self.policy, self.value = nn.Linear(width, num_outputs), nn.Linear(width, 1)

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits or means `[B, A]`, and values `[B]`."""
        features = self.policy_body(obs)
        shared = self.value_body is self.policy_body
        seen = features if shared else self.value_body(obs)
        return self.policy(features), self.value(seen)[:, 0]
