"""DENTS: decaying entropy tree search."""

from __future__ import annotations

import math
from dataclasses import dataclass

from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.mcts.bts import BTS
from plangym_ext.planners.trees.soft import Soft


@dataclass(eq=False, kw_only=True)
class DENTS(BTS):
    """Decaying entropy tree search: BTS whose visits also follow a decaying entropy bonus.

    The entropy of the policies below an action is added to its return in the policy, with a
    weight that falls with the visits of the node. Values are without it.

    Args:
        entropy_weight: of the entropy (in nats), on `value_scale`; it is divided by
            log(e + n) in a node with n visits.

    Source: Painter et al. 2023, "Monte Carlo tree search with Boltzmann exploration".
    """

    entropy_weight: float = 0.1

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        self.entropy_weight = self._number("entropy_weight", 0.0, math.inf)

    def _soft(self, search: Search) -> Soft:
        """Return what trees are searched with, with the weight of entropies."""
        return super()._soft(search)._replace(entropy_weight=self.entropy_weight)
