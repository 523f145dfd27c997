"""Latent models: representation, dynamics and prediction, and the backend that steps latents."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.core.infos import InfoColumn
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.network_agent import ROWS
from plangym_ext.learn.distributions.categorical import Categorical
from plangym_ext.learn.models.model_env import TESTED, Advanced, Contents, ModelEnv, checked_obs
from plangym_ext.learn.networks.bodies import dense_layers, make_body
from plangym_ext.learn.networks.config import LatentConfig, NetworkConfig
from plangym_ext.learn.networks.inputs import ObservationEncoder
from plangym_ext.learn.networks.network import NetworkOutput, zero_residual_ends
from plangym_ext.learn.repeatable import seeded
from plangym_ext.learn.torch_extra import check_device, functional, nn, torch
from plangym_ext.planners.players import PLAYER, TO_PLAY, in_turns

#: Slope of the compression far from zero.
_EPSILON = 1e-3


def compress(x: Any) -> Any:
    """Return h(x) = sign(x) (sqrt(|x| + 1) - 1) + 0.001 x, a fresh tensor of the same shape.

    Source: Pohlen et al. 2018, "Observe and look further".
    """
    # The root less 1 as a quotient: near zero the difference would cancel all digits.
    size = x.abs()
    return x.sign() * size / ((size + 1.0).sqrt() + 1.0) + _EPSILON * x


def expand(y: Any) -> Any:
    """Return x with h(x) = y, a fresh tensor of the same shape."""
    # sqrt(|x| + 1) - 1 without a difference of near numbers, with the sign of y.
    once = 1.0 + 2.0 * _EPSILON
    root = 2.0 * y / ((once * once + 4.0 * _EPSILON * y.abs()).sqrt() + once)
    return root * (root.abs() + 2.0)


class Support:
    """Numbers as distributions over the 2 n + 1 atoms -n, ..., n of their compressed values.

    With n = 0 there are no atoms: a number stands for itself, and its loss is a squared error.

    Source: Schrittwieser et al. 2020, "Mastering Atari, Go, chess and shogi by planning with a
    learned model", appendix F.

    Args:
        size: n.

    Attributes:
        width: numbers that a network puts out for one.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.width = 2 * size + 1

    def decode(self, out: Any) -> Any:
        """Return the expected numbers `[...]` of outputs `[..., width]`, a fresh tensor."""
        if not self.size:
            return out[..., 0]
        atoms = torch.arange(-self.size, self.size + 1, device=out.device, dtype=out.dtype)
        return expand((torch.softmax(out, -1) * atoms).sum(-1))

    def encode(self, numbers: Any) -> Any:
        """Return the two-hot targets `[..., width]` of `[...]`; numbers beyond the ends are cut."""
        if not self.size:
            return numbers[..., None]
        place = compress(numbers).clamp(-self.size, self.size) + self.size
        low = place.floor().clamp(max=2 * self.size - 1)
        share = (place - low)[..., None]
        # Of no number there is no atom, and the target is NaN: the update is refused by name.
        index = low.nan_to_num().long()
        first = functional.one_hot(index, self.width)
        second = functional.one_hot(index + 1, self.width)
        return first * (1.0 - share) + second * share

    def loss(self, out: Any, numbers: Any) -> Any:
        """Return `[...]`: the cross-entropy of outputs `[..., width]` to the targets of `[...]`."""
        if not self.size:
            return (out[..., 0] - numbers) ** 2
        return -(self.encode(numbers) * torch.log_softmax(out, -1)).sum(-1)

    def least_loss(self, numbers: Any) -> Any:
        """Return `[...]`, the lower bound of the loss for these numbers."""
        if not self.size:
            return torch.zeros_like(numbers)
        return torch.special.entr(self.encode(numbers)).sum(-1)


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
    """A network with representation, dynamics and prediction of latents.

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
        """Return the dynamics' output for latents `[B, D]` and action numbers `[B]` int64."""
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

    @checking_arguments
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
    observation_space: Any, action_space: Any, config: LatentConfig | None = None, *, seed: int
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


@final
class LatentModel(ModelEnv):
    """Steps rows of latents; every planner of discrete actions searches in it.

    A state is a latent, D float32. It is its own observation: an evaluator such as
    `NetworkEvaluator(OfLatents(network))` rates it. Rows are stepped in padded calls, so that a row
    does not depend on the others.

    Of two players the infos say that 0 has moved and 1 moves next, from whatever state: a latent
    does not tell them apart.

    Args:
        network: shared, not copied: what a learner changes is stepped at once.
        device: where it runs; it is moved there.
        starts: `[N, *obs]` observations of the real env to reset to; None: it cannot be reset.
    """

    exactness = TESTED

    @checking_arguments
    def __init__(self, network: LatentNetwork, *, device: str = "cpu", starts: Any = None) -> None:
        check_device(device, "LatentModel")
        self.network = network.to(device).eval()
        self._device = torch.device(device)
        width = network.config.latent
        box = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        identity = {"latent": width, "actions": network.distribution.width}
        shown = box, network.action_space
        if starts is not None:
            starts = checked_obs("LatentModel: starts", starts, network.observation_space)
        two = network.config.num_players == 2
        columns = tuple(InfoColumn(name, int, "<i8") for name in (PLAYER, TO_PLAY) if two)
        super().__init__("LatentModel", shown, 4 * width, identity, columns, starts)

    @property
    def metadata(self) -> dict[str, Any]:
        return {**super().metadata, "num_players": self.network.config.num_players}

    def _begun(self, obs: Any) -> Contents:
        with torch.inference_mode():
            rows = checked_obs("LatentModel: observations", obs, self.network.observation_space)
            return _bytes(self.network.represent(self._tensor(rows))[: len(rows)])

    def _advanced(self, contents: Contents, actions: tuple[npt.NDArray[Any], ...]) -> Advanced:
        count, network = len(contents), self.network
        with torch.inference_mode():
            index = self._tensor(actions[0].astype(np.int64) - network.distribution.start)
            found = network.step(self._tensor(contents.view(np.float32)), index)
            rewards = network.rewards.decode(found.reward)[:count].cpu().numpy()
            over = np.zeros(count, np.bool_)
            if found.ending is not None:
                over = (found.ending[:count] > 0.0).cpu().numpy()
            infos = in_turns(count) if self.layout.info else {}
            return Advanced(_bytes(found.latent[:count]), rewards.astype(np.float64), over, infos)

    def _seen(self, contents: Contents) -> tuple[npt.NDArray[Any], ...]:
        # Another array than the states' own: a caller may write to either.
        return (contents.view(np.float32).copy(),)

    def _tensor(self, rows: npt.NDArray[Any]) -> Any:
        """Return a tensor of the rows, filled up with zeros to a multiple of `ROWS`."""
        more = -len(rows) % ROWS
        whole = np.zeros((len(rows) + more, *rows.shape[1:]), rows.dtype)
        whole[: len(rows)] = rows
        return torch.from_numpy(whole).to(self._device)


def _bytes(latent: Any) -> Contents:
    rows: npt.NDArray[np.float32] = latent.cpu().numpy()
    return np.ascontiguousarray(rows).view(np.uint8)
