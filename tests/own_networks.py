"""A network of one's own that keeps what it learns beside its parameters."""

from __future__ import annotations

import numpy as np
from torch import nn, zeros

from plangym_ext.learn import NetworkOutput, distribution_of


class Counting(nn.Module):
    """Says of values what an array and a buffer of its own come to as it learns."""

    inputs_used = frozenset({"obs"})
    value_scale = 1.0

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space
        self.distribution = distribution_of(action_space)
        self.body = nn.Linear(4, 3)
        self.parts = {"scale": np.ones(1, np.float32)}
        self.register_buffer("shift", zeros(1), persistent=False)

    def initial_carry(self, num_rows):
        return None

    def forward(self, inputs, carry=None):
        found = self.body(getattr(inputs, "obs", inputs))
        if self.training:
            self.parts["scale"] *= np.float32(1.01)
            self.shift += 0.25
        value = found[..., 2] * float(self.parts["scale"][0]) + self.shift
        out = NetworkOutput(found[..., :2], value, None)
        return (out, None) if hasattr(inputs, "obs") else out

    def told(self):
        return float(self.parts["scale"][0]), float(self.shift)
