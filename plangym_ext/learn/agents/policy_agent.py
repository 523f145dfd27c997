"""PolicyAgent: policy sampling for off-policy algorithms, with random actions at first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent import Acted
from plangym_ext.learn.agents.inputs import Inputs, needed_noise
from plangym_ext.learn.agents.network_agent import NetworkAgent, refuse_infinite
from plangym_ext.learn.agents.random_agent import RandomAgent
from plangym_ext.learn.distributions.masking import masked
from plangym_ext.learn.networks.agent_network import AgentNetwork
from plangym_ext.learn.torch_extra import torch


@final
class PolicyAgent(NetworkAgent):
    """Samples from the policy in modes "train" and "sample", acts greedily in "eval".

    Until the first update of the weights it draws evenly from the space instead: an algorithm
    that begins to learn after so many steps has that many random ones to begin with.

    Args:
        network: with a policy head, and the attribute `action_space` besides those of a
            `NetworkAgent`'s.
        exploration: how many times as large as the policy's own the deviations are of what is
            drawn; those of deterministic policies are 1, half the range of the actions. A learner
            sets the attribute by its config; it travels with the weights.
        device: where the network runs.

    Raises:
        InvalidOption: the network has no policy head, or the device is not there.
    """

    _read = (*NetworkAgent._read, "action_space")

    def __init__(
        self, network: AgentNetwork, *, exploration: float = 1.0, device: str = "cpu"
    ) -> None:
        super().__init__(network, device=device)
        self.exploration = exploration
        self._random = RandomAgent(network.action_space)

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        """Choose actions; see `Agent.step`."""
        if self.version == 0 and self.mode != "eval":
            return self._random.step(inputs, carry)
        with torch.inference_mode():
            out, carry = self._forward(inputs, carry)
            if out.policy_logits is None:
                raise InvalidOption(
                    "PolicyAgent: the network must have a policy head; it has none. Name it in "
                    "AgentConfig(heads=...)."
                )
            params = out.policy_logits.numpy()
        refuse_infinite(params, type(self).__name__, "numbers of the policy")
        # After the check, which is to see what the network said.
        params = masked(params, inputs.legal)
        if self.mode == "eval":
            action = self.distribution.greedy(params)
        else:
            noise = needed_noise(inputs, type(self).__name__)
            action = self.distribution.sample(params, noise, self.exploration)
        return Acted(action, {}, carry)

    def state_dict(self) -> dict[str, Any]:
        """Return "version", "exploration", and the weights as arrays by name."""
        # An array, as weights travel in shared memory.
        return {**super().state_dict(), "exploration": np.array(self.exploration)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load weights, version and exploration; see `NetworkAgent.load_state_dict`."""
        super().load_state_dict(state)
        self.exploration = float(state.get("exploration", self.exploration))
