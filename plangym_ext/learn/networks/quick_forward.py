"""Fast forward pass of feed-forward networks; agent networks as evaluators (OfObservations)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import numpy as np

from plangym_ext.arrays.nested import leaves
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.distributions.base import Distribution
from plangym_ext.learn.networks.agent_network import AgentNetwork
from plangym_ext.learn.networks.bodies import DenseLayers, Tanh
from plangym_ext.learn.networks.inputs import InputBody, ObservationEncoder
from plangym_ext.learn.networks.network import Network, NetworkOutput
from plangym_ext.learn.torch_extra import functional, nn, torch

Layer = Callable[[Any], Any]
_FLOAT = torch.float32
_TANH = Tanh()
#: Parts of a network that are asked here; one with others is not simple.
_KNOWN = {"normalizer", "body", "heads", "value_body", "value_head"}


class _Quick:
    """Cached modules of a network, with a check that they are unchanged."""

    def __init__(self, network: Any) -> None:
        self._network = network
        #: Of each module: the dict of its parts, what that held, and the dicts of its hooks.
        self._parts = [
            (m._modules, [*m._modules.values()], m._forward_hooks, m._forward_pre_hooks)
            for m in network.modules()
        ]

    def fits(self, network: nn.Module) -> bool:
        """Return whether a network is the one that this was made for, and has the same parts."""
        if network is not self._network:
            return False
        for parts, known, hooks, pre_hooks in self._parts:
            # Anything that was added or replaced since then would be left out here.
            if hooks or pre_hooks or [*parts.values()] != known:
                return False
        return True


class QuickForward(_Quick):
    """Fast forward pass of an agent's feed-forward network.

    To call a module takes 4 us beside what the module does, which in a network of a dozen small
    layers is a third of the time. Weights are read in every call; layers are those of the time
    at which this was made.

    Args:
        network: for which `is_simple` holds.

    Attributes:
        sees_screens: whether observations are screens.
    """

    def __init__(self, network: AgentNetwork) -> None:
        super().__init__(network)
        self._normalizer, self._layout = network.normalizer, network.body.layout
        encoder = _first(network.body.parts[0])
        self._casts = _only_casts(encoder)
        self.sees_screens = type(encoder) is ObservationEncoder and encoder.is_screen
        self._policy = _Path(network.body, network.heads)
        # None where heads share the body: the value is then a column of them.
        self._value: _Path | None = None
        if network.value_body is not None and network.value_head is not None:
            self._value = _Path(network.value_body, network.value_head)

    def __call__(self, obs: Any, more: int = 0) -> NetworkOutput:
        """Evaluate tensors `[B, *obs]`.

        Args:
            obs: the tensors.
            more: rows of zeros that dense layers see beside them; they are put out, too.
        """
        if self._normalizer is not None:
            obs = self._normalizer(obs)
        # `is_simple` lets observations of one part pass only.
        (rows,) = self._layout.split(obs)
        if self._casts and rows.dtype is not _FLOAT:
            rows = rows.to(_FLOAT)
        out = self._policy(rows, more)
        value = None if self._value is None else self._value(rows, more)[:, 0]
        return self._network.output_of(out, value)


class _Path:
    """The layers of a body and of a head, one after the other."""

    def __init__(self, body: InputBody, head: nn.Module) -> None:
        # The single part of an observation, and what its features go through.
        self._part = [layer for part in body.parts for layer in _leaves(part)]
        self._dense = [*_leaves(body.dense), *_leaves(head)]

    def __call__(self, rows: Any, more: int) -> Any:
        for layer in self._part:
            rows = layer(rows)
        if more:
            rows = functional.pad(rows, (0, 0, 0, more))
        for layer in self._dense:
            rows = layer(rows)
        return rows


class QuickNetwork(_Quick):
    """The same for a network of planners.

    Args:
        network: for which `is_plain` holds.
    """

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._casts = network.encoder.only_casts
        modules = network.encoder, network.body, network.heads
        self._layers = [layer for module in modules for layer in _leaves(module)]

    def __call__(self, obs: Any) -> NetworkOutput:
        out = obs
        if self._casts and obs.dtype is not _FLOAT:
            out = obs.to(_FLOAT)
        for layer in self._layers:
            out = layer(out)
        return self._network.output_of(out)


def is_plain(network: Any) -> bool:
    """Return whether this is a planner's network of the library's own layers without hooks."""
    return (
        type(network) is Network
        and {name for name, _ in network.named_children()} == {"encoder", "body", "heads"}
        and not _has_hooks(network)
    )


def forward_of(network: Any) -> Any:
    """Return the fastest known forward function of a network; it takes inputs and a carry."""
    if not is_simple(network):
        return network
    quick = QuickForward(network)
    return lambda inputs, carry: (quick(inputs.obs), carry)


def is_simple(network: Any) -> bool:
    """Return whether a network is a feed-forward stack of layers without hooks."""
    return (
        type(network) is AgentNetwork
        and network.core is None
        and network.inputs_used == ("obs",)
        and len(network.body.parts) == 1
        and {name for name, _ in network.named_children()} <= _KNOWN
        and not _has_hooks(network)
    )


def _has_hooks(network: nn.Module) -> bool:
    return any(m._forward_hooks or m._forward_pre_hooks for m in network.modules())


def _first(module: nn.Module) -> nn.Module:
    """Return the module of nested sequences that is asked first."""
    while isinstance(module, nn.Sequential) and len(module):
        module = module[0]
    return module


def _leaves(module: nn.Module) -> Iterator[Layer]:
    """Return the layers of nested sequences, in their order."""
    if isinstance(module, nn.Sequential) and type(module) in (nn.Sequential, DenseLayers):
        for layer in module:
            yield from _leaves(layer)
    elif type(module) is Tanh:
        yield _tanh
    elif type(module) is nn.ReLU:
        yield _relu
    elif type(module) is ObservationEncoder and module.is_scaled:
        if not module.only_casts:
            yield _Scaled(module)
    elif type(module) is nn.Linear:
        # The dict, not its tensors: weights that are replaced are found in it.
        yield functools.partial(_linear, module._parameters)
    elif not _only_casts(module):
        # Not the module: a call of it looks for hooks, and there are none.
        yield module.forward


class _Scaled:
    """Applies an encoder to observations, in memory of its own that the next call overwrites.

    To be given fresh memory for pictures takes the system ten times as long as to scale them.
    """

    def __init__(self, encoder: ObservationEncoder) -> None:
        self._encoder = encoder
        self._memory = torch.empty(0, dtype=torch.float32)

    def __call__(self, obs: Any) -> Any:
        # Autograd keeps what layers are shown, which the next call must not overwrite.
        if not torch.is_inference_mode_enabled():
            return self._encoder(obs)
        if self._memory.shape != obs.shape or self._memory.device != obs.device:
            self._memory = self._encoder.memory_for(obs)
        return self._encoder.scaled(obs, self._memory)


def _relu(x: Any) -> Any:
    """Apply ReLU, in place where nothing else needs what the layer before has put out."""
    return torch.relu_(x) if torch.is_inference_mode_enabled() else torch.relu(x)


def _only_casts(module: nn.Module) -> bool:
    return type(module) is ObservationEncoder and module.only_casts


def _tanh(x: Any) -> Any:
    """Apply `Tanh`, in place where nothing else needs what the layer before has put out."""
    if x.device.type != "cpu" or not torch.is_inference_mode_enabled():
        return _TANH(x)
    array = x.numpy()
    np.tanh(array, out=array)
    return x


def _linear(parameters: Mapping[str, Any], x: Any) -> Any:
    """Apply a dense layer by its present weights: to look for them in the module takes as long."""
    return functional.linear(x, parameters["weight"], parameters["bias"])


@final
class OfObservations(nn.Module):
    """Evaluates observations by an `AgentNetwork` that takes no other input.

    A search comes to a state on its own, without what was played before it: a network that
    carries something, or looks at the previous action or reward, has no answer there.

    Args:
        network: shared, not copied: what a learner changes is asked at once.
        value_unit: what a value of 1 is worth, where it was learned from rewards in another unit.

    Attributes:
        distribution: what the policy's numbers are of.

    Raises:
        InvalidOption: the network looks at more than observations.
    """

    def __init__(self, network: nn.Module, value_unit: float = 1.0) -> None:
        super().__init__()
        used = set(getattr(network, "inputs_used", ("obs",)))
        if used != {"obs"}:
            raise InvalidOption(
                f"an agent's network in a planner must take only observations; it takes "
                f"{', '.join(sorted(used))}. Make it without a recurrent layer, previous_action "
                f"and previous_reward."
            )
        made: Any = network
        self.network, self._unit = network, value_unit
        self.distribution: Distribution = made.distribution
        self._forward_of_network = forward_of(network)

    def forward(self, obs: Any) -> NetworkOutput:
        """Evaluate tensors `[N, *obs]`, nested as the space."""
        out: NetworkOutput = self._forward_of_network(shown(obs), None)[0]
        if self._unit == 1.0:
            return out
        value, q = (None if part is None else part * self._unit for part in (out.value, out.q))
        return out._replace(value=value, q=q)


def of_observations(network: nn.Module) -> nn.Module:
    """Return a network as a function of observations only; unchanged if it already is one.

    Raises:
        InvalidOption: it is an agent's, and looks at more than observations.
    """
    return OfObservations(network) if hasattr(network, "inputs_used") else network


def shown(obs: Any) -> Inputs:
    """Return observations `[N, ...]` as inputs of a network without other inputs."""
    first = next(leaves(obs))
    # Of the length alone something is asked: no memory is written.
    return Inputs(
        obs, None, None, torch.empty(first.shape[0], dtype=torch.bool, device=first.device)
    )
