"""OwnStatePart: state through the env's own `get_state` and `set_state`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.errors import IncompleteState
from plangym_ext.states import plain
from plangym_ext.states.part import StatePart, get_block, put_block

_PAIRS = (("get_state", "set_state"), ("clone_state", "restore_state"))


def offers_state(layer: Any) -> tuple[str, str] | None:
    """Return the names of the pair of methods by which the layer's class offers its state."""
    for get, put in _PAIRS:
        if callable(getattr(type(layer), get, None)) and callable(getattr(type(layer), put, None)):
            return get, put
    return None


class OwnStatePart(StatePart):
    """State through `get_state`, for plain data; it covers all inner layers.

    Raises:
        IncompleteState: the state holds something that is not plain data.
    """

    method = "own"
    may_refuse = True

    def __init__(self, layer: Any) -> None:
        names = offers_state(layer)
        assert names is not None
        self._name = f"{type(layer).__qualname__}.{names[0]}"
        self._get: Callable[[], Any] = getattr(layer, names[0])
        self._set: Callable[[Any], Any] = getattr(layer, names[1])
        state = self._get()
        # A row of bytes, as the library's own envs have it, needs no description.
        self._is_row = isinstance(state, np.ndarray) and state.dtype == np.uint8 and state.ndim == 1
        self._size = len(state) if self._is_row else 0
        # Twice what it takes now, as other states may be longer; a row of bytes stays as long.
        self.width = self._size if self._is_row else 2 * len(self._encoded()) + 64

    def _encoded(self) -> bytes:
        try:
            return plain.encode(self._get(), f"{self._name}()")
        except plain.NotPlain as error:
            raise IncompleteState(
                f"{error}: expected plain data (numbers, text, arrays and containers of them). "
                "Return the state's fields instead of objects."
            ) from error

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write the state."""
        if not self._is_row:
            return put_block(buffer, offset, end, self._encoded())
        state = self._get()
        if state.shape != (self._size,):
            raise IncompleteState(
                f"{self._name}(): expected ({self._size},) uint8 as at first; got {state.shape}"
            )
        buffer[offset : offset + self._size] = state.data
        return offset + self._size

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set the state."""
        if self._is_row:
            stop = offset + self._size
            self._set(np.frombuffer(buffer[offset:stop], np.uint8).copy())
            return stop
        data, stop = get_block(buffer, offset)
        self._set(plain.decode(data))
        return stop
