"""Atari games by the protocol of Rollout-IW, "0.5 seconds".

116 simulator calls a decision, 15 frames a call, no sticky actions, up to 30 no-ops (of 15
frames each, as in the source's program), then at most 18,000 frames. The score is what the
game itself pays for the actions played, in an env of its own.

Source: Bandres, Bonet & Geffner 2018; their logs average 116 calls a decision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import plangym_ext
from plangym_ext.planners import load_planner, play
from scoring.cells import Cell, Say
from scoring.starts import StartedBy

CALLS, FRAMESKIP, FRAMES, NO_OPS, SEEDS = 116, 15, 18_000, 30, 5
#: Games in which all planners play.
GAMES = ("Pong", "Breakout", "MsPacman", "Freeway", "Seaquest", "SpaceInvaders")
# Trees are kept from move to move, and have room for what adds up.
_TREE = {"rollout_depth": 0, "keep_tree": True, "wave_size": 1, "c_puct": 0.4, "capacity": 4000}
# Simulations of 14 moves that stay in the tree; what is played begins the best branch.
_KEPT = {
    "wave_size": 1,
    "rollout_depth": 13,
    "keep_rollouts": True,
    "keep_tree": True,
    "choice": "branch",
    "discount": 0.97,
    "capacity": 4000,
}
# Simulations that expand 13 nodes in a row, each with two children that are drawn.
_SHOT = {
    "wave_size": 1,
    "num_expansions": 13,
    "num_children": 2,
    "c_puct": 0.4,
    "rollout_depth": 0,
    "keep_tree": True,
    "choice": "branch",
    "discount": 0.97,
    "capacity": 4000,
}
# Walks of 14 moves, which leave out nothing but what comes to the same.
_NEAR_WALKS = {
    "wave_size": 1,
    "max_depth": 14,
    "features": "whole",
    "greed": 0.5,
    "discount": 0.97,
    "capacity": 4000,
}
# Of 30 moves, which end where a life is lost; some go straight on. Where nothing is earned they
# go where the episode has not been: 0.1 is far less than the least that a game pays.
_WALKS = _NEAR_WALKS | {
    "max_depth": 30,
    "greed": 0.8,
    "persistence": 0.9,
    "discount": 0.98,
    "ends_below": -500.0,
    "count_bonus": 0.1,
}
#: By line of the table: what the env observes, the price of a life, the planner's options.
PLANNERS: dict[str, dict[str, Any]] = {
    "mcts": {"obs": "ram", "life": 1000, "options": _KEPT},
    "mcts-leaves": {"planner": "mcts", "obs": "ram", "life": 100, "options": _TREE},
    "rollout-iw": {"obs": "ram", "life": 1000, "options": _WALKS},
    "rollout-iw-near": {
        "planner": "rollout-iw",
        "obs": "ram",
        "life": 1000,
        "options": _NEAR_WALKS,
    },
    "fractal": {"obs": "ram", "life": 100, "options": {"depth": 12}},
    "sts": {"obs": "ram", "life": 1000, "options": _SHOT},
    "sts-leaves": {
        "planner": "sts",
        "obs": "ram",
        "life": 100,
        "options": _TREE | {"num_expansions": 3},
    },
    "shooting": {"obs": "ram", "life": 100, "options": {"rollout_depth": 12}},
}


def cells(seeds: int | None = None) -> list[Cell]:
    """Every planner in every game."""
    chunks = tuple((seed,) for seed in range(SEEDS if seeds is None else seeds))
    return [
        Cell("atari", game, name, options, chunks)
        for name, options in PLANNERS.items()
        for game in GAMES
    ]


def game_cell(game: str, planner: str, calls: int, seeds: tuple[int, ...]) -> Cell:
    """A planner in any game, with any budget, one episode by each seed."""
    options = PLANNERS[planner] | {"calls": calls}
    return Cell("atari", game, f"{planner} {calls}", options, tuple((seed,) for seed in seeds))


def planner_of(cell: Cell) -> Any:
    """The planner of a cell."""
    chosen = cell.options
    planner: Any = load_planner(chosen.get("planner", cell.planner.split()[0]))
    return planner(max_model_steps=chosen.get("calls", CALLS), **chosen["options"])


def begin(env: Any, seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """Reset, and play as many no-ops as the seed says."""
    state, obs, info = env.reset(seed=seed)
    for _ in range(no_ops(seed)):
        state, obs, _, _, _, info = env.step(0, state=state)
    return state, obs, info


def no_ops(seed: int) -> int:
    """How many no-ops an episode begins with."""
    return int(np.random.default_rng([seed, 30]).integers(NO_OPS + 1))


def env_of(game: str, **options: Any) -> Any:
    """The game as the protocol has it."""
    return plangym_ext.make(
        f"ALE/{game}-v5", frameskip=FRAMESKIP, repeat_action_probability=0.0, **options
    )


def run(cell: Cell, seeds: tuple[int, ...], _path: str, say: Say) -> dict[str, Any]:
    """Play one episode, and look up in another env what it scored."""
    chosen, moves = cell.options, FRAMES // FRAMESKIP
    with env_of(cell.task, obs_type=chosen["obs"], life_penalty=chosen["life"]) as env:
        episode = play(
            StartedBy(env, begin),
            planner_of(cell),
            seed=seeds[0],
            max_steps=moves,
            callback=lambda move: say(f"move {move.step + 1} of {moves}, {move.total:g}"),
        )
    return {
        str(episode.seed): {
            "score": score_of(cell.task, episode.seed, episode.actions),
            "length": episode.length,
            "model_steps": episode.budget.model_steps,
        }
    }


def score_of(game: str, seed: int, actions: Any) -> float:
    """What the game pays for the no-ops of a seed and these actions."""
    with env_of(game, obs_type="ram") as env:
        env.reset(seed=seed)
        played = [0] * no_ops(seed) + np.asarray(actions).tolist()
        return float(sum(env.step(action, return_state=False).reward for action in played))
