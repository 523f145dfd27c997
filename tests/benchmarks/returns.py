"""What return functions cost per call, in numpy and in torch on this processor.

Functions take turns and the fastest round counts: on a shared machine the minimum is
what repeats.

    python tests/benchmarks/returns.py --rounds 200 --out returns.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.learn import returns as functions

#: Milliseconds for the generalised advantage estimate of 128 x 64 numpy rows.
LIMIT = 0.2


def draw(rows: int, envs: int) -> dict[str, Any]:
    """Random arguments, float64, one row in fifty an end."""
    rng = np.random.default_rng(0)
    return {
        "reward": rng.normal(size=(rows, envs)),
        "value": rng.normal(size=(rows, envs)),
        "terminated": rng.random((rows, envs)) < 0.02,
        "bootstrap": rng.normal(size=envs),
    }


def cases(rows: int, envs: int) -> dict[str, Callable[[], Any]]:
    """A call per line of the table."""
    given = draw(rows, envs)
    libraries = {"numpy": given}
    with contextlib.suppress(ImportError):
        import torch

        libraries["torch"] = {name: torch.from_numpy(array) for name, array in given.items()}
    found = {}
    for library, arguments in libraries.items():
        rest = {name: array for name, array in arguments.items() if name != "value"}
        more = {
            **arguments,
            "truncated": arguments["terminated"],
            "final_value": arguments["value"],
            "valid": ~arguments["terminated"],
        }
        found |= {
            f"{library} returns": lambda rest=rest: functions.returns(**rest, discount=0.99),
            f"{library} gae": lambda a=arguments: functions.gae(**a, discount=0.99, lam=0.95),
            f"{library} gae, truncated and valid": lambda m=more: functions.gae(
                **m, discount=0.99, lam=0.95
            ),
            f"{library} vtrace": lambda a=arguments: functions.vtrace(
                **a, discount=0.99, log_ratio=a["value"]
            ),
            f"{library} multistep, n = 5": lambda a=arguments: functions.multistep(
                **a, discount=0.99, n=5
            ),
        }
    return found


def main() -> None:
    """Measure, print the table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=128, metavar="T")
    parser.add_argument("--envs", type=int, default=64, metavar="B")
    parser.add_argument("--rounds", type=int, default=200, metavar="N")
    parser.add_argument("--out", type=pathlib.Path, default=None, metavar="FILE")
    options = parser.parse_args()
    calls = cases(options.rows, options.envs)
    for call in calls.values():
        call()  # compiles
    seconds = dict.fromkeys(calls, float("inf"))
    for _ in range(options.rounds):
        for name, call in calls.items():
            seconds[name] = min(seconds[name], timeit.timeit(call, number=5) / 5)
    for name, least in seconds.items():
        print(f"{name:<32} {1e3 * least:8.3f} ms")
    met = 1e3 * seconds["numpy gae"] <= LIMIT
    print(f"numpy gae {'within' if met else 'beyond'} {LIMIT} ms")
    if options.out:
        report = {"rows": options.rows, "envs": options.envs, "limit_ms": LIMIT, "met": met}
        report["milliseconds"] = {name: 1e3 * least for name, least in seconds.items()}
        options.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
