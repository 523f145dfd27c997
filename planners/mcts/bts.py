"""BTS: Boltzmann tree search, with softmax visits and maximum values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from plangym_ext.planners.mcts.soft import SoftSearch
from plangym_ext.planners.trees.soft import LARGEST


@dataclass(eq=False, kw_only=True)
class BTS(SoftSearch):
    """Boltzmann tree search: visits are a softmax of returns, values the largest return.

    What it plays does not depend on the temperature in the end, as in MENTS it does.

    Source: Painter et al. 2023, "Monte Carlo tree search with Boltzmann exploration".
    """

    rule: ClassVar[int] = LARGEST
