"""A network as the function that planners ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidOption, suggestion
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.learn.networks.state import load_network_state
from plangym_ext.learn.torch_extra import nn, torch

OUTPUTS = ("auto", "policy-value", "value", "policy", "q")


class NetworkEvaluator:
    """Asks a network about all leaves of a wave in one call.

    It is a planner's `evaluator`: `obs [L, *obs] -> (prior [L, A] or None, value [L])`.
    Observations are read where they are, and the answers are views of the network's
    own output: nothing is copied on the CPU. They stay good; each call has its own.

    What a row is rated can differ in the last bits with the other rows of the call, as
    matrix products add in an order that depends on their number. The same calls give the
    same.

    Args:
        network: a `Network`, or any module whose forward returns a `NetworkOutput`. It is
            shared, not copied: what a trainer changes is asked at once.
        outputs: what to answer from: "policy-value", "value" (the prior is uniform),
            "policy" (values are 0), "q" (the best action's value, prior softmax(q /
            temperature)); "auto" takes the heads that there are.
        temperature: of the prior, for "policy" and "q".
        device: where the network runs; it is moved there.
        compile: whether to compile it (`torch.compile`), which takes a C++ compiler and
            some seconds at the first calls.
        version: of the weights; see `load`.

    Attributes:
        calls: how many times the network was asked.
        rows: about how many observations in all.
        version: of the weights, as `load` was told.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        outputs: str = "auto",
        temperature: float = 1.0,
        device: str = "cpu",
        compile: bool = False,  # noqa: A002 - torch's word
        version: int = 0,
    ) -> None:
        if outputs not in OUTPUTS:
            raise InvalidOption(
                f"NetworkEvaluator: outputs must be one of {', '.join(OUTPUTS)}; got "
                f"{outputs!r}{suggestion(outputs, OUTPUTS)}."
            )
        self.network = network.to(device)
        self.outputs, self.temperature, self.version = outputs, float(temperature), version
        self.device = torch.device(device)
        self.calls = self.rows = 0
        self._forward: Any = torch.compile(network, dynamic=True) if compile else network

    def __call__(self, obs: Any) -> tuple[npt.NDArray[np.float32] | None, npt.NDArray[np.float32]]:
        """Rate `[L, *obs]`: prior `[L, A]` or None, value `[L]`, both float32."""
        raise NotImplementedError

    def ask(self, obs: Any) -> NetworkOutput:
        """Return all heads as numpy arrays; None where the network has no such head."""
        raise NotImplementedError

    def load(self, state: Mapping[str, Any], version: int) -> None:
        """Take over the weights of a `state_dict`, and their version.

        Raises:
            ForeignNetwork: they are another network's; nothing was changed.
        """
        load_network_state(self.network, state, "NetworkEvaluator.load")
        self.version = version
