"""What forged rows, files and checkpoints do: no code, no crash, no address, no hang, typed errors.

    python tests/benchmarks/forged.py --rows 200000 --files 50000 --checkpoints 5000

Rows of twenty envs with right checksums, files of states, explorations, trees and settings, and
checkpoints with right seals are changed by bytes, by numbers, by structure, and by names that
libraries look up. Each is used in a forked child: a row is stepped three times, a file is read and
what it holds is used, a run goes on from a checkpoint for a round. What is done is kept in the
folder after every child, so that the program goes on where it was stopped. It ends with status 1
if a mutant did anything else than to be accepted or refused.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from forged_kinds import checkpoints, files, rows
from forged_kinds.outcome import GOOD, batch

from plangym_ext.errors import MissingExtra, UnknownName
from plangym_ext.run.files import write_json

#: Kind -> what makes mutants of a target, the targets, and how many are used in one child.
KINDS: dict[str, tuple[Any, tuple[str, ...], int]] = {
    "rows": (rows.Rows, tuple(rows.TARGETS), 500),
    "files": (files.Files, tuple(files.TARGETS), 250),
    "checkpoints": (checkpoints.CheckpointFiles, tuple(checkpoints.TARGETS), 10),
}


def fuzzed(kind: str, name: str, count: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Use mutants until so many of a target are done; return what came of all of them."""
    path = folder / f"{kind}-{name.replace('/', '_').replace(' ', '_')}.json"
    found: dict[str, Any] = {"done": 0, "seconds": 0.0, "outcomes": {}, "examples": {}}
    if path.exists():
        found = json.loads(path.read_text())
    if found["done"] >= count:
        return found
    make, _, size = KINDS[kind]
    try:
        made = make(name)
    except (MissingExtra, UnknownName, ImportError) as error:
        return {**found, "skipped": str(error).partition("\n")[0][:60]}
    try:
        while found["done"] < count:
            began, first = time.monotonic(), found["done"]
            numbers = list(range(first, min(first + size, count)))
            outcomes = Counter(found["outcomes"])
            mutants = [seed * 10**7 + number for number in numbers]
            for number, word in batch(mutants, made.use).items():
                outcomes[word.partition(":")[0]] += 1
                if word not in GOOD:
                    found["examples"].setdefault(word, number)
            found["outcomes"], found["done"] = dict(outcomes), first + len(numbers)
            found["seconds"] += time.monotonic() - began
            write_json(path, found)
            print(f"{kind} {name}: {found['done']:,} of {count:,} {dict(outcomes)}", flush=True)
    finally:
        made.close()
    return found


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return the lines of a table of all targets."""
    lines = ["| kind | of | mutants | refused | accepted | other | anything else | minutes |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|")
    for key, one in found.items():
        outcomes = one["outcomes"]
        bad = sum(number for word, number in outcomes.items() if word not in GOOD)
        told = outcomes.get("told", 0) + outcomes.get("error of the env", 0)
        kind, _, name = key.partition(" ")
        lines.append(
            f"| {kind} | {name} | {one.get('skipped', one['done'])} | {outcomes.get('refused', 0)} "
            f"| {outcomes.get('accepted', 0)} | {told} | {bad} | {one['seconds'] / 60:.1f} |"
        )
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Fuzz what is asked for; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, metavar="N", help="mutants, in all")
    parser.add_argument("--only", nargs="*", default=[""], metavar="TEXT", help="targets by name")
    parser.add_argument("--seed", type=int, default=0, help="others are other mutants")
    parser.add_argument("--out", type=Path, default=Path("runs/forged"), help="folder of results")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = {}
    for kind, (_, targets, _) in KINDS.items():
        chosen = [name for name in targets if any(text in name for text in options.only)]
        total = getattr(options, kind)
        for name in chosen if total else ():
            found[f"{kind} {name}"] = fuzzed(
                kind, name, -(-total // len(chosen)), options.out, options.seed
            )
    write_json(options.out / "forged.json", found)
    print("\n".join(table(found)))
    bad = False
    for key, one in found.items():
        for word, number in one["examples"].items():
            bad = True
            print(f"{key}, mutant {number}: {word}")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
