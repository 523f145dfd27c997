"""A slice of what `tests/benchmarks/forged.py` does for hours."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import PlangymExtError
from plangym_ext.states.envelope import HEADER

PROGRAM = Path(__file__).parents[1] / "benchmarks" / "forged.py"
#: Outcomes that a mutant may have; the program ends with 1 for any other.
GOOD = {"refused", "told", "accepted", "error of the env"}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "only", "count"),
    [
        ("rows", ["Maze", "Structured 0", "CartPole-v1", "Taxi"], 300),
        ("files", ["states", "set", "particles", "tree", "settings"], 250),
        ("checkpoints", ["dqn"], 6),
    ],
)
def test_mutants_are_accepted_or_refused_and_nothing_else(scripts, tmp_path, kind, only, count):
    words = [f"--{kind}", str(count), "--only", *only, "--out", str(tmp_path)]
    done = scripts.run(PROGRAM, words, folder=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads((tmp_path / "forged.json").read_text())
    assert len(found) >= len(only)
    for one in found.values():
        assert sum(one["outcomes"].values()) == one["done"] >= count // len(found)
        assert one["outcomes"].keys() <= GOOD
        # Settings need a package for YAML: where it is not, each file is told so.
        assert {"refused", "told"} & one["outcomes"].keys()
    # Again: what is done is not done again.
    again = scripts.run(PROGRAM, words, folder=tmp_path)
    assert again.returncode == 0
    assert " of " not in again.stdout.partition("|")[0]


@pytest.mark.parametrize(
    "name",
    ["CartPole-v1", "Acrobot-v1", "Pendulum-v1", "Taxi-v4", "FrozenLake-v1", "Blackjack-v1"],
)
def test_the_greatest_numbers_in_any_place_raise_nothing_but_our_errors(name):
    env = plangym_ext.make(name, backend="serial", audit="off")
    with env, np.errstate(all="ignore"):
        good = env.reset(seed=0)[0][None]
        action = [env.sample_action()]
        # Where an episode is over, a step counts the steps beyond.
        rows = [good, env.step_batch(action, good).states]
        size = int(good[0, 8:12].view("<u4")[0])
        for row in rows:
            for at in range(HEADER, HEADER + size):
                for number in (2**63 - 1, -(2**63), 2**62 + 1):
                    forged = row.copy()
                    word = np.array([number]).view(np.uint8)
                    forged[0, at : at + 8] = word[: len(forged[0, at : at + 8])]
                    env.envelope.seal(forged, size)
                    with contextlib.suppress(PlangymExtError):
                        env.step_batch(action, forged)


def test_a_crash_a_hang_and_an_error_of_the_library_are_told(monkeypatch):
    monkeypatch.syspath_prepend(PROGRAM.parent)
    import os
    import signal

    from forged_kinds import outcome

    monkeypatch.setattr(outcome, "SECONDS", 0.2)

    def use(number):
        if number == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        while number == 3:
            pass
        return outcome.outcome(lambda: "accepted" if number % 2 == 0 else {}[1], (OSError,))

    found = outcome.batch([0, 1, 2, 3, 4, 5], use)
    assert [found[n] for n in (0, 1, 2, 3, 4)] == [
        *("accepted", "crash SIGSEGV", "accepted", "hang", "accepted")
    ]
    assert found[5].startswith("raw KeyError at test_forged_slice.py")
