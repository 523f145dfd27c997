"""Compiled optimiser steps over one weight vector: Adam, RMSprop, SGD."""

from __future__ import annotations

import math
from typing import Any

from plangym_ext.core.compiling.jit import kernel


@kernel
def adam(
    weights: Any,
    gradient: Any,
    mean: Any,
    square: Any,
    count: int,
    scale: float,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    decoupled: bool,
) -> None:
    """Take one step of Adam, or of AdamW.

    Source: Kingma & Ba 2015, "Adam", algorithm 1; Loshchilov & Hutter 2019, "Decoupled weight
    decay regularization".

    Args:
        weights: `[N]` float32, changed.
        gradient: `[N]` float32.
        mean: `[N]` float32, changed: the running mean of gradients.
        square: `[N]` float32, changed: that of their squares.
        count: how many steps there are with this one.
        scale: the gradient is multiplied by.
        rate: learning rate.
        beta1: of the running mean.
        beta2: of that of the squares.
        epsilon: added to the root of the squares.
        decay: of the weights.
        decoupled: whether weights decay by themselves, as in AdamW, or by the gradient.
    """
    # Numbers of the type of the weights: with a Python float every product would be made in
    # float64, with other roundings than torch's.
    one = weights.dtype.type(1)
    # The corrections of both means for their start at 0, once for all weights and in float64:
    # beta2**count is near 1 for many steps.
    size = weights.dtype.type(rate / (1 - beta1**count))
    root = weights.dtype.type(1 / math.sqrt(1 - beta2**count))
    b1, b2 = weights.dtype.type(beta1), weights.dtype.type(beta2)
    eps, factor = weights.dtype.type(epsilon), weights.dtype.type(scale)
    pull = weights.dtype.type(0 if decoupled else decay)
    # AdamW shrinks the weight itself, before the step; else the decay is a part of the gradient and
    # is divided by the root as that is.
    keep = weights.dtype.type(1 - rate * decay if decoupled else 1)
    for n in range(weights.size):
        weight = weights[n] * keep
        slope = gradient[n] * factor + pull * weight
        mean[n] = b1 * mean[n] + (one - b1) * slope
        square[n] = b2 * square[n] + (one - b2) * slope * slope
        # Epsilon is added to the corrected root, as in the paper's algorithm 1 and in torch.
        weights[n] = weight - size * mean[n] / (math.sqrt(square[n]) * root + eps)


@kernel
def rmsprop(
    weights: Any,
    gradient: Any,
    square: Any,
    scale: float,
    rate: float,
    alpha: float,
    epsilon: float,
    decay: float,
) -> None:
    """Take one step of RMSprop; arguments as of `adam`, `alpha` of the mean of the squares.

    Source: Tieleman & Hinton 2012, lecture 6.5 of "Neural networks for machine learning".
    """
    one, kept = weights.dtype.type(1), weights.dtype.type(alpha)
    eps, factor = weights.dtype.type(epsilon), weights.dtype.type(scale)
    size, pull = weights.dtype.type(rate), weights.dtype.type(decay)
    for n in range(weights.size):
        slope = gradient[n] * factor + pull * weights[n]
        square[n] = kept * square[n] + (one - kept) * slope * slope
        # Epsilon outside of the root, as in torch; some others have it inside.
        weights[n] -= size * slope / (math.sqrt(square[n]) + eps)


@kernel
def sgd(
    weights: Any,
    gradient: Any,
    speed: Any,
    first: bool,
    scale: float,
    rate: float,
    momentum: float,
    decay: float,
) -> None:
    """Take one step of gradient descent with momentum; arguments as of `adam`.

    Args:
        weights: as there.
        gradient: as there.
        speed: `[N]` float32, changed: the gradients, those before times `momentum`.
        first: whether there is no speed yet.
        scale: as there.
        rate: as there.
        momentum: of the speed.
        decay: as there.
    """
    factor, pull = weights.dtype.type(scale), weights.dtype.type(decay)
    # The first speed is the gradient, as in torch, and not a share of one that was never made.
    size, kept = weights.dtype.type(rate), weights.dtype.type(0 if first else momentum)
    for n in range(weights.size):
        speed[n] = kept * speed[n] + gradient[n] * factor + pull * weights[n]
        weights[n] -= size * speed[n]
