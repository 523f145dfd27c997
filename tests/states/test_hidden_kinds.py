"""Envs with hidden state: none is accepted and wrong in silence where the proof can see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).parents[1] / "benchmarks" / "hidden_state.py"

#: Places and moments, of which each shows within the proof's steps; and what must come of it.
EXACT = """
    Attribute, always; NestedObject, always; Slots, always; OrderOfKeys, always; Frozen, always
    NeverCopied, always; ForgetfulPickle, always; Partial, always; BoundMethod, always
    Count, always; Map, always; Accumulate, always; ByteArray, always; OwnGenerator, always
    PythonGenerator, always; BoundDraw, always; PureCache, always; PureTable, always
    WrapperRandom, always; LastHistory, always; WeakReference, always
    DroppedReference, always; WeakParent, always; OrderOfFrozenSet, always
"""
TOLD = """
    Closure, always; Generator, always; Expression, always; GetattrTrick, always
    DescriptorByInstance, always; AttributeOfFunction, always; Sqlite, always
    GlobalNumpy, always; GlobalPython, always; OwnSystemRandom, always; Thread, always
    Subprocess, always; Socket, always; Pipe, always; FileWritten, always; FileExists, always
    FilePosition, always; Finaliser, always; ClassNumber, always; SharedPool, always
    ContextVariable, always; FunctionDefault, always; Environ, always; Clock, always
    Pipe, ending; ClassIterator, always; ClassSlots, always; Metaclass, always
    OfOtherClass, always; OnEnum, always; ModuleCtypes, always; ModuleClosure, always
    ModuleCache, always; FunctionSwapped, always; CtypesArray, always
    ModuleMade, always; ModuleHeld, always; ModuleListed, always; ModuleLooked, always
    ModuleOfPackage, always; WeakElsewhere, always; NumpyBuffers, always; SignalMask, always
    OnLibrary, always; ThreadName, always; RareEntropy, always
"""

#: Shows seldom: the proof needs the time that it has by default.
SELDOM = "OrderOfSet, always; Lock, always"


def _kinds(text: str) -> list[str]:
    return [part.strip() for line in text.splitlines() for part in line.split(";") if part.strip()]


@pytest.mark.timeout(300)
# What is exact is compared with what was played whatever the proof says: a short one will do.
@pytest.mark.parametrize(
    ("exact", "told", "seconds"),
    [(EXACT, "", 0.03), ("", TOLD, 0.4), ("", SELDOM, 1.5)],
    ids=["exact", "told", "seldom"],
)
def test_no_kind_that_shows_within_the_proof_is_accepted_and_wrong(tmp_path, exact, told, seconds):
    kinds = [*_kinds(exact), *_kinds(told)]
    command = [sys.executable, "-P", str(PROGRAM), "--kinds", *kinds, "--out", str(tmp_path)]
    # Short, and in forks of one process: the whole table has its own program.
    env = {**os.environ, "PLANGYM_EXT_PROOF_SECONDS": str(seconds)}
    done = subprocess.run(
        [*command, "--forked", "--jobs", "2", "--steps", "1000", "--bound", "0"],
        capture_output=True,
        text=True,
        timeout=600,
        env=env,
    )
    paths = {kind: tmp_path / f"{kind.replace(', ', '-').replace(' ', '_')}.json" for kind in kinds}
    assert all(path.exists() for path in paths.values()), done.stderr[-2000:]
    found = {kind: json.loads(path.read_text()) for kind, path in paths.items()}
    outcomes = {kind: one["outcome"] for kind, one in found.items()}
    bad = {k: found[k] for k, word in outcomes.items() if "wrong" in word or word == "broken"}
    assert not bad, Counter(outcomes.values())
    assert {k for k in _kinds(exact) if outcomes[k] != "exact"} == set()
    # On a busy machine a short proof may see less than the audits then do: both say no.
    said_no = ("refused", "told in use")
    assert {k: found[k] for k in _kinds(told) if outcomes[k] not in said_no} == {}
    assert done.returncode == 0, done.stderr[-2000:]
