"""Planners (public names): tree search, graph search and shooting over env states.

Names are loaded when they are first used: the kernels bring numba with them,
which a command line that only lists planners should not wait for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from plangym_ext.planners.registry import PLANNERS, load_planner

if __name__ != "plangym_ext.planners":  # with the checkout's folder first in the module path
    raise ModuleNotFoundError(
        f"there is no module {__name__!r}: this folder of a checkout is plangym_ext.planners",
        name=__name__,
    )

if TYPE_CHECKING:
    from plangym_ext.planners.base import Planner
    from plangym_ext.planners.continuous.cem import CEM
    from plangym_ext.planners.continuous.dial import DIAL
    from plangym_ext.planners.continuous.icem import ICEM
    from plangym_ext.planners.continuous.mppi import MPPI
    from plangym_ext.planners.continuous.predictive_sampling import PredictiveSampling
    from plangym_ext.planners.continuous.random_shooting import RandomShooting
    from plangym_ext.planners.episode import Episode, Move, play
    from plangym_ext.planners.graphs.best_first import BestFirst
    from plangym_ext.planners.graphs.levin import LevinTS
    from plangym_ext.planners.graphs.phs import PHS
    from plangym_ext.planners.graphs.search import GraphSearch
    from plangym_ext.planners.mcts.ants import ANTS
    from plangym_ext.planners.mcts.bts import BTS
    from plangym_ext.planners.mcts.dents import DENTS
    from plangym_ext.planners.mcts.mcts import MCTS
    from plangym_ext.planners.mcts.ments import MENTS
    from plangym_ext.planners.mcts.open_loop import OpenLoopMCTS
    from plangym_ext.planners.mcts.sts import STS
    from plangym_ext.planners.mcts.tents import TENTS
    from plangym_ext.planners.model import SearchModel
    from plangym_ext.planners.novelty.iw import IW
    from plangym_ext.planners.novelty.rollout_iw import RolloutIW
    from plangym_ext.planners.options import Option, options_of
    from plangym_ext.planners.plans import Budget, Plan, SearchTree
    from plangym_ext.planners.rollouts.bandit_shooting import BanditShooting
    from plangym_ext.planners.rollouts.discrete_shooting import DiscreteShooting
    from plangym_ext.planners.rollouts.fractal import FractalMC
    from plangym_ext.planners.rollouts.spo import SPO
    from plangym_ext.planners.rollouts.tsmcts import TSMCTS
    from plangym_ext.planners.trees.file import read_tree, write_tree
    from plangym_ext.planners.tuned import tuned_options
    from plangym_ext.planners.visited import demonstrated_states, visited_states

__all__ = [
    "ANTS",
    "BTS",
    "CEM",
    "DENTS",
    "DIAL",
    "ICEM",
    "IW",
    "MCTS",
    "MENTS",
    "MPPI",
    "PHS",
    "PLANNERS",
    "SPO",
    "STS",
    "TENTS",
    "TSMCTS",
    "BanditShooting",
    "BestFirst",
    "Budget",
    "DiscreteShooting",
    "Episode",
    "FractalMC",
    "GraphSearch",
    "LevinTS",
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
    "demonstrated_states",
    "load_planner",
    "options_of",
    "play",
    "read_tree",
    "tuned_options",
    "visited_states",
    "write_tree",
]

_HOME = {
    "FractalMC": "rollouts.fractal",
    "IW": "novelty.iw",
    "RolloutIW": "novelty.rollout_iw",
    "BestFirst": "graphs.best_first",
    "GraphSearch": "graphs.search",
    "LevinTS": "graphs.levin",
    "PHS": "graphs.phs",
    "OpenLoopMCTS": "mcts.open_loop",
    "BanditShooting": "rollouts.bandit_shooting",
    "DiscreteShooting": "rollouts.discrete_shooting",
    "SPO": "rollouts.spo",
    "TSMCTS": "rollouts.tsmcts",
    "STS": "mcts.sts",
    "CEM": "continuous.cem",
    "ANTS": "mcts.ants",
    "BTS": "mcts.bts",
    "DENTS": "mcts.dents",
    "MENTS": "mcts.ments",
    "TENTS": "mcts.tents",
    "DIAL": "continuous.dial",
    "ICEM": "continuous.icem",
    "MPPI": "continuous.mppi",
    "PredictiveSampling": "continuous.predictive_sampling",
    "RandomShooting": "continuous.random_shooting",
    "Budget": "plans",
    "Episode": "episode",
    "MCTS": "mcts.mcts",
    "Move": "episode",
    "Option": "options",
    "Plan": "plans",
    "Planner": "base",
    "SearchModel": "model",
    "SearchTree": "plans",
    "options_of": "options",
    "play": "episode",
    "read_tree": "trees.file",
    "demonstrated_states": "visited",
    "visited_states": "visited",
    "tuned_options": "tuned",
    "write_tree": "trees.file",
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
