"""SearchSettings: parameters of a tree search."""

from __future__ import annotations

from dataclasses import dataclass

from plangym_ext.planners.trees.selection import Selection


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Parameters of a search; see `TreeSearch` for their meaning."""

    num_simulations: int  # UNBOUNDED if only steps or time bound it
    max_model_steps: int | None
    wave_size: int
    capacity: int
    discount: float
    selection: Selection
    num_considered: int = 1
    root_noise: float = 0.0
    dirichlet_alpha: float = 1.0
    temperature: float = 0.0
    choice: str = "visits"  # what the played action has most of; see `BanditSearch`
    return_tree: bool = False
    stores_states: bool = True
    keep_tree: bool = False
    slots: bool = False
    waves_in_flight: int = 1
    compiled: bool = True  # have compiled code step, where the env offers its rules
