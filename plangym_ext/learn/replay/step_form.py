"""StepForm: names, shapes and dtypes of the steps in a replay buffer."""

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
    """Names, shapes and dtypes of observations, actions and carries, and the number of envs.

    Args:
        envs: B.
        obs, action, carry: nested by name as in a sample tree; leaves are `[shape, dtype]`,
            lists, so that it can be saved as text. The carry is None where there is none.
    """

    envs: int
    obs: Any
    action: Any
    carry: Any = None

    @classmethod
    def of(cls, tree: ArrayDict) -> Self:
        """Return that of a sampler's tree."""
        carry = _described(tree["carry"], 1) if "carry" in tree else None
        obs, action = _described(tree["obs"], 2), _described(tree["action"], 2)
        return cls(tree["reward"].shape[1], obs, action, carry)

    def parts(self, name: str) -> list[Part]:
        """Return shape and dtype of every leaf of "obs", "action" or "carry"."""
        return [(tuple(shape), np.dtype(dtype)) for shape, dtype in leaves(getattr(self, name))]

    def join(self, name: str, parts: list[Any]) -> Any:
        """Return the leaves of "obs", "action" or "carry", nested as in the tree."""
        form = getattr(self, name)
        # A single array: what describes it is no mapping.
        if isinstance(form, list):
            return parts[0]
        remaining = iter(parts)
        return mapped(lambda _: next(remaining), form)

    def to_text(self) -> str:
        """Return it as text, for `from_text`."""
        return json.dumps([self.envs, self.obs, self.action, self.carry])

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the form from its saved text."""
        return cls(*json.loads(text))


def leaves_of(value: Any) -> list[Any]:
    """Return the arrays of a part of a sample tree, in order."""
    return [leaf for _, leaf in value.leaves()] if isinstance(value, ArrayDict) else [value]


def _described(value: Any, axes: int) -> Any:
    """Return shape and dtype of every leaf, without so many leading axes."""
    if isinstance(value, ArrayDict):
        return value.apply(_described, axes)
    # A list and a text, as JSON returns them: forms are compared with those that were saved.
    return [list(value.shape[axes:]), str(value.dtype)]
