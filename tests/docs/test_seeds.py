"""The page on other libraries' features: its tests exist, and its counts are those of its rows."""

from __future__ import annotations

import ast
import collections
import functools
import re

STATES = ("works", "partly", "not")


def rows_of(text):
    """Return the cells of each row of the tables in a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return rows[2:]


@functools.cache
def functions_of(path):
    """Return the names of all functions and methods of a file."""
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_row_names_tests_that_exist_and_counts_are_those_of_the_rows(root):
    head, *sections = (root / "docs/seeds.md").read_text().split("\n## ")
    counts = collections.Counter()
    for section in sections:
        library, _, text = section.partition("\n")
        for feature, state, shown in rows_of(text):
            assert state in STATES, feature
            assert ("Missing: " in shown) == (state != "works"), feature
            tests = re.findall(r"`([\w/]+\.py)::(test_\w+)`", shown)
            assert tests or state == "not", feature
            for file, name in tests:
                assert name in functions_of(root / "tests" / file), (feature, file, name)
            counts[library, state] += 1
            counts["all", state] += 1
    told = {one: [int(n) for n in row] for one, *row in rows_of(head)}
    assert told == {one: [counts[one, state] for state in STATES] for one, _ in counts}
