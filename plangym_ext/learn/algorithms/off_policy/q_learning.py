"""QLearning: base class of the DQN family (target network, exploration, noise)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import zeros_of
from plangym_ext.learn.agents.q_agent import log_spaced
from plangym_ext.learn.algorithms.off_policy.base import OffPolicyAlgorithm, Updated
from plangym_ext.learn.algorithms.off_policy.config import DQNConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps
from plangym_ext.learn.algorithms.off_policy.target_network import TargetNetwork
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.engines.q_values import Learned
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.learn.networks.noisy import has_noise, reset_noise, use_noise
from plangym_ext.learn.networks.quick_forward import shown
from plangym_ext.learn.sampling.collected import Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import torch


class QLearning(OffPolicyAlgorithm):
    """Abstract; learns the Q values of actions that were played, with a target network.

    A class that derives from this one has the loss.
    """

    config_class: ClassVar[type[DQNConfig]]
    config: DQNConfig
    _can_be_recorded = True
    #: How the network is made, for the message about one that does not fit.
    _needed: ClassVar[str] = "QAgentConfig()"
    #: Whether the network is written before its target follows alone.
    _steps_in_vector = False

    def _build(self) -> None:
        self._start = int(getattr(self.network.distribution, "start", 0))
        self._check_head()
        self._target = TargetNetwork(self.network)
        self._noisy = has_noise(self.network)
        # A copy of a network whose agent was being evaluated has left its noise off.
        use_noise(self._target.module, True)
        self.modules["target"] = self._target.module
        self.optimizers["q"] = self._make_optimizer(self.network)
        self._reset_noise()

    def prepare(self, agent: Any) -> None:
        """Set the agent's share of random actions; see `Algorithm.prepare`."""
        super().prepare(agent)
        most, least = self.config.exploration, self.config.exploration_least
        agent.epsilon = at(most, self.steps)
        # Of the rows of all learners, by whose numbers the agent finds them.
        rows = self.replay.num_envs * self.group.size
        if least is not None and rows > 1:
            low = at(least, self.steps)
            agent.epsilon = log_spaced(rows, low, at(most, self.steps))

    def train(self, progress: Progress | None = None) -> dict[str, float]:
        """Make all updates that are due; see `OffPolicyAlgorithm.train`."""
        if self._noisy:
            # An agent that was evaluated since has left the noise of this very network off.
            use_noise(self.network, True)
        return super().train(progress)

    def _update(self, steps: Steps) -> Updated:
        learned = self._learn_values(steps)
        norm = self._descend("q", learned.loss)
        due = self._target_is_due()
        if due or not self._steps_in_vector:
            self.optimizers["q"].write()
        if due:
            self._target.follow(at(self.config.target_rate, self.updates))
        self._reset_noise()
        q = learned.q if isinstance(learned.q, float) else learned.q.mean()
        return Updated({"loss": learned.loss, "grad_norm": norm, "q": q}, learned.errors)

    def _learn_values(self, steps: Any) -> Learned:
        """Leave the gradient of the loss of some steps with the optimiser."""
        learned = self._loss(steps)
        self.optimizers["q"].differentiate(learned.loss)
        return learned._replace(loss=learned.loss.detach())

    @abstractmethod
    def _loss(self, steps: Steps) -> Learned:
        """Return the loss of some steps, with gradient."""

    def _reset_noise(self) -> None:
        """Draw the noise of both networks, for the next update and what is played until then."""
        if self._noisy:
            reset_noise(self.network)
            reset_noise(self._target.module)

    def _out(self, network: Any, obs: Any) -> NetworkOutput:
        found: NetworkOutput = self._asked(network)(shown(obs))[0]
        return found

    def _following(self, steps: Steps) -> tuple[NetworkOutput, Any]:
        """Return the target network's outputs for the next states, and the best actions `[N]`."""
        out = self._out(self._target.module, steps.next_obs)
        q = self._q(steps.next_obs) if self.config.double else out.q
        # What cannot be played there is worth nothing, however high a value it was never taught.
        return out, masked(q, steps.next_legal).argmax(dim=1)

    def _q(self, obs: Any) -> Any:
        """Return `[N, A]` of the network that learns."""
        return self._out(self.network, obs).q

    def _check_head(self) -> None:
        """Refuse a network without the head, by asking it about one observation."""
        space = getattr(self.network, "observation_space", None)
        if space is None:
            return
        with torch.no_grad():
            out = self._out(self.network, mapped(self._tensors.array, zeros_of(space, 1)))
        if not self._fits(out):
            raise InvalidOption(
                f"{type(self).__name__}: the network must have a Q head as {self._needed} asks "
                f"for. Make it with that."
            )

    def _fits(self, out: NetworkOutput) -> bool:
        """Return whether a network has the head that the loss needs."""
        return out.q is not None
