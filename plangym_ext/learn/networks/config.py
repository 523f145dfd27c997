"""Configurations of networks: layers of agents, of models, of several agents. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from plangym_ext.core.options import CheckedOptions, Count, Finite, OneOf, Positive, Range, Whole
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.distributions.base import LOG_STD

KINDS = ("auto", "mlp", "conv", "residual", "nature", "impala", "attention")
ACTIVATIONS = ("relu", "tanh", "gelu", "silu")
HEADS = ("policy", "value", "q")
CHANNELS = ("auto", "first", "last")
ITEMS = ("sets", "attention")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(CheckedOptions):
    """Configuration of a network that advises a planner; None selects the default of the kind.

    Args:
        kind: "mlp", "conv", "residual", or "auto": an mlp for vectors, conv for images.
            "nature" has the convolutions of DQN without padding, "impala" the residual
            stages of IMPALA; "attention" adds attention among the cells to those of "conv". Or
            "module:Class" of a torch module of your own, made with the shape of the encoded
            observations, (F,) or (C, H, W), and this config; it takes `[N, *shape]` and returns
            `[N, ...]` float32, which dense layers follow if `hidden` has any.
        hidden: widths of the dense layers; None: (64, 64) for an mlp, (512,) for nature,
            (256,) for impala, (128,) after other convolutions.
        channels: of each convolution, or of each residual stage; None: (32, 32, 32)
            for boards, (32, 64, 64) for large images, (32, 32) for residual, (16, 32, 32)
            for impala.
        blocks: residual blocks per stage.
        activation: "relu", "tanh", "gelu" or "silu".
        layer_norm: whether dense layers are normalised before their activation.
        heads: any of "policy", "value" and "q".
        shared_body: whether the heads have one body; False: a network each (`UnionNetwork`). Of
            agents: whether policy and value have one body, and one recurrent layer, or one each.
        value_scale: values and Q values are this times what the layers put out: about
            the size of a typical return, so that targets are near 1.
        image_channels: which axis of an image counts channels: "first", "last", or
            "auto": the one that differs from the other two, or else the shorter one.
        items: encoder of Sequence and Graph observations: "sets", or "attention" among the items.
        items_size: features of each item.
    """

    kind: Annotated[str, OneOf(KINDS, own=True)] = "auto"
    hidden: tuple[Count, ...] | None = None
    channels: tuple[Count, ...] | None = None
    blocks: Count = 2
    activation: Annotated[str, OneOf(ACTIVATIONS)] = "relu"
    layer_norm: bool = False
    heads: tuple[Annotated[str, OneOf(HEADS)], ...] = ("policy", "value")
    shared_body: bool = True
    value_scale: Positive = 1.0
    image_channels: Annotated[str, OneOf(CHANNELS)] = "auto"
    items: Annotated[str, OneOf(ITEMS)] = "sets"
    items_size: Annotated[int, Range(16)] = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.heads or len(set(self.heads)) < len(self.heads):
            raise InvalidOption(
                f"NetworkConfig: heads must name each head once, at least one; got {self.heads}."
            )
        if self.kind == "nature" and len(self.channels or (32, 64, 64)) != 3:
            raise InvalidOption(
                f"NetworkConfig: kind 'nature' has three convolutions; got channels "
                f"{self.channels}. Name three, or use kind 'conv'."
            )


_LOG_STD = Range(*LOG_STD, advice="Deviations are kept within these bounds.")
RECURRENT = ("none", "lstm", "gru", "conv_gru")
INITS = ("zero_heads", "orthogonal")
LOG_STDS = ("free", "state")
RETURNS = ("mean", "atoms", "quantiles")


@dataclass(frozen=True, kw_only=True)
class AgentConfig(NetworkConfig):
    """Configuration of an agent's network: `NetworkConfig` plus recurrence and inputs.

    Args:
        recurrent: "lstm" or "gru" between the dense layers and the heads, or "none"; "conv_gru"
            between the convolutions of an image and the dense layers.
        recurrent_size: width of the recurrent layer.
        recurrent_first: whether the dense layers come after the recurrent layer, not before it.
        previous_action: whether the previous action is an input: one-hot where it is discrete,
            in units of its bounds where it is continuous, zeros at the first step.
        previous_reward: whether the previous reward is an input.
        normalize_obs: whether observations are normalised to mean 0 and variance 1, by the
            statistics of all past ones; see `ObservationNormalizer`.
        clip_obs: how far from 0 normalised observations may be.
        init: "zero_heads" leaves layers as torch makes them and begins heads at 0;
            "orthogonal" has gains sqrt(2) in the body, 0.01 for the policy and 1 for values,
            and biases 0, as is usual for policy gradients.
        log_std: of Gaussian policies: "free" parameters, or put out by the "state".
        initial_log_std: where free ones begin; 0 is a deviation of half the range of actions.
        squash: whether Gaussians are squashed into the bounds by tanh.
        deterministic: whether the policy of a Box gives only actions, without deviations, within
            the bounds by tanh; what is drawn differs from them by noise, as large as the agent
            says.
    """

    recurrent: Annotated[str, OneOf(RECURRENT)] = "none"
    recurrent_size: Count = 128
    recurrent_first: bool = False
    previous_action: bool = False
    previous_reward: bool = False
    normalize_obs: bool = False
    clip_obs: Positive = 10.0
    init: Annotated[str, OneOf(INITS)] = "zero_heads"
    log_std: Annotated[str, OneOf(LOG_STDS)] = "free"
    initial_log_std: Annotated[float, _LOG_STD] = 0.0
    squash: bool = False
    deterministic: bool = False


@dataclass(frozen=True, kw_only=True)
class QAgentConfig(AgentConfig):
    """Configuration of a Q-learning agent's network.

    With `dueling` or `noisy`, the last dense layer is part of the head; after a recurrent layer
    there is one more.

    Args:
        dueling: whether values and advantages have layers of their own.
        noisy: whether the layers of the head have noisy weights, see `NoisyLinear`.
        returns: what is known of a return: its "mean"; how likely it is to be one of some
            "atoms", for `C51`; or its "quantiles", for `QRDQN`.
        atoms: how many atoms or quantiles there are.
        return_range: least and largest return that atoms stand for.
    """

    heads: tuple[str, ...] = ("q",)
    dueling: bool = False
    noisy: bool = False
    returns: Annotated[str, OneOf(RETURNS)] = "mean"
    atoms: Annotated[int, Range(2)] = 51
    return_range: tuple[float, ...] = (-10.0, 10.0)

    @property
    def has_streams(self) -> bool:
        """Whether the head has layers of its own before its last one."""
        return self.dueling or self.noisy

    @property
    def needs_head(self) -> bool:
        """Whether the Q head has more than one layer."""
        return self.has_streams or self.returns != "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.needs_head and self.heads != ("q",):
            raise InvalidOption(
                f"QAgentConfig: a Q head that is dueling, noisy or of atoms or quantiles must be "
                f"the only head; got heads {self.heads}. Name 'q' alone."
            )
        limits = self.return_range
        if len(limits) != 2 or not -math.inf < limits[0] < limits[1] < math.inf:
            raise InvalidOption(
                f"QAgentConfig: return_range must be two finite numbers, the smaller one first; "
                f"got {limits}."
            )


@dataclass(frozen=True, kw_only=True)
class SoftPolicyConfig(AgentConfig):
    """Configuration of SAC's policy: a squashed Gaussian with state-dependent deviations."""

    hidden: tuple[int, ...] | None = (256, 256)
    heads: tuple[str, ...] = ("policy",)
    log_std: str = "state"
    squash: bool = True


@dataclass(frozen=True, kw_only=True)
class DeterministicPolicyConfig(AgentConfig):
    """Configuration of the deterministic policy of TD3 and DDPG."""

    hidden: tuple[int, ...] | None = (256, 256)
    heads: tuple[str, ...] = ("policy",)
    deterministic: bool = True


CRITICS = ("own", "central")


#: Options of all groups' networks together: how actions are drawn, and what is shown.
_DRAWN, _SHOWN = ("squash", "deterministic"), ("normalize_obs", "clip_obs", "previous_reward")
_OF_ALL = frozenset(("critic", "groups", "networks", "fixed", "heads", *_DRAWN, *_SHOWN))


@dataclass(frozen=True, kw_only=True)
class AgentsConfig(AgentConfig):
    """Configuration of the networks of several agents.

    Args:
        critic: what values are estimated from: the agent's "own" observation, or "central": those
            of all agents, by a network of its own. Policies see the agent's own alone.
        groups: number of the network that each agent plays, from 0 on: (0, 1, 2) gives each of
            three its own, (0, 0, 1) lets two share one; (): all share one.
        networks: options of the layers of each group's network that differ from these, such as
            ({}, {"hidden": (16,), "recurrent": "gru"}); (): none.
        fixed: groups that learn nothing: they play the weights that they have.
    """

    critic: Annotated[str, OneOf(CRITICS)] = "own"
    groups: tuple[Whole, ...] = ()
    networks: tuple[Mapping[str, Any], ...] = ()
    fixed: tuple[Whole, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_groups(self)
        known = sorted(set(self.groups))
        if (self.networks and len(self.networks) != len(known)) or not set(self.fixed) <= set(
            known
        ):
            raise InvalidOption(
                f"AgentsConfig: networks must be one for each of the groups {known}, and fixed of "
                f"these; got {len(self.networks)} networks, fixed={self.fixed}."
            )
        for group, options in enumerate(self.networks):
            if shared := sorted(_OF_ALL.intersection(options)):
                raise InvalidOption(
                    f"AgentsConfig: networks must differ in their layers alone; that of group "
                    f"{group} has {', '.join(shared)}. Set these for all groups, or leave them out."
                )
            replace(self.of_one, **options)  # which refuses what it does not know
        if self.heads != ("policy", "value"):
            raise InvalidOption(
                f"AgentsConfig: several agents have heads ('policy', 'value'); got {self.heads}."
            )
        if self.previous_reward:
            raise InvalidOption(
                "AgentsConfig: previous_reward must be False, as the env's reward is that of all "
                "agents together; got True. Leave it out."
            )
        if self.normalize_obs and not self.is_plain:
            raise InvalidOption(
                "AgentsConfig: normalize_obs is for one network of all agents with their own "
                "critic; normalise in the env, or leave it out."
            )

    @property
    def is_plain(self) -> bool:
        """Whether one network of a single agent's observations plays all agents."""
        return self.critic == "own" and not (any(self.groups) or self.networks or self.fixed)

    @property
    def of_one(self) -> AgentsConfig:
        """The options of one agent's own network."""
        return replace(self, critic="own", groups=(), networks=(), fixed=())


@dataclass(frozen=True, kw_only=True)
class AgentsQConfig(QAgentConfig):
    """Configuration of the Q networks of several agents, for `VDN` and `QMIX`.

    Args:
        groups: number of the network that each agent plays; see `AgentsConfig`.
    """

    groups: tuple[Whole, ...] = ()

    # What `AgentsConfig` has beside it, without annotations: no fields.
    critic = "own"
    networks = ()
    fixed = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_groups(self)
        if self.noisy or self.returns != "mean" or self.normalize_obs:
            raise InvalidOption(
                "AgentsQConfig: teams learn means of returns, by random actions and from "
                "observations as they are; leave out noisy, returns and normalize_obs."
            )

    @property
    def is_plain(self) -> bool:
        """Whether one network plays all agents."""
        return not any(self.groups)

    @property
    def of_one(self) -> AgentsQConfig:
        """The options of one agent's own network."""
        return replace(self, groups=())


def _check_groups(config: AgentsConfig | AgentsQConfig) -> None:
    if config.groups and set(config.groups) != set(range(max(config.groups) + 1)):
        raise InvalidOption(
            f"{type(config).__name__}: groups must be numbered from 0 on without gaps; got "
            f"{config.groups}."
        )


@dataclass(frozen=True, kw_only=True)
class ContextConfig(SoftPolicyConfig):
    """Configuration of PEARL's networks: a policy of observation and z, and a context encoder.

    Args:
        latent: numbers of z, what is inferred of a task.
        encoder_hidden: widths of the encoder's dense layers.
        next_obs: whether the encoder is shown the observation after each step too, for tasks
            that differ in their dynamics. Last steps of episodes, after which agents observe
            another episode, then are no context.
    """

    latent: Count = 5
    encoder_hidden: tuple[Count, ...] = (128, 128)
    next_obs: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.recurrent != "none" or self.previous_action or self.previous_reward:
            raise InvalidOption(
                "ContextConfig: the context must be the only memory; leave out recurrent, "
                "previous_action and previous_reward."
            )
        if self.normalize_obs:
            raise InvalidOption(
                "ContextConfig: normalize_obs would change stored contexts; normalise in the env."
            )


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig(CheckedOptions):
    """Configuration of an `EnsembleNetwork`, in whose `EnsembleModel` a planner searches.

    Args:
        members: networks side by side, which differ in their initial weights.
        hidden: widths of the dense layers of each.
        activation: "relu", "tanh", "gelu" or "silu".
        endings: whether members also predict that an episode ends; else none ends in the model.
        particles: of each member, in a state of the model.
        sample: whether particles draw what follows; else they go to the mean.
        disagreement: added to the reward for each unit of disagreement: below 0 a penalty, above
            0 a bonus.
    """

    members: Count = 5
    hidden: tuple[Count, ...] = (200, 200)
    activation: Annotated[str, OneOf(ACTIVATIONS)] = "silu"
    endings: bool = False
    particles: Count = 1
    sample: bool = True
    disagreement: Finite = 0.0


@dataclass(frozen=True, kw_only=True)
class LatentConfig(CheckedOptions):
    """Configuration of a `LatentNetwork`, a learned model in which a planner searches.

    Args:
        kind: layers that observations go through first; see `NetworkConfig`.
        representation: widths of the dense layers from there to the latent.
        channels: of the convolutions; see `NetworkConfig`.
        blocks: residual blocks per stage.
        latent: width of the latent, whose numbers are brought to [0, 1].
        hidden: widths of the dense layers of dynamics and of prediction.
        activation: "relu", "tanh", "gelu" or "silu".
        layer_norm: whether dense layers are normalised before their activation.
        value_support: n, atoms on each side of 0 for values; see `Support`. 0: values are plain
            numbers.
        reward_support: the same for rewards.
        value_scale: values are this times what the support expects.
        endings: whether dynamics also predict that the episode ends, and searches stop there;
            else what follows an end is learned to be worth nothing.
        num_players: of the env. Two move in turns, and rewards and values are the mover's.
        image_channels: see `NetworkConfig`.
    """

    kind: Annotated[str, OneOf(KINDS)] = "auto"
    representation: tuple[Count, ...] = (128,)
    channels: tuple[Count, ...] | None = None
    blocks: Count = 2
    latent: Count = 64
    hidden: tuple[Count, ...] = (128,)
    activation: Annotated[str, OneOf(ACTIVATIONS)] = "relu"
    layer_norm: bool = False
    value_support: Whole = 20
    reward_support: Whole = 5
    value_scale: Positive = 1.0
    endings: bool = True
    num_players: Annotated[int, Range(1, 2)] = 1
    image_channels: Annotated[str, OneOf(CHANNELS)] = "auto"
