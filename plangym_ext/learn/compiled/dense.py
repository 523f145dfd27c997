"""Compiled dense layers: forward pass and gradients.

Inner loops run along rows of memory, so that they become vector instructions although every sum
is added in the order in which it is written. So row n of an output depends on row n of the
input alone, whatever the number of rows.
"""

from __future__ import annotations

from typing import Any

from plangym_ext.core.compiling.jit import kernel, kernel_inline

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
