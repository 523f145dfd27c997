"""Presets of training runs with planners, and lookup of any preset by name."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from plangym_ext.errors import UnknownName, suggestion
from plangym_ext.run.settings.agent_presets import AGENT_PRESETS, APART, agent_on_cartpole
from plangym_ext.run.settings.preset import Preset

EXPERT_PRESETS: Mapping[str, Preset] = {
    "expert_cartpole": Preset(
        "a planner teaches a network to balance a pole",
        agent_on_cartpole(
            {
                "name": "expert",
                "learning_starts": 128,
                "guided": False,
                # By updates, 16 a round: after some eight rounds the student plays alone.
                "teacher_share": {"start": 1.0, "end": 0.0, "over": 128},
            },
            planner={"name": "shooting", "max_model_steps": 200},
            collector={"num_envs": 8, "moves": 32},
            evaluation={"every": 4, "episodes": 20, "stop_at": 495.0},
            rounds=40,
            checkpoint_every=10,
        ),
    ),
    "expert_pendulum": Preset(
        "a planner teaches a network to swing up a pendulum",
        {
            "env": {"id": "Pendulum-v1", "max_steps": 200},
            "agent": {**APART, "normalize_obs": True, "initial_log_std": -1.0},
            "algorithm": {
                "name": "expert",
                "guided": False,
                # By updates, 16 a round: after some forty rounds the student plays alone.
                "teacher_share": {"start": 1.0, "end": 0.0, "over": 640},
            },
            "planner": {"name": "icem", "num_simulations": 64, "horizon": 20},
            "collector": {"num_envs": 8, "moves": 50},
            "evaluation": {"every": 10, "episodes": 20},
            "rounds": 60,
            "checkpoint_every": 10,
        },
    ),
}


# Of evaluations: with both of them the training plays other moves than the search finds best.
_GREEDY = {"temperature": 0.0, "root_noise": 0.0}


def _sokoban(size: int, boxes: int, **rest: Any) -> dict[str, Any]:
    """Shoot Tree Search on graphs with a value network, as Alpacka's Sokoban."""
    return {
        "env": {
            "id": "plangym_ext/Sokoban-v0",
            "kwargs": {"dim": [size, size], "num_boxes": boxes},
            "max_steps": 60,
        },
        "planner": {
            "name": "graph",
            # 50 expansions, at most 200 model steps a move.
            "num_simulations": 10,
            "num_expansions": 5,
            "discount": 0.97,
            # States count the steps to the limit; boards are all that matters.
            "state_key": "obs",
        },
        "agent": {
            "name": "network",
            "kind": "conv",
            "channels": [16, 16, 16, 16],
            "hidden": [64],
            "heads": ["value"],
            "value_scale": 6.0,
        },
        "algorithm": {
            "name": "value",
            "value_target": "discounted_return",
            "discount": 0.97,
            "replay": "balanced",
            "balance_by": "solved",
            "capacity": 30_000,
            "updates_per_round": 16,
        },
        "collector": {"num_envs": 64, "moves": 8, "n_workers": 2, "attributes": ["solved"]},
        "evaluation": {"player": "planner", "every": 100, "episodes": 50},
        "checkpoint_every": 50,
        "threads": 2,
        **rest,
    }


_BOXOBAN: dict[str, Any] = {
    "env": {
        "id": "plangym_ext/Sokoban-v0",
        # Values are minus the steps to go, as `phs` reads them with `value_to_go`.
        "kwargs": {"step_reward": -1.0, "box_reward": 0.0, "solved_reward": 0.0},
        "max_steps": 120,
    },
    "planner": {
        "name": "best-first",
        "num_simulations": 600,
        "heuristic_weight": 10.0,
        "heuristic": "plangym_ext.envs.sokoban.heuristic:pushes_to_go",
        "state_key": "obs",
        "goal_reward": -2.0,
        "discount": 1.0,
    },
    "agent": {
        "name": "network",
        "kind": "conv",
        "channels": [32, 32, 32],
        "hidden": [128],
        "value_scale": 20.0,
    },
    "algorithm": {
        "name": "supervised",
        "policy_target": "action",
        "value_target": "return",
        "augment": "plangym_ext.envs.sokoban.cells:mirrored",
        "discount": 1.0,
        # All of the run: 40 rounds of 100 updates.
        "learning_rate": {
            "start": 2e-3,
            "end": 4e-5,
            "over": 4000,
            "shape": "cosine",
            "warmup": 200,
        },
        "batch_size": 256,
        "capacity": 150_000,
        "updates_per_round": 100,
    },
    # One move, which means nothing to searches, so that steps of the log count searches.
    "collector": {"kind": "solutions", "num_envs": 100, "moves": 1},
    "evaluation": {"every": 0},
    "rounds": 40,
    "checkpoint_every": 5,
}


PRESETS: Mapping[str, Preset] = {
    "cartpole": Preset(
        "AlphaZero balances a pole",
        {
            "env": {"id": "CartPole-v1", "max_steps": 500},
            "planner": {
                "name": "mcts",
                "num_simulations": 16,
                "wave_size": 4,
                "discount": 0.99,
                "root_noise": 0.25,
                "dirichlet_alpha": 1.0,
                "temperature": 1.0,
            },
            # A reward of 1 in every step is worth 1 / (1 - discount) = 100.
            "agent": {
                "name": "network",
                "hidden": [64, 64],
                "activation": "tanh",
                "value_scale": 100.0,
            },
            "algorithm": {
                "name": "alphazero",
                "value_target": "n_return",
                "n_steps": 50,
                "discount": 0.99,
                "batch_size": 128,
                # All of the run: 400 rounds of 16 updates.
                "learning_rate": {"start": 1e-3, "end": 5e-5, "over": 6400},
                "value_weight": 4.0,
                "l2": 0.0,
                "capacity": 50_000,
                "learning_starts": 500,
                "updates_per_round": 16,
            },
            "collector": {"num_envs": 32, "moves": 16},
            "evaluation": {"every": 20, "episodes": 20, "planner": _GREEDY, "stop_at": 495.0},
            "rounds": 400,
            "checkpoint_every": 20,
        },
    ),
    "narrow_path": Preset(
        "AlphaZero finds a path that a single wrong move leaves",
        {
            "env": {"id": "plangym_ext/NarrowPath-v0", "kwargs": {"n": 12}, "max_steps": 50},
            "planner": {
                "name": "mcts",
                "num_simulations": 16,
                "wave_size": 1,
                "root_noise": 0.25,
                "temperature": 1.0,
            },
            "agent": {"name": "network", "hidden": [32]},
            "algorithm": {
                "name": "alphazero",
                "batch_size": 64,
                "learning_rate": 3e-3,
                "capacity": 5_000,
                "learning_starts": 64,
                "updates_per_round": 8,
            },
            "collector": {"num_envs": 8, "moves": 12},
            "evaluation": {"every": 10, "episodes": 1, "planner": _GREEDY, "stop_at": 1.0},
            "rounds": 100,
        },
    ),
    "icem_pendulum": Preset(
        "iCEM swings up a pendulum, and learns what follows its short sequences",
        {
            "env": {"id": "Pendulum-v1", "max_steps": 200},
            "planner": {
                "name": "icem",
                "num_simulations": 32,
                # Of some 40 that it takes to swing up.
                "horizon": 4,
                "iterations": 2,
                "init_std": 1.0,
                "num_elites": 4,
                "discount": 0.98,
            },
            "agent": {
                "name": "network",
                "hidden": [64, 64],
                "activation": "tanh",
                "value_scale": 200.0,
                "heads": ["value"],
            },
            "algorithm": {
                "name": "value",
                "value_target": "n_return",
                "n_steps": 10,
                "discount": 0.98,
                "learning_rate": 1e-3,
                "batch_size": 128,
                "l2": 0.0,
                "capacity": 20_000,
                "learning_starts": 400,
                "updates_per_round": 64,
            },
            "collector": {"num_envs": 8, "moves": 25},
            "evaluation": {"every": 10, "episodes": 20, "player": "planner"},
            "rounds": 40,
            "checkpoint_every": 10,
        },
    ),
    "sokoban_6x6": Preset(
        "Shoot Tree Search solves boards of 6x6 with a box", _sokoban(6, 1, rounds=1500)
    ),
    "sokoban_8x8": Preset(
        "Shoot Tree Search solves boards of 8x8 with two boxes", _sokoban(8, 2, rounds=2500)
    ),
    "boxoban": Preset(
        "a policy for LevinTS and PHS* learns from solutions of weighted A*",
        _BOXOBAN,
    ),
    "breakout": Preset(
        "AlphaZero plays Breakout; needs the extra atari",
        {
            "env": {
                "id": "ALE/Breakout-v5",
                "kwargs": {"preprocessing": True, "episodic_life": True},
                "n_workers": 2,
                "max_steps": 1000,
            },
            "planner": {
                "name": "mcts",
                "num_simulations": 32,
                "wave_size": 8,
                "discount": 0.97,
                "root_noise": 0.25,
                "temperature": 1.0,
            },
            "agent": {"name": "network", "kind": "conv"},
            "algorithm": {
                "name": "alphazero",
                "value_target": "n_return",
                "n_steps": 10,
                "discount": 0.97,
                "batch_size": 64,
                # 28 KB a row, and a checkpoint holds them all.
                "capacity": 10_000,
                "learning_starts": 1000,
            },
            "collector": {"num_envs": 8, "moves": 16},
            "evaluation": {"every": 50, "episodes": 4, "player": "planner", "planner": _GREEDY},
            "rounds": 1000,
            "checkpoint_every": 50,
        },
    ),
    **AGENT_PRESETS,
    **EXPERT_PRESETS,
}


def preset(name: str) -> dict[str, Any]:
    """Return the settings of a preset, to be changed as one likes.

    Raises:
        UnknownName: there is no such preset.
    """
    if name not in PRESETS:
        raise UnknownName(
            f"preset must be one of {', '.join(PRESETS)}, or a file that ends in .toml, .yaml or "
            f".json; got {name!r}{suggestion(name, PRESETS)}"
        )
    # Deep, as presets share parts such as `_GREEDY`: a change of one would reach the others.
    return copy.deepcopy(PRESETS[name].settings)
