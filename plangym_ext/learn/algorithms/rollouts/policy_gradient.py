"""Policy gradients with one update per fragment: A2C, REINFORCE, V-trace (IMPALA)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.algorithms.rollouts.base import RolloutAlgorithm, means_of
from plangym_ext.learn.algorithms.rollouts.config import (
    A2CConfig,
    AdvantageConfig,
    PolicyConfig,
    ReinforceConfig,
    VTraceConfig,
)
from plangym_ext.learn.algorithms.rollouts.rollout import Rollout
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.engines.policy_value import ActorCriticLosses, Gradients, LossTerms
from plangym_ext.learn.engines.rows import Rows, standardized
from plangym_ext.learn.losses.policies import vtrace_estimates
from plangym_ext.learn.returns import branch_returns, forked_advantages, returns
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.sampling.forking import Forks
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import nn, torch


def forked_rows(
    rollout: Rollout, forks: Forks, discount: float, scaled: Callable[[Any], Any]
) -> Rows:
    """Return one row per branch: its first action and that action's advantage.

    The advantage of a first action is its return less the mean of the others of its state; the
    target of the value of the state is the mean of all. See `forked_advantages`.

    Args:
        rollout: the fragment that states were visited in, with values.
        forks: N states with k branches each.
        discount: of returns.
        scaled: rewards, a tensor, in units that values are learned in.

    Returns:
        `[1, N k]` single steps, all of which count.
    """
    device, count = rollout.value.device, forks.num_branches
    # `[H, N k]`, `[N k]` and `[N k]`.
    reward, length, rest = (torch.from_numpy(part).to(device) for part in forks.branches)
    # `[N, k]`: the branches of a state lie side by side.
    returned = branch_returns(scaled(reward), length, rest, discount=discount).view(-1, count)
    # `[N, k]`: all branches of a state teach its value the same.
    target = returned.mean(dim=1, keepdim=True).expand(-1, count)
    step, row = (torch.from_numpy(part).to(device) for part in (forks.step, forks.row))

    def shown(leaf: Any) -> Any:
        """Return `[1, N k, ...]`, the same in all branches of a state."""
        return leaf[step, row].repeat_interleave(count, dim=0).unsqueeze(0)

    def begun(array: Any) -> Any:
        return torch.from_numpy(array).to(device).unsqueeze(0)

    inputs = Inputs(*(None if part is None else mapped(shown, part) for part in rollout.inputs))
    return Rows(
        inputs=inputs,
        action=mapped(begun, forks.action),
        log_prob=begun(forks.log_prob),
        value=shown(rollout.value),
        advantage=forked_advantages(returned).reshape(1, -1),
        target=target.reshape(1, -1),
        valid=None,
        carry=None,
    )


class PolicyAlgorithm(RolloutAlgorithm):
    """Abstract; learns from the fragments of an `ActorCriticAgent`.

    Args:
        network: with a policy head, and values unless the algorithm says otherwise.
    """

    config: PolicyConfig
    _needed = "log_prob"

    def __init__(self, network: nn.Module, config: Any = None, *, seed: int = 0) -> None:
        super().__init__(network, config, seed=seed)
        self._any_gradients = ActorCriticLosses(self.network, self.optimizer)
        self._own_gradients: Gradients = self._any_gradients
        if self.config.compiled and self._by_step:
            # Here and not above: numba is of no use to other networks.
            from plangym_ext.learn.engines.compiled.actor_critic import CompiledLosses, can_compile

            if can_compile(network):
                self._own_gradients = CompiledLosses(self.network, self.optimizer)

    @property
    def gradients(self) -> Gradients:
        """Gradients of the losses, in compiled code or by autograd."""
        # Compiled code knows no steps that do not count.
        return self._any_gradients if self._uneven else self._own_gradients

    @property
    def _by_step(self) -> bool:
        """Whether single steps are learned from, if nothing is carried."""
        return True

    def _set_training(self, on: bool) -> None:
        # Dense layers are the same in both modes, and to go through all modules takes time.
        if isinstance(self.gradients, ActorCriticLosses):
            super()._set_training(on)

    def take(self, collected: Collected) -> None:
        """Compute returns and advantages of a fragment; see `RolloutAlgorithm.take`."""
        super().take(collected)
        rows = self._rows
        if rows is not None and self.config.normalize_advantage == "batch":
            (self._rows,) = standardized([rows], self.group)

    def _values(self, rollout: Rollout) -> Any:
        """Return the values `[T, B]` of when the rows were played."""
        if rollout.value is None:
            raise InvalidOption(
                f"{type(self).__name__}: the network must have a value head, so that agent_info "
                f"has 'value'; it has none. Name it in AgentConfig(heads=('policy', 'value'))."
            )
        return rollout.value

    def _advantages(self, rollout: Rollout, how: AdvantageConfig, gae_lambda: float) -> Rows:
        """Return the rows with advantages by GAE, or those of branches."""
        value, discount = self._values(rollout), at(self.config.discount, self.updates)
        if not how.forked:
            return rollout.rows_by_gae(value, discount, gae_lambda)
        if rollout.forks is None:
            raise InvalidOption(
                f"{type(self).__name__}: forked advantages need branches, and the fragment has "
                f"none. Sample with a ForkingSampler, or set AdvantageConfig(name='gae')."
            )
        # By the deviation of the fragment's rewards, to which those of branches add nothing.
        return forked_rows(rollout, rollout.forks, discount, self._scaled_alike)

    def _update(self, rows: Rows) -> float:
        """Take one step down the gradient of the last losses; return its norm before clipping."""
        self.gradients.leave()
        self._weigh(rows)
        return self._descend()


class PolicyGradient(PolicyAlgorithm):
    """Abstract; makes one update on all rows. Recurrent networks learn from whole sequences."""

    def _learn(self, rows: Rows, progress: Progress | None) -> dict[str, float]:
        bonus = at(self.config.entropy_weight, self.updates)
        batch = self.gradients.batch(self._steps(rows)) if rows.carry is None else rows
        logged = self.gradients.losses(batch, LossTerms(self.config.value_weight, bonus))
        logged["grad_norm"] = self._update(batch)
        if progress is not None:
            progress(1)
        return means_of([logged])


class A2C(PolicyGradient):
    """Advantage actor-critic, without the asynchrony of A3C.

    For one update on each short fragment, of 5 steps or so. RMSprop is torch's, which adds epsilon
    after the root.

    Recurrent networks learn from the whole sequences of the fragment.

    Source: Mnih et al. 2016, "Asynchronous methods for deep reinforcement learning".
    """

    config_class = A2CConfig
    config: A2CConfig

    def _estimate(self, rollout: Rollout) -> Rows:
        gae_lambda = at(self.config.gae_lambda, self.updates)
        return self._advantages(rollout, self.config.advantages, gae_lambda)


class REINFORCE(PolicyGradient):
    """The Monte Carlo policy gradient, with values as a baseline where the network has them.

    For whole episodes and small networks, and to compare with.

    Without a value head, only episodes that ended in the fragment teach, and one that was
    truncated counts as if nothing had followed: sample whole episodes, with `on_end="wait"`.

    Source: Williams 1992, "Simple statistical gradient-following algorithms for connectionist
    reinforcement learning".
    """

    config_class = ReinforceConfig
    config: ReinforceConfig

    def _estimate(self, rollout: Rollout) -> Rows:
        discount = at(self.config.discount, self.updates)
        target = returns(rollout.reward, rollout.terminated, discount=discount, **rollout.ends)
        if rollout.value is not None:
            return rollout.rows(target - rollout.value, target)
        ended = rollout.ended if rollout.valid is None else rollout.ended & rollout.valid
        # Where an ending is still to come in this fragment: counted from its last row back.
        whole = ended.flip(0).cumsum(0).flip(0) > 0
        valid = whole if rollout.valid is None else whole & rollout.valid
        return rollout.rows(target, target)._replace(valid=valid)


class VTrace(PolicyGradient):
    """The learner of IMPALA: importance ratios correct for the age of the fragment.

    For fragments that an older policy played. Losses are means, not sums as in the source.

    Values are those of the present network, for all rows and for the states after their ends. The
    values of the policy that played are not used.

    Source: Espeholt et al. 2018, "IMPALA: scalable distributed deep-RL with importance weighted
    actor-learner architectures", section 4.
    """

    config_class = VTraceConfig
    config: VTraceConfig

    def _estimate(self, rollout: Rollout) -> Rows:
        self._values(rollout)  # refuses a network without any
        with torch.no_grad():
            out, _ = self.network(rollout.inputs, rollout.carry)
            # As in play: else the ratio would be that of two other policies.
            params = masked(out.policy_logits, rollout.inputs.legal)
            log_prob = self.network.distribution.log_prob(params, rollout.action)
        advantage, target = vtrace_estimates(
            log_prob - rollout.log_prob,
            out.value,
            rollout.reward,
            rollout.terminated,
            discount=at(self.config.discount, self.updates),
            ratio_clip=self.config.ratio_clip,
            trace_clip=self.config.trace_clip,
            **rollout.ends,
        )
        return rollout._replace(value=out.value).rows(advantage, target)
