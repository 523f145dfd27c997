"""ContextAgent: plays trials, and infers their tasks from what it has played."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from plangym_ext.learn.agents.agent import Acted, RandomAgent
from plangym_ext.learn.agents.inputs import Inputs, needed_noise
from plangym_ext.learn.agents.network_agent import ROWS, NetworkAgent, refuse_infinite
from plangym_ext.learn.meta.network import posterior_of
from plangym_ext.learn.networks.quick_forward import shown
from plangym_ext.learn.torch_extra import torch


@final
class ContextAgent(NetworkAgent):
    """Plays `Trials` with a z that is drawn when an episode begins, from what is known by then.

    The carry holds sums of the factors of all steps of the trial, so the first episode is played by
    a draw from the prior and each later one by a draw from the posterior. In mode "eval" the
    policy's actions are greedy; z is drawn as well, and is the mean where there is no noise. Until
    the first update of the weights it draws actions evenly from the space.

    Args:
        network: of `make_context_network`.
        device: where it runs.
    """

    _read = (*NetworkAgent._read, "action_space", "factors", "policy", "latent")

    def __init__(self, network: Any, *, device: str = "cpu") -> None:
        super().__init__(network, device=device)
        self._random = RandomAgent(network.action_space)

    @property
    def env_info(self) -> dict[str, Any]:
        """The infos that samplers keep for its learner; see `SamplerOptions.env_info`."""
        return {"task": np.int64, "episode": np.int64, "over": np.bool_}

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        """Choose actions; see `Agent.step`."""
        rows = len(inputs.first)
        self._check_carry(rows, carry)
        more = -rows % ROWS
        with torch.inference_mode():
            known = self._known(inputs, carry, more)
            z = self._drawn(inputs, known, carry["z"])
            after = {"obs": np.array(inputs.obs, np.float32), **known, "z": z}
            if self.version == 0 and self.mode != "eval":
                return Acted(self._random.step(inputs, None).action, {}, after)
            joined = np.concatenate((after["obs"], z), axis=1)
            out, _ = self.network.policy(shown(self._tensor(joined, more)))
            params = out.policy_logits[:rows].cpu().numpy()
        refuse_infinite(params, type(self).__name__, "numbers of the policy")
        if self.mode == "eval":
            return Acted(self.distribution.greedy(params), {}, after)
        noise = needed_noise(inputs, type(self).__name__)
        return Acted(self.distribution.sample(params, noise), {}, after)

    def _known(self, inputs: Inputs, carry: Any, more: int) -> dict[str, Any]:
        """Return the sums of factors with those of the last step; 0 where a trial begins."""
        last = (carry["obs"], inputs.action, inputs.reward)
        found = self.network.factors(*(self._tensor(part, more) for part in last))
        first = np.asarray(inputs.first)[:, None]
        return {
            name: np.where(first, np.float32(0), carry[name] + part[: len(first)].cpu().numpy())
            for name, part in zip(("precision", "weighted"), found, strict=True)
        }

    def _drawn(self, inputs: Inputs, known: dict[str, Any], before: Any) -> Any:
        """Return `[B, Z]` float32, drawn anew where an episode begins."""
        sums = (torch.from_numpy(known[name]) for name in ("precision", "weighted"))
        mean, variance = (part.numpy() for part in posterior_of(*sums))
        noise = 0.0 if inputs.noise is None else inputs.noise.normal(self.network.latent)
        drawn = (mean + np.sqrt(variance) * noise).astype(np.float32)
        begins = np.asarray(inputs.first) | (inputs.obs[:, -1] > 0)
        return np.where(begins[:, None], drawn, before)
