"""The ray backend beside plangym's Ray workers: the same rows, on the same cluster.

    python tests/benchmarks/ray_peer.py --out runs/ray_peer.json

plangym's `RayEnv` holds one env in each Ray actor and sends each its part of a batch. Both sides
have as many actors as there are processors here, in one cluster of this machine, and step the same
states with the same actions; what they see is compared. A case that plangym cannot run is told
with its error. Without plangym, which `tox -e bench` installs, there is nothing to compare with.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import ray
import ray_cluster
from stepping.cases import CARTPOLE, CHEETAH, PACMAN_RGB, Case, states_in_motion
from stepping.peer import Peer, check_same_work, version
from stepping.rounds import finding, interleaved, ratios, rows_per_second

from plangym_ext.run.files import write_json

CASES = [CARTPOLE, replace(CHEETAH, rows=1024), replace(PACMAN_RGB, rows=256)]
TARGET = 3.0


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=[case.name for case in CASES])
    parser.add_argument("--actors", type=int, default=2, help="of either side")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each side in a round")
    parser.add_argument("--out", type=Path, help="write all figures here, as JSON")
    return parser.parse_args()


def measured(case: Case, actors: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Return rows a second of both sides, and their ratio; or plangym's error."""
    with case.make(backend="ray", n_workers=actors) as env:
        states, actions = states_in_motion(env, case, case.rows)
        ours = env.step_batch(actions, states)
        try:
            peer = Peer(case, actors, "ray:RayEnv")
            their_states, their_actions = peer.states_of(env, states), list(actions)
            theirs = peer.step_batch(their_actions, their_states)
        except Exception as error:  # whatever plangym raises is its result
            text = str(error).strip().splitlines()
            return {"error": f"{type(error).__name__}: {text[-1] if text else ''}"}
        check_same_work(case, ours, theirs)
        sides = {
            "ours": lambda: env.step_batch(actions, states),
            "plangym": lambda: peer.step_batch(their_actions, their_states),
        }
        found = interleaved(
            {name: rows_per_second(step, case.rows) for name, step in sides.items()},
            rounds,
            seconds,
        )
        for worker in peer.env.workers:
            ray.kill(worker)
    return finding(
        f"{case.name} B={case.rows}, ours / plangym",
        ratios(found["ours"], found["plangym"]),
        "x",
        at_least=TARGET,
        **{f"{name} rows/s": rates for name, rates in found.items()},
    )


def row(name: str, found: dict[str, Any]) -> str:
    """Return a line of the table."""
    if "error" in found:
        return f"{name}: plangym fails: {found['error']}"
    ours, theirs = (found["beside"][f"{side} rows/s"]["median"] for side in ("ours", "plangym"))
    return (
        f"{found['name']}: {ours:,.0f} and {theirs:,.0f} rows/s, {found['median']:.2f} times "
        f"({found['min']:.2f} to {found['max']:.2f})"
    )


def main() -> None:
    options = parsed()
    if version() is None:
        print("plangym is not installed: there is nothing to compare with; see `tox -e bench`")
        return
    found: dict[str, Any] = {}
    with ray_cluster.running((2 * options.actors,)):  # room for the actors of both sides
        for case in CASES:
            if options.only and case.name not in options.only:
                continue
            found[case.name] = measured(case, options.actors, options.rounds, options.seconds)
            print(row(case.name, found[case.name]), flush=True)
    if options.out:
        write_json(options.out, found)


if __name__ == "__main__":
    main()
