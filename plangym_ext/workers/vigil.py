"""Waiting without going to sleep, while that is worth it."""

from __future__ import annotations

import select
import time

from plangym_ext.workers.channel import wait_awake

#: Seconds for which it is worth to stay awake: at least, whatever was done before, and at most.
_LEAST, _MOST = 250e-6, 500e-6


class Vigil:
    """Waits awake for who was back soon the last time.

    A loop of batches is. Somebody who computes for longer than the batch took is not, and
    needs the processors meanwhile: threads that wait for each other, as those of torch, get
    nowhere beside others that stay awake.

    Args:
        poller: with what is waited for.
    """

    def __init__(self, poller: select.poll) -> None:
        self._poller = poller
        self._soon = True

    def wait(self, worked: float) -> list[tuple[int, int]]:
        """What the poller has, at least one event.

        Args:
            worked: seconds that were worked since the last wait.
        """
        patience = min(max(_LEAST, worked), _MOST)
        began = time.monotonic()
        events = wait_awake(self._poller, patience) if self._soon else []
        events = events or self._poller.poll()
        self._soon = time.monotonic() - began < patience
        return events
