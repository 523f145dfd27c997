"""Agents with a stochastic policy: PolicyAgent for replay, ActorCriticAgent with values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent import Acted, RandomAgent
from plangym_ext.learn.agents.inputs import Inputs, needed_noise
from plangym_ext.learn.agents.network_agent import NetworkAgent, as_tensor, refuse_infinite
from plangym_ext.learn.distributions.base import masked
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


@final
class ActorCriticAgent(NetworkAgent):
    """Samples from the policy in modes "train" and "sample", acts greedily in "eval".

    The infos of a step are "log_prob" `[B]` float32; "value" `[B]` float32, if the network has
    a value head; "raw_action", nested as the action, if the policy is a plain Gaussian over a
    Box with bounds: what was drawn, of which the action is what lies within the bounds and
    "log_prob" is the likelihood; and "params" `[B, P]` float32, if asked for.

    Args:
        network: with a policy head.
        device: where it runs.
        keep_params: whether the numbers of the distribution are among the infos, which
            losses with a divergence need.
        sample_in_eval: whether mode "eval" draws as well.

    Raises:
        InvalidOption: the network has no policy head, or the device is not there.
    """

    def __init__(
        self,
        network: AgentNetwork,
        *,
        device: str = "cpu",
        keep_params: bool = False,
        sample_in_eval: bool = False,
    ) -> None:
        super().__init__(network, device=device)
        self.keep_params, self.sample_in_eval = keep_params, sample_in_eval

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        """Choose actions; see `Agent.step`."""
        with torch.inference_mode():
            out, carry = self._forward(inputs, carry)
            legal = None if inputs.legal is None else as_tensor(inputs.legal)
            # Before the draw and before the likelihood: both are of the policy over the legal
            # actions.
            params = masked(self._params(out), legal)
            drawn = self._drawn(params.numpy(), inputs)
            # Of what was drawn and not of what the bounds make of it, as the learner computes it
            # again.
            log_prob = self.distribution.log_prob(params, mapped(as_tensor, drawn))
            info: dict[str, Any] = {"log_prob": log_prob.numpy()}
            refuse_infinite(info["log_prob"], type(self).__name__, "log probabilities")
            if out.value is not None:
                info["value"] = out.value.numpy()
            action = drawn
            if self.distribution.clips:
                info["raw_action"], action = drawn, self.distribution.clip(drawn)
            if self.keep_params:
                info["params"] = params.numpy()
        return Acted(action, info, carry)

    def value(self, inputs: Inputs, carry: Any) -> Any:
        """Return `[B]` float32; see `Agent.value`."""
        with torch.inference_mode():
            out, _ = self._forward(inputs, carry)
        if out.value is None:
            return super().value(inputs, carry)
        return out.value.numpy()

    def _drawn(self, params: Any, inputs: Inputs) -> Any:
        if self.mode == "eval" and not self.sample_in_eval:
            return self.distribution.greedy(params)
        noise = needed_noise(inputs, type(self).__name__)
        return self.distribution.draw(params, noise)

    def _params(self, out: Any) -> Any:
        if out.policy_logits is None:
            raise InvalidOption(
                "ActorCriticAgent: the network must have a policy head; it has none. Name it in "
                "AgentConfig(heads=...)."
            )
        return out.policy_logits
