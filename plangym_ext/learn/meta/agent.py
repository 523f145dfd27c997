"""ContextAgent and its network: plays trials, and infers the task from the steps so far."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, final

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent import Acted, RandomAgent
from plangym_ext.learn.agents.inputs import Inputs, needed_noise
from plangym_ext.learn.agents.network_agent import ROWS, NetworkAgent, refuse_infinite
from plangym_ext.learn.networks.agent_network import AgentNetwork
from plangym_ext.learn.networks.config import ContextConfig
from plangym_ext.learn.networks.inputs import ActionEncoder
from plangym_ext.learn.networks.quick_forward import shown
from plangym_ext.learn.repeatable import seeded
from plangym_ext.learn.torch_extra import functional, nn, torch

#: Least variance of a factor.
_LEAST = 1e-7


@final
class ContextNetwork(nn.Module):
    """Infers a task variable z from the steps of a task, and conditions the policy on z.

    A step (observation, action, reward) is encoded as a Gaussian factor of each number of z. The
    posterior is the product of the factors, of which the order does not count; without steps it is
    the prior, a standard normal distribution.

    Args:
        observation_space: of one row: a vector.
        action_space: a Box.
        config: what it is made of.

    Attributes:
        policy: an `AgentNetwork` of `[observation, z]`.
        encoder: dense layers.
        latent: Z, numbers of z.
        distribution: what the policy's numbers are of.
        context_fields: names of what the encoder is shown of a step, in order.
        inputs_used: names of the fields of `Inputs` that its agent looks at.

    Source: Rakelly et al. 2019, "Efficient off-policy meta-reinforcement learning via probabilistic
    context variables", section 4.1.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        config: ContextConfig,
    ) -> None:
        super().__init__()
        seen = observation_space
        if not isinstance(seen, spaces.Box) or len(seen.shape) != 1 or seen.dtype.kind != "f":
            raise InvalidOption(
                f"make_context_network: observations must be vectors of floats; got {seen}."
            )
        if not isinstance(action_space, spaces.Box):
            raise InvalidOption(
                f"make_context_network: actions must be of a Box; got {action_space}."
            )
        self.observation_space, self.action_space, self.config = seen, action_space, config
        self.latent = config.latent
        self.context_fields = ("obs", "action", "reward", "next_obs")[: 3 + config.next_obs]
        ends = np.full(self.latent, np.inf)
        low, high = np.append(seen.low, -ends), np.append(seen.high, ends)
        joined = spaces.Box(low.astype(np.float32), high.astype(np.float32))
        self.policy = AgentNetwork(joined, action_space, config)
        self.distribution = self.policy.distribution
        self.inputs_used = ("obs", "action", "reward", "first")
        self._action = ActionEncoder(action_space)
        width = seen.shape[0] * (1 + config.next_obs) + self._action.width + 1
        widths = [width, *config.encoder_hidden, 2 * self.latent]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after, dtype=torch.float32), nn.ReLU()]
        self.encoder = nn.Sequential(*layers[:-1])

    def initial_carry(self, num_rows: int) -> dict[str, torch.Tensor]:
        """Return zeros `[B, ...]`: the last observation, sums of factors, and z."""
        sizes = {"obs": self.observation_space.shape[0]}
        sizes |= dict.fromkeys(("precision", "weighted", "z"), self.latent)
        return {name: torch.zeros(num_rows, size) for name, size in sizes.items()}

    def factors(self, obs: Any, action: Any, reward: Any, *next_obs: Any) -> tuple[Any, Any]:
        """Return precisions of steps' factors, and these times their means.

        Args:
            obs: `[N, D]`.
            action: `[N, *act]`, that were played there.
            reward: `[N]`, that were paid for them.
            next_obs: `[N, D]`, that came of them, where the encoder is shown it.

        Returns:
            `[N, Z]` each; sums of both over steps are what a posterior is made of.
        """
        parts = [obs.float(), self._action(action), reward.float()[:, None], *next_obs]
        rows = torch.cat(parts, dim=1)
        mean, raw = self.encoder(rows).chunk(2, dim=1)
        precision = 1 / functional.softplus(raw).clamp(min=_LEAST)
        return precision, precision * mean

    def posterior(self, *context: Any) -> tuple[Any, Any]:
        """Return means and variances of z given C steps of each of M tasks, `[M, Z]` each.

        Args:
            context: arguments of `factors`, `[M, C, ...]` each.
        """
        parts = self.factors(*(part.flatten(0, 1) for part in context))
        shape = context[0].shape[:2]
        return posterior_of(*(part.unflatten(0, shape).sum(dim=1) for part in parts))


def posterior_of(precision: Any, weighted: Any) -> tuple[Any, Any]:
    """Return means and variances of products of Gaussians; the prior's where there are none.

    Args:
        precision: `[..., Z]`, sums of the factors' precisions, tensors; 0 where there are none.
        weighted: `[..., Z]`, sums of precision times mean.
    """
    variance = torch.where(precision > 0, 1 / precision, torch.ones_like(precision))
    return weighted * variance, variance


def divergence(mean: Any, variance: Any) -> Any:
    """Return `[...]`, KL(N(mean, variance) || N(0, 1)), summed over the last axis."""
    return 0.5 * (variance + mean**2 - 1 - variance.log()).sum(dim=-1)


def make_context_network(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    config: ContextConfig | None = None,
    *,
    seed: int,
) -> ContextNetwork:
    """Make the networks of `PEARL`.

    Args:
        observation_space: of one row: a vector of floats, such as that of `Trials`.
        action_space: a Box.
        config: what they are made of.
        seed: of the weights; torch's own generator is left as it was.

    Raises:
        InvalidOption: the spaces are others.
    """
    with seeded(seed):
        return ContextNetwork(observation_space, action_space, config or ContextConfig())


@final
class ContextAgent(NetworkAgent):
    """Plays `Trials`; draws z from its posterior at the beginning of each episode.

    The carry holds sums of the factors of all steps of the trial, so the first episode is played by
    a draw from the prior and each later one by a draw from the posterior. In mode "eval" the
    policy's actions are greedy; z is drawn as well, and is the mean where there is no noise. Until
    the first update of the weights it draws actions evenly from the space.

    Args:
        network: of `make_context_network`.
        device: where it runs.
    """

    _read = (*NetworkAgent._read, "action_space", "factors", "policy", "latent", "context_fields")

    def __init__(self, network: Any, *, device: str = "cpu") -> None:
        super().__init__(network, device=device)
        self._random = RandomAgent(network.action_space)

    @property
    def env_info(self) -> dict[str, Any]:
        """The infos that samplers keep for its learner; see `SamplerOptions.env_info`."""
        return {"task": np.int64, "episode": np.int64, "over": np.bool_}

    def step(self, inputs: Inputs, carry: Any) -> Acted:
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
        last = (carry["obs"], inputs.action, inputs.reward, np.float32(inputs.obs))
        fields = self.network.context_fields
        found = self.network.factors(*(self._tensor(part, more) for part in last[: len(fields)]))
        first, counts = np.asarray(inputs.first)[:, None], np.float32(1)
        if "next_obs" in fields:  # what is seen where an episode begins did not come of the step
            counts = np.float32(inputs.obs[:, -1:] <= 0)
        parts = (part[: len(first)].cpu().numpy() * counts for part in found)
        return {
            name: np.where(first, np.float32(0), carry[name] + part)
            for name, part in zip(("precision", "weighted"), parts, strict=True)
        }

    def _drawn(self, inputs: Inputs, known: dict[str, Any], before: Any) -> Any:
        """Return `[B, Z]` float32, drawn anew where an episode begins."""
        sums = (torch.from_numpy(known[name]) for name in ("precision", "weighted"))
        mean, variance = (part.numpy() for part in posterior_of(*sums))
        noise = 0.0 if inputs.noise is None else inputs.noise.normal(self.network.latent)
        drawn = (mean + np.sqrt(variance) * noise).astype(np.float32)
        begins = np.asarray(inputs.first) | (inputs.obs[:, -1] > 0)
        return np.where(begins[:, None], drawn, before)
