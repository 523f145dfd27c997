"""PEARL: SAC for meta-learning, with a task variable inferred from context steps."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, final

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.off_policy.base import Updated
from plangym_ext.learn.algorithms.off_policy.config import PEARLConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps
from plangym_ext.learn.algorithms.off_policy.sac import SAC
from plangym_ext.learn.distributions.gaussian import SquashedGaussian
from plangym_ext.learn.distributions.torch_noise import TorchNoise
from plangym_ext.learn.engines.actor_critic import ActorCriticEngine
from plangym_ext.learn.losses.q_values import critic_loss
from plangym_ext.learn.meta.agent import ContextNetwork, divergence
from plangym_ext.learn.meta.task_replay import TaskReplay
from plangym_ext.learn.replay.base import Batch
from plangym_ext.learn.torch_extra import nn, torch


class _TaskSteps(NamedTuple):
    """Steps of M tasks, and the context of each, as tensors."""

    steps: Steps  # [M * N, ...], task by task
    context: tuple[Any, ...]  # what the encoder is shown of steps, [M, C, ...]
    indices: Any = None


@final
class PEARL(SAC):
    """Probabilistic embeddings for actor-critic meta-learning: SAC on observations and z.

    For tasks that differ by something no observation tells.

    An update is of several tasks. For each task, z is drawn from the posterior given only its
    recent steps. The encoder learns by the critics' loss, and by the divergence of the posteriors
    from the prior; policy and targets see z as a constant.

    Different from the source: the temperature is learned, and there is no value network. The
    policy's loss is the mean over all tasks.

    Source: Rakelly et al. 2019, "Efficient off-policy meta-reinforcement learning via probabilistic
    context variables".

    Args:
        network: of `make_context_network`.
    """

    config_class: ClassVar[type[PEARLConfig]] = PEARLConfig
    config: PEARLConfig
    replay: Any
    _policies = (SquashedGaussian,)
    #: Contexts are drawn on the host.
    _can_be_recorded = False

    def _check_network(self) -> None:
        if not isinstance(self.network, ContextNetwork):
            raise InvalidOption(
                f"PEARL: the network must be a ContextNetwork; got a "
                f"{type(self.network).__name__}. Set agent.name = 'context', or call "
                f"make_context_network."
            )

    @property
    def policy(self) -> Any:
        """The part of the network that takes observations and z."""
        return self.network.policy

    def _make_replay(self, options: dict[str, Any]) -> Any:
        config = self.config
        return TaskReplay(
            config.capacity,
            recent=config.recent,
            steps=config.batch_size,
            context=config.context,
            fields=self.network.context_fields,
            discount=options["discount"],
            seed=options["seed"],
        )

    def _learned_with_critics(self, critics: nn.Module) -> nn.Module:
        return nn.ModuleList([critics, self.network.encoder])

    def _make_engine(self, networks: dict[str, Any]) -> ActorCriticEngine:
        # By autograd: the critics' gradient goes on to the encoder.
        return ActorCriticEngine(networks, self.optimizers, self._asked)

    def _draws_ahead(self) -> bool:
        return False

    def _sample(self, updates: int) -> Any:  # noqa: ARG002 - one at a time
        return self.replay.sample(self.config.tasks)

    def _steps_of(self, batch: Batch) -> Any:
        array, steps = self._tensors.array, batch.samples["steps"]
        told = {name: array(part) for name, part in steps.items()}
        context = (array(batch.samples["context"][n]) for n in self.network.context_fields)
        return _TaskSteps(Steps(**told, weight=None), tuple(context))

    @torch.no_grad()
    def _update(self, steps: Any) -> Updated:
        one, tasks = steps.steps, self.config.tasks
        with torch.enable_grad():
            mean, variance = self.network.posterior(*steps.context)
            noise = TorchNoise(mean.shape[:-1], device=mean.device).normal(mean.shape[-1])
            z = mean + variance.sqrt() * noise
            self._divergence = divergence(mean, variance).mean()
            # Each step has the z of its task.
            z = z.repeat_interleave(len(one.reward) // tasks, dim=0)
            self._rows = torch.cat([one.obs, z], dim=1)
        following = torch.cat([one.next_obs, z.detach()], dim=1)
        found = super()._update(one._replace(obs=self._rows.detach(), next_obs=following))
        return Updated({**found.logged, "z_deviation": variance.detach().sqrt().mean()})

    def _update_critics(self, steps: Steps, target: Any) -> tuple[dict[str, Any], Any]:
        with torch.enable_grad():
            q = self._asked(self.modules["critics"])(self._rows, steps.action)
        loss, d_q = critic_loss(q.detach(), target, None)
        weight = torch.tensor(self.config.divergence_weight, device=self._device)
        apart = self._divergence.detach()
        # One gradient of both losses: the first one's reaches the encoder by way of z.
        self.optimizers["critics"].differentiate((q, self._divergence), (d_q, weight))
        norm = self._descend("critics", loss + weight * apart, self.config.critic_learning_rate)
        logged = {"critic_loss": loss, "critic_grad_norm": norm, "divergence": apart}
        return logged | {"q": q.detach().mean()}, None
