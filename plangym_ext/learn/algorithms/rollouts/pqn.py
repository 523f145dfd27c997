"""PQN: Q-learning on λ-returns of fresh rollouts, without replay or target network."""

from __future__ import annotations

from typing import Any

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.rollouts.base import RolloutAlgorithm, means_of
from plangym_ext.learn.algorithms.rollouts.config import PQNConfig
from plangym_ext.learn.algorithms.rollouts.rollout import Rollout
from plangym_ext.learn.engines.rows import Rows, check_minibatch, minibatches
from plangym_ext.learn.losses.policies import value_loss
from plangym_ext.learn.networks.bodies import has_noise
from plangym_ext.learn.returns import td_lambda
from plangym_ext.learn.sampling.collected import Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import nn


class PQN(RolloutAlgorithm):
    """Parallelised Q-learning: many envs replace the replay, layer norm the target network.

    For discrete actions, many cheap envs, and no memory for a replay. The network needs orthogonal
    initialisation: with torch's default two of five seeds of `pqn_cartpole` ended below 420.
    Different from CleanRL's, λ-returns end with the episode.

    A state is worth its best Q value, at the end of a fragment and of a truncated episode too.
    Returns are not cut where a random action was played.

    Recurrent networks learn from whole columns of the fragment: `PQNConfig(minibatch="env")`.

    Source: Gallici et al. 2024, "Simplifying deep temporal difference learning".

    Args:
        network: with a Q head and `AgentConfig(layer_norm=True)`, that a `QAgent` plays.

    Raises:
        InvalidOption: a recurrent network is to learn from single steps, or one with noise, which
            would never be drawn.
    """

    config_class = PQNConfig
    config: PQNConfig
    _needed = "q"

    def __init__(
        self, network: nn.Module, config: PQNConfig | None = None, *, seed: int = 0
    ) -> None:
        super().__init__(network, config, seed=seed)
        check_minibatch(self)
        if has_noise(network):
            raise InvalidOption(
                "PQN: the network must have no noise, since PQN explores by "
                "PQNConfig(exploration). Make it with QAgentConfig(noisy=False)."
            )

    def prepare(self, agent: Any) -> None:
        """Set the agent's share of random actions; see `Algorithm.prepare`."""
        super().prepare(agent)
        # By steps of the envs and not by updates, of which a round may have any number.
        agent.epsilon = at(self.config.exploration, self.steps)

    def _estimate(self, rollout: Rollout) -> Rows:
        config = self.config
        # Once a round: there is no target network, and so the targets hold still through the
        # epochs.
        target = td_lambda(
            rollout.reward,
            rollout.value,
            rollout.terminated,
            discount=at(self.config.discount, self.updates),
            lam=config.trace,
            **rollout.ends,
        )
        return rollout.rows(None, target)

    def _learn(self, rows: Rows, progress: Progress | None) -> dict[str, float]:
        config = self.config
        by_step = config.minibatch == "step"
        batch = self._steps(rows) if by_step else rows
        logged: list[dict[str, Any]] = []
        for _ in range(config.epochs):
            for part in minibatches(batch, config.batch_size, by_step=by_step):
                # The last step was taken in the optimiser's vector; autograd reads the network.
                self.optimizer.write()
                value = self._chosen(part)
                loss = value_loss(value, part.target, part.valid)
                self.optimizer.differentiate(loss)
                self._weigh(part)
                norm = self._descend()
                logged.append({"loss": loss.detach(), "grad_norm": norm})
                if progress is not None:
                    progress(len(logged))
        return means_of(logged)

    def _chosen(self, part: Rows) -> Any:
        """Return the Q values of the actions that were played."""
        out, _ = self.network(part.inputs, part.carry)
        # A Discrete space may begin elsewhere than at 0; Q values do not.
        index = part.action.long() - int(getattr(self.network.distribution, "start", 0))
        # Steps that were not played have a 0, which need not be in the space, and do not count.
        index = index.clamp(0, out.q.shape[-1] - 1)
        return out.q.gather(-1, index[..., None])[..., 0]

    def _diagnosed(self, rows: Rows) -> dict[str, Any]:
        found = super()._diagnosed(rows)
        return found | {"exploration": at(self.config.exploration, self.steps)}
