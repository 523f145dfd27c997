"""Envs with hidden state: are they exact, refused, or found by an audit? None may be silent.

    python tests/benchmarks/hidden_state.py --out runs/hidden_state --page docs/benchmarks.md

Every kind keeps a number in one place and shows it at one moment; see `hidden_kinds`. It is made,
played, and restored in processes of its own, with limits. What is done is kept in the folder, so
that the program goes on where it was stopped. It ends with status 1 if a kind was accepted and
wrong in silence although it shows within the steps of a proof, or if its trial came to no result.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from hidden_kinds.kinds import kinds
from hidden_kinds.outcomes import OUTCOMES, outcome_of, page
from hidden_kinds.trial import written
from table.sections import write_section


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="kinds by a part")
    parser.add_argument("--kinds", nargs="+", metavar="KIND", help="these alone, by full name")
    parser.add_argument("--steps", type=int, default=4000, help="that each kind is played for")
    parser.add_argument("--forked", action="store_true", help="fork this process for each role")
    parser.add_argument("--bound", type=float, default=60.0, help="seconds until an audit tells")
    parser.add_argument("--jobs", type=int, default=1, help="kinds at a time")
    parser.add_argument("--again", nargs="+", default=[], help="outcomes to try again")
    parser.add_argument("--out", type=Path, default=Path("runs/hidden_state"), help="folder")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    parser.add_argument("--role", nargs=5, help=argparse.SUPPRESS)
    return parser.parse_args()


def tried(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the outcome of a kind, from the folder if it is there."""
    path = options.out / f"{kind.replace(', ', '-').replace(' ', '_')}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        if found["outcome"] not in options.again:
            return found
    begun = time.monotonic()
    found = outcome_of(kind, options.bound, options.steps, forked=options.forked)
    path.write_text(json.dumps(found, indent=1))
    took, text = time.monotonic() - begun, " ".join(found.get("message", "").split())[-150:]
    print(f"{kind}: {found['outcome']} ({took:.0f} s) {text}", flush=True)
    return found


def main() -> int:
    options = parsed()
    if options.role:
        role, kind, folder, seconds, steps = options.role
        written(role, kind, Path(folder), float(seconds), int(steps))
        sys.stdout.flush()
        os._exit(0)  # whatever threads an env has left
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = options.kinds or [k for k in kinds() if any(text in k for text in options.only)]
    # Those that show at once first.
    chosen.sort(key=lambda kind: not kind.endswith("always"))
    with ThreadPoolExecutor(options.jobs) as pool, contextlib.suppress(KeyboardInterrupt):
        outcomes = list(pool.map(lambda kind: tried(kind, options), chosen))
    found = dict(zip(chosen, outcomes, strict=True))
    text = page(found, options.bound)
    print(text)
    if options.page:
        write_section(options.page, "hidden state", text)
    assert {one["outcome"] for one in outcomes} <= {*OUTCOMES}
    return int(any(one["outcome"] in ("wrong", "broken") for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
