"""The program that plays benchmarks: what it counts, and that it never loses an episode."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from plangym_ext.envs.sokoban import SokobanEnv

FOLDER = Path(__file__).parents[1] / "benchmarks"
LEVEL = """; 0
#######
#@$ . #
#     #
# $   #
# .   #
#######
"""


@pytest.fixture(scope="module")
def scoring():
    """The parts of the program, which are no installed package."""
    sys.path.insert(0, str(FOLDER))
    try:
        from scoring import anchors, atari, games_page, kept, page, sokoban
        from scoring.cells import Cell
        from table import sections

        yield {
            "anchors": anchors,
            "atari": atari,
            "games_page": games_page,
            "kept": kept,
            "page": page,
            "sokoban": sokoban,
            "Cell": Cell,
            "sections": sections,
        }
    finally:
        sys.path.remove(str(FOLDER))
        for name in [n for n in sys.modules if n.partition(".")[0] in ("scoring", "table")]:
            del sys.modules[name]


def test_boxes_are_matched_with_targets_at_the_least_distance(scoring):
    env = SokobanEnv(levels=[LEVEL])
    obs, _ = env.reset()
    # 2 to the right, and 1 down; the other way round it would be 5 and 4.
    assert scoring["sokoban"].matched_distance(obs[None]).tolist() == [3.0]
    env.step(3)
    assert scoring["sokoban"].matched_distance(env.step(3)[0][None]).tolist() == [1.0]


def test_budgets_are_equal(scoring):
    atari, sokoban = scoring["atari"], scoring["sokoban"]
    for cell in atari.cells():
        assert atari.planner_of(cell).max_model_steps == 116
    for cell in sokoban.cells():
        planner = sokoban.planner_of(cell)
        assert planner.num_simulations * planner.num_expansions == 50


def test_no_ops_are_drawn_by_the_seed(scoring):
    drawn = [scoring["atari"].no_ops(seed) for seed in range(200)]
    assert drawn == [scoring["atari"].no_ops(seed) for seed in range(200)]
    assert set(drawn) <= set(range(31))
    assert min(drawn) == 0
    assert max(drawn) == 30


def test_episodes_are_kept_as_they_end_and_those_of_other_options_put_aside(scoring, tmp_path):
    Cell, Kept = scoring["Cell"], scoring["kept"].Kept  # noqa: N806
    path = tmp_path / "deep" / "kept.json"
    cell = Cell("control", "Pendulum-v1", "icem", {"horizon": 3}, ((0,), (1, 2), (10,)))
    kept = Kept(path, {"python": "3"})
    assert kept.missing(cell) == [(0,), (1, 2), (10,)]
    kept.add(cell, {"10": {"score": 1.0}, "1": {"score": 2.0}})
    again = Kept(path, {"python": "4"})
    assert again.missing(cell) == [(0,), (1, 2)]
    again.add(cell, {"2": {"score": 3.0}})
    assert list(again.episodes(cell)) == ["1", "2", "10"]
    assert [row["machine"]["python"] for row in again.episodes(cell).values()] == ["3", "4", "3"]
    other = Cell("control", "Pendulum-v1", "icem", {"horizon": 4}, ((0,),))
    assert again.missing(other) == [(0,)]
    again.add(other, {"0": {"score": 4.0}})
    content = json.loads(path.read_text())
    assert list(content["superseded"][0]["episodes"]) == ["1", "2", "10"]
    assert list(content["cells"][other.key]["episodes"]) == ["0"]


def test_games_are_counted_beside_their_published_scores(scoring, tmp_path):
    atari, anchors = scoring["atari"], scoring["anchors"].ANCHORS
    kept = scoring["kept"].Kept(tmp_path / "games.json", {"python": "3"})

    def play(game, planner, calls, *scores):
        cell = atari.game_cell(game, planner, calls, tuple(range(len(scores))))
        assert atari.planner_of(cell).max_model_steps == calls
        rows = [{"score": score, "model_steps": 116, "seconds": 0.5} for score in scores]
        kept.add(cell, {str(seed): row for seed, row in enumerate(rows)})

    # Means are compared: 3.6 is published of Freeway, -1.4 of Pong.
    play("Freeway", "rollout-iw", 116, 3.0, 4.2)
    play("Pong", "rollout-iw", 116, -2.0, 0.0)
    play("Alien", "rollout-iw", 116, 8549.0)
    play("Alien", "rollout-iw", 12, 9000.0)
    play("Pong", "sts", 116, -2.0)
    play("Freeway", "rollout-iw", 464, 10.0)
    text = scoring["games_page"].part(kept)
    assert "116 calls: 2 of 3 games at or above the published score" in text
    assert "Below: Alien." in text
    assert "12 calls: 1 of 1 games at or above the published score" in text
    assert "sts: 0 of 1 games" in text
    # At 32 s 10 is published of Freeway, 18 of Pong.
    assert "| Freeway | 10 | 3.6 (2) | **10.0** (1) |" in text
    assert "of each: 1 of 2 games" in text
    assert "mcts: 0 of 0 games" in text
    assert "| Freeway | 0 | 29.6 | 3.6 |  | **3.6** (2) | 0.12 |" in text
    # The middle one of 3.6 / 29.6, 19.7 / 30 and 8321.2 / 6647.2.
    assert "normalised median 0.66" in text
    assert len(anchors) == 49
    assert anchors["Pong"].normalised(-20.7) == 0.0
    assert anchors["Pong"].normalised(9.3) == 1.0


def test_a_part_of_a_page_is_replaced_and_the_rest_stays(scoring, tmp_path):
    write, page = scoring["sections"].write_section, tmp_path / "page.md"
    page.write_text("# Title\n")
    write(page, "a", "first")
    write(page, "b", "second\n\n")
    write(page, "a", "third")
    text = page.read_text()
    assert text.startswith("# Title\n")
    assert "first" not in text
    assert text.index("third") < text.index("<!-- end a -->") < text.index("second")


def program(tmp_path, *arguments):
    levels = tmp_path / "levels.txt"
    levels.write_text("".join(LEVEL.replace("; 0", f"; {i}") + "\n" for i in range(3)))
    out = ["--out", str(tmp_path / "kept.json"), "--levels", str(levels)]
    return [sys.executable, str(FOLDER / "quality.py"), *arguments, *out]


@pytest.mark.slow
def test_the_program_plays_resumes_and_writes_its_part(tmp_path):
    command = program(tmp_path, "sokoban", "--seeds", "2", "--processes", "1")
    page = tmp_path / "page.md"
    page.write_text("# Benchmarks\n")
    options = {
        "cwd": tmp_path,
        "capture_output": True,
        "text": True,
        "timeout": 110,
        "check": True,
    }
    first = subprocess.run([*command, "--planners", "graph, H=10"], **options)
    assert "graph, H=10: " in first.stdout
    kept = json.loads((tmp_path / "kept.json").read_text())
    rows = kept["cells"]["sokoban levels graph, H=10"]["episodes"]
    assert list(rows) == ["0", "1"]
    assert all(row["score"] >= 1 and row["model_steps"] > 0 for row in rows.values())
    # Nothing is missing: nothing is played again.
    subprocess.run([*command, "--planners", "graph, H=10", "--page", str(page)], **options)
    assert json.loads((tmp_path / "kept.json").read_text()) == kept
    text = page.read_text()
    assert text.startswith("# Benchmarks\n")
    assert re.search(r"\| graph, H=10 \| [0-9.]+ % \[.*\] of 2 \|", text)
    assert "sokoban graph, H=10 (2 of 200)" in text
    assert "numpy" in text


@pytest.mark.slow
def test_an_interrupt_keeps_what_has_ended(tmp_path):
    planners = ["--planners", "tree, H=10", "graph, H=10"]
    command = program(tmp_path, "sokoban", "--seeds", "3", "--processes", "1", *planners)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=tmp_path, text=True, process_group=0, **pipes)
    path, deadline = tmp_path / "kept.json", time.monotonic() + 300
    try:
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=300)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode != 0, said
    rows = json.loads(path.read_text())["cells"]["sokoban levels tree, H=10"]["episodes"]
    assert list(rows) == ["0", "1", "2"]
    assert all(np.isfinite(row["score"]) for row in rows.values())
