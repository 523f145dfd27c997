"""What a contestant is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from table.tasks import WARM_UP


class Runner(NamedTuple):
    """Something to call again and again.

    Attributes:
        step: makes `num_steps` env steps.
        num_steps: of all rows together.
        close: ends its processes.
        warm_up: calls of `step` before it is measured.
    """

    step: Callable[[], Any]
    num_steps: int
    close: Callable[[], Any]
    warm_up: int = WARM_UP


class NotHere(Exception):
    """This contestant has no such env; the text says why."""
