"""Do agents learn where rewards are rare if their episodes begin from states of a demonstration?

    python tests/benchmarks/starts.py --page docs/benchmarks.md

PPO with the same settings and steps, whose episodes begin by resets, from states of one
demonstration drawn alike, by the curriculum backwards, or where its values were wrong. It is judged
by episodes that begin by resets. A cell is a task, a kind and a seed; one that is finished is kept
in the folder and not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from table.sections import write_section

from plangym_ext import make, make_vec
from plangym_ext.learn import (
    PPO,
    Acted,
    ActorCriticAgent,
    Agent,
    AgentConfig,
    BackwardStarts,
    EvaluationSampler,
    PPOConfig,
    SerialSampler,
    StoredStarts,
    UnsureStarts,
    make_agent_network,
)
from plangym_ext.planners import demonstrated_states
from plangym_ext.run.files import write_json
from plangym_ext.run.training.solutions import AgentValue

KINDS = ("reset", "stored", "backward", "unsure")


class Rule(Agent):
    """Demonstrates: acts by a function of the observation."""

    def __init__(self, act: Callable[[Any], Any]) -> None:
        self._act = act

    def step(self, inputs: Any, carry: Any) -> Acted:
        return Acted(np.asarray(self._act(inputs.obs), np.int64), {}, carry)


class Task(NamedTuple):
    """What is learned, and who shows it."""

    env_id: str
    kwargs: dict[str, Any]
    act: Callable[[Any], Any]
    steps: int
    solved: float


TASKS = {
    "MountainCar": Task("MountainCar-v0", {}, lambda obs: 2 * (obs[:, 1] >= 0), 150_000, -150.0),
    "NarrowPath, 24 steps": Task(
        "plangym_ext/NarrowPath-v0", {"n": 24}, lambda obs: np.zeros(len(obs)), 100_000, 0.9
    ),
}
_CONFIG = PPOConfig(
    learning_rate=1e-3,
    gae_lambda=0.95,
    discount=0.99,
    epochs=8,
    batch_size=256,
    entropy_weight=0.01,
)
_ENVS, _MOVES = 16, 64


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="tasks by name")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--steps", type=int, help="of each run (default: the task's)")
    parser.add_argument("--out", type=Path, default=Path("runs/starts"), help="folder of cells")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    return parser.parse_args()


def starts_of(kind: str, task: Task, agent: Agent) -> Any:
    """Return what episodes begin from, and the steps that the demonstration took."""
    if kind == "reset":
        return None, 0
    with make(task.env_id, **task.kwargs) as env:
        states = demonstrated_states(env, Rule(task.act), seed=0, max_steps=500)
        space = env.action_space
    if kind == "stored":
        return StoredStarts(states, share=0.8), len(states) + 1
    if kind == "backward":
        slack = 0.1 * abs(float(states.to_go[0]))
        return BackwardStarts(states, share=0.9, slack=slack), len(states) + 1
    return UnsureStarts(states, AgentValue(agent, space), share=0.8), len(states) + 1


def trained(task: Task, kind: str, seed: int, steps: int) -> dict[str, Any]:
    """Train and judge; returns of episodes that began by resets."""
    began = time.perf_counter()
    venv = make_vec(task.env_id, _ENVS, autoreset_mode="same_step", **task.kwargs)
    spaces = venv.single_observation_space, venv.single_action_space
    shape = AgentConfig(activation="tanh", init="orthogonal", normalize_obs=True)
    network = make_agent_network(*spaces, shape, seed=seed)
    agent, algorithm = ActorCriticAgent(network), PPO(network, _CONFIG, seed=seed)
    starts, taken = starts_of(kind, task, agent)
    restores = 0
    with SerialSampler(venv, agent, _MOVES, seed=seed, starts=starts) as sampler:
        while taken < steps:
            found = sampler.collect(version=algorithm.updates)
            taken, restores = taken + found.cost.model_steps, restores + found.cost.restores
            algorithm.take(found)
            algorithm.train()
    judge = make_vec(task.env_id, 20, autoreset_mode="same_step", **task.kwargs)
    with EvaluationSampler(judge, agent, 20, seed=1_000_000, max_steps=500) as evaluation:
        returns = evaluation.evaluate().episodes["return"].tolist()
    return {
        "returns": returns,
        "steps": taken,
        "restores": restores,
        "seconds": time.perf_counter() - began,
    }


def page(found: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """Return the table."""
    lines = [
        "## Episodes that begin from a demonstration",
        "",
        "`tests/benchmarks/starts.py`: PPO with the same settings and steps, those of the",
        "demonstration counted, judged by 20 episodes that begin by resets and play the best",
        "actions. Median over the seeds of the mean return; in brackets the least and the",
        "greatest; and the seeds that reached what counts as solved.",
        "",
        "| task | steps | solved | " + " | ".join(KINDS) + " |",
        "|---|---:|---:|" + "---:|" * len(KINDS),
    ]
    for name, kinds in found.items():
        cells = []
        for kind in KINDS:
            means = [float(np.mean(one["returns"])) for one in kinds.get(kind, [])]
            if not means:
                cells.append("")
                continue
            solved = sum(mean >= TASKS[name].solved for mean in means)
            cells.append(
                f"{np.median(means):.2f} [{min(means):.2f}, {max(means):.2f}], "
                f"{solved} of {len(means)}"
            )
        steps = max(one["steps"] for rows in kinds.values() for one in rows)
        lines.append(f"| {name} | {steps:,} | {TASKS[name].solved:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    options = parsed()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for number, (name, task) in enumerate(TASKS.items()):
        if not any(text in name for text in options.only):
            continue
        for seed in options.seeds:
            for kind in KINDS:
                file = options.out / f"{number}-{kind}-{seed}.json"
                if not file.exists():
                    print(f"{name}, {kind}, seed {seed}", flush=True)
                    write_json(file, trained(task, kind, seed, options.steps or task.steps))
                one = json.loads(file.read_text())
                found.setdefault(name, {}).setdefault(kind, []).append(one)
    print(page(found))
    if options.page:
        write_section(options.page, "starts", page(found))


if __name__ == "__main__":
    main()
