"""The part of the page of benchmarks that `sampling.py` writes."""

from __future__ import annotations

import json
from typing import Any

from collecting.cells import table_of

_INTRODUCTION = """## Samplers

Env steps per second that agents collect: env, network and all that is kept of a step.
`tests/benchmarks/sampling.py` measures them and writes this part. Contestants run in processes
of their own and are measured in turn; a figure is the median of the rounds.
"""
_MEANINGS = """
- All have the same network, T = 32 and one thread of torch in each process. CartPole and
  HalfCheetah: 64-64 with tanh, one body for the policy and one for the value. Pong: the Nature
  network, preprocessed in the standard way.
- **ours, serial**: `SerialSampler` over a native vector env, in one process, HalfCheetah on two
  threads; **central**: the same over two workers; **actors**: `WorkerSampler`.
- **envs alone**: no agent, and nothing is kept: what is left for ours to gain.
- **SB3**: `collect_rollouts` of its PPO. **TorchRL**, **Tianshou**: their collectors over envs in
  one process. **EnvPool**: two threads, in a plain loop with the same network.
- **Sample Factory**: two workers and a process that infers for both, without a learner, in a
  Python with gymnasium 0.29; later ones it does not take.
- Envs as slow as the network: envs that only use up time, as much for a row as the network does.
"""


def part(kept: dict[str, Any], command: str) -> str:
    """Return the part, in Markdown."""
    results = kept["results"]
    cells = [cell for cell in results.values() if "date" in cell]
    machine = ", ".join(f"{key} {value}" for key, value in kept["machine"].items())
    dates = sorted({cell["date"] for cell in cells})
    settings = {json.dumps(cell["settings"], sort_keys=True) for cell in cells}
    how = " or ".join(
        "{rounds} rounds of {seconds} s".format(**json.loads(one)) for one in settings
    )
    lines = [
        _INTRODUCTION,
        f"- Date: {' and '.join(dates)}; {how}. Machine: {machine}.",
        *(f"- {name} ran with: {text}." for name, text in kept["peers"].items()),
        f"\n```sh\n{command}\n```\n",
        "### What is compared\n" + _MEANINGS,
        "### Rates and aims\n",
        table_of(results),
    ]
    return "\n".join(lines)
