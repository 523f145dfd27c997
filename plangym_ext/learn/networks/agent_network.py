"""AgentNetwork: from inputs and recurrent carry to policy, value and Q values."""

from __future__ import annotations

import math
from typing import Any

from gymnasium import spaces

from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.distributions.base import Distribution
from plangym_ext.learn.distributions.make import distribution_of
from plangym_ext.learn.networks.config import AgentConfig, QAgentConfig
from plangym_ext.learn.networks.inputs import InputBody, flattened
from plangym_ext.learn.networks.network import NetworkOutput, zero_residual_ends
from plangym_ext.learn.networks.q_head import QHead, Recurrent
from plangym_ext.learn.repeatable import seeded
from plangym_ext.learn.torch_extra import nn, torch
from plangym_ext.learn.transforms.observations import ObservationNormalizer

#: What the names of the carry of a value's own recurrent layer begin with.
_OF_VALUE = "value_"


class AgentNetwork(nn.Module):
    """Body, recurrent layer and heads; all heads of one body are one layer.

    A network of your own is any module with such a `forward` and `initial_carry`, and with the
    attributes `distribution` and `inputs_used`.

    Attributes:
        observation_space: of one row.
        action_space: of one row.
        config: that it was made of.
        distribution: what `policy_logits` are numbers of.
        value_scale: see `NetworkConfig`.
        inputs_used: names of the fields of `Inputs` that it looks at.
        normalizer: of observations; None: they are taken as they are.
        core: the recurrent layer; None: nothing is carried.
        value_core: that of the value's own body, if it has one.
    """

    @checking_arguments
    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        config: AgentConfig,
    ) -> None:
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space
        self.config = config
        self.distribution: Distribution = distribution_of(
            action_space, squash=config.squash, deterministic=config.deterministic
        )
        self.value_scale = float(config.value_scale)
        self.inputs_used = _inputs_used(config)
        self.normalizer: ObservationNormalizer | None = None
        if config.normalize_obs:
            self.normalizer = ObservationNormalizer(observation_space, config.clip_obs)
        q = config if isinstance(config, QAgentConfig) and config.needs_head else None
        # Streams and noise have the last dense layer among them.
        apart = q is not None and q.has_streams and config.recurrent == "none"
        by_cells = config.recurrent == "conv_gru"
        self._recurrent_first = by_cells or (config.recurrent != "none" and config.recurrent_first)
        # Convolutions put out as much as comes in.
        core_size = config.recurrent_size if self._recurrent_first and not by_cells else None
        self.body = InputBody(
            observation_space, action_space, config, without_last=apart, core_size=core_size
        )
        self.core, width = self._made_core(self.body, config)
        if q is None:
            self._add_heads(width, action_space, config)
        else:
            self._add_q_head(width, action_space, q)
        self.value_body: InputBody | None = None
        self.value_core: Recurrent | None = None
        self.value_head: nn.Linear | None = None
        if self._value_apart:
            self.value_body = InputBody(
                observation_space, action_space, config, core_size=core_size
            )
            self.value_core, _ = self._made_core(self.value_body, config)
            self.value_head = nn.Linear(width, 1, dtype=torch.float32)
        # Last: it goes through all modules that were made.
        if config.init == "orthogonal":
            _orthogonal(self)
        else:
            _zero_heads(self)

    def _made_core(self, body: InputBody, config: AgentConfig) -> tuple[Recurrent | None, int]:
        """Return a body's recurrent layer, if it has one, and how many features heads see."""
        if config.recurrent == "none":
            return None, body.width
        if config.recurrent == "conv_gru":
            return Recurrent(config.recurrent, *body.image_carry()), body.width
        before = body.joined_width if self._recurrent_first else body.width
        core = Recurrent(config.recurrent, before, config.recurrent_size)
        return core, body.width if self._recurrent_first else config.recurrent_size

    def _add_heads(self, width: int, action_space: spaces.Space[Any], config: AgentConfig) -> None:
        """Make the heads on the body, in the order of NetworkOutput."""
        num_actions = self.distribution.num_actions
        if "q" in config.heads and num_actions is None:
            raise _no_q_head(action_space)
        # A value alone has the one body that there is.
        self._value_apart = (
            not config.shared_body and "value" in config.heads and len(config.heads) > 1
        )
        free = self.distribution.log_std_columns if config.log_std == "free" else ()
        has_policy = "policy" in config.heads
        self._widths = [
            self.distribution.width - len(free) if has_policy else 0,
            1 if "value" in config.heads and not self._value_apart else 0,
            num_actions or 0 if "q" in config.heads else 0,
        ]
        # One layer for all heads, of as many columns as they have numbers.
        self.heads: Any = nn.Linear(width, sum(self._widths), dtype=torch.float32)
        self.log_std: nn.Parameter | None = None
        order = None
        if has_policy and free:
            self.log_std = nn.Parameter(
                torch.full((len(free),), config.initial_log_std, dtype=torch.float32)
            )
            rest = [i for i in range(self.distribution.width) if i not in free]
            # The head gives means first, then the free deviations: this is where each number
            # belongs.
            order = torch.tensor([*rest, *free]).argsort()
            # A single Gaussian has its deviations last, as they are joined.
            if bool((order == torch.arange(len(order))).all()):
                order = None
        # It follows from the spaces, and no checkpoint has to hold it.
        self.register_buffer("_order", order, persistent=False)

    def _add_q_head(self, width: int, action_space: spaces.Space[Any], config: Any) -> None:
        """Make a head that is more than a layer."""
        num_actions = self.distribution.num_actions
        if num_actions is None:
            raise _no_q_head(action_space)
        self._value_apart, self._widths, self.log_std = False, [0, 0, 0], None
        self.register_buffer("_order", None, persistent=False)
        hidden = self.body.last_width if config.has_streams else None
        self.heads = QHead(width, hidden, num_actions, config)

    @property
    def support(self) -> torch.Tensor | None:
        """`[K]` returns of the Q head's atoms; None without atoms."""
        return getattr(self.heads, "support", None)

    @property
    def has_value(self) -> bool:
        """Whether the network estimates values."""
        return bool(self._widths[1]) or self._value_apart

    @property
    def has_q(self) -> bool:
        """Whether the network estimates Q values."""
        return bool(self._widths[2]) or isinstance(self.heads, QHead)

    @property
    def free_order(self) -> Any:
        """Permutation of means and state-free deviations in the output; None for none."""
        return self._order

    def features(self, inputs: Inputs) -> torch.Tensor:
        """Return `[N, F]`, the inputs of the dense body layers, for inputs with one axis."""
        return self.body.joined(self._normalized(inputs))

    def _normalized(self, rows: Inputs) -> Inputs:
        if self.normalizer is None:
            return rows
        return rows._replace(obs=self.normalizer(rows.obs))

    def initial_carry(self, num_rows: int) -> dict[str, torch.Tensor] | None:
        """Return the carry before the first step, tensors `[B, H]` by name; None for none."""
        if self.core is None:
            return None
        carry = self.core.initial_carry(num_rows)
        if self.value_core is not None:
            own = self.value_core.initial_carry(num_rows)
            carry |= {_OF_VALUE + name: part for name, part in own.items()}
        return carry

    def forward(self, inputs: Inputs, carry: Any = None) -> tuple[NetworkOutput, Any]:
        """Evaluate tensors `[B, ...]`, or sequences `[T, B, ...]`.

        Args:
            inputs: tensors; fields that are not among `inputs_used` may be None.
            carry: tensors `[B, ...]` before the first step; not changed.

        Returns:
            Heads with the leading axes of the inputs, and the carry after the last step.
        """
        lead = inputs.first.shape
        # Layers but the recurrent ones take rows alone: steps are joined with them, and parted
        # last.
        rows = inputs if len(lead) == 1 else flattened(inputs)
        rows = self._normalized(rows)
        first = inputs.first
        x, kept = self._through(self.body, self.core, rows, carry, first, "")
        value = None
        if self.value_body is not None and self.value_head is not None:
            apart, own = self._through(
                self.value_body, self.value_core, rows, carry, first, _OF_VALUE
            )
            # The prefix keeps the names of both carries apart.
            kept |= own
            value = self.value_head(apart)[:, 0]
        out = self.output_of(self.heads(x), value)
        if len(lead) == 2:
            out = NetworkOutput(*(None if t is None else t.unflatten(0, lead) for t in out))
        return out, kept or None

    def _through(
        self,
        body: InputBody,
        core: Recurrent | None,
        rows: Inputs,
        carry: Any,
        first: torch.Tensor,
        prefix: str,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return features `[N, F]` of a body and its recurrent layer, and the carry after them.

        Args:
            body: dense layers.
            core: recurrent layer; None: there is none.
            rows: what is seen, with one leading axis.
            carry: before the first step, parts by name.
            first: `[B]`, or `[T, B]`.
            prefix: what the names of its parts begin with.
        """
        if core is None:
            return body(rows), {}
        # Recurrent first: the dense layers come after the core, on what it puts out.
        x = body.joined(rows) if self._recurrent_first else body(rows)
        # `[T, B]`: one step is a sequence of one.
        steps = first if first.ndim == 2 else first[None]
        before = {name: carry[prefix + name] for name in core.parts}
        out, after = core(x.reshape(*steps.shape, -1), before, steps)
        out = out.flatten(0, 1)
        kept = {prefix + name: part for name, part in after.items()}
        return (body.dense(out) if self._recurrent_first else out), kept

    def output_of(self, numbers: Any, value: torch.Tensor | None) -> NetworkOutput:
        """Return the heads.

        Args:
            numbers: `[N, H]` that the layer of heads puts out; of a `QHead` what it returns.
            value: `[N]`, of a value head with a body of its own; None without.
        """
        # A `QHead` has scaled what it returns.
        if isinstance(numbers, tuple):
            return NetworkOutput(None, None, *numbers)
        # Slices, which take a third of the time of a split.
        at_value, at_q = self._widths[0], self._widths[0] + self._widths[1]
        if self._widths[1]:
            value = numbers[:, at_value]
        return NetworkOutput(
            self._policy(numbers[:, :at_value]) if self._widths[0] else None,
            None if value is None else self._scaled(value),
            self._scaled(numbers[:, at_q:]) if self._widths[2] else None,
        )

    def _policy(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return `[N, P]`, free deviations joined in."""
        if self.log_std is None:
            return numbers
        joined = torch.cat([numbers, self.log_std.expand(numbers.shape[0], -1)], dim=1)
        order: Any = self._order
        return joined if order is None else joined[:, order]

    def _scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.value_scale == 1.0 else x * self.value_scale


def make_agent_network(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    config: AgentConfig | None = None,
    *,
    seed: int,
) -> AgentNetwork:
    """Make the network of an agent.

    Args:
        observation_space: of one row: Box, Discrete, MultiDiscrete, MultiBinary, Sequence and
            Graph of them, or Dict and Tuple of all.
        action_space: of one row: Discrete, MultiDiscrete, MultiBinary, a Box of floats, or
            Dict and Tuple of them.
        config: what it is made of.
        seed: of the weights; torch's own generator is left as it was.

    Raises:
        InvalidOption: the spaces and the config do not go together.
    """
    with seeded(seed):
        return AgentNetwork(observation_space, action_space, config or AgentConfig())


def _inputs_used(config: AgentConfig) -> tuple[str, ...]:
    """Return the fields of `Inputs` that a network looks at."""
    carried = config.recurrent != "none" or config.previous_action or config.previous_reward
    wanted = {
        "obs": True,
        "action": config.previous_action,
        "reward": config.previous_reward,
        "first": carried,
    }
    return tuple(name for name, used in wanted.items() if used)


def _no_q_head(action_space: spaces.Space[Any]) -> InvalidOption:
    return InvalidOption(
        f"make_agent_network: a Q head needs a Discrete action space; got {action_space}."
    )


def _zero_heads(network: AgentNetwork) -> None:
    """Begin heads at zero: a uniform policy, or means of 0, and values of 0."""
    zero_residual_ends(network)
    if isinstance(network.heads, QHead):
        network.heads.zero()
        return
    heads = [network.heads, *([] if network.value_head is None else [network.value_head])]
    for head in heads:
        for tensor in head.parameters():
            nn.init.zeros_(tensor)


def _orthogonal(network: AgentNetwork) -> None:
    """Initialise as is usual for policy gradients; see `AgentConfig.init`.

    Source: Andrychowicz et al. 2021, "What matters for on-policy deep actor-critic methods",
    and the defaults of CleanRL and Stable-Baselines3.
    """
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(module.weight, math.sqrt(2))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.LSTM | nn.GRU):
            for name, tensor in module.named_parameters():
                if name.startswith("weight"):
                    nn.init.orthogonal_(tensor)
                else:
                    nn.init.zeros_(tensor)
    if isinstance(network.heads, QHead):
        return
    # Each head as if it were a layer of its own.
    heads = torch.split(network.heads.weight.detach(), network._widths)
    # A policy that is nearly uniform at first; values and Q values of the size of their inputs.
    for part, gain in zip(heads, (0.01, 1.0, 1.0), strict=True):
        if len(part):
            nn.init.orthogonal_(part, gain)
    if network.value_head is not None:
        nn.init.orthogonal_(network.value_head.weight, 1.0)
