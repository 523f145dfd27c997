"""Compiled forward and backward pass of dense layers and of networks of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel, kernel_inline
from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer
from plangym_ext.learn.networks.agent_network import AgentNetwork
from plangym_ext.learn.networks.bodies import DenseLayers, Tanh
from plangym_ext.learn.networks.state import has_own_code
from plangym_ext.learn.torch_extra import nn, torch

Ndarray = npt.NDArray[np.float32]


def is_dense(network: Any) -> bool:
    """Return whether a network of policy and value `has_dense_layers`, and no Q head."""
    return has_dense_layers(network) and network.free_order is None and not network.has_q


def has_dense_layers(network: Any) -> bool:
    """Return whether a network is a stack of dense layers with tanh or relu on the CPU."""
    if type(network) is not AgentNetwork or network.core is not None or has_own_code(network):
        return False
    bodies = [network.body] + ([] if network.value_body is None else [network.value_body])
    known = (nn.Linear, nn.Tanh, Tanh, nn.ReLU)
    return (
        not any(list(body.parts.parameters()) for body in bodies)
        # Noisy and normalising layers have gradients that are not written here.
        and all(type(body.dense) is DenseLayers for body in bodies)
        and all(type(layer) in known for body in bodies for layer in body.dense)
        and all(
            part.dtype == torch.float32 and part.device.type == "cpu" and part.requires_grad
            for part in network.parameters()
        )
    )


class DenseNetwork:
    """Policy and value of a network that `is_dense`, and their gradients.

    Weights are read in an optimiser's vector, and the gradient is written there.
    """

    def __init__(self, network: AgentNetwork, optimizer: FlatOptimizer) -> None:
        layer = _Layers(optimizer)
        self._scale = np.float32(network.value_scale)
        self._body, self._heads = _Body(network.body.dense, layer), layer(network.heads)
        self._value_body = self._value_head = None
        if network.value_body is not None:
            self._value_body = _Body(network.value_body.dense, layer)
            self._value_head = layer(network.value_head)
        self._log_std = None if network.log_std is None else layer.views(network.log_std)
        self._tapes: tuple[Any, Any] = (None, None)

    def forward(self, x: Ndarray) -> tuple[Ndarray, Ndarray]:
        """Return numbers of the distribution `[N, P]` and values `[N, 1]`, of features `[N, F]`."""
        tape = self._body.forward(x)
        value_tape = tape if self._value_body is None else self._value_body.forward(x)
        self._tapes = tape, value_tape
        out = self._heads.forward(tape[-1])
        if self._value_head is None:
            # Heads on one body are one layer, whose last column is the value.
            params, value = out[:, :-1], np.ascontiguousarray(out[:, -1:])
        else:
            params, value = out, self._value_head.forward(value_tape[-1])
        if self._scale != 1:
            value *= self._scale
        if self._log_std is not None:
            # Deviations that no observation changes: the same in all rows.
            free = np.broadcast_to(self._log_std[0], (len(x), len(self._log_std[0])))
            params = np.concatenate([params, free], axis=1)
        return np.ascontiguousarray(params), value

    def backward(self, d_params: Ndarray, d_value: Ndarray) -> None:
        """Write the gradient of all weights, given those of what `forward` returned last."""
        tape, value_tape = self._tapes
        if self._scale != 1:
            # Not in place: it is the caller's.
            d_value = d_value * self._scale
        if self._log_std is not None:
            size = len(self._log_std[0])
            # One parameter serves all rows, so its gradient is the sum over them.
            np.add.reduce(d_params[:, -size:], axis=0, out=self._log_std[1])
            d_params = d_params[:, :-size]
        if self._value_head is None or self._value_body is None:
            d_out = np.concatenate([d_params, d_value], axis=1)
            self._body.backward(tape, self._heads.backward(tape[-1], d_out))
            return
        d_params = np.ascontiguousarray(d_params)
        self._body.backward(tape, self._heads.backward(tape[-1], d_params))
        d_last = self._value_head.backward(value_tape[-1], d_value)
        self._value_body.backward(value_tape, d_last)


class DenseHead:
    """A body and one head of a network that `has_dense_layers`, and their gradients.

    Args:
        layers: of the body, with their activations.
        head: a linear layer.
        optimizer: of their parameters; see `DenseNetwork`.
    """

    def __init__(self, layers: Any, head: nn.Linear, optimizer: FlatOptimizer) -> None:
        layer = _Layers(optimizer)
        self._body, self._head = _Body(layers, layer), layer(head)
        self._tape: list[Ndarray] = []

    def forward(self, x: Ndarray) -> Ndarray:
        """Return `[N, M]`, of features `[N, F]`."""
        self._tape = self._body.forward(x)
        return self._head.forward(self._tape[-1])

    def backward(self, d_out: Ndarray) -> None:
        """Write the gradient of all weights, given that of what `forward` returned last."""
        self._body.backward(self._tape, self._head.backward(self._tape[-1], d_out))


class _Layer(NamedTuple):
    """A linear layer: views of the optimiser's vectors, and scratch."""

    weight: Ndarray  # [M, K]
    bias: Ndarray  # [M]
    d_weight: Ndarray
    d_bias: Ndarray
    turned: Ndarray  # [K, M], scratch

    def forward(self, x: Ndarray) -> Ndarray:
        out = np.empty((len(x), len(self.bias)), np.float32)
        affine(x, self.weight, self.bias, self.turned, out)
        return out

    def backward(self, x: Ndarray, d_out: Ndarray, inwards: bool = True) -> Ndarray:
        """Write the gradient of the layer; return that of its input, or x if it is not wanted."""
        affine_gradient(x, d_out, self.turned, self.d_weight, self.d_bias)
        if not inwards:
            return x
        d_x = np.zeros(x.shape, np.float32)  # zeros_like takes three times as long
        input_gradient(d_out, self.weight, d_x)
        return d_x


class _Layers:
    """Makes layers on the vectors of an optimiser."""

    def __init__(self, optimizer: FlatOptimizer) -> None:
        self._views = optimizer.views()

    def views(self, parameter: Any) -> tuple[Ndarray, Ndarray]:
        """Return a parameter and its gradient."""
        return self._views[id(parameter)]

    def __call__(self, layer: Any) -> _Layer:
        (weight, d_weight), (bias, d_bias) = self.views(layer.weight), self.views(layer.bias)
        return _Layer(weight, bias, d_weight, d_bias, np.empty(weight.shape[::-1], np.float32))


class _Body:
    """Linear layers, each with what follows it."""

    def __init__(self, modules: Any, layer: _Layers) -> None:
        found = list(modules)
        # Linear layers and activations in turn, as `dense_layers` makes them without normalisation.
        self._layers = [layer(module) for module in found[::2]]
        self._tanh = [isinstance(module, nn.Tanh) for module in found[1::2]]

    def forward(self, x: Ndarray) -> list[Ndarray]:
        """Return the input and the output of every layer."""
        tape = [x]
        for layer, tanh in zip(self._layers, self._tanh, strict=True):
            out = layer.forward(tape[-1])
            # In place: gradients are worked out of what an activation puts out alone.
            tape.append(np.tanh(out, out=out) if tanh else np.maximum(out, 0, out=out))
        return tape

    def backward(self, tape: list[Ndarray], d_out: Ndarray) -> None:
        """Write the gradients of all layers, given that of the last output, which is changed."""
        for i in reversed(range(len(self._layers))):
            through = through_tanh if self._tanh[i] else through_relu
            through(tape[i + 1], d_out)
            d_out = self._layers[i].backward(tape[i], d_out, inwards=i > 0)


#: Narrower layers are multiplied by sums along their inputs.
NARROW = 8


@kernel_inline
def _add_product(a: Any, b: Any, out: Any) -> None:
    """Add the product of `[N, K]` and `[K, M]` to `[N, M]`."""
    rows, inner = a.shape
    width = b.shape[1]
    for n in range(0, rows - 1, 2):  # two rows at a time: what is read of b serves both
        k = 0
        # Four products at a time: a row of the output is read and written once for them.
        while k + 4 <= inner:
            a0, a1, a2, a3 = a[n, k], a[n, k + 1], a[n, k + 2], a[n, k + 3]
            c0, c1, c2, c3 = a[n + 1, k], a[n + 1, k + 1], a[n + 1, k + 2], a[n + 1, k + 3]
            for m in range(width):
                b0, b1, b2, b3 = b[k, m], b[k + 1, m], b[k + 2, m], b[k + 3, m]
                out[n, m] += a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3
                out[n + 1, m] += c0 * b0 + c1 * b1 + c2 * b2 + c3 * b3
            k += 4
        for rest in range(k, inner):
            a0, c0 = a[n, rest], a[n + 1, rest]
            for m in range(width):
                out[n, m] += a0 * b[rest, m]
                out[n + 1, m] += c0 * b[rest, m]
    # The last row alone, in the very order of additions: a row does not depend on its neighbour.
    if rows % 2:
        n, k = rows - 1, 0
        while k + 4 <= inner:
            a0, a1, a2, a3 = a[n, k], a[n, k + 1], a[n, k + 2], a[n, k + 3]
            for m in range(width):
                out[n, m] += a0 * b[k, m] + a1 * b[k + 1, m] + a2 * b[k + 2, m] + a3 * b[k + 3, m]
            k += 4
        for rest in range(k, inner):
            a0 = a[n, rest]
            for m in range(width):
                out[n, m] += a0 * b[rest, m]


@kernel_inline
def _transpose(a: Any, out: Any) -> None:
    """Write `[N, M]` to `[M, N]`."""
    for n in range(a.shape[0]):
        for m in range(a.shape[1]):
            out[m, n] = a[n, m]


@kernel_inline
def _narrow(x: Any, weight: Any, bias: Any, out: Any) -> None:
    """Write x weight^T + bias, with four sums side by side along the inputs."""
    inner = x.shape[1]
    for n in range(x.shape[0]):
        for m in range(weight.shape[0]):
            # A zero of the bias's dtype: a literal would make the sums float64.
            s0 = s1 = s2 = s3 = bias[m] - bias[m]
            k = 0
            while k + 4 <= inner:
                s0 += x[n, k] * weight[m, k]
                s1 += x[n, k + 1] * weight[m, k + 1]
                s2 += x[n, k + 2] * weight[m, k + 2]
                s3 += x[n, k + 3] * weight[m, k + 3]
                k += 4
            for rest in range(k, inner):
                s0 += x[n, rest] * weight[m, rest]
            out[n, m] = bias[m] + ((s0 + s1) + (s2 + s3))


@kernel
def affine(x: Any, weight: Any, bias: Any, turned: Any, out: Any) -> None:
    """Write x weight^T + bias.

    Args:
        x: `[N, K]` float32.
        weight: `[M, K]` float32.
        bias: `[M]` float32.
        turned: `[K, M]` float32, scratch.
        out: `[N, M]` float32, written.
    """
    if weight.shape[0] < NARROW:
        _narrow(x, weight, bias, out)
        return
    # So that the inner loop of the product runs along rows of both.
    _transpose(weight, turned)
    for n in range(x.shape[0]):
        for m in range(weight.shape[0]):
            out[n, m] = bias[m]
    _add_product(x, turned, out)


@kernel
def affine_gradient(x: Any, d_out: Any, turned: Any, d_weight: Any, d_bias: Any) -> None:
    """Write the gradients of weight and bias: the sums over rows of d_out^T x and of d_out.

    Args:
        x: `[N, K]` float32.
        d_out: `[N, M]` float32, gradient of the output.
        turned: `[K, M]` float32, scratch.
        d_weight: `[M, K]` float32, written.
        d_bias: `[M]` float32, written.
    """
    d_bias[:] = 0
    for n in range(d_out.shape[0]):
        for m in range(d_out.shape[1]):
            d_bias[m] += d_out[n, m]
    # The inner loop runs along the wider of the two: short ones become no vector instructions.
    if x.shape[1] < d_out.shape[1]:
        turned[:] = 0
        _add_product(x.T, d_out, turned)
        _transpose(turned, d_weight)
    else:
        d_weight[:] = 0
        _add_product(d_out.T, x, d_weight)


@kernel
def input_gradient(d_out: Any, weight: Any, d_x: Any) -> None:
    """Add d_out weight, `[N, M]` by `[M, K]`, to the gradient `[N, K]` of the input."""
    _add_product(d_out, weight, d_x)


@kernel
def through_tanh(out: Any, d_out: Any) -> None:
    """Propagate the gradient `[N, M]` back through tanh, in place."""
    for n in range(out.shape[0]):
        for m in range(out.shape[1]):
            d_out[n, m] *= 1 - out[n, m] * out[n, m]


@kernel
def through_relu(out: Any, d_out: Any) -> None:
    """Propagate the gradient `[N, M]` back through max(0, x), in place."""
    for n in range(out.shape[0]):
        for m in range(out.shape[1]):
            if not out[n, m] > 0:
                d_out[n, m] = 0
