"""Prints how often a second the products of one update alone are made.

They are called as ours calls them, on rows that lie there already: no optimiser, no targets, no
replay, no rectifiers backwards.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

from plangym_ext.learn.networks.dense_product import layer_product, product

OBS, ACTION, BATCH, WIDTH = 17, 6, 256, 256
#: Critics, what a policy puts out, and updates to one of the policy.
ALGORITHMS = {"sac": (2, 2 * ACTION, 1), "td3": (2, ACTION, 2), "ddpg": (1, ACTION, 1)}
#: Updates between two looks at the clock.
_AT_ONCE = 20


class Stack:
    """Matrices of E stacks of dense layers, and the products in which they are a factor.

    Args:
        inputs: columns of what the first layers are shown.
        outputs: of the last layer.
        count: stacks, whose first layers are one product.
        dtype: of all.
    """

    def __init__(self, inputs: int, outputs: int, count: int, dtype: torch.dtype) -> None:
        def matrix(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(rows, columns).to(dtype)

        self._count = count
        self._shown, self._joined = matrix(BATCH, inputs), matrix(BATCH, count * WIDTH)
        self._first, self._hidden = matrix(count * WIDTH, inputs), matrix(WIDTH, WIDTH)
        self._last, self._rows = matrix(outputs, WIDTH), matrix(BATCH, WIDTH)
        self._d_out = matrix(BATCH, outputs)
        self._biases = [matrix(1, one)[0] for one in (count * WIDTH, WIDTH, outputs)]

    def forward(self) -> None:
        """What the stacks are asked for."""
        first, hidden, last = self._biases
        layer_product(self._shown, self._first, first, True)
        for _ in range(self._count):
            layer_product(self._rows, self._hidden, hidden, True)
            layer_product(self._rows, self._last, last, False)

    def _inwards(self, *, learn: bool) -> None:
        for _ in range(self._count):
            if learn:
                product(self._d_out.t(), self._rows.t())
                product(self._rows.t(), self._rows.t())
            product(self._d_out, self._last.t())
            product(self._rows, self._hidden.t())

    def backward(self) -> None:
        """The gradients of all weights."""
        self._inwards(learn=True)
        product(self._shown.t(), self._joined.t())

    def input_gradient(self) -> None:
        """The gradient of the action, by which the policy learns."""
        self._inwards(learn=False)
        product(self._joined, self._first[:, -ACTION:].t())


def updates(name: str, dtype: torch.dtype) -> Callable[[], None]:
    """Return the products of so many updates as one of the policy takes, as one call."""
    count, outputs, policy_every = ALGORITHMS[name]
    policy, critics = Stack(OBS, outputs, 1, dtype), Stack(OBS + ACTION, 1, count, dtype)
    # TD3 and DDPG teach the policy by the first critic alone.
    asked = critics if name == "sac" else Stack(OBS + ACTION, 1, 1, dtype)

    def call() -> None:
        for _ in range(policy_every):
            policy.forward()  # of the next observations, and what target critics say of it
            critics.forward()
            critics.forward()
            critics.backward()
        policy.forward()
        asked.forward()
        asked.input_gradient()
        policy.backward()

    return call


def main() -> None:
    name, precision, threads, seconds, _ = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.set_grad_enabled(False)
    call, policy_every = updates(name, getattr(torch, precision)), ALGORITHMS[name][2]
    call()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < float(seconds):
        for _ in range(_AT_ONCE // policy_every):
            call()
        count += _AT_ONCE
    print(count / (time.perf_counter() - begin))


if __name__ == "__main__":
    main()
