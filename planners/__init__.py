"""Search over any env that steps the states it is given.

Names are loaded when they are first used: the kernels bring numba with them,
which a command line that only lists planners should not wait for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from plangym_ext.planners.registry import PLANNERS, load_planner

if TYPE_CHECKING:
    from plangym_ext.planners.bandit_shooting import BanditShooting
    from plangym_ext.planners.base import Planner
    from plangym_ext.planners.cem import CEM
    from plangym_ext.planners.discrete_shooting import DiscreteShooting
    from plangym_ext.planners.episode import Episode, Move, play
    from plangym_ext.planners.fractal import FractalMC
    from plangym_ext.planners.graph_search import GraphSearch
    from plangym_ext.planners.icem import ICEM
    from plangym_ext.planners.iw import IW
    from plangym_ext.planners.mcts import MCTS
    from plangym_ext.planners.model import SearchModel
    from plangym_ext.planners.mppi import MPPI
    from plangym_ext.planners.open_loop import OpenLoopMCTS
    from plangym_ext.planners.options import Option, options_of
    from plangym_ext.planners.plans import Budget, Plan, SearchTree
    from plangym_ext.planners.predictive_sampling import PredictiveSampling
    from plangym_ext.planners.random_shooting import RandomShooting
    from plangym_ext.planners.rollout_iw import RolloutIW
    from plangym_ext.planners.sts import STS
    from plangym_ext.planners.tree_file import read_tree, write_tree

__all__ = [
    "CEM",
    "ICEM",
    "IW",
    "MCTS",
    "MPPI",
    "PLANNERS",
    "STS",
    "BanditShooting",
    "Budget",
    "DiscreteShooting",
    "Episode",
    "FractalMC",
    "GraphSearch",
    "Move",
    "OpenLoopMCTS",
    "Option",
    "Plan",
    "Planner",
    "PredictiveSampling",
    "RandomShooting",
    "RolloutIW",
    "SearchModel",
    "SearchTree",
    "load_planner",
    "options_of",
    "play",
    "read_tree",
    "write_tree",
]

_HOME = {
    "FractalMC": "fractal",
    "IW": "iw",
    "RolloutIW": "rollout_iw",
    "GraphSearch": "graph_search",
    "OpenLoopMCTS": "open_loop",
    "BanditShooting": "bandit_shooting",
    "DiscreteShooting": "discrete_shooting",
    "STS": "sts",
    "CEM": "cem",
    "ICEM": "icem",
    "MPPI": "mppi",
    "PredictiveSampling": "predictive_sampling",
    "RandomShooting": "random_shooting",
    "Budget": "plans",
    "Episode": "episode",
    "MCTS": "mcts",
    "Move": "episode",
    "Option": "options",
    "Plan": "plans",
    "Planner": "base",
    "SearchModel": "model",
    "SearchTree": "plans",
    "options_of": "options",
    "play": "episode",
    "read_tree": "tree_file",
    "write_tree": "tree_file",
}


def __getattr__(name: str) -> Any:
    """Import the module that holds `name` (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List public names, loaded or not."""
    return __all__
