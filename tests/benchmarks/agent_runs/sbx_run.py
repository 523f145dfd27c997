"""One run of SBX, Stable-Baselines3 in JAX, for its speed alone: settings on standard input."""

from __future__ import annotations

import json
import sys
import time

import sbx
from flax import linen

from agent_runs.sb3_run import model_of, versions, write

_ACTIVATIONS = {"tanh": linen.tanh, "relu": linen.relu}


def main() -> None:
    """Train with the envs of Stable-Baselines3, once a first round has been compiled."""
    request = json.load(sys.stdin)
    settings = request["settings"]
    model = model_of(settings, sbx, _ACTIVATIONS)
    # One round: what it takes to compile is not counted.
    model.learn(1)
    began = time.perf_counter()
    model.learn(settings["steps"])
    found = {
        "steps": model.num_timesteps,
        "seconds": time.perf_counter() - began,
        "training": None,
        "evaluation": [],
        "curve": [],
        "versions": versions("sbx-rl", "jax"),
    }
    write(request["out"], found)


if __name__ == "__main__":
    main()
