"""What a step of an agent costs, beside the bare network and torch's own distribution.

Bare is `nn.Sequential` in inference mode, from numpy to numpy; "drawn" adds softmax and
multinomial, "Categorical" a sample and its log probability by `torch.distributions`, as most
training loops have them. All are timed in turn, on one thread, and the fastest round counts.

    python tests/benchmarks/agents.py --rounds 100 --out agents.json
"""

from __future__ import annotations

import argparse
import json
import pathlib
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from plangym_ext.learn import ActorCriticAgent, AgentConfig, make_agent_network
from plangym_ext.learn.agents.inputs import first_inputs
from plangym_ext.learn.sampling.noise import RowNoise

CARTPOLE = Box(-np.inf, np.inf, (4,), np.float32)
PONG = Box(0, 255, (4, 84, 84), np.uint8)
CASES = {
    "MLP 64-64": (CARTPOLE, Discrete(2), AgentConfig(activation="tanh"), (1, 16, 64, 256)),
    "LSTM 64": (CARTPOLE, Discrete(2), AgentConfig(recurrent="lstm", recurrent_size=64), (64,)),
    "Nature": (PONG, Discrete(6), AgentConfig(kind="nature"), (16,)),
}


def bare_mlp(obs: Box, actions: Discrete) -> nn.Module:
    """Return the same layers without anything around them."""
    width, heads = obs.shape[0], int(actions.n) + 1
    layers = [nn.Linear(width, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, heads)]
    return nn.Sequential(*layers)


class Scaled(nn.Module):
    """Pixels between 0 and 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.float() / 255


def bare_nature(obs: Box, actions: Discrete) -> nn.Module:
    """Return the same layers without anything around them."""
    return nn.Sequential(
        Scaled(),
        *(nn.Conv2d(obs.shape[0], 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU()),
        *(nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU()),
        nn.Linear(512, int(actions.n) + 1),
    )


BARE = {"MLP 64-64": bare_mlp, "Nature": bare_nature}


def calls_of(name: str, rows: int) -> dict[str, Callable[[], Any]]:
    """Return what is timed, by column."""
    space, actions, config, _ = CASES[name]
    agent = ActorCriticAgent(make_agent_network(space, actions, config, seed=0))
    space.seed(0)
    obs = np.stack([space.sample() for _ in range(rows)])
    inputs = first_inputs(obs, actions, rows, noise=RowNoise(0, range(rows)))
    carry = agent.initial_carry(rows)
    calls: dict[str, Callable[[], Any]] = {"agent.step": lambda: agent.step(inputs, carry)}
    if name not in BARE:
        return calls
    network = BARE[name](space, actions).eval()

    def forward() -> Any:
        with torch.inference_mode():
            return network(torch.from_numpy(obs)).numpy()

    def drawn() -> Any:
        with torch.inference_mode():
            out = network(torch.from_numpy(obs))
            return torch.multinomial(torch.softmax(out[:, :-1], 1), 1)[:, 0].numpy()

    def categorical() -> Any:
        with torch.inference_mode():
            out = network(torch.from_numpy(obs))
            found = torch.distributions.Categorical(logits=out[:, :-1])
            action = found.sample()
            return action.numpy(), found.log_prob(action).numpy(), out[:, -1].numpy()

    return {"bare": forward, "drawn": drawn, "Categorical": categorical, **calls}


def measure(rounds: int) -> list[dict[str, Any]]:
    """Return one record per network and number of rows; times in microseconds."""
    records = []
    for name, (*_, sizes) in CASES.items():
        for rows in sizes:
            calls = calls_of(name, rows)
            best = dict.fromkeys(calls, np.inf)
            number = 2 if name == "Nature" else 20
            for _ in range(rounds):
                for column, call in calls.items():
                    started = time.perf_counter()
                    for _ in range(number):
                        call()
                    took = (time.perf_counter() - started) / number * 1e6
                    best[column] = min(best[column], took)
            records.append({"network": name, "rows": rows, **best})
    return records


def show(records: list[dict[str, Any]]) -> None:
    """Print the table."""
    columns = ("bare", "drawn", "Categorical", "agent.step")
    print(f"{'microseconds':14}{'rows':>6}" + "".join(f"{column:>13}" for column in columns))
    for line in records:
        cells = "".join(f"{line[c]:13.0f}" if c in line else f"{'-':>13}" for c in columns)
        print(f"{line['network']:14}{line['rows']:6}{cells}")


def main() -> None:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100, help="repetitions (default: 100)")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    records = measure(arguments.rounds)
    show(records)
    if arguments.out:
        machine = {"python": platform.python_version(), "torch": torch.__version__}
        result = {"machine": machine, "microseconds": records}
        arguments.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
