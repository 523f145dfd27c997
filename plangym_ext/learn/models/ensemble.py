"""Ensembles: probabilistic models of observations side by side, and the backend that steps them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays import ArrayDict
from plangym_ext.core.infos import InfoColumn
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.models.model_env import TESTED, Advanced, Contents, ModelEnv, checked_obs
from plangym_ext.learn.networks.bodies import ACTIVATION_LAYERS
from plangym_ext.learn.networks.config import EnsembleConfig
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.learn.repeatable import seeded
from plangym_ext.learn.torch_extra import check_device, functional, nn, torch
from plangym_ext.learn.transforms.moments import Moments, moments_of
from plangym_ext.learn.transforms.observations import ObservationNormalizer

#: Normalised observations are clipped to this in both directions.
_CLIP = 10.0

Words = npt.NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Predicted(NamedTuple):
    """The outputs of M members for N rows each."""

    mean: Any  # [M, N, O + 1] float32: change of the observation, and reward, in their units
    log_variance: Any  # [M, N, O + 1] float32, within learned bounds
    ending: Any  # [M, N] float32, above 0 where the episode is over; None if not predicted


class EnsembleNetwork(nn.Module):
    """M networks that predict the next observation and reward as normal distributions.

    Source: Chua et al. 2018, "Deep reinforcement learning in a handful of trials using
    probabilistic dynamics models". Different from there: rewards are predicted, too; changes are
    in units of the observation's running deviation, rewards in those of their own.

    Args:
        observation_space: Box of one axis.
        action_space: Box, or Discrete, whose actions are one-hot.
        config: its layers.

    Attributes:
        observation_space, action_space, config: the same.
        normalizer: of the observations and rewards, a part of the network.

    Raises:
        InvalidOption: the spaces are others.
    """

    def __init__(self, observation_space: Any, action_space: Any, config: EnsembleConfig) -> None:
        super().__init__()
        is_vector = isinstance(observation_space, spaces.Box) and len(observation_space.shape) == 1
        if not is_vector or not isinstance(action_space, spaces.Box | spaces.Discrete):
            raise InvalidOption(
                f"EnsembleNetwork: observations must be vectors, actions a Box or Discrete; got "
                f"{observation_space} and {action_space}. Flatten observations with a wrapper, or "
                f"learn a latent model."
            )
        self.observation_space: Any = observation_space
        self.action_space: Any = action_space
        self.config, self.width = config, int(observation_space.shape[0])
        self.normalizer = _StepNormalizer(observation_space, _CLIP)
        space: Any = action_space
        self._count = int(space.n) if isinstance(space, spaces.Discrete) else 0
        played = self._count or math.prod(space.shape)
        out = 2 * (self.width + 1) + int(config.endings)
        sizes = [self.width + played, *config.hidden, out]
        layers = itertools.pairwise(sizes)
        self.layers = nn.ModuleList(_Dense(config.members, *size) for size in layers)
        self.activation = ACTIVATION_LAYERS[config.activation]()
        self.most = nn.Parameter(torch.full((self.width + 1,), 0.5, dtype=torch.float32))
        self.least = nn.Parameter(torch.full((self.width + 1,), -10.0, dtype=torch.float32))

    def actions(self, played: Any) -> Any:
        """Return actions of the space `[..., *act]` as float32 `[..., D]`."""
        if self._count:
            index = (played - int(self.action_space.start)).long()
            return functional.one_hot(index, self._count).float()
        shape = self.action_space.shape
        return played.float().reshape(*played.shape[: played.ndim - len(shape)], math.prod(shape))

    def members(self, obs: Any, actions: Any) -> Predicted:
        """Return the predictions of all members.

        Args:
            obs: `[M, N, O]`, those of each member.
            actions: `[M, N, D]`.
        """
        rows = self.normalizer(obs.reshape(-1, self.width)).reshape(obs.shape)
        x = torch.cat([rows, actions], dim=-1)
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        out = self.layers[-1](x)
        size = self.width + 1
        mean, spread = out[..., :size], out[..., size : 2 * size]
        # Soft bounds, so that a variance far from what was seen stays what was learned.
        spread = self.most - functional.softplus(self.most - spread)
        spread = self.least + functional.softplus(spread - self.least)
        return Predicted(mean, spread, out[..., -1] if self.config.endings else None)

    def losses(
        self, obs: Any, action: Any, next_obs: Any, reward: Any, ending: Any
    ) -> tuple[Any, ...]:
        """Return losses of steps `[M, N]`: the likelihood's, and that of endings if predicted.

        The first is twice the negative log-likelihood, up to a constant, as a mean over the numbers
        of the observation and the reward; the second is a cross-entropy.

        Args:
            obs: float32 `[M, N, O]`, of each member.
            action: `[M, N, *act]`, of the space.
            next_obs: `[M, N, O]`.
            reward: `[M, N]`.
            ending: `[M, N]` float32, 1 where the step has ended its episode.
        """
        found = self.members(obs, self.actions(action))
        known = self.normalizer.reward(reward.reshape(-1, 1)).reshape(*reward.shape, 1)
        wanted = torch.cat([(next_obs - obs) / self.unit, known], dim=-1)
        error = (found.mean - wanted) ** 2 * (-found.log_variance).exp()
        likelihood = (error + found.log_variance).mean(-1)
        if found.ending is None:
            return (likelihood,)
        over = functional.binary_cross_entropy_with_logits(found.ending, ending, reduction="none")
        return likelihood, over

    @property
    def between_bounds(self) -> Any:
        """Scalar, the distance of the bounds of log-variances: learned with a small weight."""
        return self.most.sum() - self.least.sum()

    @property
    def unit(self) -> Any:
        """`[O]` float32, the unit of predicted changes of each number of an observation."""
        part: Any = self.normalizer.parts[0]
        return (1.0 / part.scale[0]).float()

    def rewards(self, numbers: Any) -> Any:
        """Return the env's rewards of predicted ones `[...]`, which are in running deviations."""
        part: Any = self.normalizer.reward.parts[0]
        return (numbers / part.scale[0] + part.mean[0]).float()

    def forward(self, obs: Any) -> NetworkOutput:  # noqa: ARG002 - of all networks
        """Return an output without heads: the network has no policy."""
        return NetworkOutput(None, None, None)


class _StepNormalizer(ObservationNormalizer):
    """Normalises observations; `reward` does the same for rewards `[N, 1]`."""

    def __init__(self, space: spaces.Space[Any], clip: float) -> None:
        super().__init__(space, clip)
        # Never clipped: a reward that is rare is not to be learned as a smaller one.
        number = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.reward = ObservationNormalizer(number, math.inf)

    def moments(self, tree: ArrayDict) -> list[Moments]:
        """Return the moments of observations, and as the last ones those of rewards."""
        rewards, valid = (tree[name].to_ndarray(copy=False) for name in ("reward", "valid"))
        return [*super().moments(tree), moments_of(rewards[: len(valid), :, None], valid)]

    def add(self, seen: Sequence[Moments]) -> None:
        super().add(seen[:-1])
        self.reward.add(seen[-1:])


class _Dense(nn.Module):
    """A dense layer of each member."""

    def __init__(self, members: int, width: int, size: int) -> None:
        super().__init__()
        made = [nn.Linear(width, size, dtype=torch.float32) for _ in range(members)]
        self.weights = nn.Parameter(torch.stack([one.weight.detach().T for one in made]))
        self.biases = nn.Parameter(torch.stack([one.bias.detach()[None] for one in made]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply to `[M, N, F]`."""
        return torch.baddbmm(self.biases, x, self.weights)


def make_ensemble_network(
    observation_space: Any, action_space: Any, config: EnsembleConfig | None = None, *, seed: int
) -> EnsembleNetwork:
    """Make a network for an observation and an action space.

    Args:
        observation_space: Box of one axis.
        action_space: Box or Discrete.
        config: its layers.
        seed: of the weights; torch's own generator is left as it was.

    Raises:
        InvalidOption: the spaces are others.
    """
    with seeded(seed):
        return EnsembleNetwork(observation_space, action_space, config or EnsembleConfig())


def mixed(words: Words) -> Words:
    """Return `[...]` uint64 that look random, one for each number; fresh.

    Source: splitmix64 of Steele, Lea & Flood 2014.
    """
    with np.errstate(over="ignore"):
        z = words * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Words = z ^ (z >> np.uint64(31))
    return found


def normals(keys: Words, count: int) -> npt.NDArray[np.float32]:
    """Return `[N, count]` float32 standard normal numbers, a row for each of `[N]` keys; fresh."""
    pairs = -(-count // 2)
    with np.errstate(over="ignore"):
        seeds: Any = mixed(keys)[:, None] + np.arange(1, 2 * pairs + 1, dtype=np.uint64)
    # In (0, 1]: the logarithm of 0 is none. By Box and Muller.
    uniform: Any = ((mixed(seeds) >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log(uniform[:, :pairs]))
    angle = 2.0 * np.pi * uniform[:, pairs:]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return both[:, :count].astype(np.float32)


@final
class EnsembleModel(ModelEnv):
    """Steps rows of particles: observations, each with the member that it stays with.

    A state has `particles` of each of the M members. All take the same action. The reward is the
    mean of theirs, and the observation that of those that go on; a particle that has ended earns
    nothing more, and the state has ended when all have. `infos["disagreement"]` is the mean over
    an observation's numbers of the deviation between particles, in units of the observation's
    own; `disagreement` of the config times it is added to the reward.

    What is drawn follows from a key in the state: equal states have equal futures, and `reseeded`
    draws another key.

    Source: particles of Chua et al. 2018, "Deep reinforcement learning in a handful of trials
    using probabilistic dynamics models" (TS-infinity).

    Args:
        network: shared, not copied: what a learner changes is stepped at once.
        device: where it runs; it is moved there.
        starts: `[N, *obs]` observations of the real env to reset to; None: it cannot be reset.
    """

    exactness = TESTED

    @checking_arguments
    def __init__(
        self, network: EnsembleNetwork, *, device: str = "cpu", starts: Any = None
    ) -> None:
        check_device(device, "EnsembleModel")
        self.network = network.to(device).eval()
        self._device = torch.device(device)
        config = network.config
        self._shape = config.members, config.particles, network.width
        self._particle = np.dtype([("obs", "<f4", network.width), ("over", "<f4")])
        particles = (self._particle, (config.members, config.particles))
        self._form = np.dtype([("key", "<u8"), ("of", *particles)])
        box = spaces.Box(-np.inf, np.inf, (network.width,), np.float32)
        identity = {"particles": list(self._shape), "actions": network.action_space}
        column = InfoColumn("disagreement", float, "<f8")
        shown = box, network.action_space
        payload = self._form.itemsize
        if starts is not None:
            starts = checked_obs("EnsembleModel: starts", starts, network.observation_space)
        super().__init__("EnsembleModel", shown, payload, identity, (column,), starts)

    def _begun(self, obs: Any) -> Contents:
        space = self.network.observation_space
        rows = checked_obs("EnsembleModel: observations", obs, space).astype(np.float32)
        found = np.zeros(len(rows), self._form)
        found["of"]["obs"] = rows[:, None, None]
        return found.view(np.uint8).reshape(len(rows), -1)

    def _advanced(self, contents: Contents, actions: tuple[npt.NDArray[Any], ...]) -> Advanced:
        rows = contents.copy().view(self._form)[:, 0]
        members, each, width = self._shape
        count = len(rows)
        obs, over = rows["of"]["obs"], rows["of"]["over"]
        # By member: [M, N * particles, ...].
        shown = obs.transpose(1, 0, 2, 3).reshape(members, count * each, width)
        with torch.inference_mode():
            network = self.network
            played = network.actions(self._tensor(actions[0])).repeat_interleave(each, 0)
            found = network.members(self._tensor(shown), played.expand(members, *played.shape))
            step = found.mean
            if network.config.sample:
                noise = self._tensor(self._noise(rows["key"], count))
                step = step + noise * (0.5 * found.log_variance).exp()
            unit = network.unit.cpu().numpy()
            moved = self._by_row(step.cpu().numpy(), count)
            earned = self._by_row(network.rewards(step[..., -1]).cpu().numpy(), count)
            ended = np.zeros((count, members, each), np.bool_)
            if found.ending is not None:
                ended = self._by_row((found.ending > 0.0).cpu().numpy(), count)
        going = over == 0.0
        rewards = np.where(going, earned, 0.0).mean(axis=(1, 2), dtype=np.float64)
        obs[...] = np.where(going[..., None], obs + moved[..., :-1] * unit, obs)
        over[...] = ~going | ended
        rows["key"] = mixed(rows["key"] + np.uint64(1))
        spread = (obs / unit).std(axis=(1, 2), dtype=np.float64).mean(axis=-1)
        rewards = rewards + network.config.disagreement * spread
        whole = rows.view(np.uint8).reshape(count, -1)
        all_over: Any = (over > 0).all(axis=(1, 2))
        return Advanced(whole, rewards, all_over, {"disagreement": spread})

    def _noise(self, keys: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.float32]:
        """Return `[M, N * particles, O + 1]` normal numbers by the keys of N rows."""
        members, each, width = self._shape
        drawn = normals(keys, members * each * (width + 1))
        by_member = drawn.reshape(count, members, each, width + 1).transpose(1, 0, 2, 3)
        return by_member.reshape(members, count * each, width + 1)

    def _by_row(self, found: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
        """Return `[N, M, particles, ...]` of `[M, N * particles, ...]`."""
        members, each, _ = self._shape
        return found.reshape(members, count, each, *found.shape[2:]).swapaxes(0, 1)

    def _seen(self, contents: Contents) -> tuple[npt.NDArray[Any], ...]:
        rows = contents.view(self._form)[:, 0]["of"]
        going = (rows["over"] == 0.0)[..., None]
        # Where all have ended, it is the mean of all.
        going = going | ~going.any(axis=(1, 2), keepdims=True)
        total = np.where(going, rows["obs"], 0.0).sum(axis=(1, 2), dtype=np.float64)
        return ((total / going.sum(axis=(1, 2))).astype(np.float32),)

    def reseeded(self, states: Any, rng: np.random.Generator | None) -> npt.NDArray[np.uint8]:
        """Return states with new keys; see `PlanEnv.reseeded`."""
        contents = self._contents(self.checked_states(states, "reseeded"))
        keys = 0 if rng is None else rng.integers(2**63, size=len(contents), dtype=np.uint64)
        contents.view(self._form)["key"][:, 0] = keys
        return self._sealed(contents)

    def _tensor(self, rows: npt.NDArray[Any]) -> Any:
        return torch.from_numpy(np.ascontiguousarray(rows)).to(self._device)
