"""QLearning: base class of the DQN family (target network, exploration, noise)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import zeros_of
from plangym_ext.learn.agents.q_agent import log_spaced
from plangym_ext.learn.algorithms.off_policy.base import OffPolicyAlgorithm, Updated
from plangym_ext.learn.algorithms.off_policy.config import C51Config, DQNConfig, QRDQNConfig
from plangym_ext.learn.algorithms.off_policy.config import RainbowConfig as RainbowConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps, TargetNetwork, parts
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.engines.q_values import Learned, QRows, q_engine
from plangym_ext.learn.losses.q_values import (
    chosen,
    cross_entropy,
    divergence,
    moved_atoms,
    quantile_rows,
    weighted_mean,
)
from plangym_ext.learn.networks.bodies import has_noise, reset_noise, use_noise
from plangym_ext.learn.networks.network import NetworkOutput
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
        learned = self._learned()
        self._target = TargetNetwork(learned)
        self._noisy = has_noise(self.network)
        # A copy of a network whose agent was being evaluated has left its noise off.
        use_noise(self._target.module, True)
        self.modules["target"] = self._target.module
        self.optimizers["q"] = self._make_optimizer(learned)
        self._reset_noise()

    def _learned(self) -> Any:
        """Return the module whose weights are learned, and followed by a target network."""
        return self.network

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
        # Illegal actions do not count there, however high their untrained values are.
        return out, masked(q, steps.next_legal).argmax(dim=1)

    def _q(self, obs: Any) -> Any:
        """Return Q values `[N, A]` of the trained network."""
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


# DQN --------------------------------------------------------------------------


class DQN(QLearning):
    """Q-learning with a target network; double, n-step and prioritised variants as options.

    For discrete actions and dear steps. A `dueling` or `noisy` network is an option of
    `QAgentConfig`. Different from the source: Adam, and a loss that is a batch mean. Different from
    Stable-Baselines3, `target_every` counts updates.

    Source: Mnih et al. 2015, "Human-level control through deep reinforcement learning"; van
    Hasselt et al. 2016, "Deep reinforcement learning with double Q-learning".
    """

    config_class = DQNConfig

    def _build(self) -> None:
        super()._build()
        network, compiled = self.network, self.config.compiled
        self.engine = q_engine(network, self.optimizers["q"], self._asked, compiled=compiled)
        self._steps_in_vector = self.engine.is_compiled

    def _loss(self, steps: Any) -> Learned:
        rows = steps if isinstance(steps, QRows) else self._rows(steps)
        return self.engine.learn(rows, self.config.loss)

    # The engine leaves the gradient.
    _learn_values = _loss

    def _rows(self, steps: Steps) -> QRows:
        """Return steps with what their actions should be worth, by the target network."""
        with torch.no_grad():
            out, best = self._following(steps)
            target = torch.addcmul(steps.reward, steps.discount, chosen(out.q, best))
            index = steps.action - self._start
            return self.engine.rows(QRows(steps.obs, index, target, steps.weight, steps.indices))

    def _q(self, obs: Any) -> Any:
        return self.engine.q(obs)

    def _draw(self, most: int) -> Iterator[Any]:
        """Yield steps; with targets where nothing changes until the target network follows."""
        config = self.config
        if self.engine.together == 1 or config.prioritized or config.double:
            yield from super()._draw(most)
            return
        count = min(most, self.engine.together, self._until_target())
        drawn = self._steps_of(self._sample(count))
        yield from parts(self._rows(drawn), count, config.batch_size)


# C51, QR-DQN and Rainbow: Q-learning of return distributions ------------------


class AtomsLearning(QLearning):
    """Abstract; learns the probabilities of returns at some atoms."""

    _needed = "QAgentConfig(returns='atoms')"

    def _loss(self, steps: Steps) -> Learned:
        support = self.network.support
        with torch.no_grad():
            out, best = self._following(steps)
            following = chosen(out.returns, best).softmax(dim=1)
            target = moved_atoms(following, steps.reward, steps.discount, support)
        logits = chosen(self._out(self.network, steps.obs).returns, steps.action - self._start)
        # Without the entropy of the target, which has no gradient; it counts in the priorities
        # alone.
        rows = cross_entropy(logits, target)
        with torch.no_grad():
            q = logits.softmax(dim=1) @ support
            errors = divergence(rows, target)
        return Learned(weighted_mean(rows, steps.weight), q, errors)

    def _fits(self, out: NetworkOutput) -> bool:
        return out.returns is not None and getattr(self.network, "support", None) is not None


class C51(AtomsLearning):
    """Learns a distribution over atoms by cross-entropy with the projected target.

    For returns within known bounds: -10 to 10 suits clipped rewards of Atari, CartPole needs 0 to
    100. The network is `QAgentConfig(returns="atoms", atoms=51, return_range=(0.0, 100.0))`.

    Source: Bellemare et al. 2017, "A distributional perspective on reinforcement learning",
    algorithm 1.
    """

    config_class: ClassVar[type[DQNConfig]] = C51Config


class Rainbow(AtomsLearning):
    """Rainbow: double, n-step, prioritised C51 with a dueling, noisy network.

    For long runs on screens. In runs of some ten thousand updates use random actions instead of
    noise: `agent.noisy = false`, `exploration = {start = 1.0, end = 0.02, over = 10_000}`. If
    gradients are small beside `epsilon`, learning is slow. The network is
    `QAgentConfig(returns="atoms", dueling=True, noisy=True)`.

    Source: Hessel et al. 2018, "Rainbow: combining improvements in deep reinforcement learning".
    """

    config_class: ClassVar[type[DQNConfig]] = RainbowConfig
    _needed = "QAgentConfig(returns='atoms', dueling=True, noisy=True)"

    def _check_head(self) -> None:
        super()._check_head()
        # By default nothing but the noise explores.
        if not has_noise(self.network) and self.config.exploration == 0.0:
            raise InvalidOption(
                f"Rainbow: the network has no noise, and exploration is 0: it would not explore. "
                f"Make it with {self._needed}, or give RainbowConfig an exploration."
            )

    def _fits(self, out: NetworkOutput) -> bool:
        heads: Any = getattr(self.network, "heads", None)
        dueling = getattr(heads, "value", None) is not None
        return super()._fits(out) and dueling


class QRDQN(QLearning):
    """Learns quantiles of returns by quantile regression.

    As C51, without bounds: `QAgentConfig(returns="quantiles", atoms=200)`.

    Source: Dabney et al. 2018, "Distributional reinforcement learning with quantile regression",
    algorithm 1.
    """

    config_class: ClassVar[type[DQNConfig]] = QRDQNConfig
    config: QRDQNConfig
    _needed = "QAgentConfig(returns='quantiles', atoms=200)"

    def _loss(self, steps: Steps) -> Learned:
        with torch.no_grad():
            out, best = self._following(steps)
            following = chosen(out.returns, best)
            target = torch.addcmul(steps.reward[:, None], steps.discount[:, None], following)
        played = chosen(self._out(self.network, steps.obs).returns, steps.action - self._start)
        rows = quantile_rows(played, target, self.config.kappa)
        q = played.detach().mean(dim=1)
        # Of the means, as of a DQN: the loss of quantiles has a least value that differs from row
        # to row.
        errors = (target.mean(dim=1) - q).abs()
        return Learned(weighted_mean(rows, steps.weight), q, errors)

    def _fits(self, out: NetworkOutput) -> bool:
        return out.returns is not None and getattr(self.network, "support", None) is None
