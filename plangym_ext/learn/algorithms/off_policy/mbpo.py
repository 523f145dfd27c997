"""MBPO: SAC on short rollouts in a learned ensemble."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np

from plangym_ext.learn.algorithms.off_policy.base import Sums
from plangym_ext.learn.algorithms.off_policy.config import MBPOConfig
from plangym_ext.learn.algorithms.off_policy.sac import SAC
from plangym_ext.learn.distributions.gaussian import SquashedGaussian
from plangym_ext.learn.models.ensemble import EnsembleNetwork
from plangym_ext.learn.networks.config import EnsembleConfig
from plangym_ext.learn.replay.base import Batch, Replay
from plangym_ext.learn.replay.ring_replay import StepReplay
from plangym_ext.learn.replay.uniform import ReplayBuffer
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import torch

#: Weight of the distance between the bounds of the members' log-variances, as in the source.
_BOUNDS = 0.01


@final
class MBPO(SAC):
    """Model-based policy optimization: SAC on short rollouts in a learned ensemble.

    For continuous actions and few steps of the env, where an ensemble predicts well some steps
    ahead.

    Every `model_every` steps of the envs an ensemble learns the steps that were played. Rollouts of
    the present policy then begin at their observations; each step of a row is that of a member
    drawn anew. Policy and critics learn from steps of the rollouts and a share of real ones.

    Different from the source: endings are learned, not given; all members step rollouts; the
    ensemble makes a fixed number of updates, and no held-out loss ends them.

    Source: Janner et al. 2019, "When to trust your model: model-based policy optimization".

    Args:
        network: whose observations are vectors, and whose policy is a squashed Gaussian.

    Attributes:
        model: the `EnsembleNetwork`.

    Raises:
        InvalidOption: the spaces are others, or the policy is.
    """

    config_class: ClassVar[type[MBPOConfig]] = MBPOConfig
    config: MBPOConfig
    replay: Any
    _policies = (SquashedGaussian,)

    def _make_replay(self, options: dict[str, Any]) -> Any:
        config, seed = self.config, options["seed"]
        how = {"discount": options["discount"], "clip_reward": config.clip_reward}
        steps = StepReplay(config.capacity, seed=seed, **how)
        return RolloutReplay(steps, config.rollout_capacity, config.real_share, seed=seed)

    def _build(self) -> None:
        super()._build()
        config, network = self.config, self.network
        form = EnsembleConfig(
            members=config.members, hidden=config.model_hidden, endings=config.endings
        )
        model = EnsembleNetwork(network.observation_space, network.action_space, form)
        self.model: EnsembleNetwork = model.to(self._device)
        self.modules["model"] = self.model
        self.optimizers["model"] = self._make_optimizer(self.model)
        #: Steps of the envs when the ensemble learned last.
        self._modelled = 0

    def take(self, collected: Collected) -> None:
        super().take(collected)
        normalizer = self.model.normalizer
        normalizer.add(self.group.merged(normalizer.moments(collected.data)))

    def _learn(self, count: int, sums: Sums, progress: Progress | None) -> None:
        if not self.replay.is_filled or self.steps - self._modelled >= self.config.model_every:
            loss = self._learn_model()
            sums["model_loss"] = loss, self.config.model_updates
            self.engine.refresh()
            self._roll_out()
            self._modelled = self.steps
        super()._learn(count, sums, progress)

    # The ensemble -------------------------------------------------------------------

    def _learn_model(self) -> float:
        """Make the updates of the ensemble; return the sum of their losses."""
        config, model, total = self.config, self.model, 0.0
        members, size = config.members, config.model_batch_size
        model.train()
        for _ in range(config.model_updates):
            # Rows of its own for each member: `[M, N, ...]`.
            steps = self._tensors.steps(self.replay.steps.sample(members * size), weighted=False)
            obs, action, reward, discount, next_obs = (
                rows.view(members, size, *rows.shape[1:]) for rows in steps[:5]
            )
            found = model.losses(obs, action, next_obs, reward, (discount == 0.0).float())
            loss = sum(part.mean(1).sum() for part in found) + _BOUNDS * model.between_bounds
            self._step_down(
                self.optimizers["model"], loss, name="model", rate=config.model_learning_rate
            )
            total += float(loss.detach())
        model.eval()
        return total

    @torch.no_grad()
    def _roll_out(self) -> None:
        """Add the steps of rollouts to the replay."""
        config, model, replay = self.config, self.model, self.replay
        rows = math.ceil(config.rollouts / config.members) * config.members
        drawn = replay.steps.sample(rows).samples
        obs = self._tensors.obs(drawn["obs"])
        units = self.network.distribution.units
        for _ in range(round(at(config.horizon, self.steps))):
            # So many for each member; the few that are left over end here.
            share = len(obs) // config.members
            if not share:
                break
            order = torch.randperm(len(obs), device=obs.device)[: share * config.members]
            obs = obs[order]
            numbers, _ = self._drawn(self.engine.params(obs))
            action = units.tensor_actions(numbers)
            shown, played = (
                part.reshape(config.members, share, -1) for part in (obs, model.actions(action))
            )
            found = model.members(shown.float(), played)
            step = found.mean + torch.randn_like(found.mean) * (0.5 * found.log_variance).exp()
            following = (shown + step[..., :-1] * model.unit).flatten(0, 1).to(obs.dtype)
            over = torch.zeros(len(obs), dtype=torch.bool, device=obs.device)
            if found.ending is not None:
                over = found.ending.flatten() > 0.0
            samples = {
                "obs": obs,
                "action": action,
                "reward": model.rewards(step[..., -1]).flatten(),
                "discount": at(config.discount, self.updates) * (~over).float(),
                "next_obs": following,
            }
            replay.imagined.add(
                {
                    name: np.asarray(part.cpu().numpy(), drawn[name].dtype)
                    for name, part in samples.items()
                }
            )
            obs = following[~over]

    # Saving -------------------------------------------------------------------------

    def _own_state(self) -> dict[str, Any]:
        return {**super()._own_state(), "modelled": self._modelled}

    def _load_own_state(self, theirs: Mapping[str, Any]) -> None:
        super()._load_own_state(theirs)
        self._modelled = int(theirs["modelled"])


@final
class RolloutReplay(Replay):
    """Steps that were played, and the newest steps of rollouts in a model; both in each batch.

    Args:
        steps: replay of the steps that were played.
        capacity: steps of rollouts.
        real_share: of a batch, what was played; all of it before the first rollout.
        seed: of the draws from rollouts.

    Attributes:
        steps: as given.
        imagined: steps of rollouts, `[N, ...]` by name as `StepReplay.sample` returns them.
    """

    def __init__(self, steps: StepReplay, capacity: int, real_share: float, *, seed: int) -> None:
        super().__init__(capacity, seed=seed)
        self.steps, self._share = steps, real_share
        self.imagined = ReplayBuffer(capacity, seed=int(self._rng.integers(2**63)))

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def discount(self) -> float:
        """That of steps that were played; rollouts have that of when they were made."""
        return self.steps.discount

    @discount.setter
    def discount(self, discount: float) -> None:
        self.steps.discount = discount

    @property
    def is_ready(self) -> bool:
        """Whether there are steps to draw."""
        return len(self) > 0

    @property
    def is_filled(self) -> bool:
        """Whether there are steps of rollouts."""
        return len(self.imagined) > 0

    def add(self, samples: Any) -> None:
        """Copy a fragment in; see `StepReplay.add`."""
        self.steps.add(samples)

    def sample(self, batch_size: int) -> Batch:
        """Draw steps; of any N successive rows `real_share * N`, rounded, were played."""
        if not self.is_filled:
            return self.steps.sample(batch_size)
        counted = np.floor(np.arange(batch_size + 1) * self._share)
        is_real = np.diff(counted) > 0
        found: dict[str, Any] = {}
        both: tuple[Any, ...] = (is_real, self.steps), (~is_real, self.imagined)
        for which, replay in both:
            if not which.any():
                continue
            for name, rows in replay.sample(int(which.sum())).samples.items():
                if name not in found:
                    found[name] = np.empty((batch_size, *rows.shape[1:]), rows.dtype)
                found[name][which] = rows
        return Batch(found, np.arange(batch_size), np.ones(batch_size, np.float32))

    def all(self) -> dict[str, Any]:
        return self.imagined.all()

    def _contents(self) -> dict[str, Any]:
        return {"steps": self.steps.state_dict(), "imagined": self.imagined.state_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        # Last, after all checks: a refused state must change nothing.
        imagined = ReplayBuffer(self.capacity, seed=0)
        imagined.load_state_dict(state["imagined"])
        self.steps.load_state_dict(state["steps"])
        self.imagined = imagined
