"""Updates per second of SAC, TD3 and DDPG on the shapes of HalfCheetah, beside Stable-Baselines3.

    python tests/benchmarks/updates_from_replay.py --sb3-python PATH --sbx-python PATH

SBX is Stable-Baselines3 in JAX; it takes all processors, whatever `--threads` says. Batches of 256
rows of 17 observations and 6 actions, networks of 256-256; what is learned is noise. Each
contestant runs in processes of its own, in turn; "x 2" are two processes at once, each with half
of the threads, whose updates are added. "Products alone" are those of one update and nothing else,
each called as for a single update. Medians over rounds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_runs.comparing import PEERS
from stepping import machine
from table.sections import write_section

from plangym_ext.run.files import write_json

HERE = Path(__file__).parent
#: Name -> program, precision, and processes at once.
CONTESTANTS = {
    "sb3": ("sb3.py", "float32", 1),
    "sbx": ("sb3.py", "float32", 1),
    "ours": ("ours.py", "float32", 1),
    "ours, bfloat16": ("ours.py", "bfloat16", 1),
    "ours x 2": ("ours.py", "float32", 2),
    "ours, bfloat16 x 2": ("ours.py", "bfloat16", 2),
    "products alone": ("products.py", "float32", 1),
    "products alone, bfloat16": ("products.py", "bfloat16", 1),
}
ALGORITHMS = ("sac", "td3", "ddpg")


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=ALGORITHMS, default=ALGORITHMS)
    parser.add_argument("--who", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--sb3-python", metavar="PATH", help="one that has stable_baselines3")
    parser.add_argument("--sbx-python", metavar="PATH", help="one that has sbx")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="of networks and what they learn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/updates_from_replay.json"),
        help="what was measured; what is not measured again stays (default: %(default)s)",
    )
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
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


def measured(algorithm: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the updates per second of all contestants, in turn, round by round."""
    who = [name for name in options.who if name not in PEERS or _python(name, options)]
    # Two processes have a thread each at least, and products lie on processors here.
    if options.threads < 2:
        who = [name for name in who if not name.endswith("x 2")]
    if options.device != "cpu":
        who = [name for name in who if not name.startswith("products")]
    before, rates = machine.load(), {name: [] for name in who}
    for _ in range(options.rounds):
        for name in who:
            rates[name].append(rate(name, algorithm, options))
    return {
        "date": datetime.date.today().isoformat(),
        "machine": machine.described() | machine.versions("torch"),
        "load": [before, machine.load()],
        "threads": options.threads,
        "device": options.device,
        "rates": rates,
    }


def rows(algorithm: str, found: Mapping[str, Any]) -> Iterator[str]:
    """Rows of the table, one of each contestant."""
    medians = {name: statistics.median(rates) for name, rates in found["rates"].items()}
    for name, rates in found["rates"].items():
        beside = (
            f"{medians[name] / medians[peer]:.2f}" if peer in medians else ""
            for peer in ("sb3", "sbx")
        )
        cells = [
            f"{algorithm}, {found['device']}, {found['threads']}",
            name,
            f"{medians[name]:,.0f} ({min(rates):,.0f} to {max(rates):,.0f})",
            *beside,
        ]
        yield f"| {' | '.join(cells)} |"


def page(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """The part of the page of benchmarks."""
    last = max(kept.values(), key=lambda found: found["date"])
    versions = ", ".join(f"{key} {value}" for key, value in last["machine"].items() if value)
    loads = [one for found in kept.values() for one in found["load"]]
    lines = [
        "## Updates from a replay",
        "",
        "`tests/benchmarks/updates_from_replay.py`: updates per second of batches of 256 rows of",
        "17 observations and 6 actions, networks of 256-256, each contestant in processes of its",
        "own, in turn; medians, least and greatest of the rounds. `x 2` are two runs at once, each",
        "with half of the threads, whose updates are added. SBX takes all processors. Products",
        "alone are those of one update, each called as ours calls it for a single update, with",
        "nothing between them. (TD3's target networks are asked for two updates at once.)",
        "",
        f"({last['date']}; load {min(loads):.1f} to {max(loads):.1f}; {versions})",
        "",
        "| algorithm, device, threads | contestant | updates/s | x SB3 | x SBX |",
        "|---|---|---:|---:|---:|",
    ]
    for key in sorted(kept):
        lines += rows(key.partition(",")[0], kept[key])
    return "\n".join(lines)


def main() -> None:
    options = parsed()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    for algorithm in options.only:
        found = measured(algorithm, options)
        kept[f"{algorithm}, {options.device}, {options.threads}"] = found
        write_json(options.out, kept)
        print("\n".join(rows(algorithm, found)), flush=True)
    if options.page:
        write_section(options.page, "updates from replay", page(kept))


if __name__ == "__main__":
    main()
