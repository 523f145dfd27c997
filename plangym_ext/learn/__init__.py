"""Learning from plans: returns, replay, and what needs torch.

Names are loaded when they are first used: torch, and numba, only by those that need them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plangym_ext.learn.replay.balanced import BalancedReplay as BalancedReplay
    from plangym_ext.learn.replay.base import Replay as Replay
    from plangym_ext.learn.replay.prioritized import PrioritizedReplay as PrioritizedReplay
    from plangym_ext.learn.replay.uniform import ReplayBuffer as ReplayBuffer

#: Public name -> module that defines it, below this package.
_HOME = {
    "BalancedReplay": "replay.balanced",
    "PrioritizedReplay": "replay.prioritized",
    "Replay": "replay.base",
    "ReplayBuffer": "replay.uniform",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
