"""Dense ReLU layers as one autograd operation, by the fastest matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plangym_ext.learn.torch_extra import functional, torch

PRECISIONS = ("float32", "bfloat16")
# Smaller products are over before oneDNN has begun.
_LEAST_WORK = 2**19


def dense_layers_product(
    x: Any, weights: Sequence[Any], biases: Sequence[Any], *, precision: str, rectify_last: bool
) -> Any:
    """Return the outputs of E stacks of dense ReLU layers for the same rows.

    Autograd sees one operation, so that its cost is that of the products. On the CPU these are
    oneDNN's, whose float32 was twice as fast as that of MKL on an AMD EPYC (190 and 95 GFLOP/s on
    one thread, 256 rows through 256 x 256). Gradients are computed only for arguments that need
    them: pass detached weights where none are wanted.

    Args:
        x: `[N, F]` float32.
        weights: of each layer, `[E, out, in]` float32.
        biases: of each layer, `[E, out]`.
        precision: "float32"; or "bfloat16", of what is multiplied: sums are of float32, and
            layers hand bfloat16 on.
        rectify_last: whether the last layer has a rectifier too.

    Returns:
        `[E, N, out]` float32.
    """
    apply: Any = _DenseLayers.apply
    return apply(x, precision == "bfloat16", rectify_last, len(weights), *weights, *biases)


class _DenseLayers(torch.autograd.Function):
    """The products forwards and backwards; saves the outputs of all layers."""

    @staticmethod
    def forward(ctx: Any, x: Any, half: bool, rectify_last: bool, depth: int, *rest: Any) -> Any:
        """Return `[E, N, out]`; see `dense_layers_product`."""
        # Weights are rounded anew in every call: the float32 ones are what learns.
        if half:
            x, rest = x.bfloat16(), tuple(part.bfloat16() for part in rest)
        stacked = [part.unbind(0) for part in rest]
        weights, biases = stacked[:depth], stacked[depth:]
        kept: list[list[Any]] = []
        for e in range(len(weights[0])):
            rows = [x]
            for i in range(depth):
                rectify = rectify_last or i < depth - 1
                rows.append(layer_product(rows[-1], weights[i][e], biases[i][e], rectify))
            kept.append(rows)
        ctx.weights, ctx.kept, ctx.rectify_last = weights, kept, rectify_last
        return torch.stack([rows[-1] for rows in kept]).float()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Return the gradients of x, weights and biases that are needed."""
        depth = len(ctx.weights)
        of_x, of_weights, of_biases = ctx.needs_input_grad[0], [], []
        # After x, half, rectify_last and depth: weights of all layers, then biases.
        needed = ctx.needs_input_grad[4:]
        # Below the lowest layer that learns no gradient is passed on, unless x needs one.
        lowest = min([i % depth for i in range(2 * depth) if needed[i]], default=depth)
        total, found = None, []
        for e, rows in enumerate(ctx.kept):
            dy, grads = gradient[e].to(rows[0].dtype), {}
            for i in reversed(range(depth)):
                if ctx.rectify_last or i < depth - 1:
                    # By the rectifier's output, which is all that was saved.
                    dy = torch.ops.aten.threshold_backward(dy, rows[i + 1], 0)
                if needed[i]:
                    grads[i] = product(dy.t(), rows[i].t())
                if needed[depth + i]:
                    grads[depth + i] = dy.sum(0)
                if i > lowest or of_x:
                    dy = product(dy, ctx.weights[i][e].t())
            if of_x:
                total = dy.float() if total is None else total + dy.float()
            found.append(grads)
        stacks = [
            torch.stack([grads[i] for grads in found]).float() if needed[i] else None
            for i in range(2 * depth)
        ]
        of_weights, of_biases = stacks[:depth], stacks[depth:]
        return total, None, None, None, *of_weights, *of_biases


def _onednn(x: Any, rows: Any) -> Any:
    """Return oneDNN's product for two matrices, or None where it would not pay."""
    # What torch compiles may call it with packed weights only.
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    return _LINEAR if x.shape[0] * x.shape[1] * rows.shape[0] >= _LEAST_WORK else None


def _has_no_product(x: Any) -> bool:
    """Return whether this processor multiplies bfloat16 by a plain loop.

    It takes 40 times as long as float32 (an AMD EPYC with AVX2 alone). A product of the same
    numbers as float32 is what bfloat16 with sums of float32 means.
    """
    return x.dtype == torch.bfloat16 and x.device.type == "cpu" and not _MULTIPLIES_BFLOAT16


def layer_product(x: Any, weight: Any, bias: Any, rectify: bool) -> Any:
    """Return `[N, out]`: x weight^T + bias, rectified or not."""
    if _has_no_product(x):
        return layer_product(x.float(), weight.float(), bias.float(), rectify).bfloat16()
    linear = _onednn(x, weight)
    if linear is not None:
        return linear(x, weight, bias, "relu" if rectify else "none", [], "")
    y = functional.linear(x, weight, bias)
    return y.relu_() if rectify else y


def product(x: Any, rows: Any) -> Any:
    """Return x rows^T; either may be a transposed view."""
    if _has_no_product(x):
        return product(x.float(), rows.float()).bfloat16()
    linear = _onednn(x, rows) if x.dtype == torch.float32 else None
    if linear is not None:
        if not (rows.is_contiguous() or rows.t().is_contiguous()):
            # For others oneDNN has a plain loop, which takes a hundred times as long.
            rows = rows.contiguous()
        # oneDNN takes longer over transposed rows on the left than a copy of them takes.
        return linear(x.contiguous(), rows, None, "none", [], "")
    return torch.mm(x, rows.t())


def _linear_of_onednn() -> Any:
    """Return oneDNN's linear layer; None in a torch that was built without."""
    backends: Any = torch.backends
    if not backends.mkldnn.is_available():
        return None
    found = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    return None if found is None else found.default


def _multiplies_bfloat16() -> bool:
    """Return whether oneDNN says that it multiplies bfloat16 on this processor."""
    asked = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return asked is not None and bool(asked())


_LINEAR = _linear_of_onednn()
_MULTIPLIES_BFLOAT16 = _LINEAR is not None and _multiplies_bfloat16()
