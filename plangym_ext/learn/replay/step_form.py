"""What the steps of a replay look like."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from plangym_ext.arrays import ArrayDict
from plangym_ext.arrays.nested import leaves, mapped

Part = tuple[tuple[int, ...], Any]


@final
@dataclass(frozen=True)
class StepForm:
    """Names, shapes and dtypes of observations and actions, and the number of envs.

    Args:
        envs: B.
        obs, action: nested by name as in a sample tree; leaves are `[shape, dtype]`, lists,
            so that it can be saved as text.
    """

    envs: int
    obs: Any
    action: Any

    @classmethod
    def of(cls, tree: ArrayDict) -> Self:
        """Return that of a sampler's tree."""
        return cls(tree["reward"].shape[1], _described(tree["obs"]), _described(tree["action"]))

    def parts(self, name: str) -> list[Part]:
        """Return shape and dtype of every leaf of "obs" or "action"."""
        return [(tuple(shape), np.dtype(dtype)) for shape, dtype in leaves(getattr(self, name))]

    def join(self, name: str, parts: list[Any]) -> Any:
        """Return the leaves of "obs" or "action", nested as in the tree."""
        form = getattr(self, name)
        if isinstance(form, list):
            return parts[0]
        remaining = iter(parts)
        return mapped(lambda _: next(remaining), form)

    def to_text(self) -> str:
        """Return it as text, for `from_text`."""
        return json.dumps([self.envs, self.obs, self.action])

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return what was saved."""
        return cls(*json.loads(text))


def leaves_of(value: Any) -> list[Any]:
    """Return the arrays of a part of a sample tree, in order."""
    return [leaf for _, leaf in value.leaves()] if isinstance(value, ArrayDict) else [value]


def _described(value: Any) -> Any:
    if isinstance(value, ArrayDict):
        return value.apply(_described)
    return [list(value.shape[2:]), str(value.dtype)]
