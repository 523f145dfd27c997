"""Curiosity: intrinsic rewards from the errors of a learned model of features (ICM)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, final

from plangym_ext.arrays import ArrayDict
from plangym_ext.arrays.items import has_items
from plangym_ext.arrays.nested import mapped
from plangym_ext.core.options import CheckedOptions, Count, Positive, Range
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.rollouts.rollout import TreeReader
from plangym_ext.learn.distributions.make import distribution_of
from plangym_ext.learn.networks.config import AgentConfig
from plangym_ext.learn.networks.inputs import ActionEncoder, InputBody
from plangym_ext.learn.repeatable import seeded
from plangym_ext.learn.torch_extra import nn, torch


@dataclass(frozen=True, kw_only=True)
class CuriosityConfig(CheckedOptions):
    """Configuration of `Curiosity`.

    Args:
        weight: of the bonus beside the rewards.
        hidden: width of the layers of both models.
        forward_share: of the forward model's loss; the rest is that of the inverse model.
        learning_rate: of Adam.
        epochs: updates on each fragment.
    """

    weight: Positive = 0.01
    hidden: Count = 64
    forward_share: Annotated[float, Range(0.0, 1.0)] = 0.2
    learning_rate: Positive = 1e-3
    epochs: Count = 4


@final
class Curiosity(nn.Module):
    """An inverse model (observations to action) and a forward model (action to next features).

    Features are those that tell actions; the bonus of a step is half the squared error of the
    predicted features of the next observation. `reward` adds it to a fragment, in place, before an
    algorithm takes it; a run does so with the callback `plangym_ext.run.CuriousRewards`.

    Args:
        observation_space: of one row.
        action_space: of one row.
        config: None: the defaults.
        network: layers of the features; None: the defaults.
        seed: of the weights.

    Source: Pathak et al. 2017, "Curiosity-driven exploration by self-supervised prediction".
    """

    #: As of a network that a fragment is read for.
    inputs_used = ("obs",)

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        config: CuriosityConfig | None = None,
        *,
        network: AgentConfig | None = None,
        seed: int,
    ) -> None:
        super().__init__()
        if has_items(observation_space):
            raise InvalidOption(
                f"Curiosity: observations must have a fixed size; got {observation_space}."
            )
        self.observation_space, self.action_space = observation_space, action_space
        self.config = config or CuriosityConfig()
        self.distribution: Any = distribution_of(action_space)
        with seeded(seed):
            self.body = InputBody(observation_space, action_space, network or AgentConfig())
            self.actions = ActionEncoder(action_space)
            width = self.body.width
            self.inverse = self._layers(2 * width, self.distribution.width)
            self.forward_model = self._layers(width + self.actions.width, width)
        self._optimizer = torch.optim.Adam(self.parameters(), self.config.learning_rate)

    def _layers(self, width: int, out: int) -> nn.Module:
        hidden = self.config.hidden
        first, last = (
            nn.Linear(*sizes, dtype=torch.float32) for sizes in ((width, hidden), (hidden, out))
        )
        return nn.Sequential(first, nn.ReLU(), last)

    def initial_carry(self, num_rows: int) -> None:
        """Return None: nothing is carried."""

    def forward(self, obs: Any, action: Any, after: Any) -> tuple[Any, Any]:
        """Return the loss of each model for N steps, `[N]` each: inverse, and forward (the bonus).

        Args:
            obs: `Inputs` `[N, *obs]` before the steps.
            action: `[N, *act]`, nested as the space.
            after: as `obs`, after them.
        """
        before, then = self.body(obs), self.body(after)
        params = self.inverse(torch.cat([before, then], dim=1))
        inverse = -self.distribution.log_prob(params, action)
        # Features are learned from actions alone: constant ones would be predicted best.
        told = torch.cat([before.detach(), self.actions(action)], dim=1)
        error = self.forward_model(told) - then.detach()
        return inverse, 0.5 * error.square().sum(dim=1)

    def steps(self, tree: ArrayDict) -> tuple[Any, Any, Any]:
        """Return the arguments of `forward` for all steps `[T B, ...]` of a fragment, copied."""
        read = TreeReader(tree, self, by_q=False)
        shown, final = read.shown(), read.after()
        ended = (read.tensor(tree["terminated"]) | read.tensor(tree["truncated"])).flatten()

        def rows(part: Any) -> Any:
            return mapped(lambda leaf: leaf.flatten(0, 1), part)

        def chosen(leaf: Any, last: Any) -> Any:
            return torch.where(ended.view(-1, *[1] * (leaf.ndim - 1)), last, leaf)

        obs, follows = (rows(mapped(lambda leaf, s=s: leaf[s], shown.obs)) for s in _BOTH)
        after = mapped(chosen, follows, rows(final.obs))
        info: Any = tree.get("agent_info", {})
        action = rows(read.played(info.get("raw_action", tree["action"])))
        first = torch.zeros(len(ended), dtype=torch.bool, device=ended.device)
        inputs = shown._replace(first=first, legal=None)
        return inputs._replace(obs=obs), action, inputs._replace(obs=after)

    def reward(self, tree: ArrayDict) -> dict[str, float]:
        """Add the bonus to the rewards `[T, B]` of a fragment, in place, and learn from its steps.

        Returns:
            Means "bonus", "inverse_loss" and "forward_loss", of before the updates.
        """
        steps, valid = self.steps(tree), torch.from_numpy(tree["valid"].to_ndarray(copy=True))
        valid = valid.flatten().to(steps[0].first.device)
        with torch.no_grad():
            inverse, forward = self(*steps)
            bonus = self.config.weight * forward * valid
            shape = tree["reward"].shape
            tree["reward"][...] = tree["reward"].to_ndarray() + bonus.view(shape).cpu().numpy()
        share, count = self.config.forward_share, valid.sum().clamp(min=1)
        found = {"bonus": bonus, "inverse_loss": inverse * valid, "forward_loss": forward * valid}
        for _ in range(self.config.epochs):
            self._optimizer.zero_grad()
            inverse, forward = self(*steps)
            (((1 - share) * inverse + share * forward) * valid).sum().div(count).backward()
            self._optimizer.step()
        return {name: float(part.sum() / count) for name, part in found.items()}

    def learner_dict(self) -> dict[str, Any]:
        """Return weights and moments of the optimiser, for `load_learner_dict`."""
        return {"model": self.state_dict(), "optimizer": self._optimizer.state_dict()}

    def load_learner_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `learner_dict` returned."""
        self.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])


#: Of T + 1 observations those before and those after each step.
_BOTH = slice(None, -1), slice(1, None)
