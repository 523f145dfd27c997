"""What is learned, and by whom."""

from __future__ import annotations

from typing import Any, NamedTuple


class Task(NamedTuple):
    """A task, and those who learn it.

    Attributes:
        steps: of the model: a budget.
        seconds: of a processor: the other budget.
        env: settings of the env.
        agent: settings of the agent, the same for all learners.
        learners: by name, the other settings of their runs.
        envs: how many are played in.
        drawn: whether judgements draw actions, and do not play the best ones: where the first
            action is the right one everywhere, a policy that knows nothing would play it.
    """

    steps: int
    seconds: int
    env: dict[str, Any]
    agent: dict[str, Any]
    learners: dict[str, dict[str, Any]]
    envs: int = 8
    drawn: bool = False


_APART = {
    "name": "actor_critic",
    "activation": "tanh",
    "init": "orthogonal",
    "shared_body": False,
}
#: The teacher alone at first, the student alone at last.
_FADES = {"start": 1.0, "end": 0.0, "over": 256}


def _taught(planner: dict[str, Any], moves: int = 32, **algorithm: Any) -> dict[str, Any]:
    """Have a planner teach."""
    settings = {"name": "expert", "learning_starts": 128, "teacher_share": _FADES, **algorithm}
    return {"algorithm": settings, "planner": planner, "moves": moves}


def _ppo(moves: int = 32, **algorithm: Any) -> dict[str, Any]:
    return {"algorithm": {"name": "ppo", **algorithm}, "moves": moves}


_GUMBEL = {"name": "mcts", "num_simulations": 16, "selection": "gumbel", "wave_size": 1}
#: As the preset "narrow_path".
_EXPLORES = {
    "name": "mcts",
    "num_simulations": 16,
    "wave_size": 1,
    "root_noise": 0.25,
    "temperature": 1.0,
}
_SMALL = {
    "learning_rate": 3e-3,
    "learning_starts": 64,
    "batch_size": 64,
    "updates_per_round": 8,
    "value_target": "return",
}
_SOKOBAN_AGENT = {"name": "actor_critic", "kind": "conv", "init": "orthogonal"}


def _narrow_path(n: int, steps: int, seconds: int) -> Task:
    """Return the task of going n - 1 steps without a wrong one."""
    return Task(
        steps,
        seconds,
        {"id": "plangym_ext/NarrowPath-v0", "kwargs": {"n": n}, "max_steps": 50},
        # Heads of zeros: a prior and values that say nothing mislead no search.
        {"name": "actor_critic", "hidden": [32]},
        {
            "PPO": _ppo(learning_rate=1e-3, epochs=4, batch_size=64, entropy_weight=0.01),
            "rollout-iw, alone": _taught(
                {"name": "rollout-iw", "max_model_steps": 64}, 12, **_SMALL, guided=False
            ),
            "mcts, guided": _taught(_EXPLORES, 12, **_SMALL, teacher_share=1.0),
            "mcts, guided, again": _taught(
                _EXPLORES, 12, **_SMALL, teacher_share=1.0, reanalyze=1.0
            ),
        },
        drawn=True,
    )


TASKS = {
    "CartPole": Task(
        60_000,
        6,
        {"id": "CartPole-v1", "max_steps": 500},
        {**_APART, "value_scale": 50.0},
        {
            "PPO": _ppo(
                learning_rate=1e-3,
                gae_lambda=0.8,
                discount=0.98,
                value_weight=0.0002,
                epochs=20,
                batch_size=256,
            ),
            "shooting, alone": _taught(
                {"name": "shooting", "max_model_steps": 100}, 16, guided=False
            ),
            "mcts, guided": _taught(_GUMBEL, value_target="return"),
        },
    ),
    "NarrowPath of 12": _narrow_path(12, 40_000, 5),
    "NarrowPath of 24": _narrow_path(24, 40_000, 5),
    "Sokoban 6x6, 1 box": Task(
        40_000,
        15,
        {
            "id": "plangym_ext/Sokoban-v0",
            "kwargs": {"dim": [6, 6], "num_boxes": 1},
            "max_steps": 60,
        },
        _SOKOBAN_AGENT,
        {
            "PPO": _ppo(learning_rate=3e-4, epochs=4, batch_size=256, entropy_weight=0.01),
            "best-first, alone": _taught(
                {"name": "best-first", "max_model_steps": 1000, "state_key": "obs"},
                # Most of the way that a search has found is followed, and not searched again.
                teacher_share=0.9,
                guided=False,
            ),
        },
    ),
    "HalfCheetah, 200 steps": Task(
        60_000,
        10,
        {"id": "HalfCheetah-v5", "max_steps": 200},
        {**_APART, "normalize_obs": True, "initial_log_std": -0.5},
        {
            "PPO": _ppo(
                learning_rate=3e-4,
                epochs=10,
                batch_size=64,
                value_weight=0.25,
                normalize_reward=True,
            ),
            "icem": _taught(
                {"name": "icem", "num_simulations": 24, "horizon": 8},
                8,
                value_weight=0.01,
                learning_starts=256,
                guided=False,
            ),
        },
    ),
}
