"""Layer normalisation of ensembles of dense networks, with hand-written gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plangym_ext.learn.torch_extra import torch

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
