"""Updates per second of SAC, TD3 and DDPG on the shapes of HalfCheetah, beside Stable-Baselines3.

    python tests/benchmarks/updates_from_replay.py --sb3-python PATH --sbx-python PATH

SBX is Stable-Baselines3 in JAX; it takes all processors, whatever `--threads` says. Batches of 256
rows of 17 observations and 6 actions, networks of 256-256; what is learned is noise. Each
contestant runs in processes of its own, in turn; "x 2" are two processes at once, each with half
of the threads, whose updates are added. Medians over rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from agent_runs.comparing import PEERS

from plangym_ext.run.files import write_json

HERE = Path(__file__).parent
#: Name -> program, precision, and processes at once.
CONTESTANTS = {
    "ours": ("ours.py", "float32", 1),
    "ours, bfloat16": ("ours.py", "bfloat16", 1),
    "ours x 2": ("ours.py", "float32", 2),
    "ours, bfloat16 x 2": ("ours.py", "bfloat16", 2),
    "sb3": ("sb3.py", "float32", 1),
    "sbx": ("sb3.py", "float32", 1),
}


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=["sac", "td3", "ddpg"], help="algorithms")
    parser.add_argument("--who", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--sb3-python", metavar="PATH", help="one that has stable_baselines3")
    parser.add_argument("--sbx-python", metavar="PATH", help="one that has sbx")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="of networks and what they learn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--out", type=Path, help="write all rates here, as JSON")
    return parser.parse_args()


def _python(who: str, options: argparse.Namespace) -> Any:
    """Return the interpreter that runs ours, or a peer; None: it was not given."""
    return getattr(options, f"{who}_python") if who in PEERS else sys.executable


def rate(who: str, algorithm: str, options: argparse.Namespace) -> float:
    """Return the updates per second of all processes of a contestant."""
    program, precision, count = CONTESTANTS[who]
    threads = str(max(1, options.threads // count))
    command = [_python(who, options), str(HERE / "replay_updates" / program), algorithm, precision]
    command += [threads, str(options.seconds), options.device]
    if who in PEERS:
        command.append(PEERS[who])
    env = {**os.environ, "OMP_NUM_THREADS": threads}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) for _ in range(count)
    ]
    told = [process.communicate()[0] for process in running]
    for process in running:
        if process.returncode:
            raise SystemExit(f"updates_from_replay: {who} ended with {process.returncode}")
    return sum(float(text.split()[-1]) for text in told)


def main() -> None:
    options = parsed()
    who = [name for name in options.who if name not in PEERS or _python(name, options)]
    found: dict[str, dict[str, list[float]]] = {}
    for algorithm in options.only or ["sac", "td3", "ddpg"]:
        rates: dict[str, list[float]] = {name: [] for name in who}
        for _ in range(options.rounds):
            for name in who:
                rates[name].append(rate(name, algorithm, options))
        found[algorithm] = rates
        medians = {name: statistics.median(numbers) for name, numbers in rates.items()}
        for name, number in medians.items():
            beside = f"{number / medians['sb3']:6.2f} x sb3" if "sb3" in medians else ""
            print(f"{algorithm:5} {name:20} {number:8.1f} updates/s {beside}", flush=True)
    if options.out:
        write_json(options.out, {"threads": options.threads, "rates": found})


if __name__ == "__main__":
    main()
