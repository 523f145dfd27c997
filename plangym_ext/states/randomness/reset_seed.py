"""ResetSeedPart: capture of `env.np_random_seed`, the seed of the last reset.

An env whose simulator has a codec has no use for it, but a wrapper of the user's own may read it.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from plangym_ext.errors import DamagedState
from plangym_ext.states import plain
from plangym_ext.states.part import StatePart, get_block, put_block

_NAME = "_np_random_seed"


class ResetSeedPart(StatePart):
    """Captures the seed of an env as its simulator holds it.

    Args:
        simulator: whose own part does not hold it.
    """

    method = "seed"

    def __init__(self, simulator: gym.Env[Any, Any]) -> None:
        self._simulator = simulator
        self.width = 64

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write the seed."""
        seed = getattr(self._simulator, _NAME, None)
        return put_block(buffer, offset, end, plain.encode(seed, _NAME))

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set the seed.

        Raises:
            DamagedState: it is no seed.
        """
        data, offset = get_block(buffer, offset)
        seed = plain.decode(data)
        if seed is not None and type(seed) is not int:
            raise DamagedState(f"state: a seed is an int or None; got {seed!r:.40}")
        # Not through `np_random`, which would forget the seed.
        setattr(self._simulator, _NAME, seed)
        return offset
