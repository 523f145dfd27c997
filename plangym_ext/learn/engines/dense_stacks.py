"""Ensembles of dense networks, normalised or not, with hand-written gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from plangym_ext.learn.networks.dense_product import layer_product, product
from plangym_ext.learn.torch_extra import torch


class Passed(NamedTuple):
    """Saved inputs and outputs of a forward pass."""

    rows: list[Any]  # what every layer was shown and, last, what the last one put out
    norms: list[Any]  # of layers that are normalised, what `StackNorms.backward` needs


#: Of each stack.
Tape = list[Passed]


class DenseStacks:
    """E stacks of dense ReLU layers with the same inputs.

    Products are those of `dense_layers_product`; the first layers of all stacks are one. What
    autograd does beside products takes as long as these, for batches of 256 rows.

    Args:
        weights: of each layer, `[E, out, in]` float32, or `[out, in]` for one stack.
        biases: of each layer, `[E, out]` or `[out]`.
        precision: see `dense_layers_product`.
        gradients: by `id` of a weight or bias, where its gradient belongs; None: it has none.
        norms: of what all layers but the last put out, before rectifiers; None: there are none.
    """

    def __init__(
        self,
        weights: Sequence[Any],
        biases: Sequence[Any],
        *,
        precision: str,
        gradients: Mapping[int, Any] | None = None,
        norms: StackNorms | None = None,
    ) -> None:
        self._norms = norms
        self._half = precision == "bfloat16"
        self._dtype = torch.bfloat16 if self._half else torch.float32
        stacked = weights[0].ndim == 3
        whole = [p.detach() if stacked else p.detach()[None] for p in (*weights, *biases)]
        # Views: steps of an optimiser show here, but for the copies in bfloat16; see `refresh`.
        self._theirs = whole
        self._mine = [p.bfloat16() for p in whole] if self._half else whole
        self._depth = len(weights)
        if gradients is not None:
            found = [gradients[id(p)] for p in (*weights, *biases)]
            self._gradients = [p if stacked else p[None] for p in found]

    def refresh(self) -> None:
        """Copy changed weights."""
        if self._half:
            torch._foreach_copy_(self._mine, self._theirs)

    def forward(self, x: Any, first: int | None = None) -> tuple[Any, Tape]:
        """Return the outputs of the stacks, and the data for their gradients.

        Args:
            x: `[N, F]`.
            first: how many of the stacks are asked; None: all.

        Returns:
            `[E, N, out]` float32.
        """
        depth, x = self._depth, x.to(self._dtype)
        weights, biases = self._mine[:depth], self._mine[depth:]
        count, width = len(weights[0]) if first is None else first, weights[0].shape[1]
        every = weights[0][:count].flatten(0, 1), biases[0][:count].flatten()
        joined = layer_product(x, *every, self._is_rectified(0))
        tape = []
        for e, part in enumerate(joined.split(width, dim=1)):
            passed = Passed([x], [])
            # Products of float32 take rows that lie together.
            self._put_out(passed, part if self._half else part.contiguous(), e)
            for i in range(1, depth):
                layer = weights[i][e], biases[i][e]
                y = layer_product(passed.rows[-1], *layer, self._is_rectified(i))
                self._put_out(passed, y, e)
            tape.append(passed)
        return torch.stack([passed.rows[-1] for passed in tape]).float(), tape

    def _is_rectified(self, i: int) -> bool:
        """Return whether the product of layer i ends with its rectifier."""
        return i < self._depth - 1 and self._norms is None

    def _put_out(self, passed: Passed, y: Any, e: int) -> None:
        """Add what the next layer of stack e is shown, given the product `[N, out]` of this one."""
        i = len(passed.rows) - 1
        if self._norms is not None and i < self._depth - 1:
            y, kept = self._norms.forward(y, i, e)
            y = y.relu_()
            passed.norms.append(kept)
        passed.rows.append(y.to(self._dtype))

    def backward(self, tape: Tape, d_out: Any) -> None:
        """Write the gradients of weights and biases.

        Args:
            tape: of `forward`, of all stacks.
            d_out: `[E, N, out]`, gradient of what it returned.
        """
        joined = self._inwards(tape, d_out, learn=True)
        of_weights, of_biases = self._gradients[0], self._gradients[self._depth]
        # `[F, E * out]`: the first layers of all stacks in one product.
        turned = product(tape[0].rows[0].t(), joined.t())
        of_weights.flatten(0, 1).copy_(turned.t())
        of_biases.flatten().copy_(joined.sum(0))

    def input_gradient(self, tape: Tape, d_out: Any, begin: int = 0) -> Any:
        """Return `[N, F - begin]` float32, the gradient of the rows from a column on."""
        joined = self._inwards(tape, d_out, learn=False)
        # Where only the first stacks were asked, their rows come first.
        weight = self._mine[0].flatten(0, 1)[: joined.shape[1], begin:]
        return product(joined, weight.t()).float()

    def _inwards(self, tape: Tape, d_out: Any, *, learn: bool) -> Any:
        """Return `[N, E * out]`, the gradient of what the first layers put out."""
        depth, parts = self._depth, []
        for e, (rows, norms) in enumerate(tape):
            dy = d_out[e].to(self._dtype)
            for i in reversed(range(1, depth)):
                if learn:
                    self._gradients[i][e].copy_(product(dy.t(), rows[i].t()))
                    self._gradients[depth + i][e].copy_(dy.sum(0))
                weight = self._mine[i][e]
                # A product of one column takes longer than to multiply it.
                dy = dy * weight if len(weight) == 1 else product(dy, weight.t())
                # What layer i was shown is what the rectifier before it has put out.
                dy = torch.ops.aten.threshold_backward.default(dy, rows[i], 0)
                if self._norms is not None:
                    below = norms[i - 1], i - 1, e
                    dy = self._norms.backward(dy, *below, learn=learn).to(self._dtype)
            parts.append(dy)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


#: Added to variances, as torch's `layer_norm` does.
_EPSILON = 1e-5


class StackNorms:
    """Layer normalisation of all layers but the last of E stacks.

    With the rectifiers after it the same as `normalised_layers` makes of it, in float32.

    Args:
        scales: of each of these layers, `[E, out]`.
        offsets: likewise.
        gradients: by `id` of a scale or offset, where its gradient belongs; None: it has none.
    """

    def __init__(
        self,
        scales: Sequence[Any],
        offsets: Sequence[Any],
        gradients: Mapping[int, Any] | None = None,
    ) -> None:
        # Views: steps of an optimiser show here.
        self._scales = [scale.detach() for scale in scales]
        self._offsets = [offset.detach() for offset in offsets]
        if gradients is not None:
            self._of_scales = [gradients[id(scale)] for scale in scales]
            self._of_offsets = [gradients[id(offset)] for offset in offsets]

    def forward(self, x: Any, i: int, e: int) -> tuple[Any, tuple[Any, Any, Any]]:
        """Return `[N, out]` float32, fresh, and what `backward` needs.

        Args:
            x: `[N, out]`, what a layer has put out.
            i: which layer.
            e: of which stack.
        """
        x = x.float()
        layer = self._scales[i][e], self._offsets[i][e]
        y, mean, inverse = torch.native_layer_norm(x, x.shape[1:], *layer, _EPSILON)
        return y, (x, mean, inverse)

    def backward(self, dy: Any, kept: Any, i: int, e: int, *, learn: bool) -> Any:
        """Return `[N, out]` float32, the gradient of `x`.

        Args:
            dy: `[N, out]`, gradient of what `forward` has put out.
            kept: what it returned beside that.
            i: which layer.
            e: of which stack.
            learn: whether to write the gradients of scale and offset.
        """
        x, mean, inverse = kept
        layer = self._scales[i][e], self._offsets[i][e]
        wanted = [True, learn, learn]
        of_x, of_scale, of_offset = torch.ops.aten.native_layer_norm_backward.default(
            dy.float(), x, x.shape[1:], mean, inverse, *layer, wanted
        )
        if learn:
            self._of_scales[i][e].copy_(of_scale)
            self._of_offsets[i][e].copy_(of_offset)
        return of_x
