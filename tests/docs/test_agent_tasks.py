"""Ten tasks of a new user: the answers of an agent that had read AGENTS.md and the pages alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from docs_agent_tasks import TASKS, is_right

ANSWERS = Path(__file__).with_name("agent_answers")


@pytest.mark.slow
@pytest.mark.skipif("PYTEST_COMMANDS" not in os.environ, reason="runs in tox -e commands")
@pytest.mark.parametrize("number", range(1, len(TASKS) + 1))
def test_an_answer_of_an_agent_is_right(number):
    assert is_right(TASKS[number - 1], ANSWERS / f"task_{number}.py") == ""


@pytest.mark.parametrize("number", range(1, len(TASKS) + 1))
def test_a_wrong_answer_is_told(number, tmp_path):
    guessed = {"obs": [[0.0] * 4] * 16, "reward": 0, "lengths": [40] * 32, "return": 1, "A": True}
    guessed |= {"model_steps": 0, "equal": False, "B": True, "rounds": 4, "mean_return": 9.0}
    guessed |= {"best": 0, "cem": 601, "mppi": 600, "moves": 8}
    script = tmp_path / "answer.py"
    script.write_text(f"import json\nprint(json.dumps({guessed!r}))\n")
    assert is_right(TASKS[number - 1], script) != ""
