"""What operations on an `Array` cost, beside numpy's and parllel's.

Every operation is timed in turn, ours and numpy's alternating, and the fastest
round counts: on a shared machine the minimum is what repeats.

    python tests/benchmarks/arrays.py --rounds 200 --out arrays.json
"""

from __future__ import annotations

import argparse
import json
import pathlib
import pickle
import platform
import timeit
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.arrays import Array

# parllel at bcdc670 on 2 cores, Python 3.11 and numpy 2.4, in microseconds:
# taking a view records the index (0.5), using it resolves the index (4).
# Printed where parllel's Array is not installed (a package of that name on the
# package index is another project).
RECORDED = {"view": 0.5, "read": 4.5, "write": 4.5}


class Least:
    """What numpy's protocol costs at least: rows of an array, without bounds or window."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getitem__(self, row: int) -> Least:
        return Least(self.data[row])

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.data


class Case(NamedTuple):
    """One line of the table."""

    name: str
    code: str  # statement on an array `a` of ours, `{a}` for all three
    limit: Callable[[float], float] | None = None  # microseconds, of numpy's
    theirs: str = ""  # entry of RECORDED
    plain: str = ""  # numpy's statement, if it differs


def view_limit(_: float) -> float:
    """Taking a view: half a microsecond."""
    return 0.5


def value_limit(numpy: float) -> float:
    """Reading and writing: twice numpy and half a microsecond."""
    return 2 * numpy + 0.5


CASES = [
    Case("view of a row", "{a}[3]", view_limit, "view"),
    Case("view of an element", "{a}[3, 2]", view_limit, "view"),
    Case("view of a window", "{a}[1:9]", view_limit, "view"),
    Case("view of a column", "{a}[:, 2]", view_limit, "view"),
    Case("view, every second row", "{a}[::2]", view_limit, "view"),
    Case("view picked by 16 pairs", "{a}[i, j]", view_limit, "view"),
    Case("  copying the two index arrays", "i.copy(), j.copy()"),
    Case("view of the next rows", "{w}.next", view_limit, "view", "n[2:10]"),
    Case("read an element", "{a}[3, 2].to_ndarray()", value_limit, "read", "n[3, 2]"),
    Case("read an element of a row", "{r}[2].to_ndarray()", value_limit, "read", "nr[2]"),
    Case("read a row", "{a}[3].to_ndarray()", value_limit, "read", "n[3]"),
    Case("read a row as numpy", "np.asarray({a}[3])", value_limit, "read", "n[3]"),
    Case("  the same of the least class", "np.asarray(least[3])"),
    Case("read a column", "{a}[:, 2].to_ndarray()", None, "read", "n[:, 2]"),
    Case("read every second row", "{a}[::2].to_ndarray()", None, "read", "n[::2]"),
    Case("read 16 pairs", "{a}[i, j].to_ndarray()", None, "read", "n[i, j]"),
    Case("write an element", "{a}[3, 2] = 1.5", value_limit, "write"),
    Case("write an element of a row", "{r}[2] = 1.5", value_limit, "write"),
    Case("write an element of a window", "{w}[3, 2] = 1.5", value_limit, "write"),
    Case("write a row", "{a}[3] = row", value_limit, "write"),
    Case("write a row of a window", "{w}[3] = row", value_limit, "write"),
    Case("write all of a row", "{r}[...] = row", value_limit, "write"),
    Case("write everything", "{a}[...] = 1.5", value_limit, "write"),
    Case("rotate, 64 rows", "small.rotate()"),
    Case("rotate, 1 M rows in 16 k blocks", "large.rotate()"),
    Case("rotate, 64 rows, padding 8", "padded.rotate()"),
    Case("pickle a shared view", "pickle.dumps(shared)", lambda _: 15.0),
    Case("pickle a shared picked view", "pickle.dumps(picked)", lambda _: 15.0),
    Case("unpickle a shared view", "pickle.loads(message)"),
]


def make_namespace() -> dict[str, Any]:
    """Return what the statements refer to."""
    shape = (64, 8)
    ours, plain = Array(shape, np.float32, padding=1), np.zeros(shape, np.float32)
    shared = Array((4096, 64), np.float32, feature_shape=(64,), storage="shared", padding=1)
    space: dict[str, Any] = {
        "a": ours,
        "r": ours[3],
        "w": ours[1:9],
        "n": plain,
        "nr": plain[3],
        "least": Least(plain),
        "nw": plain[1:9],
        "i": np.arange(16),
        "j": np.arange(16) % 8,
        "row": np.ones(8, np.float32),
        "small": Array(shape, np.float32, full_size=128),
        "large": Array(shape, np.float32, full_size=1 << 20),
        "padded": Array(shape, np.float32, padding=8),
        "shared": shared[3],
        "picked": shared[np.arange(2), np.arange(2)],
        "message": pickle.dumps(shared[3]),
        "np": np,
        "pickle": pickle,
    }
    try:
        from parllel import Array as Theirs
    except ImportError:
        return space
    theirs = Theirs(batch_shape=shape, dtype=np.float32, padding=1)
    return {**space, "p": theirs, "pr": theirs[3], "pw": theirs[1:9]}


def measure(rounds: int) -> list[dict[str, Any]]:
    """Return one record per case; times in microseconds."""
    space = make_namespace()
    timers: list[dict[str, timeit.Timer]] = []
    for case in CASES:
        codes = {"ours": case.code.format(a="a", r="r", w="w")}
        if case.plain or "{" in case.code:
            codes["numpy"] = case.plain or case.code.format(a="n", r="nr", w="nw")
        if "p" in space and "{" in case.code:
            codes["parllel"] = case.code.format(a="p", r="pr", w="pw")
        timers.append({who: timeit.Timer(code, globals=space) for who, code in codes.items()})
    best: list[dict[str, float]] = [{} for _ in CASES]
    number = 200
    for _ in range(rounds):
        for found, by_whom in zip(best, timers, strict=True):
            for who, timer in by_whom.items():
                took = timer.timeit(number) / number * 1e6
                found[who] = min(took, found.get(who, took))
    return [record(case, found) for case, found in zip(CASES, best, strict=True)]


def record(case: Case, best: dict[str, float]) -> dict[str, Any]:
    """Return the line of one case."""
    limit = case.limit(best.get("numpy", 0.0)) if case.limit else None
    return {
        "name": case.name,
        "ours": best["ours"],
        "numpy": best.get("numpy"),
        "limit": limit,
        "within": None if limit is None else best["ours"] <= limit,
        "parllel": best.get("parllel", RECORDED.get(case.theirs)),
        "parllel_recorded": "parllel" not in best,
    }


def show(records: list[dict[str, Any]]) -> None:
    """Print the table."""

    def cell(value: float | None, mark: str = "") -> str:
        return f"{mark}{value:.2f}" if value is not None else "-"

    print(f"{'microseconds':34}{'ours':>9}{'numpy':>9}{'limit':>9}{'':>6}{'parllel':>9}")
    for line in records:
        verdict = {None: "", True: "ok", False: "OVER"}[line["within"]]
        mark = "~" if line["parllel_recorded"] else ""
        print(
            f"{line['name']:34}{cell(line['ours']):>9}{cell(line['numpy']):>9}"
            f"{cell(line['limit']):>9}{verdict:>6}{cell(line['parllel'], mark):>9}"
        )
    if any(line["parllel_recorded"] for line in records):
        print("~ recorded once; parllel's Array is not installed here")


def main() -> None:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100, help="repetitions (default: 100)")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file to write")
    arguments = parser.parse_args()
    records = measure(arguments.rounds)
    show(records)
    space = make_namespace()
    sizes = {name: len(pickle.dumps(space[name])) for name in ("shared", "picked")}
    print(f"pickled bytes: view {sizes['shared']}, picked view {sizes['picked']}")
    if arguments.out:
        machine = {"python": platform.python_version(), "numpy": np.__version__}
        result = {"machine": machine, "bytes": sizes, "microseconds": records}
        arguments.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
