"""TENTS: Tsallis entropy tree search, with sparse policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from plangym_ext.planners.mcts.soft import SoftSearch
from plangym_ext.planners.trees.soft import TSALLIS


@dataclass(eq=False, kw_only=True)
class TENTS(SoftSearch):
    """Tsallis entropy tree search: sparse policies, in which bad actions have probability 0.

    For many actions, of which few are good.

    Source: Dam et al. 2021, "Convex regularization in Monte-Carlo tree search".
    """

    rule: ClassVar[int] = TSALLIS
