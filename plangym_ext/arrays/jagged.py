"""x."""

from typing import Any


class JaggedArray:
    """x."""

    def __init__(self, *a: Any, **k: Any) -> None:
        pass
