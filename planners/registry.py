"""Registry of planners by name, with lazy loading."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from plangym_ext.core.inherited_options import load_own_class
from plangym_ext.errors import UnknownName, WrongKind, suggestion
from plangym_ext.states.families import load_named

if TYPE_CHECKING:
    from plangym_ext.planners.base import Planner


class Entry(NamedTuple):
    """Module, class and description of a planner."""

    target: str  # "module:Class"
    help: str  # one line


PLANNERS: dict[str, Entry] = {
    "mcts": Entry(
        "plangym_ext.planners.mcts.mcts:MCTS",
        "Monte Carlo tree search (PUCT, UCT or Gumbel)",
    ),
    "sts": Entry(
        "plangym_ext.planners.mcts.sts:STS",
        "Shoot Tree Search: several expansions per simulation",
    ),
    "open-loop": Entry(
        "plangym_ext.planners.mcts.open_loop:OpenLoopMCTS",
        "tree search over action sequences, for stochastic envs",
    ),
    "ments": Entry(
        "plangym_ext.planners.mcts.soft:MENTS",
        "maximum entropy tree search: soft values, Boltzmann visits",
    ),
    "tents": Entry(
        "plangym_ext.planners.mcts.soft:TENTS",
        "Tsallis entropy tree search: sparse policies",
    ),
    "dents": Entry(
        "plangym_ext.planners.mcts.soft:DENTS",
        "Boltzmann tree search with a decaying entropy bonus",
    ),
    "bts": Entry(
        "plangym_ext.planners.mcts.soft:BTS",
        "Boltzmann tree search: largest returns as values",
    ),
    "ants": Entry(
        "plangym_ext.planners.mcts.soft:ANTS",
        "MENTS with a temperature for a target entropy",
    ),
    "graph": Entry(
        "plangym_ext.planners.graphs.search:GraphSearch",
        "greedy search with transpositions and dead ends",
    ),
    "best-first": Entry(
        "plangym_ext.planners.graphs.best_first:BestFirst",
        "A*, weighted A* and greedy search by a heuristic",
    ),
    "levin": Entry(
        "plangym_ext.planners.graphs.best_first:LevinTS",
        "best-first search by steps and a policy's probability",
    ),
    "phs": Entry(
        "plangym_ext.planners.graphs.best_first:PHS",
        "Levin tree search with a heuristic (PHS*)",
    ),
    "rollout-iw": Entry(
        "plangym_ext.planners.novelty.iw:RolloutIW",
        "random walks, cut where no feature is new",
    ),
    "iw": Entry(
        "plangym_ext.planners.novelty.iw:IW",
        "breadth-first search, pruned where no feature is new",
    ),
    "fractal": Entry(
        "plangym_ext.planners.rollouts.fractal:FractalMC",
        "a swarm of walkers; poor ones clone better ones",
    ),
    "spo": Entry(
        "plangym_ext.planners.rollouts.particle_search:SPO",
        "particles of a policy, resampled by their advantages",
    ),
    "tsmcts": Entry(
        "plangym_ext.planners.rollouts.tsmcts:TSMCTS",
        "particles from each action, with sequential halving",
    ),
    "shooting": Entry(
        "plangym_ext.planners.rollouts.discrete_shooting:DiscreteShooting",
        "rollouts, compared by their first action",
    ),
    "bandit": Entry(
        "plangym_ext.planners.rollouts.discrete_shooting:BanditShooting",
        "a bandit over the first action of rollouts",
    ),
    "random-shooting": Entry(
        "plangym_ext.planners.continuous.shooting:RandomShooting",
        "the best of many random sequences",
    ),
    "predictive-sampling": Entry(
        "plangym_ext.planners.continuous.shooting:PredictiveSampling",
        "the best of the last plan and noisy copies of it",
    ),
    "cem": Entry(
        "plangym_ext.planners.continuous.shooting:CEM",
        "cross-entropy method",
    ),
    "icem": Entry(
        "plangym_ext.planners.continuous.shooting:ICEM",
        "cross-entropy method with coloured noise and kept elites",
    ),
    "mppi": Entry(
        "plangym_ext.planners.continuous.shooting:MPPI",
        "model predictive path integral control",
    ),
    "dial": Entry(
        "plangym_ext.planners.continuous.shooting:DIAL",
        "MPPI with noise that is annealed over rounds and horizon",
    ),
}


def unknown(where: str, name: object, known: list[str]) -> UnknownName:
    """Return the error for a name that is not in `known`, with a close match if any."""
    close = suggestion(str(name), known)
    return UnknownName(f"{where} must be one of {', '.join(known)}; got {name!r}{close}")


def load_planner(name: str) -> type[Planner]:
    """Return the class of a planner; this imports numba.

    Args:
        name: one of `PLANNERS`, or "module:Class" of your own.

    Raises:
        UnknownName: no planner has this name.
        WrongKind: the class of your own is no planner, or abstract.
    """
    # Here: listing planners does without numpy.
    from plangym_ext.core.numbers import check_kind

    check_kind("planner", name, str, "a name such as 'mcts', or 'module:Class' of your own")
    if name in PLANNERS:
        return cast("type[Planner]", load_named(PLANNERS[name].target))
    if ":" not in name:
        raise unknown("planner", name, sorted(PLANNERS))
    # Here, as it brings numba.
    from plangym_ext.planners.base import Planner

    own = cast("type[Planner]", load_own_class(name, "planner", Planner))
    if missing := sorted(own.__abstractmethods__):
        raise WrongKind(
            f"planner: {name} must define {', '.join(missing)}, which {Planner.__name__} leaves "
            f"abstract."
        )
    return own
