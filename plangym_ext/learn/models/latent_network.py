"""LatentNetwork: representation, dynamics and prediction of a latent model."""

from __future__ import annotations

from typing import Any, NamedTuple

from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.distributions.categorical import Categorical
from plangym_ext.learn.models.latent_config import LatentConfig
from plangym_ext.learn.models.supports import Support
from plangym_ext.learn.networks.agent_config import NetworkConfig
from plangym_ext.learn.networks.bodies import dense_layers, make_body
from plangym_ext.learn.networks.inputs import ObservationEncoder
from plangym_ext.learn.networks.network import NetworkOutput, zero_residual_ends
from plangym_ext.learn.repeatable import seeded
from plangym_ext.learn.torch_extra import functional, nn, torch


class Step(NamedTuple):
    """The outputs of the dynamics for B latents and actions."""

    latent: Any  # [B, D] float32 in [0, 1]
    reward: Any  # [B, W] float32, of the reward's support
    ending: Any  # [B] float32, above 0 where the episode is over; None if that is not predicted


class Rated(NamedTuple):
    """The outputs of the prediction for B latents."""

    policy_logits: Any  # [B, A] float32
    value: Any  # [B, W] float32, of the value's support


class LatentNetwork(nn.Module):
    """A network that steps what it makes of an observation.

    As a function of observations `[B, *obs]` it is a network of planners: a policy and values,
    without a search. Action i of its numbers is the i-th of the space.

    Source: Schrittwieser et al. 2020, "Mastering Atari, Go, chess and shogi by planning with a
    learned model". Different from there: latents are vectors; endings may be predicted.

    Args:
        observation_space: Box, Discrete, MultiDiscrete or MultiBinary.
        action_space: Discrete.
        config: its layers.

    Attributes:
        observation_space, action_space, config: the same.
        distribution: over the actions.
        values, rewards: the supports of what is predicted.

    Raises:
        InvalidOption: actions are not Discrete.
    """

    def __init__(self, observation_space: Any, action_space: Any, config: LatentConfig) -> None:
        super().__init__()
        if not isinstance(action_space, spaces.Discrete):
            raise InvalidOption(
                f"LatentNetwork: actions must be Discrete; got {action_space}. Plan continuous "
                f"actions in an ensemble of observation models."
            )
        self.observation_space, self.action_space = observation_space, action_space
        self.config = config
        count = int(action_space.n)
        self.distribution = Categorical(count, int(action_space.start))
        self.values, self.rewards = Support(config.value_support), Support(config.reward_support)
        self.value_scale = float(config.value_scale)
        layers = NetworkConfig(
            kind=config.kind,
            hidden=config.representation,
            channels=config.channels,
            blocks=config.blocks,
            activation=config.activation,
            layer_norm=config.layer_norm,
            image_channels=config.image_channels,
        )
        self.encoder = ObservationEncoder(observation_space, config.image_channels)
        body, width = make_body(self.encoder.shape, layers)
        self.representation = nn.Sequential(body, _linear(width, config.latent))
        ahead, width = dense_layers(config.latent + count, config.hidden, layers)
        # One layer for all that a step puts out: latent, reward, ending.
        self._widths = config.latent, self.rewards.width, int(config.endings)
        self.dynamics = nn.Sequential(*ahead, _linear(width, sum(self._widths)))
        rated, width = dense_layers(config.latent, config.hidden, layers)
        self.prediction = nn.Sequential(*rated, _linear(width, count + self.values.width))
        self._begin_even()

    def _begin_even(self) -> None:
        """Begin with a uniform policy, values and rewards of 0, and latents that stay near."""
        zero_residual_ends(self)
        heads: Any = self.prediction[-1]
        nn.init.zeros_(heads.weight)
        nn.init.zeros_(heads.bias)
        step: Any = self.dynamics[-1]
        nn.init.zeros_(step.weight[self.config.latent :])
        nn.init.zeros_(step.bias[self.config.latent :])

    def represent(self, obs: Any) -> Any:
        """Return the latents `[B, D]` of observations `[B, *obs]`."""
        return scaled(self.representation(self.encoder(obs)))

    def predict(self, latent: Any) -> Rated:
        """Return policy and value of latents `[B, D]`."""
        out = self.prediction(latent)
        count = self.distribution.width
        return Rated(out[:, :count], out[:, count:])

    def step(self, latent: Any, index: Any) -> Step:
        """Return what follows latents `[B, D]` and the numbers `[B]` int64 of actions."""
        played = functional.one_hot(index, self.distribution.width).to(latent.dtype)
        out = self.dynamics(torch.cat([latent, played], dim=1))
        following, reward, ending = torch.split(out, [*self._widths], dim=1)
        over = ending[:, 0] if self.config.endings else None
        return Step(scaled(following), reward, over)

    def value_of(self, out: Any) -> Any:
        """Return values `[B]` in units of rewards, of outputs `[B, W]`."""
        found = self.values.decode(out)
        return found if self.value_scale == 1.0 else found * self.value_scale

    def forward(self, obs: Any) -> NetworkOutput:
        """Evaluate `[B, *obs]` without a search."""
        return self.of_latents(self.represent(obs))

    def of_latents(self, latent: Any) -> NetworkOutput:
        """Evaluate latents `[B, D]`."""
        rated = self.predict(latent)
        return NetworkOutput(rated.policy_logits, self.value_of(rated.value), None)


class OfLatents(nn.Module):
    """The prediction of a `LatentNetwork` as a network of planners, over its latents.

    Args:
        network: shared, not copied: what a learner changes is asked at once.
    """

    def __init__(self, network: LatentNetwork) -> None:
        super().__init__()
        self.network, self.distribution = network, network.distribution

    def forward(self, latent: Any) -> NetworkOutput:
        """Evaluate latents `[B, D]`."""
        return self.network.of_latents(latent)


def scaled(latent: Any) -> Any:
    """Return rows `[B, D]` with the least number of each at 0 and the largest at 1."""
    low, high = latent.aminmax(dim=1, keepdim=True)
    # A row of equal numbers becomes one of zeros.
    return (latent - low) / (high - low).clamp(min=1e-5)


def make_latent_network(
    observation_space: Any,
    action_space: Any,
    config: LatentConfig | None = None,
    *,
    seed: int,
) -> LatentNetwork:
    """Make a network for an observation and an action space.

    Args:
        observation_space: Box, Discrete, MultiDiscrete or MultiBinary.
        action_space: Discrete.
        config: its layers.
        seed: of the weights; torch's own generator is left as it was.

    Raises:
        InvalidOption: the spaces and the config do not go together.
    """
    with seeded(seed):
        return LatentNetwork(observation_space, action_space, config or LatentConfig())


def _linear(width: int, size: int) -> nn.Linear:
    return nn.Linear(width, size, dtype=torch.float32)
